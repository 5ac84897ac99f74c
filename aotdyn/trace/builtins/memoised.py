"""Functions under `functools.lru_cache`: the cache answers, in the trace and in every prologue."""

from __future__ import annotations

from typing import Any

from aotdyn.guards import constants
from aotdyn.guards.sources import Known, Pure, Source
from aotdyn.trace import model
from aotdyn.trace.control import Break, NotConstant
from aotdyn.trace.values import Class, Function, Object, Opaque, Value, force


def call_memoised(t: Any, f: Opaque, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """A call of a function that keeps its results: its result is read, and guarded, as a fact.

    Calling it runs its body for the first call with these arguments alone, as
    the program would; a result that was kept while something that the body
    reads has changed since is kept here as well.
    """
    if f.source is None:
        raise Break("call of a cached function that the frame makes itself")
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
