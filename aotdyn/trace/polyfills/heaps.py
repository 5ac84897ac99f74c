"""`heapq` and `bisect` in Python: the same comparisons in the same order, the same layout."""

from __future__ import annotations

import bisect
import heapq
from collections.abc import Callable
from typing import Any

from aotdyn.trace.handlers import polyfill


def _sift_up(heap: list[Any], start: int, position: int) -> None:
    """Move the item at `position` towards the root while it is less than its parent."""
    item = heap[position]
    while position > start:
        parent = (position - 1) >> 1
        if not item < heap[parent]:
            break
        heap[position] = heap[parent]
        position = parent
    heap[position] = item


def _sift_down(heap: list[Any], position: int) -> None:
    """Move smaller children up until a leaf, then the item up from there."""
    end, start, item = len(heap), position, heap[position]
    child = 2 * position + 1
    while child < end:
        right = child + 1
        if right < end and not heap[child] < heap[right]:
            child = right
        heap[position] = heap[child]
        position = child
        child = 2 * position + 1
    heap[position] = item
    _sift_up(heap, start, position)


@polyfill(heapq.heappush)
def heappush(heap: list[Any], item: Any) -> None:
    """`heapq.heappush`."""
    heap.append(item)
    _sift_up(heap, 0, len(heap) - 1)


@polyfill(heapq.heappop)
def heappop(heap: list[Any]) -> Any:
    """`heapq.heappop`."""
    if not heap:
        raise IndexError("index out of range")
    last = heap.pop()
    if not heap:
        return last
    smallest = heap[0]
    heap[0] = last
    _sift_down(heap, 0)
    return smallest


@polyfill(heapq.heapify)
def heapify(heap: list[Any]) -> None:
    """`heapq.heapify`."""
    for position in reversed(range(len(heap) // 2)):
        _sift_down(heap, position)


@polyfill(heapq.heapreplace)
def heapreplace(heap: list[Any], item: Any) -> Any:
    """`heapq.heapreplace`."""
    if not heap:
        raise IndexError("index out of range")
    smallest = heap[0]
    heap[0] = item
    _sift_down(heap, 0)
    return smallest


@polyfill(heapq.heappushpop)
def heappushpop(heap: list[Any], item: Any) -> Any:
    """`heapq.heappushpop`."""
    if heap and heap[0] < item:
        smallest = heap[0]
        heap[0] = item
        _sift_down(heap, 0)
        return smallest
    return item


@polyfill(bisect.bisect_left)
def bisect_left(a: Any, x: Any, lo: int = 0, hi: int | None = None, *, key: Callable[[Any], Any] | None = None) -> int:
    """`bisect.bisect_left`."""
    if lo < 0:
        raise ValueError("lo must be non-negative")
    end = len(a) if hi is None else hi
    while lo < end:
        middle = (lo + end) // 2
        item = a[middle] if key is None else key(a[middle])
        if item < x:
            lo = middle + 1
        else:
            end = middle
    return lo


@polyfill(bisect.bisect_right, bisect.bisect)
def bisect_right(a: Any, x: Any, lo: int = 0, hi: int | None = None, *, key: Callable[[Any], Any] | None = None) -> int:
    """`bisect.bisect_right`."""
    if lo < 0:
        raise ValueError("lo must be non-negative")
    end = len(a) if hi is None else hi
    while lo < end:
        middle = (lo + end) // 2
        item = a[middle] if key is None else key(a[middle])
        if x < item:
            end = middle
        else:
            lo = middle + 1
    return lo


@polyfill(bisect.insort_right, bisect.insort)
def insort_right(
    a: Any, x: Any, lo: int = 0, hi: int | None = None, *, key: Callable[[Any], Any] | None = None
) -> None:
    """`bisect.insort_right`."""
    a.insert(bisect_right(a, x if key is None else key(x), lo, hi, key=key), x)


@polyfill(bisect.insort_left)
def insort_left(a: Any, x: Any, lo: int = 0, hi: int | None = None, *, key: Callable[[Any], Any] | None = None) -> None:
    """`bisect.insort_left`."""
    a.insert(bisect_left(a, x if key is None else key(x), lo, hi, key=key), x)
