"""Whether code is being compiled, what asks to be left out, and what no graph can hold."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch._jit_internal

from aotdyn import marks
from aotdyn.guards.pure import FLAGS
from aotdyn.guards.reads import enabled
from aotdyn.guards.sources import Pure
from aotdyn.guards.tensors import plain_class

from .. import handlers
from ..control import Break, NotConstant
from ..flows import Flow
from ..handlers import HANDLERS, handles, handles_inner
from ..values import Const, Function, Scalar, Sequence, Tensor, Value, force

TRUE = (
    "torch.compiler.is_compiling",
    "torch.compiler.is_dynamo_compiling",
    "torch._dynamo.external_utils.is_compiling",
    "torch._dynamo.is_compiling",
    "torch._utils.is_compiling",
    "aotdyn.api.is_compiling",
)
"""Twins of `is_compiling`: true in traced code."""

FALSE = (
    "torch.compiler.is_exporting",
    "torch.jit.is_scripting",
    "torch.jit.is_tracing",
    "torch._jit_internal.is_scripting",
    "torch._C._is_tracing",
    "torch._C._is_fx_tracing",
    "torch.fx._symbolic_trace.is_fx_tracing",
    "torch.fx._symbolic_trace.is_fx_symbolic_tracing",
    "torch.onnx.is_in_onnx_export",
)
"""Other tracers' questions: no (the dispatcher steps aside while one of them traces)."""

EXPLICIT = "explicit graph break"

BREAKS: dict[str, str] = {
    "torch._dynamo.graph_break": EXPLICIT,
    "torch._dynamo.decorators.graph_break": EXPLICIT,
    "aotdyn.api.graph_break": EXPLICIT,
    "aotdyn.marks.mark_dynamic": "mark_dynamic",
    "aotdyn.marks.mark_static": "mark_static",
    "aotdyn.marks.maybe_mark_dynamic": "maybe_mark_dynamic",
    "aotdyn.marks.mark_unbacked": "mark_unbacked",
    "torch._dynamo.decorators.mark_unbacked": "mark_unbacked",
    "torch._dynamo.decorators.mark_dynamic": "mark_dynamic",
    "torch._dynamo.decorators.maybe_mark_dynamic": "maybe_mark_dynamic",
    "torch.random.fork_rng": "fork_rng",
    "torch.seed": "seeding the random generators",
    "torch.initial_seed": "reading the random seed",
    "torch.cuda.manual_seed": "seeding the random generators",
    "torch.cuda.manual_seed_all": "seeding the random generators",
    "torch.set_default_device": "changing the default device",
    "torch.set_default_tensor_type": "changing the default tensor type",
    "torch.set_num_threads": "changing the number of threads",
    "torch.set_deterministic_debug_mode": "changing deterministic mode",
    "torch.set_float32_matmul_precision": "changing the matmul precision",
    "torch.set_anomaly_enabled": "changing anomaly mode",
    "torch.autograd.backward": "running a backward pass",
    "torch.compile": "a call of torch.compile",
    "torch.save": "saving a file",
    "torch.load": "loading a file",
    "torch.frombuffer": "a tensor made of a buffer",
    "torch.is_nonzero": "a branch on a tensor's data",
    "torch.jit.script": "TorchScript",
    "torch.jit.trace": "TorchScript",
    "torch.fx.symbolic_trace": "another tracer",
}
"""Functions that Python must run, by public path, with the reason."""


def _find(path: str) -> Any:
    """The object at a dotted path of a module that is loaded already, or is aotdyn's own, else None."""
    module, _, name = path.rpartition(".")
    if module.startswith("aotdyn."):
        importlib.import_module(module)  # the program names it as `aotdyn.<name>`, which loads it at its first use
    return vars(sys.modules[module]).get(name) if module in sys.modules else None


STATIC = ("torch._dynamo.decorators.mark_static",)
"""In traced code it says of a size that it doesn't vary, and leaves no mark on the tensor."""


def _fixing(t: Any, tensor: Value, index: Value | None = None) -> Value:
    from .. import model
    from .tensors import shape_value

    found = force(tensor)
    if not isinstance(found, Tensor):
        raise Break("mark_static of something that isn't a tensor")
    sizes = shape_value(t, found)
    try:
        model.as_constant(sizes if index is None else model.get_item(t, sizes, index))
    except NotConstant:
        raise Break("mark_static of a size that depends on data") from None
    return Const(None)


def _constantly(value: Any) -> Callable[..., Value]:
    return lambda t, *args, **kwargs: Const(value)


def _breaking(reason: str) -> Callable[..., Value]:
    def handler(t: Any, *args: Value, **kwargs: Value) -> Value:
        from ..load import of_the_optimizer

        if reason == EXPLICIT and of_the_optimizer(t):
            return Const(None)
        raise Break(reason)

    return handler


_registered: set[str] = set()


def register_late() -> None:
    """Declare handlers of functions whose modules are imported by now; torch._dynamo is none of ours to import."""
    tables: tuple[tuple[Iterable[str], Callable[[str], Any]], ...] = (
        (TRUE, lambda path: _constantly(True)),
        (FALSE, lambda path: _constantly(False)),
        (BREAKS, _break),
        (STATIC, lambda path: _fixing),
    )
    for paths, make in tables:
        for path in paths:
            if path in _registered:
                continue
            found = _find(path)
            if found is not None:
                _registered.add(path)
                HANDLERS.setdefault(enabled(found), make(path))
    shapes: Any = sys.modules.get("torch.fx.experimental.symbolic_shapes")
    if shapes is not None and shapes.__name__ not in _registered:
        _registered.add(shapes.__name__)
        for function in (shapes._advise_is_size, shapes.guard_size_oblivious):
            function = inspect.unwrap(function)
            HANDLERS.setdefault(function, _of_symbol(function))

    tags: Any = sys.modules.get("torch._dynamo.mutation_guard")
    if tags is not None and tags.__name__ not in _registered:
        _registered.add(tags.__name__)
        for name in ("patched_init", "patched_setstate"):
            handles_inner(tags.install_generation_tagging_init, name)(_untagged)


def _untagged(t: Any, patched: Function, *args: Value, **kwargs: Value) -> Value:
    """What TorchDynamo puts in the place of a module's `__init__` and `__setstate__`: these, and a tag for itself.

    It notes by that which modules are made while a program runs, to decide how it compiles their calls. Those that a
    graph's frame makes go without.
    """
    from .. import model

    (cell,) = patched.closure
    return model.call(t, t.cell_content(cell), list(args), kwargs)


def _of_symbol(function: Callable[[Any], Any]) -> Callable[..., Value]:
    """A question that torch asks of a symbol while it traces: what it learns stays in the ShapeEnv."""

    def handler(t: Any, symbol: Value) -> Value:
        known = force(symbol)
        if not isinstance(known, (Scalar, Const)):
            raise Break(f"{function.__name__} of a {known.cls.__qualname__}")
        try:
            return Const(function(known.sym if isinstance(known, Scalar) else known.value))
        except RuntimeError as error:
            raise Break(f"{function.__name__} of a number that depends on data") from error

    return handler


def _break(path: str) -> Callable[..., Value]:
    return _breaking(BREAKS[path])


def allowed_in_graph(fn: Any) -> bool:
    """Whether `torch.compiler.allow_in_graph` was called on `fn` (its registry is torch._dynamo's)."""
    noted = marks.ALLOWED_LATER.get(id(fn))
    if noted is not None and noted() is fn:
        return True
    rules = sys.modules.get("torch._dynamo.trace_rules")
    try:
        return rules is not None and id(fn) in rules._allowed_callable_ids.function_ids
    except (AttributeError, TypeError):
        return False


handles(torch._C._get_tracing_state)(_constantly(None))
handles(torch._C._log_api_usage_once)(_constantly(None))
handlers.foldable(torch._C._is_autocast_available, torch._C._get_privateuse1_backend_name)


def _pure(name: str, function: Callable[[], Any]) -> None:
    @handles(function)
    def _read(t: Any) -> Value:
        return t.wrap(function(), Pure(name))


_pure("torch.get_num_threads", torch.get_num_threads)
_pure("torch.cuda.is_available", torch.cuda.is_available)
_pure("torch.autograd._is_checkpoint_valid", torch.autograd._is_checkpoint_valid)
for _name in FLAGS:
    _pure(f"torch._C.{_name}", getattr(torch._C, _name))


@handles(torch.jit.annotate)
def _annotate(t: Any, the_type: Value, the_value: Value) -> Value:
    """Outside of TorchScript it gives its second argument."""
    return the_value


@handles(torch.jit._unwrap_optional)
def _unwrap_optional(t: Any, x: Value) -> Value:
    """Outside of TorchScript it checks for None."""
    known = force(x)
    if isinstance(known, Const) and known.value is None:
        return t.raise_(AssertionError, "Unwrapping null optional")
    return x


@handles(torch._C._has_torch_function, torch._C._has_torch_function_unary, torch._C._has_torch_function_variadic)
def _has_torch_function(t: Any, *args: Value) -> Value:
    """Plain tensors have none; Break for a class that may."""
    for arg in args:
        value = force(arg)
        parts = value.items if isinstance(value, Sequence) else [value]
        for part in parts:
            part = force(part)
            if isinstance(part, Tensor):
                if not plain_class(part.cls):
                    raise Break(f"an operation on a tensor of class {part.cls.__qualname__}")
            elif hasattr(part.cls, "__torch_function__"):
                raise Break(f"`__torch_function__` of {part.cls.__qualname__}")
    return Const(False)


def undecided(value: Scalar) -> bool:
    """Whether a symbol depends on data."""
    from .calls import concrete

    return concrete(value.sym) is None and value.sym.node.hint is None


@handles(torch._check_with)
def _check_with(t: Any, error_type: Value, cond: Value, message: Value) -> Value:
    from .. import model
    from . import checks

    known = force(cond)
    if isinstance(known, Tensor):
        raise Break("torch._check of a tensor")
    if isinstance(known, Flow) and checks.holds(t, known, True):
        return Const(None)
    if isinstance(known, Scalar) and undecided(known):
        from . import calls

        return calls.record(t, torch._check, [known], {})
    if model.truth(t, cond):
        return Const(None)
    message = force(message)
    if isinstance(message, Const) and message.value is None:
        raise Break("torch._check failed")
    text = model.call(t, model.class_value(t, str), [model.call(t, message, [], {})], {})
    try:
        return t.raise_(model.as_constant(error_type), text)
    except NotConstant:
        raise Break("torch._check failed") from None


register_late()
