"""Functions of the standard library that Python runs: they print, log, warn, read the clock or the process.

They are written in Python, so that they would be traced into otherwise, and
break somewhere inside.
"""

from __future__ import annotations

import dataclasses
import inspect
import logging
import os
import time
from collections.abc import Callable
from typing import Any

from aotdyn.guards.sources import Known, Pure
from aotdyn.trace import model
from aotdyn.trace.control import Break
from aotdyn.trace.handlers import handles
from aotdyn.trace.values import Const, Function, Method, Value, force


def leave(reason: str, *functions: Any) -> None:
    """Break at calls of `functions`, for a reason."""

    @handles(*functions)
    def handler(t: Any, *args: Value, **kwargs: Value) -> Value:
        raise Break(reason)


_LEVELS = ("debug", "info", "warning", "warn", "error", "exception", "critical", "fatal", "log")
_LOGGING = [getattr(logging, n) for n in _LEVELS]
leave("logging runs in Python", *dict.fromkeys([logging.Logger.handle, logging.Logger.warn, *_LOGGING]))
leave("a dataclass is made by Python", dataclasses._process_class, dataclasses.make_dataclass)  # type: ignore[attr-defined]
leave("an environment variable is set", type(os.environ).__setitem__, type(os.environ).__delitem__)
leave("a signature is inspected by Python", inspect.getfullargspec)
leave("the clock is read by Python", time.time, time.perf_counter, time.monotonic, time.process_time, time.sleep)


@handles(logging.Logger.isEnabledFor)
def _enabled(t: Any, logger: Value, level: Value) -> Value:
    """Whether a logger logs at a level, which is guarded."""
    logger, level = force(logger), force(level)
    obj = getattr(logger, "obj", None)
    if obj is None or logger.source is None or not isinstance(level, Const) or type(level.value) is not int:
        raise Break("a logger is asked for its level")
    found = obj.isEnabledFor(level.value)
    t.guard("CONST", Pure("logging.Logger.isEnabledFor", logger.source, Known(level.value)), found)
    return Const(found)


def _logs(level: int | None) -> Callable[..., Value]:
    """A method of loggers that logs at a level, or at that of its argument: nothing where that isn't enabled."""

    def handler(t: Any, logger: Value, *args: Value, **kwargs: Value) -> Value:
        obj = getattr(force(logger), "obj", None)
        plain = getattr(type(obj), "isEnabledFor", None) is logging.Logger.isEnabledFor
        if plain and (level is not None or args):
            enabled = _enabled(t, logger, Const(level) if level is not None else args[0])
            if not model.truth(t, enabled):
                return Const(None)
        raise Break("logging runs in Python")

    return handler


for _name in ("debug", "info", "warning", "error", "critical"):
    handles(getattr(logging.Logger, _name))(_logs(getattr(logging, _name.upper())))
handles(logging.Logger.exception)(_logs(logging.ERROR))
handles(logging.Logger.log)(_logs(None))


@handles(inspect.signature)
def _signature(t: Any, function: Value) -> Value:
    """A signature is fixed by the function's code, which is guarded; of defaults only whether there are any is read."""
    function = force(function)
    method = function if isinstance(function, Method) else None
    inner = force(method.function) if method is not None else function
    if not isinstance(inner, Function) or inner.obj is None or inner.attrs or hasattr(inner.obj, "__wrapped__"):
        raise Break("a signature is inspected by Python")
    signature = inspect.signature(inner.obj)
    if method is not None:
        signature = signature.replace(parameters=list(signature.parameters.values())[1:])
    return Const(
        signature, None if inner.source is None or method is not None else Pure("inspect.signature", inner.source)
    )
