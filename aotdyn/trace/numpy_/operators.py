"""Operators, subscripts, length and iteration of arrays."""

from __future__ import annotations

import operator
from typing import Any

import numpy

from ..control import Break
from ..flows import data
from ..handlers import handles
from ..symbols import FUNCTIONS, IN_PLACE, UNARY
from ..torch_.methods import numbers
from ..torch_.tensors import shape_value
from ..values import Array, Const, Scalar, Sequence, Value, force
from .functions import CHECKS, call_numpy

CHECKED = {"**": "power", "//": "floor_divide", "%": "remainder"}
LEFT_OUT = ("<<", ">>")
"""Operators whose values differ for some operands."""


def array_binary(t: Any, symbol: str, a: Value, b: Value, inplace: bool = False) -> Value:
    """`a symbol b` (or `a symbol= b`, or a comparison), one of them an array."""
    if symbol in LEFT_OUT or not all(_operand(each) for each in (a, b)):
        raise Break(f"`{symbol}` of an array and something else")
    if symbol in CHECKED:
        CHECKS[CHECKED[symbol]]((a, b))
    function = (IN_PLACE if inplace else FUNCTIONS)[symbol]
    return call_numpy(t, f"`{symbol}`", function, function, (a, b), cast=True)


def _operand(value: Value) -> bool:
    value = force(value)
    if isinstance(value, (Array, Scalar)):
        return True
    return isinstance(value, Const) and isinstance(value.value, (bool, int, float, complex, numpy.generic))


def array_unary(t: Any, symbol: str, a: Array) -> Value:
    """`-a`, `+a` or `~a`."""
    return call_numpy(t, f"`{symbol}`", UNARY[symbol], UNARY[symbol], (a,), cast=True)


@handles(numpy.ndarray.__abs__)
def _abs(t: Any, a: Value) -> Value:
    return call_numpy(t, "absolute", operator.abs, operator.abs, (a,))


@handles(numpy.ndarray.__getitem__)
def _getitem(t: Any, a: Value, key: Value) -> Value:
    return call_numpy(t, "subscript", operator.getitem, operator.getitem, (a, key))


@handles(numpy.ndarray.__setitem__)
def _setitem(t: Any, a: Value, key: Value, value: Value) -> Value:
    return call_numpy(t, "assignment", operator.setitem, operator.setitem, (a, key, value))


@handles(numpy.ndarray.tolist)
def _tolist(t: Any, a: Value) -> Value:
    return numbers(t, _array(a).tensor, "ndarray.tolist")


@handles(numpy.generic.item)
def _item(t: Any, a: Value) -> Value:
    known = force(a)
    found = data(t, known.tensor) if isinstance(known, Array) else None
    if found is None:
        raise Break("a numpy scalar's data as a Python number")
    return found


@handles(numpy.ndarray.__len__)
def _len(t: Any, a: Value) -> Value:
    known = _array(a)
    if not known.like.ndim:
        t.raise_(TypeError, "len() of unsized object")
    return force(shape_value(t, known.tensor).items[0])


@handles(numpy.ndarray.__iter__)
def _iter(t: Any, a: Value) -> Value:
    from .. import model

    known = _array(a)
    if not known.like.ndim:
        t.raise_(TypeError, "iteration over a 0-d array")
    count = model.length(t, known)
    return model.iterate(t, Sequence(tuple, [_getitem(t, known, Const(i)) for i in range(count)]))


def _array(value: Value) -> Array:
    known = force(value)
    if not isinstance(known, Array):
        raise Break("a method of numpy.ndarray on something else")
    return known
