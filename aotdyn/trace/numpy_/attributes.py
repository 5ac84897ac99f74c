"""Attributes of arrays."""

from __future__ import annotations

from typing import Any

import numpy

from ..control import Break
from ..handlers import handles
from ..torch_ import calls
from ..torch_.tensors import shape_value
from ..values import Array, Const, Sequence, Value, force

FACTS = ("dtype", "ndim", "itemsize")
"""What follows from class, dtype and number of dimensions."""


def array_attribute(t: Any, v: Array, name: str) -> Value | None:
    """`v.name` for what numpy keeps in C; None where the class answers (or nobody)."""
    from .. import model

    if name in FACTS:
        return Const(getattr(v.like, name))
    if name == "shape":
        return Sequence(tuple, list(shape_value(t, v.tensor).items))
    if name == "size":
        return calls.record(t, "numel", [v.tensor], {}) if _varies(v) else Const(v.like.size)
    if name == "nbytes":
        return model.binary(t, "*", array_attribute(t, v, "size") or Const(0), Const(v.like.itemsize))
    if name in ("T", "real", "imag"):
        from .functions import call_numpy

        return call_numpy(t, name, lambda array: getattr(array, name), lambda array: _part(t, array, name), (v,))
    if name == "strides" and not _varies(v) and all(size > 1 for size in v.tensor.fake.shape):  # of one, any will do
        return model.constant(tuple(int(step) * v.like.itemsize for step in v.tensor.fake.stride()))
    if name in ("flat", "flags", "strides", "base", "data", "ctypes") or name.startswith("__array"):
        raise Break(f"{v.cls.__name__}.{name} needs the array itself")
    return None


def _part(t: Any, array: Any, name: str) -> Any:
    """The attribute of one of torch._numpy's arrays; the real part of any array is recorded."""
    if name == "real":
        return type(array)(array.tensor.real)
    return getattr(array, name)


def _varies(v: Array) -> bool:
    return any(calls.concrete(size) is None for size in v.tensor.fake.shape)


def _asked(name: str) -> None:
    @handles(getattr(numpy, name))
    def call(t: Any, a: Value) -> Value:
        known = force(a)
        found = array_attribute(t, known, name) if isinstance(known, Array) else None
        if found is None:
            raise Break(f"numpy's {name} of something else than an array")
        return found


for _name in ("shape", "ndim", "size"):
    _asked(_name)
