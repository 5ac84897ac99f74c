"""Garbage collection put off while a start loads: modules, variants and kernels, which stay for good.

A full collection goes through all that torch has made, some hundred thousand
objects, and takes longer than the rest of a warm start. It comes later, when
the program's own objects call for it.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

_put_off = False


@contextlib.contextmanager
def put_off() -> Iterator[None]:
    """No collection in this block; nothing where the program has turned it off itself."""
    global _put_off
    if not gc.isenabled():
        yield
        return
    gc.disable()
    _put_off = True
    try:
        yield
    finally:
        if _put_off:
            _put_off = False
            gc.enable()


def resume() -> None:
    """Collect again, for something that takes long: tracing, compiling."""
    global _put_off
    if _put_off:
        _put_off = False
        gc.enable()
