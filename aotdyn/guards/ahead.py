"""Looking ahead of builtin iterators: what they will give, told without taking it.

CPython says where its iterators stand by `__reduce__`, which changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

INDEXED: tuple[type, ...] = tuple(
    type(each) for each in (iter([]), iter(()), iter(range(0)), iter(""), iter("\xe4"), iter(b""), iter(bytearray()))
)
"""Iterators by position."""

BACKWARDS: tuple[type, ...] = (type(reversed([])), reversed)
"""Iterators by position, from the end."""

_EMPTY: dict[Any, Any] = {}
OF_DICTS: tuple[type, ...] = tuple(
    type(step(each))  # type: ignore[operator]
    for each in (_EMPTY.keys(), _EMPTY.values(), _EMPTY.items())
    for step in (iter, reversed)
)
"""Iterators over dicts, which tell what is left as a list."""

TYPES: tuple[type, ...] = (*INDEXED, *BACKWARDS, *OF_DICTS, enumerate, zip)
"""All of which `known` is asked."""


def known(iterator: Any) -> bool:
    """Whether it can be told what an iterator will give: not where two of its parts are one iterator."""
    found: list[Any] = []
    return _known(iterator, found) and len({id(each) for each in found}) == len(found)


def _known(iterator: Any, found: list[Any]) -> bool:
    """Whether all that an iterator takes items from is known by itself; adds it to `found`."""
    found.append(iterator)
    inner = parts(iterator)
    if inner is not None:
        return bool(inner) and all(_known(each, found) for each in inner)
    return _tells(iterator) if type(iterator) in OF_DICTS else container(iterator) is not None


def _tells(iterator: Any) -> bool:
    """Whether an iterator over a dict can say what is left: it raises where the dict has changed its size."""
    try:
        iterator.__reduce__()
    except RuntimeError:
        return False
    return True


def parts(iterator: Any) -> tuple[Any, ...] | None:
    """The iterators from which an `enumerate` or `zip` takes its items; None for other kinds.

    Of a strict zip it isn't told that it is: none of its parts are.
    """
    state: Any = iterator.__reduce__() if type(iterator) in (enumerate, zip) else None
    if type(iterator) is enumerate:
        return (state[1][0],)
    if type(iterator) is zip:
        return state[1] if len(state) == 2 else ()
    return None


def container(iterator: Any) -> Sequence[Any] | None:
    """The sequence that an iterator by position goes over; None for other kinds, and for objects of Python classes."""
    if type(iterator) in (*INDEXED, *BACKWARDS):
        over = iterator.__reduce__()[1][0]
        return over if type(over) in (list, tuple, range, str, bytes, bytearray) else None
    return None


def rest(iterator: Any) -> Sequence[Any]:
    """The items that are left; of iterators by position a view that copies nothing.

    Raises:
        LookupError: the next item is an error, since a dict has changed its size.
    """
    try:
        state = iterator.__reduce__()
    except RuntimeError as error:
        raise LookupError(str(error)) from None
    over = state[1][0]
    if type(iterator) in OF_DICTS:
        return over
    if type(iterator) in BACKWARDS:
        return _Rest(over, state[2], -1) if len(state) == 3 else ()
    return _Rest(over, state[2] if len(state) == 3 else 0, 1)


class _Rest(Sequence):
    """Items of a sequence from a position on, in steps of 1 or -1."""

    def __init__(self, over: Any, start: int, step: int) -> None:
        self.over, self.start, self.step = over, start, step

    def __len__(self) -> int:
        if self.step > 0:
            return max(len(self.over) - self.start, 0)
        return self.start + 1 if self.start < len(self.over) else 0  # past the end of a list that shrank: the end

    def __getitem__(self, k: Any) -> Any:
        if not 0 <= k < len(self):
            raise IndexError(k)
        return self.over[self.start + k * self.step]

    def __iter__(self) -> Iterator[Any]:
        return (self[k] for k in range(len(self)))


def has(iterator: Any, k: int) -> bool:
    """Whether more than `k` items are left."""
    return k < len(rest(iterator))


def longer(iterator: Any, k: int) -> bool:
    """The same of one that takes its items from others."""
    inner = parts(iterator)
    return has(iterator, k) if inner is None else all(longer(each, k) for each in inner)


def item(iterator: Any, k: int) -> Any:
    """The item after `k` others; LookupError where there is none."""
    return rest(iterator)[k]


def count(iterator: enumerate, k: int) -> int:
    """The number that an `enumerate` gives with the item after `k` others."""
    state: Any = iterator.__reduce__()
    return state[1][1] + k


def part(iterator: Any, i: int) -> Any:
    """The i-th of the iterators from which another takes its items."""
    return (parts(iterator) or ())[i]
