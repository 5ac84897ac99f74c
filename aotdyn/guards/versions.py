"""Versions of dicts: what a short walk compares with, so that no guard is evaluated again on a dict that never moved.

CPython 3.11 gives a dict a new version, unique in the process, whenever its
content changes (PEP 509), so an equal version is the same dict with the same
items. After a prologue's full walk has held, `arm` notes the versions of the
dicts that it read; the short walk finds them by the version of its first dict,
hence by instance, and keeps nobody's module alive. Held strongly are empty
dicts (of hooks), whose emptiness is tested by each call, and what classes
define; a full garbage collection lets go of them.
"""

from __future__ import annotations

import collections
import gc
import itertools
import sys
import types
import weakref
from collections.abc import Sequence
from typing import Any

SUPPORTED = sys.version_info < (3, 12)
"Whether dicts have versions here."

HEAP_TYPE = 1 << 9
"Py_TPFLAGS_HEAPTYPE: the class of an instance of any other type can't be changed."

INSTANCES = 64
"How many instances (or states of them) one variant remembers."

STRIKES = 32
"Armings in a row that served no call, after which only one full walk in `INSTANCES` arms."

_all: weakref.WeakSet[Versions] = weakref.WeakSet()


class Versions:
    """The remembered states of one variant; a state is a tuple that the short walk takes apart.

    Args:
        levels: numbers of dicts in the batches that the short walk compares, the first dict left out.
        calls: counter of the variant's calls.
        usable: false where the variant's objects don't bear it out.
    """

    def __init__(self, levels: Sequence[int], calls: itertools.count, usable: bool = True) -> None:
        self.levels = tuple(levels)
        self.usable = usable and SUPPORTED
        self.states: dict[int, tuple[Any, ...]] = {}
        self.find = self.states.get
        self._seen: dict[int, tuple[Any, ...]] = {}
        self._calls = calls
        self._last = 0
        self._strikes = 0
        if not _all:
            _watch_collections()
        _all.add(self)

    def arm(
        self, dicts: tuple[dict, ...], held: tuple[dict, ...], kept: tuple[Any, ...], classes: tuple[type, ...]
    ) -> None:
        """Note a full walk that held.

        A state serves from its second full walk on, if nothing moved between
        the two: then what the second walk checked is what the versions stand
        for, whatever other threads did meanwhile.
        """
        if not self.usable or self._too_often() or not all(type(each) is dict for each in dicts):
            return
        if not all(type(each) in _EMPTY for each in held):
            return
        spaces = _namespaces(classes)
        if spaces is None:
            return
        versions, spaces_versions = _read(dicts), _read(spaces)
        mros = tuple(cls.__mro__ for cls in classes)
        facts = (versions, spaces_versions, mros)
        key = versions[0]
        if self._seen.get(key) != facts:
            _put(self._seen, key, facts)
            return
        batches, start = [], 1
        for size in self.levels:
            batches.append(versions[start : start + size])
            start += size
        _put(self.states, key, (held, kept, spaces, spaces_versions, mros, *batches))

    def clear(self) -> None:
        """Forget all states."""
        self.states.clear()
        self._seen.clear()

    def _too_often(self) -> bool:
        now: Any = self._calls.__reduce__()[1][0]
        self._strikes = self._strikes + 1 if now - self._last <= 2 else 0
        self._last = now
        return self._strikes > STRIKES and self._strikes % INSTANCES != 0


_EMPTY = (dict, collections.OrderedDict)


def _put(table: dict[int, Any], key: int, value: Any) -> None:
    if len(table) >= INSTANCES:
        table.clear()
    table[key] = value


def _read(dicts: Sequence[dict]) -> list[int]:
    from torch._C._dynamo.guards import dict_version

    return [*map(dict_version, dicts)]


def _namespaces(classes: Sequence[type]) -> tuple[dict, ...] | None:
    """The dicts behind the namespaces of classes and all their bases; None where they aren't to be had."""
    found: dict[int, dict] = {}
    for cls in classes:
        for base in cls.__mro__:
            behind = gc.get_referents(type.__dict__["__dict__"].__get__(base))
            if len(behind) != 1 or type(behind[0]) is not dict:
                return None
            found[id(behind[0])] = behind[0]
    return tuple(found.values())


def is_static(cls: type) -> bool:
    """Whether an instance of `cls` is one for as long as it lives (object.__class__ can be set for the others)."""
    return not cls.__flags__ & HEAP_TYPE and not issubclass(cls, types.ModuleType)


def _watch_collections() -> None:
    if _forget not in gc.callbacks:
        gc.callbacks.append(_forget)


def _forget(phase: str, info: dict[str, int]) -> None:
    if phase == "start" and info["generation"] == 2:
        for each in list(_all):
            each.clear()
