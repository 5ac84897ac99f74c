"""Functions under `functools.lru_cache`: the cache answers, in the trace and in every prologue.

It can't where an argument is a size that varies: there the function itself is
traced, as long as its code names nothing of its module but functions, classes
and modules, and nobody changes or keeps what it gives, which would be one
object for equal arguments. Else the size is a constant.
"""

from __future__ import annotations

import builtins
import types
from collections.abc import Iterator
from typing import Any

from aotdyn.guards import constants
from aotdyn.guards.sources import Attr, Known, Pure, Source
from aotdyn.trace import model
from aotdyn.trace.control import Break, LookedAt, NotConstant
from aotdyn.trace.values import (
    Class,
    Const,
    Function,
    Mapping,
    Object,
    Opaque,
    Scalar,
    Sequence,
    SetValue,
    Value,
    force,
)


def call_memoised(t: Any, f: Opaque, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """A call of a function that keeps its results: its result is read, and guarded, as a fact.

    Calling it runs its body for the first call with these arguments alone, as
    the program would; a result that was kept while something that the body
    reads has changed since is kept here as well.
    """
    if f.source is None:
        raise Break("call of a cached function that the frame makes itself")
    if any(map(_varies, (*args, *kwargs.values()))) and (found := _of_sizes(t, f, args, kwargs)) is not None:
        return found
    given = [_argument(t, each) for each in (*args, *kwargs.values())]
    source = Pure("memoised", f.source, Known(tuple(kwargs)), *(each for _, each in given))
    natives = [native for native, _ in given]
    try:
        result = f.obj(*natives[: len(args)], **dict(zip(kwargs, natives[len(args) :], strict=True)))
    except (MemoryError, RecursionError):
        raise
    except Exception as error:
        raise Break(f"the cached function {f.obj.__qualname__} raises {type(error).__name__}") from error
    return t.wrap(result, source)


def _argument(t: Any, value: Value) -> tuple[Any, Source]:
    """An argument's object, and how a prologue reaches it."""
    value = force(value)
    if isinstance(value, (Object, Function, Opaque)) and value.source is not None and value not in t.changed:
        return value.obj, value.source
    if isinstance(value, Class) and not value.attrs:
        return value.obj, t.class_source(value.obj)
    try:
        native = model.as_constant(value)
        constants.encode(native)
    except (NotConstant, constants.NotConstant):
        raise Break(f"a cached function is called with a {value.cls.__qualname__} that isn't known") from None
    return native, Known(native)


# Sizes that vary


def _varies(value: Value) -> bool:
    value = force(value)
    return isinstance(value, Scalar) or (isinstance(value, Sequence) and any(map(_varies, value.items)))


def _of_sizes(t: Any, f: Opaque, args: list[Value], kwargs: dict[str, Value]) -> Value | None:
    """What the function itself gives; None where the cache is to answer."""
    mark: Any = ("memoised", f.source)
    function = f.obj.__wrapped__
    if mark in t.looked_at or type(function) is not types.FunctionType or not _lasting(function):
        return None
    assert f.source is not None
    try:
        result = model.call(t, t.wrap(function, Attr(f.source, "__wrapped__")), args, kwargs)
    except Break:
        raise LookedAt(frozenset((mark,))) from None
    for each in _parts(result):
        if isinstance(each, (Const, Scalar)) or each.source is not None:
            continue
        if not isinstance(each, (Sequence, Mapping, SetValue)):
            raise LookedAt(frozenset((mark,)))
        t.memoised[each] = mark
    return result


def _lasting(function: types.FunctionType) -> bool:
    """Whether what a function's code names of its module is what an earlier call, whose result is kept, has met."""
    named = (function.__globals__.get(name, getattr(builtins, name, None)) for name in function.__code__.co_names)
    return function.__closure__ is None and all(
        each is None or isinstance(each, (type, types.FunctionType, types.BuiltinFunctionType, types.ModuleType))
        for each in named
    )


def _parts(value: Value) -> Iterator[Value]:
    """A value with all that it holds; a container from outside as it is."""
    value = force(value)
    yield value
    if value.source is None and isinstance(value, (Sequence, SetValue)):
        for each in value.items.values() if isinstance(value, SetValue) else value.items:
            yield from _parts(each)
    elif value.source is None and isinstance(value, Mapping):
        for key, each in (value.entries or {}).values():
            yield from _parts(key)
            yield from _parts(each)
