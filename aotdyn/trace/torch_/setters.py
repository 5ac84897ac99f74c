"""Attributes of a tensor that are set in C: `x.data = y`, `p.grad = None`, `c.real = y`, `x.requires_grad = True`.

What changes the tensor object rather than its elements is no node of a graph:
the tracer knows of it from then on, and the epilogue sets it on the object.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from aotdyn.graph import build
from aotdyn.graph.build import version

from ..control import Break
from ..handlers import HANDLERS
from ..values import Const, Tensor, Value, force
from . import calls, leaf


def set_requires_grad(t: Any, v: Tensor, value: Value) -> None:
    """`v.requires_grad = value`: what `requires_grad_` does."""
    if not isinstance(value, Const) or type(value.value) is not bool:
        raise Break("setting requires_grad to something that isn't a bool")
    HANDLERS[leaf.raw_method("requires_grad_")](t, v, value)


def set_part(name: str) -> Callable[[Any, Tensor, Value], None]:
    """`v.real = value`, `v.imag = value`: the value is copied into the view."""

    def set_(t: Any, v: Tensor, value: Value) -> None:
        if not isinstance(value, Tensor):
            raise Break(f"setting {name} of a tensor to something that isn't one")
        calls.record(t, "copy_", [calls.record(t, getattr, [v, Const(name)], {}), value], {})

    return set_


def set_grad(t: Any, v: Tensor, value: Value) -> None:
    """`v.grad = value`, of a leaf. Reads find it with the value; the epilogue sets it."""
    if not _leaf(t, v):
        raise Break("setting grad of a tensor that isn't a leaf")
    if isinstance(value, Tensor):
        if value is v or not _alike(v.fake, value.fake) or v.fake.shape != value.fake.shape:
            raise Break("setting grad of a tensor to one that isn't like it")
    elif not isinstance(value, Const) or value.value is not None:
        raise Break("setting grad of a tensor to something that isn't one")
    t.mutated(v)
    v.attrs["grad"] = value


def set_data(t: Any, v: Tensor, value: Value) -> None:
    """`v.data = value`: from then on the tensor is an alias of the other's elements, and autograd isn't told."""
    if not isinstance(value, Tensor) or not _alike(v.fake, value.fake):
        raise Break("setting data of a tensor to something that isn't like it")
    calls.check_ordinary(v)
    calls.check_ordinary(value)
    if not _leaf(t, v):
        raise Break("setting data of a tensor that isn't a leaf")
    if v.source is None and (v.fake._is_view() or version(v.fake)):  # the epilogue hands the alias out in its place
        raise Break("setting data of a tensor that the graph made, and that is a view or has been written to")
    if any(_differentiated(node) for node in v.node.users):
        raise Break("setting data of a tensor that autograd may have saved")
    alias = force(calls.record(t, torch._C._autograd._get_data_attr, [value], {}))  # type: ignore[attr-defined]
    assert isinstance(alias, Tensor)
    t.mutated(v)
    required = v.fake.requires_grad
    v.node, v.fake = alias.node, alias.fake
    if required:
        v.fake.requires_grad_()
        t.lifted[id(v.fake)] = v, None  # operations under autograd would have to know the object
    if v.source is not None:
        v.attrs["data"] = alias


def _leaf(t: Any, v: Tensor) -> bool:
    """Whether a tensor is a leaf of the autograd graph: guarded, as no other metadata tells."""
    from .tensors import is_leaf

    known = force(is_leaf(t, v))
    return isinstance(known, Const) and known.value is True


def _alike(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors could stand for each other, but for their sizes."""
    return (
        a.dtype is b.dtype
        and a.device == b.device
        and a.layout is b.layout is torch.strided
        and torch._C._dispatch_keys(a) == torch._C._dispatch_keys(b)
    )


def _differentiated(node: Any) -> bool:
    """Whether what a node computes has a gradient."""
    return any(tensor.requires_grad for tensor in build.tensors(node.meta.get("val")))


SETTERS: dict[str, Callable[[Any, Tensor, Value], None]] = {
    "requires_grad": set_requires_grad,
    "real": set_part("real"),
    "imag": set_part("imag"),
    "grad": set_grad,
    "_grad": set_grad,
    "data": set_data,
}
"""Setters by attribute; others that torch.Tensor has break."""
