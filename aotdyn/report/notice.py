"""A word on the terminal for a user who waits: a first call traces and compiles, and may take a while."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from aotdyn.report import progress

PATIENCE = 5.0
"Seconds before anything is said."

_waiting = threading.local()


@contextlib.contextmanager
def waiting(function: str) -> Iterator[None]:
    """Around the first call of a function: says so on stderr once it has taken PATIENCE seconds, a terminal only."""
    if getattr(_waiting, "depth", 0) or not progress.is_terminal():
        yield
        return
    timer = threading.Timer(PATIENCE, _say, (function,))
    timer.daemon = True
    _waiting.depth = 1
    timer.start()
    try:
        yield
    finally:
        _waiting.depth = 0
        timer.cancel()


def _say(function: str) -> None:
    progress.write(f"aotdyn: compiling {function} for the first time, still at it; the next run starts warm\n")
