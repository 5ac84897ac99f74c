"""`functools` in Python."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

from aotdyn.trace.handlers import polyfill


@polyfill(functools.reduce)
def reduce(function: Callable[[Any, Any], Any], iterable: Iterable[Any], *initial: Any) -> Any:
    """`functools.reduce`."""
    iterator = iter(iterable)
    if initial:
        value = initial[0]
    else:
        try:
            value = next(iterator)
        except StopIteration:
            raise TypeError("reduce() of empty iterable with no initial value") from None
    for item in iterator:
        value = function(value, item)
    return value


class Key:
    """What `cmp_to_key(mycmp)` makes of an object."""

    __slots__ = ("compare", "obj")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, compare: Callable[[Any, Any], Any], obj: Any) -> None:
        self.compare = compare
        self.obj = obj

    def __lt__(self, other: Key) -> bool:
        return self.compare(self.obj, other.obj) < 0

    def __gt__(self, other: Key) -> bool:
        return self.compare(self.obj, other.obj) > 0

    def __eq__(self, other: object) -> bool:
        return self.compare(self.obj, other.obj) == 0  # type: ignore[attr-defined]

    def __le__(self, other: Key) -> bool:
        return self.compare(self.obj, other.obj) <= 0

    def __ge__(self, other: Key) -> bool:
        return self.compare(self.obj, other.obj) >= 0


@polyfill(functools.cmp_to_key)
def cmp_to_key(mycmp: Callable[[Any, Any], Any]) -> Callable[[Any], Key]:
    """`functools.cmp_to_key`."""

    def key(obj: Any) -> Key:
        return Key(mycmp, obj)

    return key
