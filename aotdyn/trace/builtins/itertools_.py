"""`itertools`, as lazily consumed iterators."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from aotdyn.trace import model
from aotdyn.trace.control import Break, Unbuildable
from aotdyn.trace.handlers import handles
from aotdyn.trace.values import Const, Iterator, Value, force

from .common import native, new_tuple, none, number
from .iterators import Filter
from .lazy import (
    Accumulate,
    Chain,
    Compress,
    Count,
    Cycle,
    ISlice,
    Pairwise,
    Repeat,
    Starmap,
    Table,
    While,
    ZipLongest,
)


@handles(itertools.count)
def _count(t: Any, start: Value | None = None, step: Value | None = None) -> Value:
    return Count(Const(0) if start is None else start, Const(1) if step is None else step)


@handles(itertools.repeat)
def _repeat(t: Any, item: Value, times: Value | None = None) -> Value:
    return Repeat(item, None if times is None else max(number(t, times), 0))


@handles(itertools.cycle)
def _cycle(t: Any, iterable: Value) -> Value:
    return Cycle(model.iterate(t, iterable))


@handles(itertools.chain)
def _chain(t: Any, *iterables: Value) -> Value:
    return Chain(model.iterate(t, new_tuple(iterables)))


@handles(itertools.chain.from_iterable, itertools.chain.__dict__["from_iterable"])
def _from_iterable(t: Any, *args: Value) -> Value:
    return Chain(model.iterate(t, args[-1]))


@handles(itertools.islice)
def _islice(t: Any, iterable: Value, *bounds: Value) -> Value:
    start, stop, step = (None, *bounds, None) if len(bounds) == 1 else (*bounds, None)[:3]
    first, last, by = (None if each is None else native(t, each) for each in (start, stop, step))
    for value, what in ((first, "Indices"), (last, "Stop argument"), (by, "Step")):
        if value is not None and (not isinstance(value, int) or value < (what == "Step")):
            raise Break(f"{what} of islice() that raise")
    return ISlice(model.iterate(t, iterable), first or 0, last, 1 if by is None else by)


@handles(itertools.starmap)
def _starmap(t: Any, function: Value, iterable: Value) -> Value:
    return Starmap(function, model.iterate(t, iterable))


@handles(itertools.takewhile)
def _takewhile(t: Any, predicate: Value, iterable: Value) -> Value:
    return While(predicate, model.iterate(t, iterable), True)


@handles(itertools.dropwhile)
def _dropwhile(t: Any, predicate: Value, iterable: Value) -> Value:
    return While(predicate, model.iterate(t, iterable), False)


@handles(itertools.filterfalse)
def _filterfalse(t: Any, predicate: Value, iterable: Value) -> Value:
    return Filter(predicate, model.iterate(t, iterable), keep=False)


@handles(itertools.pairwise)
def _pairwise(t: Any, iterable: Value) -> Value:
    return Pairwise(model.iterate(t, iterable))


def _given(value: Value | None) -> Value | None:
    """An optional argument, None where it is None."""
    value = None if value is None else force(value)
    return None if isinstance(value, Const) and value.value is None else value


@handles(itertools.accumulate)
def _accumulate(t: Any, iterable: Value, func: Value | None = None, *, initial: Value | None = None) -> Value:
    return Accumulate(model.iterate(t, iterable), _given(func), _given(initial))


@handles(itertools.zip_longest)
def _zip_longest(t: Any, *iterables: Value, fillvalue: Value | None = None) -> Value:
    return ZipLongest([model.iterate(t, each) for each in iterables], none() if fillvalue is None else fillvalue)


@handles(itertools.compress)
def _compress(t: Any, data: Value, selectors: Value) -> Value:
    return Compress(model.iterate(t, data), model.iterate(t, selectors))


@handles(itertools.product)
def _product(t: Any, *iterables: Value, repeat: Value | None = None) -> Value:
    pools = [model.unpack(t, each) for each in iterables] * (1 if repeat is None else number(t, repeat))
    places = itertools.product(*(range(len(pool)) for pool in pools))
    return Table(itertools.product, pools, [new_tuple(pool) for pool in pools], places)


def _choice(function: Callable[..., Any]) -> Callable[..., Value]:
    def handler(t: Any, iterable: Value, r: Value | None = None) -> Value:
        pool = model.unpack(t, iterable)
        given = _given(r)
        size = len(pool) if given is None else number(t, given)
        if size < 0:
            return t.raise_(ValueError, "r must be non-negative")
        return Table(function, [pool], [new_tuple(pool), Const(size)], function(range(len(pool)), size))  # type: ignore[arg-type]

    return handler


for _function in (itertools.permutations, itertools.combinations, itertools.combinations_with_replacement):
    handles(_function)(_choice(_function))


class Tee(Iterator):
    """One of the iterators of `itertools.tee`: `seen` is shared, `index` its own place in it."""

    __slots__ = ("index", "iterator", "seen")

    def __init__(self, iterator: Value, seen: list[Value]) -> None:
        super().__init__()
        self.iterator = iterator
        self.seen = seen
        self.index = 0

    @property
    def cls(self) -> type:  # type: ignore[override]
        return type(itertools.tee(())[0])

    def advance(self, t: Any) -> Value | None:
        t.mutated(self)
        if self.index == len(self.seen):
            item = model.advance(t, self.iterator)
            if item is None:
                return None
            self.seen.append(item)
        self.index += 1
        return self.seen[self.index - 1]

    def rebuild(self, e: Any) -> int:
        raise Unbuildable(self, "the iterators of itertools.tee share what they have seen")


@handles(itertools.tee)
def _tee(t: Any, iterable: Value, n: Value | None = None) -> Value:
    iterator, seen = model.iterate(t, iterable), list[Value]()
    return new_tuple([Tee(iterator, seen) for _ in range(2 if n is None else number(t, n))])
