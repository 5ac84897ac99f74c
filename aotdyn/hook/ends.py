"""Objects that have something to do when they are freed, and whether reference counts alone see to it.

Such objects have a `__del__` (files are among them), or are frames in the middle of a block.
"""

from __future__ import annotations

import gc
import graphlib
import io
import sys
from collections.abc import Iterable
from types import AsyncGeneratorType, CoroutineType, GeneratorType, ModuleType
from typing import Any

STARTED = ((GeneratorType, "gi_suspended"), (CoroutineType, "cr_suspended"), (AsyncGeneratorType, "ag_frame"))
"Frames that can be freed in the middle of a block, and the attribute that tells whether it is so."

_of = type.__getattribute__

ABOVE = 300
"Objects above others that are looked at."


def classes(objects: Iterable[Any]) -> list[type]:
    """The objects' classes, each once; a metaclass may have made its classes unhashable."""
    found = list(map(type, objects))
    return list(dict(zip(map(id, found), found, strict=True)).values())


def with_an_end(objects: list[Any]) -> list[Any]:
    """Those that have something to do when they are freed that anybody sees.

    The interpreter itself sees to the standard streams, and files in memory have nothing to close.
    """
    found: list[Any] = []
    streams = _standard_streams()
    for cls in classes(objects):
        attribute = next((name for frame, name in STARTED if cls is frame), "")
        if cls is io.BytesIO or cls is io.StringIO:
            continue
        if attribute:
            found += [each for each in objects if type(each) is cls and getattr(each, attribute)]
        elif any("__del__" in _of(base, "__dict__") for base in _of(cls, "__mro__")):
            found += [each for each in objects if type(each) is cls and id(each) not in streams]
    return found


def _standard_streams() -> set[int]:
    """The standard streams, and the files below them, by id."""
    found: set[int] = set()
    for stream in (sys.__stdin__, sys.__stdout__, sys.__stderr__):
        while stream is not None:
            found.add(id(stream))
            stream = getattr(stream, "buffer", None) or getattr(stream, "raw", None)
    return found


def on_a_cycle(objects: list[Any]) -> bool:
    """Whether a cycle may hold one of them: what modules hold is let go when the interpreter clears them.

    Goes up from the objects; where that leads far, the answer is yes.
    """
    above: dict[int, list[int]] = {}
    known = {id(each) for each in objects}
    ours: list[Any] = [objects]
    level = objects
    while level:
        wanted = {id(each) for each in level}
        holders = gc.get_referrers(*level)
        ours += [level, holders]
        passed = set(map(id, ours))
        level = []
        for holder in holders:
            if _is_module(holder) or id(holder) in passed:
                continue
            above.setdefault(id(holder), []).extend(id(each) for each in gc.get_referents(holder) if id(each) in wanted)
            if id(holder) not in known:
                known.add(id(holder))
                level.append(holder)
        if len(known) > ABOVE:
            return True
    try:
        graphlib.TopologicalSorter(above).prepare()
    except graphlib.CycleError:
        return True
    return False


def _is_module(holder: Any) -> bool:
    return isinstance(holder, ModuleType) or (type(holder) is dict and "__name__" in holder and "__spec__" in holder)
