"""Tensors made of numbers, some of which are symbols: `torch.tensor([n, x.shape[0]])`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from ..handlers import handles
from ..values import Const, Scalar, Sequence, Value, force
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
    """The call as it is, unless a symbol is among the numbers: then each becomes a tensor, and they are stacked."""
    if len(args) == 1 and kwargs.keys() <= PLACED:
        leaves = list(_leaves(args[0]))
        shape = _shape(args[0])
        if any(isinstance(leaf, Scalar) for leaf in leaves) and shape is not None:
            placed = dict(kwargs)
            dtype = force(placed["dtype"]) if "dtype" in placed else Const(None)
            if isinstance(dtype, Const) and dtype.value is None:
                inferred = _dtype(leaves)
                if inferred is None:
                    return calls.record(t, function, args, kwargs)
                placed["dtype"] = Const(inferred)
            return _stacked(t, leaves, shape, placed)
    return calls.record(t, function, args, kwargs)


def _stacked(t: Any, leaves: list[Value], shape: list[int], placed: dict[str, Value]) -> Value:
    parts = [calls.record(t, torch.scalar_tensor, [_number(t, leaf)], placed) for leaf in leaves]
    if not shape:
        return parts[0]
    flat = calls.record(t, torch.stack, [Sequence(list, parts)], {})
    return flat if len(shape) == 1 else calls.record(t, "reshape", [flat, *map(Const, shape)], {})


def _number(t: Any, leaf: Value) -> Value:
    """A leaf as an operator takes it: whether a relation holds is decided, and guarded."""
    from .. import model

    return Const(model.truth(t, leaf)) if leaf.cls is bool else leaf


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
    if not isinstance(value, Sequence):
        known = isinstance(value, Scalar) or (isinstance(value, Const) and type(value.value) in (bool, int, float))
        return [] if known else None
    inner = [_shape(item) for item in value.items]
    if not inner or inner[0] is None or any(each != inner[0] for each in inner):
        return None
    return [len(inner), *inner[0]]


def _dtype(leaves: list[Value]) -> Any:
    """The dtype that torch infers of Python numbers."""
    if any(leaf.cls is float for leaf in leaves):
        return torch.get_default_dtype()
    return torch.bool if all(leaf.cls is bool for leaf in leaves) else torch.int64
