"""Iterators from outside: a loop that was entered before the frame, an iterator kept in an object or handed in.

Where such an iterator stands is no fact of the trace: items are read by how
far ahead they are, so that one variant serves for each turn of a loop. The
epilogue lets the real iterator catch up by asking it for as many items.
"""

from __future__ import annotations

from typing import Any

from aotdyn.guards import ahead
from aotdyn.guards.sources import Known, Pure, Source
from aotdyn.trace.control import Break
from aotdyn.trace.values import Iterator, Mapping, Opaque, Sequence, Value

from .common import new_tuple


class OutsideIterator(Iterator):
    """A builtin iterator at `source`: `taken` items of `obj` have been taken, and `done` says that its end was met."""

    __slots__ = ("done", "obj", "taken")

    def __init__(self, obj: Any, source: Source) -> None:
        super().__init__(source)
        self.obj = obj
        self.taken = 0
        self.done = False

    @property
    def cls(self) -> type:  # type: ignore[override]
        return type(self.obj)

    def advance(self, t: Any) -> Value | None:
        t.mutated(self)
        if self.done:
            return None
        assert self.source is not None
        item = item_ahead(t, self.obj, self.source, self.taken)
        if item is None:
            self.done = True
        else:
            self.taken += 1
        return item

    def replay(self, e: Any, register: int) -> None:
        """Let the real iterator catch up."""
        e.helper("advanced", register, e.const(self.taken + self.done))


def item_ahead(t: Any, obj: Any, source: Source, k: int) -> Value | None:
    """The item that an iterator gives after `k` others; None where there is none."""
    inner = ahead.parts(obj)
    if inner is not None:
        return _items_of_parts(t, obj, source, inner, k)
    _check_unchanged(t, obj)
    items = ahead.rest(obj)
    found = k < len(items)
    t.guard("CONST", Pure("iterator.has", source, Known(k)), found)
    return t.wrap(items[k], Pure("iterator.ahead", source, Known(k))) if found else None


def _items_of_parts(t: Any, obj: Any, source: Source, inner: tuple[Any, ...], k: int) -> Value | None:
    """The tuple that `enumerate` or `zip` gives after `k` others."""
    items: list[Value] = []
    for i, part in enumerate(inner):
        known = t.by_identity.get(id(part))
        if known is not None and known is not obj:
            raise Break(f"the next item of a {type(obj).__qualname__} over an iterator that is used by itself")
        item = item_ahead(t, part, Pure("iterator.part", source, Known(i)), k)
        if item is None:
            return None
        items.append(item)
    if type(obj) is enumerate:
        items.insert(0, t.wrap(ahead.count(obj, k), Pure("iterator.count", source, Known(k))))
    return new_tuple(items)


def _check_unchanged(t: Any, obj: Any) -> None:
    """Break where the trace has changed what an iterator goes over."""
    over = ahead.container(obj)
    for value in t.changed:
        if isinstance(value, (Sequence, Mapping)) and (value.obj is over or (over is None and value.obj is not None)):
            raise Break(f"the next item of a {type(obj).__qualname__} over something that has changed since")


def load_iterator(t: Any, obj: Any, source: Source) -> Value:
    """A builtin iterator from outside."""
    t.guard("TYPE", source, type(obj))
    known = ahead.known(obj)
    if ahead.parts(obj) is not None:
        t.guard("CONST", Pure("iterator.known", source), known)
    return OutsideIterator(obj, source) if known else Opaque(obj, source)
