"""How each public function, method and attribute of torch stands to the tracer."""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Any

import torch
import torch.signal.windows

import aotdyn.trace.api  # noqa: F401  fills the tables
from aotdyn.guards.reads import enabled
from aotdyn.trace import handlers
from aotdyn.trace.torch_ import compiler, declared, leaf, methods, tensors

NAMESPACES: tuple[Any, ...] = (
    torch,
    torch.Tensor,
    torch.nn.functional,
    torch.linalg,
    torch.fft,
    torch.special,
    torch.signal.windows,
    torch.sparse,
    torch.masked,
)

CALLABLES = (
    types.BuiltinFunctionType,
    types.FunctionType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
)

ATTRIBUTES = frozenset(("shape", "data", "is_leaf", "grad", "_grad", "grad_fn", "_grad_fn", "retains_grad"))
"Attributes that `tensor_attr` answers one by one."


def public() -> Iterator[tuple[str, Any]]:
    """Every public function and method, and attributes of Tensor as their descriptors, with a name."""
    for space in NAMESPACES:
        for name in dir(space):
            if name.startswith("_"):
                continue
            value = getattr(space, name)
            attribute = space is torch.Tensor and isinstance(
                leaf.raw_method(name), (property, types.GetSetDescriptorType)
            )
            if attribute or isinstance(value, CALLABLES):
                yield f"{space.__name__}.{name}", leaf.raw_method(name) if attribute else value


def standing(fn: Any) -> str:
    """What becomes of a call: `graph`, `handled`, `folded`, `traced`, `breaks` or `unknown`."""
    if isinstance(fn, types.MethodWrapperType) and fn.__name__ == "__get__":
        fn = fn.__self__
    if isinstance(fn, (property, types.GetSetDescriptorType)):
        return _attribute(fn.fget.__name__ if isinstance(fn, property) and fn.fget is not None else fn.__name__)
    if isinstance(fn, types.FunctionType):
        fn = enabled(fn)
    if fn in handlers.HANDLERS:
        return "breaks" if _why(fn) else "handled"
    if fn in handlers.FOLDABLE:
        return "folded"
    if leaf.is_leaf(fn):
        return "graph"
    if fn in handlers.POLYFILLS or isinstance(fn, (types.FunctionType, type)):
        return "traced"
    return "handled" if getattr(fn, "__name__", "") in ("__getitem__", "__setitem__") else "unknown"


def _attribute(name: str) -> str:
    if name in tensors.HIDDEN:
        return "breaks"
    known = name in tensors.FACTS or name in tensors.VIEWS or name in ATTRIBUTES
    return "handled" if known else "unknown"


def _why(fn: Any) -> str | None:
    names = {name.rpartition(".")[2]: reason for name, reason in declared_breaks()}
    return names.get(getattr(fn, "__name__", ""))


def declared_breaks() -> Iterator[tuple[str, str]]:
    """What always breaks, by public name, with the reason."""
    for name, (reason, _) in methods.BROKEN_METHODS.items():
        yield f"Tensor.{name}", reason
    for name, reason in tensors.HIDDEN.items():
        yield f"Tensor.{name}", reason
    for name, reason in declared.DECLARED.items():
        yield f"torch.{name}", reason
    for path, reason in compiler.BREAKS.items():
        if path.startswith("torch.") and "_dynamo" not in path:
            yield path, reason
