"""Operators that no operand takes: CPython's own TypeError, as it words it for the operands' classes.

What an operator says of classes without a method for it depends on the classes alone, so it is asked about specimens:
values of the same classes that anyone may make.
"""

from __future__ import annotations

import collections
import contextlib
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

import torch

from ..control import Break, NotConstant
from ..values import (
    Builtin,
    Class,
    Const,
    Function,
    Generator,
    Mapping,
    Method,
    Module,
    Object,
    Sequence,
    SetValue,
    Value,
)
from .constants import as_python

if TYPE_CHECKING:
    from ..tracer import Tracer


def refuse(t: Tracer, operate: Callable[..., Any], *operands: Value) -> NoReturn:
    """Raise what an operator raises for operands none of which takes it; Break where Python has to be asked."""
    try:
        with contextlib.suppress(NotConstant, ArithmeticError, ValueError):  # of the specimens alone
            operate(*[_specimen(each) for each in operands])
    except TypeError as error:
        t.raise_(TypeError, *error.args)
    kinds = " and ".join(each.cls.__qualname__ for each in operands)
    raise Break(f"an operator on {kinds}")


def _specimen(v: Value) -> Any:
    """An object of the class of `v`; NotConstant where none is to be had."""
    if isinstance(v, Const):
        return v.value
    if isinstance(v, Object) and not hasattr(v.cls, "__abstractmethods__"):
        return _instance(v.cls)
    if isinstance(v, (Sequence, Mapping, SetValue)):
        return _instance(v.cls)
    if isinstance(v, (Class, Builtin)):
        return v.obj
    for kind, specimen in PLAIN.items():
        if isinstance(v, kind):
            return specimen
    return as_python(v)


def _instance(cls: type) -> Any:
    """An empty object of a class of the standard library's containers, or of a class with one of them as its base.

    For a class of the program one of its name stands, without methods: they have been asked.
    """
    base = next((each for each in BASES if issubclass(cls, each)), None)
    if cls.__module__ in ("builtins", "collections", "torch"):
        if base is None or cls is not base:
            raise NotConstant(cls)
        return base()
    return type(cls.__name__, (base or object,), {})()


BASES: tuple[Any, ...] = (
    collections.OrderedDict, collections.defaultdict, collections.Counter, dict, list, set, frozenset,
    collections.deque, torch.Size, tuple, int, float, str, bytes, complex, object,
)  # fmt: skip
"""Classes whose C slots an operator may look at."""

PLAIN: dict[type, Any] = {
    Function: lambda: None,
    Method: types.MethodType(len, ()),
    Module: types,
    Generator: (lambda: (yield))(),
}
"""Specimens of kinds of value whose objects say nothing more."""
