"""Functions of the standard library that Python runs: they print, log, warn, read the clock or the process.

They are written in Python, so that they would be traced into otherwise, and
break somewhere inside.
"""

from __future__ import annotations

import inspect
import logging
import os
import time
import warnings
from typing import Any

from aotdyn.trace.control import Break
from aotdyn.trace.handlers import handles
from aotdyn.trace.values import Value


def leave(reason: str, *functions: Any) -> None:
    """Break at calls of `functions`, for a reason."""

    @handles(*functions)
    def handler(t: Any, *args: Value, **kwargs: Value) -> Value:
        raise Break(reason)


_LEVELS = ("debug", "info", "warning", "warn", "error", "exception", "critical", "fatal", "log")
_LOGGER = [getattr(logging.Logger, n) for n in (*_LEVELS, "handle")]
_LOGGING = [getattr(logging, n) for n in _LEVELS]
leave("logging runs in Python", *dict.fromkeys([*_LOGGER, *_LOGGING]))
leave("a warning is issued by Python", warnings.warn, warnings.warn_explicit)
leave("an environment variable is read", os.getenv, type(os.environ).__getitem__, type(os.environ).__setitem__)
leave("a signature is inspected by Python", inspect.signature, inspect.getfullargspec)
leave("the clock is read by Python", time.time, time.perf_counter, time.monotonic, time.process_time, time.sleep)
