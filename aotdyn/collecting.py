"""Garbage collection put off while a start loads, or traces: what is made then stays for good, or is freed by counts.

A full collection goes through all that torch has made, some hundred thousand
objects, and takes longer than the rest of a warm start; those of a first trace,
which imports a lot, take a third of it. They come later, when the program's own
objects call for them.
"""

from __future__ import annotations

import contextlib
import gc
import sys
from collections.abc import Iterator
from typing import Any

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


_frozen = False


def freeze() -> None:
    """Leave all that there is out of collections from now on."""
    global _frozen
    _frozen = True
    gc.freeze()


def thaw() -> None:
    """Take that back: collections, and who looks through all objects, come upon it again."""
    global _frozen
    if _frozen:
        _frozen = False
        gc.unfreeze()


def referrers(obj: Any) -> list[Any]:
    """What refers to an object; Python tells it only of what isn't frozen."""
    thaw()
    return gc.get_referrers(obj)
