"""Functions of the standard library that Python runs: they print, log, warn, read the clock or the process.

They are written in Python, so that they would be traced into otherwise, and
break somewhere inside.
"""

from __future__ import annotations

import inspect
import logging
import os
import time
from typing import Any

from aotdyn.guards.sources import Pure
from aotdyn.trace.control import Break
from aotdyn.trace.handlers import handles
from aotdyn.trace.values import Const, Function, Method, Value, force


def leave(reason: str, *functions: Any) -> None:
    """Break at calls of `functions`, for a reason."""

    @handles(*functions)
    def handler(t: Any, *args: Value, **kwargs: Value) -> Value:
        raise Break(reason)


_LEVELS = ("debug", "info", "warning", "warn", "error", "exception", "critical", "fatal", "log")
_LOGGER = [getattr(logging.Logger, n) for n in (*_LEVELS, "handle")]
_LOGGING = [getattr(logging, n) for n in _LEVELS]
leave("logging runs in Python", *dict.fromkeys([*_LOGGER, *_LOGGING]))
leave("an environment variable is set", type(os.environ).__setitem__, type(os.environ).__delitem__)
leave("a signature is inspected by Python", inspect.getfullargspec)
leave("the clock is read by Python", time.time, time.perf_counter, time.monotonic, time.process_time, time.sleep)


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
