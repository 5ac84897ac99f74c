"""Generic aliases (`list[int]`, `Callable[[T], Any]`): subscripts of classes, as annotations evaluate them."""

from __future__ import annotations

import types
import typing
from typing import Any

from aotdyn.trace import model
from aotdyn.trace.control import Break, NotConstant
from aotdyn.trace.handlers import handles
from aotdyn.trace.values import Class, Const, Function, Object, Opaque, Sequence, Value, force


class Alias(Opaque):
    """What `origin[index]` gives: equal wherever it is made, so that an epilogue makes it anew."""

    __slots__ = ("index", "origin")

    def __init__(self, obj: Any, origin: Value, index: Value) -> None:
        super().__init__(obj)
        self.origin = origin
        self.index = index

    def rebuild(self, e: Any) -> int:
        return e.add("getitem", e.value(self.origin), e.value(self.index))


def class_item(t: Any, v: Class, key: Value) -> Value:
    """`v[key]` of a class whose metaclass knows no subscripts: `__class_getitem__`."""
    raw = model.class_lookup(t, v.obj, "__class_getitem__")
    if raw is None:
        return t.raise_(TypeError, f"type {v.obj.__qualname__!r} is not subscriptable")
    function = getattr(raw[0], "__func__", None)
    if isinstance(function, (types.FunctionType, Function)) and not _of_the_library(function):
        return model.call(t, model.get_attr(t, v, "__class_getitem__"), [key], {})
    try:
        return Alias(v.obj[_native(key)], v, key)  # type: ignore[index]
    except NotConstant:
        raise Break(f"subscript of the class {v.obj.__qualname__}") from None
    except TypeError as error:
        return t.raise_(TypeError, *error.args)


def special_item(t: Any, v: Opaque | Object, key: Value) -> Value:
    """`v[key]` of one of typing's own objects: `typing.Callable`, `typing.Optional`, `typing.List[T]`."""
    try:
        return Alias(v.obj[_native(key)], v, key)
    except NotConstant:
        raise Break(f"subscript of {v.obj}") from None
    except TypeError as error:
        return t.raise_(TypeError, *error.args)


def _of_the_library(function: Any) -> bool:
    """`typing.Generic.__class_getitem__` and kin only look at their arguments."""
    return getattr(function, "__module__", "") in ("typing", "collections.abc", "_collections_abc")


def _native(value: Value) -> Any:
    """The types that a subscript names; what isn't known by itself raises NotConstant."""
    value = force(value)
    if isinstance(value, (Alias, Union)) or (
        isinstance(value, (Opaque, Object)) and type(value.obj).__module__ in ("typing", "types")
    ):
        return value.obj
    if isinstance(value, Sequence) and value.cls in (list, tuple):
        return value.cls(_native(item) for item in value.items)
    if isinstance(value, (Class, Const)):
        return model.as_constant(value)
    raise NotConstant(value)


class Union(Opaque):
    """What `left | right` of such types gives; an epilogue makes it anew."""

    __slots__ = ("left", "right")

    def __init__(self, obj: Any, left: Value, right: Value) -> None:
        super().__init__(obj)
        self.left = left
        self.right = right

    def rebuild(self, e: Any) -> int:
        return e.add("binary", "|", e.value(self.left), e.value(self.right))


_LEFT = (types.GenericAlias, types.UnionType, typing._GenericAlias, typing._SpecialForm)  # type: ignore[attr-defined]


@handles(*(cls.__or__ for cls in _LEFT))
def _or(t: Any, left: Value, right: Value) -> Value:
    try:
        return Union(_native(left) | _native(right), left, right)
    except NotConstant:
        raise Break("a union of types that aren't known") from None
    except TypeError:
        return Const(NotImplemented)


@handles(*(cls.__ror__ for cls in _LEFT))
def _reflected_or(t: Any, right: Value, left: Value) -> Value:
    return _or(t, left, right)
