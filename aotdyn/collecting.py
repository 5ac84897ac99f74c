"""Garbage collection put off while a start loads, or traces: what is made then stays for good, or is freed by counts.

A full collection goes through all that torch has made, some hundred thousand
objects, and takes longer than the rest of a warm start; those of a first trace,
which imports a lot, take a third of it. They come later, when the program's own
objects call for them. While the program imports its modules there are fewer:
they would take a tenth of a short program's time, and find nothing.
"""

from __future__ import annotations

import contextlib
import gc
import sys
from collections.abc import Iterator

IMPORTING = 10_000
"""Objects made, and not freed, between two collections of young ones while a module is being imported (CPython: 700).

With many more what goes by isn't found until the interpreter ends, where it takes as long.
"""

_put_off = False

_ordinary: tuple[int, int, int] | None = None
"The program's own thresholds, while others hold"


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


def young() -> None:
    """Collect what was made since collection was put off, or since the last time."""
    if _put_off:
        gc.collect(0)


@contextlib.contextmanager
def ending_frames() -> Iterator[None]:
    """What modules that are imported in this block keep of the frames below it ends with the block.

    `torch.fx.wrap`, which torch's modules call, leaves its frame in a cycle, and
    with it the frames of all its callers: what they hold would live on until a
    collection, such as a generator whose `finally` has to run.
    """
    known = len(sys.modules)
    try:
        yield
    finally:
        if len(sys.modules) != known and (_put_off or gc.isenabled()):
            gc.collect(0 if _put_off else 2)


def resume() -> None:
    """Collect again, for something that takes long and leaves much: compiling."""
    global _put_off
    if _put_off:
        _put_off = False
        gc.enable()


def importing() -> bool:
    """Whether nothing is to be changed where an import begins: one goes on already, or the program collects by hand."""
    return _ordinary is not None or not gc.isenabled()


def import_begins() -> bool:
    """Collect seldom from now on; whether that was to be changed, so that `import_ends` is to follow.

    There is a bound, since a module's body may be a whole program. The other two thresholds stay: a program may
    multiply them, and keep what comes of it.
    """
    global _ordinary
    ordinary = gc.get_threshold()
    if importing() or not 0 < ordinary[0] < IMPORTING:
        return False
    _ordinary = ordinary
    gc.set_threshold(IMPORTING, *ordinary[1:])
    return True


def import_ends() -> None:
    """Collect as the program would have it: an import has ended, or work with tensors begins inside of one."""
    global _ordinary
    if _ordinary is None:
        return
    if gc.get_threshold() == (IMPORTING, *_ordinary[1:]):  # else the program has set its own
        gc.set_threshold(*_ordinary)
    _ordinary = None
