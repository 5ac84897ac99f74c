"""`itertools` that keeps more state than an iterator value holds, as generators."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from aotdyn.trace.handlers import polyfill


@polyfill(itertools.groupby)
def groupby(iterable: Iterable[Any], key: Callable[[Any], Any] | None = None) -> Iterator[tuple[Any, Iterator[Any]]]:
    """`itertools.groupby`: a group shares the input, and is cut off once the next group is asked for."""
    iterator = iter(iterable)
    state: dict[str, Any] = {"ended": False, "serial": 0}

    def take() -> None:
        for item in iterator:
            state["item"] = item
            state["key"] = item if key is None else key(item)
            return
        state["ended"] = True

    def members(target: Any, serial: int) -> Iterator[Any]:
        while not state["ended"] and state["serial"] == serial and state["key"] == target:
            item = state["item"]
            take()
            yield item

    take()
    while not state["ended"]:
        target = state["key"]
        state["serial"] += 1
        yield target, members(target, state["serial"])
        while not state["ended"] and state["key"] == target:
            take()
