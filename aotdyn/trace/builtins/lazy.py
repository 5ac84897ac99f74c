"""The iterators of `itertools`, each with its state; those that look at their whole input first are index tables."""

from __future__ import annotations

import itertools
from collections.abc import Iterator as NativeIterator
from typing import Any

from aotdyn.trace import model
from aotdyn.trace.control import Unbuildable
from aotdyn.trace.values import Iterator, Value

from .common import advanced, new_tuple


def _itertools(e: Any, name: str, *registers: int) -> int:
    return e.call(e.import_("itertools", name), list(registers))


class Count(Iterator):
    """`itertools.count(start, step)`."""

    __slots__ = ("current", "step")
    cls = itertools.count

    def __init__(self, current: Value, step: Value) -> None:
        super().__init__()
        self.current = current
        self.step = step

    def advance(self, t: Any) -> Value:
        t.mutated(self)
        item = self.current
        self.current = model.binary(t, "+", item, self.step)
        return item

    def rebuild(self, e: Any) -> int:
        return _itertools(e, "count", e.value(self.current), e.value(self.step))


class Repeat(Iterator):
    """`itertools.repeat(item, times)`: `left` None is for ever."""

    __slots__ = ("item", "left")
    cls = itertools.repeat

    def __init__(self, item: Value, left: int | None) -> None:
        super().__init__()
        self.item = item
        self.left = left

    def advance(self, t: Any) -> Value | None:
        if self.left is not None:
            if self.left <= 0:
                return None
            t.mutated(self)
            self.left -= 1
        return self.item

    def rebuild(self, e: Any) -> int:
        return _itertools(e, "repeat", e.value(self.item), *([] if self.left is None else [e.const(self.left)]))


class Cycle(Iterator):
    """`itertools.cycle(iterable)`: items are saved while the first round runs."""

    __slots__ = ("index", "iterator", "saved")
    cls = itertools.cycle

    def __init__(self, iterator: Value) -> None:
        super().__init__()
        self.iterator: Value | None = iterator
        self.saved: list[Value] = []
        self.index = 0

    def advance(self, t: Any) -> Value | None:
        t.mutated(self)
        if self.iterator is not None:
            item = model.advance(t, self.iterator)
            if item is not None:
                self.saved.append(item)
                return item
            self.iterator = None
        if not self.saved:
            return None
        self.index += 1
        return self.saved[(self.index - 1) % len(self.saved)]

    def rebuild(self, e: Any) -> int:
        if self.iterator is not None and self.saved:
            raise Unbuildable(self, "a cycle in its first round holds what it has seen")
        if self.iterator is not None:
            return _itertools(e, "cycle", e.value(self.iterator))
        start = self.index % len(self.saved) if self.saved else 0
        return _itertools(e, "cycle", e.value(new_tuple(self.saved[start:] + self.saved[:start])))


class Chain(Iterator):
    """`itertools.chain`: `rest` gives the iterables to come, `active` is the iterator being consumed."""

    __slots__ = ("active", "rest")
    cls = itertools.chain

    def __init__(self, rest: Value) -> None:
        super().__init__()
        self.rest: Value | None = rest
        self.active: Value | None = None

    def advance(self, t: Any) -> Value | None:
        t.mutated(self)
        while self.rest is not None:
            if self.active is None:
                following = model.advance(t, self.rest)
                if following is None:
                    self.rest = None
                    return None
                self.active = model.iterate(t, following)
            item = model.advance(t, self.active)
            if item is not None:
                return item
            self.active = None
        return None

    def rebuild(self, e: Any) -> int:
        rest = e.value(self.rest if self.rest is not None else new_tuple([]))
        if self.active is not None:
            rest = _itertools(e, "chain", e.value(new_tuple([self.active])), rest)
        return e.call(e.import_("itertools", "chain.from_iterable"), [rest])


class ISlice(Iterator):
    """`itertools.islice`: `count` items were consumed, `following` is the next to give, `stop` the end."""

    __slots__ = ("count", "following", "iterator", "step", "stop")
    cls = itertools.islice

    def __init__(self, iterator: Value, start: int, stop: int | None, step: int) -> None:
        super().__init__()
        self.iterator: Value | None = iterator
        self.count, self.following, self.stop, self.step = 0, start, stop, step

    def advance(self, t: Any) -> Value | None:
        if self.iterator is None:
            return None
        t.mutated(self)
        limit = self.following if self.stop is None else min(self.following, self.stop)
        while self.count < limit:
            if model.advance(t, self.iterator) is None:
                self.iterator = None
                return None
            self.count += 1
        item = None
        if self.stop is None or self.count < self.stop:
            item = model.advance(t, self.iterator)
        if item is None:
            self.iterator = None
            return None
        self.count += 1
        self.following = self.following + self.step
        if self.stop is not None:
            self.following = min(self.following, self.stop)
        return item

    def rebuild(self, e: Any) -> int:
        if self.iterator is None:
            return _itertools(e, "islice", e.const(()), e.const(0))
        stop = None if self.stop is None else self.stop - self.count
        bounds = (self.following - self.count, stop, self.step)
        return _itertools(e, "islice", e.value(self.iterator), *(e.const(each) for each in bounds))


class Starmap(Iterator):
    """`itertools.starmap(function, iterable)`."""

    __slots__ = ("function", "iterator")
    cls = itertools.starmap

    def __init__(self, function: Value, iterator: Value) -> None:
        super().__init__()
        self.function = function
        self.iterator = iterator

    def advance(self, t: Any) -> Value | None:
        args = model.advance(t, self.iterator)
        return None if args is None else model.call(t, self.function, model.unpack(t, args), {})

    def rebuild(self, e: Any) -> int:
        return _itertools(e, "starmap", e.value(self.function), e.value(self.iterator))


class While(Iterator):
    """`itertools.takewhile` and `dropwhile`: `crossed` once the predicate failed."""

    __slots__ = ("crossed", "iterator", "predicate", "take")

    def __init__(self, predicate: Value, iterator: Value, take: bool) -> None:
        super().__init__()
        self.predicate, self.iterator, self.take, self.crossed = predicate, iterator, take, False

    @property
    def cls(self) -> type:  # type: ignore[override]
        return itertools.takewhile if self.take else itertools.dropwhile

    def advance(self, t: Any) -> Value | None:
        if self.crossed:
            return None if self.take else model.advance(t, self.iterator)
        while (item := model.advance(t, self.iterator)) is not None:
            holds = model.truth(t, model.call(t, self.predicate, [item], {}))
            if not holds:
                t.mutated(self)
                self.crossed = True
            if holds is self.take:
                return item
            if self.take:
                return None
        return None

    def rebuild(self, e: Any) -> int:
        if self.crossed:
            return _itertools(e, "islice", e.value(self.iterator), e.const(0 if self.take else None))
        return _itertools(e, self.cls.__name__, e.value(self.predicate), e.value(self.iterator))


class Pairwise(Iterator):
    """`itertools.pairwise(iterable)`."""

    __slots__ = ("iterator", "old")
    cls = itertools.pairwise

    def __init__(self, iterator: Value) -> None:
        super().__init__()
        self.iterator: Value | None = iterator
        self.old: Value | None = None

    def advance(self, t: Any) -> Value | None:
        if self.iterator is None:
            return None
        t.mutated(self)
        if self.old is None:
            self.old = model.advance(t, self.iterator)
        new = None if self.old is None else model.advance(t, self.iterator)
        if new is None or self.old is None:
            self.iterator = self.old = None
            return None
        pair = new_tuple([self.old, new])
        self.old = new
        return pair

    def rebuild(self, e: Any) -> int:
        if self.iterator is None:
            return _itertools(e, "pairwise", e.const(()))
        rest = e.value(self.iterator)
        if self.old is not None:
            rest = _itertools(e, "chain", e.value(new_tuple([self.old])), rest)
        return _itertools(e, "pairwise", rest)


class Accumulate(Iterator):
    """`itertools.accumulate(iterable, function, initial=...)`."""

    __slots__ = ("function", "initial", "iterator", "total")
    cls = itertools.accumulate

    def __init__(self, iterator: Value, function: Value | None, initial: Value | None) -> None:
        super().__init__()
        self.iterator, self.function, self.initial = iterator, function, initial
        self.total: Value | None = None

    def advance(self, t: Any) -> Value | None:
        t.mutated(self)
        if self.initial is not None:
            self.total, self.initial = self.initial, None
            return self.total
        item = model.advance(t, self.iterator)
        if item is None:
            return None
        if self.total is None:
            self.total = item
        elif self.function is None:
            self.total = model.binary(t, "+", self.total, item)
        else:
            self.total = model.call(t, self.function, [self.total, item], {})
        return self.total

    def rebuild(self, e: Any) -> int:
        function = e.import_("operator", "add") if self.function is None else e.value(self.function)
        iterator = e.value(self.iterator)
        if self.initial is None and self.total is None:
            return _itertools(e, "accumulate", iterator, function)
        first = self.initial if self.initial is not None else self.total
        return e.helper("accumulate_from", iterator, function, e.value(first), e.const(self.initial is None))


class ZipLongest(Iterator):
    """`itertools.zip_longest`: `iterators` None where exhausted."""

    __slots__ = ("fill", "iterators")
    cls = itertools.zip_longest

    def __init__(self, iterators: list[Value | None], fill: Value) -> None:
        super().__init__()
        self.iterators = iterators
        self.fill = fill

    def advance(self, t: Any) -> Value | None:
        t.mutated(self)
        items: list[Value] = []
        for position, iterator in enumerate(self.iterators):
            item = None if iterator is None else model.advance(t, iterator)
            if item is None:
                self.iterators[position] = None
                if not any(self.iterators):
                    return None
            items.append(self.fill if item is None else item)
        return new_tuple(items) if items else None

    def rebuild(self, e: Any) -> int:
        registers = [e.const(()) if each is None else e.value(each) for each in self.iterators]
        return e.helper("zip_longest_filled", e.value(self.fill), *registers)


class Compress(Iterator):
    """`itertools.compress(data, selectors)`."""

    __slots__ = ("data", "selectors")
    cls = itertools.compress

    def __init__(self, data: Value, selectors: Value) -> None:
        super().__init__()
        self.data = data
        self.selectors = selectors

    def advance(self, t: Any) -> Value | None:
        while (item := model.advance(t, self.data)) is not None:
            selector = model.advance(t, self.selectors)
            if selector is None:
                return None
            if model.truth(t, selector):
                return item
        return None

    def rebuild(self, e: Any) -> int:
        return _itertools(e, "compress", e.value(self.data), e.value(self.selectors))


class Table(Iterator):
    """product, permutations, combinations: `places` runs natively over positions in the pools, which are tuples."""

    __slots__ = ("arguments", "function", "given", "places", "pools")

    def __init__(
        self, function: type, pools: list[list[Value]], arguments: list[Value], places: NativeIterator
    ) -> None:
        super().__init__()
        self.function, self.pools, self.arguments, self.places = function, pools, arguments, places
        self.given = 0

    @property
    def cls(self) -> type:  # type: ignore[override]
        return self.function

    def advance(self, t: Any) -> Value | None:
        place = next(self.places, None)
        t.mutated(self)
        self.given += 1
        if place is None:
            return None
        pools = self.pools if self.function is itertools.product else self.pools * len(place)
        return new_tuple([pool[index] for pool, index in zip(pools, place, strict=True)])

    def rebuild(self, e: Any) -> int:
        for each in self.arguments:
            e.settle(each)
        fresh = _itertools(e, self.function.__name__, *(e.value(each) for each in self.arguments))
        return advanced(e, fresh, self.given)
