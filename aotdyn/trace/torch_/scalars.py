"""Tensors made of numbers, some of which are symbols, or tensors of one: `torch.tensor([n, x.shape[0], x.sum()])`."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import numpy
import torch

from ..control import Break
from ..handlers import handles
from ..values import Array, Const, Scalar, Sequence, Tensor, Value, force
from . import calls

PLACED = frozenset(("dtype", "device"))
"""Arguments that `torch.scalar_tensor` has as well."""


@handles(torch.tensor)
def _tensor(t: Any, *args: Value, **kwargs: Value) -> Value:
    return _made(t, torch.tensor, args, kwargs)


@handles(torch.as_tensor)
def _as_tensor(t: Any, *args: Value, **kwargs: Value) -> Value:
    return _made(t, torch.as_tensor, args, kwargs)


def _made(t: Any, function: Any, args: tuple[Value, ...], kwargs: dict[str, Value]) -> Value:
    """The call as it is, unless a symbol or tensor is among the numbers: then all become tensors, and are stacked."""
    if len(args) == 1 and isinstance(force(args[0]), Array) and kwargs.keys() <= {"dtype"}:
        return _of_array(t, function is torch.tensor, force(args[0]), kwargs)  # type: ignore[arg-type]
    if len(args) == 1 and kwargs.keys() <= PLACED:
        args = (_without_numpy(args[0]),)
        leaves = list(_leaves(args[0]))
        shape = _shape(args[0])
        if shape is not None and any(isinstance(leaf, (Scalar, Tensor, Array) if shape else Scalar) for leaf in leaves):
            placed = dict(kwargs)
            dtype = force(placed["dtype"]) if "dtype" in placed else Const(None)
            if isinstance(dtype, Const) and dtype.value is None:
                placed["dtype"] = Const(_dtype(t, leaves))
            return _stacked(t, args[0], placed)
    return calls.record(t, function, args, kwargs)


def _stacked(t: Any, value: Value, placed: dict[str, Value]) -> Value:
    """Nested lists or tuples of numbers as one tensor."""
    value = force(value)
    if not isinstance(value, Sequence):
        return _part(t, value, placed)
    return calls.record(t, torch.stack, [Sequence(list, [_stacked(t, item, placed) for item in value.items])], {})


def _part(t: Any, leaf: Value, placed: dict[str, Value]) -> Value:
    """One number as a tensor of no dimensions, an array as its tensor."""
    array = isinstance(leaf, Array)
    leaf = leaf.tensor if isinstance(leaf, Array) else leaf
    if not isinstance(leaf, Tensor):
        return calls.record(t, torch.scalar_tensor, [_number(t, leaf)], placed)
    dtype = force(placed["dtype"])
    if leaf.fake.dim() and not array:  # a tensor of one element is a number
        leaf = calls.record(t, "reshape", [leaf, Sequence(tuple, [])], {})
        assert isinstance(leaf, Tensor)
    if leaf.fake.requires_grad or not isinstance(dtype, Const) or not torch.can_cast(leaf.fake.dtype, dtype.value):
        raise Break("a tensor made of numbers that are tensors with a gradient, or of another kind")
    return calls.record(t, "to", [leaf], placed)


def _number(t: Any, leaf: Value) -> Value:
    """A leaf as an operator takes it: whether a relation holds is decided, and guarded."""
    from .. import model

    return Const(model.truth(t, leaf)) if leaf.cls is bool else leaf


def _of_array(t: Any, copies: bool, array: Array, kwargs: dict[str, Value]) -> Value:
    """A tensor with an array's numbers: its own, or where `copies` is false and the dtype is right the array's."""
    tensor: Value = calls.record(t, "detach" if array.like.ndim and not copies else "clone", [array.tensor], {})
    dtype = force(kwargs.get("dtype", Const(None)))
    return tensor if isinstance(dtype, Const) and dtype.value is None else calls.record(t, "to", [tensor], kwargs)


def _without_numpy(value: Value) -> Value:
    """Nested lists or tuples with tensors in place of numpy's scalars of data."""
    value = force(value)
    if isinstance(value, Sequence):
        return Sequence(value.cls, [_without_numpy(item) for item in value.items])
    return value.tensor if isinstance(value, Array) and value.cls is not numpy.ndarray else value


def _leaves(value: Value) -> Iterator[Value]:
    value = force(value)
    if isinstance(value, Sequence):
        for item in value.items:
            yield from _leaves(item)
    else:
        yield value


def _shape(value: Value) -> list[int] | None:
    """The shape of nested lists or tuples of numbers; None where they are ragged or hold something else."""
    value = force(value)
    if isinstance(value, Array):  # one of no dimensions is no sequence, and torch says so
        sizes = value.tensor.fake.shape
        return [int(size) for size in sizes] if sizes and all(type(size) is int for size in sizes) else None
    if not isinstance(value, Sequence):
        known = isinstance(value, Scalar) or (isinstance(value, Const) and type(value.value) in (bool, int, float))
        return [] if known or (isinstance(value, Tensor) and _is_one(value)) else None
    inner = [_shape(item) for item in value.items]
    if not inner or inner[0] is None or any(each != inner[0] for each in inner):
        return None
    return [len(inner), *inner[0]]


def _is_one(value: Tensor) -> bool:
    """Whether a tensor has one element, whatever its dimensions."""
    return all(type(size) is int and size == 1 for size in value.fake.shape)


def _dtype(t: Any, leaves: list[Value]) -> Any:
    """The dtype that torch infers of numbers, tensors and arrays."""
    kinds = {bool: torch.bool, int: torch.int64, float: t.state.read("default_dtype")}
    tensors = [leaf.tensor if isinstance(leaf, Array) else leaf for leaf in leaves]
    found = [leaf.fake.dtype if isinstance(leaf, Tensor) else kinds[leaf.cls] for leaf in tensors]
    return functools.reduce(torch.promote_types, found)
