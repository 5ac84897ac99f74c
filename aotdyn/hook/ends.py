"""Objects that have something to do when they are freed: they have a `__del__`, or are frames in a block."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable
from types import AsyncGeneratorType, CoroutineType, GeneratorType
from typing import Any

STARTED = ((GeneratorType, "gi_suspended"), (CoroutineType, "cr_suspended"), (AsyncGeneratorType, "ag_frame"))
"Frames that can be freed in the middle of a block, and the attribute that tells whether it is so."

_of = type.__getattribute__


def classes(objects: Iterable[Any]) -> list[type]:
    """The objects' classes, each once; a metaclass may have made its classes unhashable."""
    found = list(map(type, objects))
    return list(dict(zip(map(id, found), found, strict=True)).values())


def with_an_end(objects: list[Any]) -> list[Any]:
    """Those that have something to do when they are freed that anybody sees.

    The interpreter itself sees to the standard streams; files that are read, and those in memory, lose nothing.
    """
    found: list[Any] = []
    streams = _standard_streams()
    for cls in classes(objects):
        attribute = next((name for frame, name in STARTED if cls is frame), "")
        if cls is io.BytesIO or cls is io.StringIO:
            continue
        if attribute:
            found += [each for each in objects if type(each) is cls and getattr(each, attribute)]
        elif any(cls is file for file in FILES):
            found += [each for each in objects if type(each) is cls and id(each) not in streams and _writes(each)]
        elif any("__del__" in _of(base, "__dict__") for base in _of(cls, "__mro__")):
            found += [each for each in objects if type(each) is cls]
    return found


FILES = (io.FileIO, io.BufferedReader, io.BufferedWriter, io.BufferedRandom, io.BufferedRWPair, io.TextIOWrapper)


def _writes(file: Any) -> bool:
    return not file.closed and bool(file.writable())


def _standard_streams() -> set[int]:
    """The standard streams, and the files below them, by id."""
    found: set[int] = set()
    for stream in (sys.__stdin__, sys.__stdout__, sys.__stderr__):
        while stream is not None:
            found.add(id(stream))
            stream = getattr(stream, "buffer", None) or getattr(stream, "raw", None)
    return found
