"""Iterators of builtins that are consumed lazily: `zip`, `enumerate`, `map`, `filter`, `reversed`, `iter(f, sentinel)`.

Each knows how an epilogue rebuilds it at the point it has reached: from its
own inner iterators, which stand where they stand.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from aotdyn.trace import model
from aotdyn.trace.control import Break, Raised, Unbuildable
from aotdyn.trace.handlers import handles
from aotdyn.trace.model.iteration import check_deque
from aotdyn.trace.values import Builtin, Const, Iterator, Mapping, Object, Sequence, SetValue, Value, force

from .common import advanced, catches, new_tuple, number, payload, type_name


class Zip(Iterator):
    """`zip(*iterables, strict=...)`."""

    __slots__ = ("iterators", "strict")
    cls = zip

    def __init__(self, iterators: list[Value], strict: bool = False) -> None:
        super().__init__()
        self.iterators = iterators
        self.strict = strict

    def advance(self, t: Any) -> Value | None:
        t.mutated(self)
        items: list[Value] = []
        for position, iterator in enumerate(self.iterators):
            item = model.advance(t, iterator)
            if item is None:
                if self.strict:
                    self._end(t, position)
                return None
            items.append(item)
        return new_tuple(items) if items else None

    def _end(self, t: Any, position: int) -> None:
        """The strict end: nothing left in any, or ValueError that names the first that differs (`zip_next`)."""
        if position:
            which = "argument 1" if position == 1 else f"arguments 1-{position}"
            t.raise_(ValueError, f"zip() argument {position + 1} is shorter than {which}")
        for other in range(1, len(self.iterators)):
            if model.advance(t, self.iterators[other]) is not None:
                which = "argument 1" if other == 1 else f"arguments 1-{other}"
                t.raise_(ValueError, f"zip() argument {other + 1} is longer than {which}")

    def rebuild(self, e: Any) -> int:
        registers = [e.value(each) for each in self.iterators]
        return e.helper("zip_strict", *registers) if self.strict else e.call(e.import_("builtins", "zip"), registers)


class Enumerate(Iterator):
    """`enumerate(iterable, start)`: `index` is the next number."""

    __slots__ = ("index", "iterator")
    cls = enumerate

    def __init__(self, iterator: Value, index: int) -> None:
        super().__init__()
        self.iterator = iterator
        self.index = index

    def advance(self, t: Any) -> Value | None:
        item = model.advance(t, self.iterator)
        if item is None:
            return None
        t.mutated(self)
        self.index += 1
        return new_tuple([Const(self.index - 1), item])

    def rebuild(self, e: Any) -> int:
        return e.call(e.import_("builtins", "enumerate"), [e.value(self.iterator), e.const(self.index)])


class Map(Iterator):
    """`map(function, *iterables)`."""

    __slots__ = ("function", "iterators")
    cls = map

    def __init__(self, function: Value, iterators: list[Value]) -> None:
        super().__init__()
        self.function = function
        self.iterators = iterators

    def advance(self, t: Any) -> Value | None:
        items: list[Value] = []
        for iterator in self.iterators:
            item = model.advance(t, iterator)
            if item is None:
                return None
            items.append(item)
        return model.call(t, self.function, items, {})

    def rebuild(self, e: Any) -> int:
        return e.call(
            e.import_("builtins", "map"), [e.value(self.function), *(e.value(each) for each in self.iterators)]
        )


class Filter(Iterator):
    """`filter(function, iterable)`, and `itertools.filterfalse` with `keep` False."""

    __slots__ = ("function", "iterator", "keep")

    def __init__(self, function: Value, iterator: Value, keep: bool = True) -> None:
        super().__init__()
        self.function = function
        self.iterator = iterator
        self.keep = keep

    @property
    def cls(self) -> type:  # type: ignore[override]
        import itertools

        return filter if self.keep else itertools.filterfalse

    def advance(self, t: Any) -> Value | None:
        function = force(self.function)
        by_truth = isinstance(function, Const) and function.value is None
        while (item := model.advance(t, self.iterator)) is not None:
            verdict = item if by_truth else model.call(t, function, [item], {})
            if model.truth(t, verdict) is self.keep:
                return item
        return None

    def rebuild(self, e: Any) -> int:
        callee = e.import_("builtins", "filter") if self.keep else e.import_("itertools", "filterfalse")
        return e.call(callee, [e.value(self.function), e.value(self.iterator)])


class Reversed(Iterator):
    """`reversed(sequence)` of a list, tuple, range, str or deque: `index` is the next position, -1 at the end."""

    __slots__ = ("before", "index", "sequence", "size")

    def __init__(self, t: Any, sequence: Sequence | Const) -> None:
        super().__init__()
        self.before = t.deque_changes[sequence]
        self.sequence = sequence
        self.size = len(self._items())
        self.index = self.size - 1

    def _items(self) -> Any:
        return self.sequence.items if isinstance(self.sequence, Sequence) else self.sequence.value

    @property
    def cls(self) -> type:  # type: ignore[override]
        empty = range(0) if self.sequence.cls is range else self.sequence.cls()
        return type(reversed(empty))

    def advance(self, t: Any) -> Value | None:
        items = self._items()
        if self.index < 0:
            return None
        t.mutated(self)
        if issubclass(self.sequence.cls, deque) and len(items) != self.size:
            return t.raise_(RuntimeError, "deque mutated during iteration")
        check_deque(t, self)
        if self.index >= len(items):
            self.index = -1
            return None
        self.index -= 1
        item = items[self.index + 1]
        return item if isinstance(item, Value) else Const(item)

    def rebuild(self, e: Any) -> int:
        check_deque(e.t, self)
        e.settle(self.sequence)
        made = e.call(e.import_("builtins", "reversed"), [e.value(self.sequence)])
        size = len(self._items())
        return advanced(e, made, size - 1 - self.index if 0 <= self.index < size else size)


class ReversedObject(Iterator):
    """`reversed(obj)` by `__len__` and `__getitem__`: `index` is the next position, -1 at the end."""

    __slots__ = ("index", "target")
    cls = reversed

    def __init__(self, target: Value, index: int) -> None:
        super().__init__()
        self.target = target
        self.index = index

    def advance(self, t: Any) -> Value | None:
        if self.index < 0:
            return None
        t.mutated(self)
        try:
            item = model.get_item(t, self.target, Const(self.index))
        except Raised as raised:
            self.index = -1
            if catches(raised, IndexError) or catches(raised, StopIteration):
                return None
            raise
        self.index -= 1
        return item

    def rebuild(self, e: Any) -> int:
        e.settle(self.target)
        return e.helper("reversed_at", e.value(self.target), e.const(self.index))


class SetIterator(Iterator):
    """Over a set whose order is known: `items` in that order."""

    __slots__ = ("before", "index", "items", "target")

    def __init__(self, target: SetValue, items: list[Value]) -> None:
        super().__init__()
        self.target = target
        self.before = set(target.items)
        self.items = items
        self.index = 0

    @property
    def cls(self) -> type:  # type: ignore[override]
        return type(iter(set()))

    def advance(self, t: Any) -> Value | None:
        if self.index > len(self.items):
            return None
        t.mutated(self)
        if len(self.target.items) != len(self.items):
            self.index = len(self.items) + 1
            return t.raise_(RuntimeError, "Set changed size during iteration")
        if self._has_other_items():
            raise Break("a set got other items while it was iterated")
        self.index += 1
        return self.items[self.index - 1] if self.index <= len(self.items) else None

    def _has_other_items(self) -> bool:
        return set(self.target.items) != self.before

    def rebuild(self, e: Any) -> int:
        if self.index <= len(self.items) and self._has_other_items():
            raise Unbuildable(self, "a set got other items while something iterates over it")
        e.settle(self.target)
        start = e.call(e.import_("builtins", "iter"), [e.value(self.target)])
        return advanced(e, start, self.index)


class CallableIterator(Iterator):
    """`iter(function, sentinel)`; `function` None once exhausted."""

    __slots__ = ("function", "sentinel")

    def __init__(self, function: Value, sentinel: Value) -> None:
        super().__init__()
        self.function: Value | None = function
        self.sentinel = sentinel

    @property
    def cls(self) -> type:  # type: ignore[override]
        return type(iter(int, 0))

    def advance(self, t: Any) -> Value | None:
        if self.function is None:
            return None
        item = model.call(t, self.function, [], {})
        if not model.truth(t, model.compare(t, "==", self.sentinel, item)):
            return item
        t.mutated(self)
        self.function = None
        return None

    def rebuild(self, e: Any) -> int:
        if self.function is None:
            used = e.call(e.import_("builtins", "iter"), [e.import_("builtins", "int"), e.const(0)])
            return advanced(e, used, 1)
        return e.call(e.import_("builtins", "iter"), [e.value(self.function), e.value(self.sentinel)])


@handles(zip)
def _zip(t: Any, *iterables: Value, strict: Value | None = None) -> Value:
    iterators = [model.iterate(t, each) for each in iterables]
    return Zip(iterators, strict is not None and model.truth(t, strict))


@handles(enumerate)
def _enumerate(t: Any, iterable: Value, start: Value | None = None) -> Value:
    return Enumerate(model.iterate(t, iterable), 0 if start is None else number(t, start))


@handles(map)
def _map(t: Any, function: Value, *iterables: Value) -> Value:
    if not iterables:
        return t.raise_(TypeError, "map() must have at least two arguments.")
    return Map(function, [model.iterate(t, each) for each in iterables])


@handles(filter)
def _filter(t: Any, function: Value, iterable: Value) -> Value:
    return Filter(function, model.iterate(t, iterable))


@handles(reversed)
def _reversed(t: Any, sequence: Value) -> Value:
    value = force(sequence)
    if isinstance(value, Sequence):
        return Reversed(t, value)
    if isinstance(value, Const) and isinstance(value.value, (str, bytes, range)):
        return Reversed(t, value)
    if model.class_lookup(t, value.cls, "__reversed__") is not None:
        return model.call_method(t, value, "__reversed__")
    part = payload(value)
    if isinstance(part, (Sequence, Mapping)):
        return model.call_method(t, part, "__reversed__") if isinstance(part, Mapping) else Reversed(t, part)
    if isinstance(value, Object) and model.class_lookup(t, value.cls, "__getitem__") is not None:
        return ReversedObject(value, number(t, model.call(t, Builtin(len), [value], {})) - 1)
    return t.raise_(TypeError, f"'{type_name(value)}' object is not reversible")


@handles(zip.__next__, enumerate.__next__, map.__next__, filter.__next__)
def _next(t: Any, self: Value) -> Value:
    item = model.advance(t, self)
    return item if item is not None else t.raise_(StopIteration)


@handles(zip.__iter__, enumerate.__iter__, map.__iter__, filter.__iter__)
def _iter(t: Any, self: Value) -> Value:
    return self


for _kind in (type(iter([])), type(iter(())), type(iter("")), type(iter(range(0))), type(iter({})), type(iter(set()))):
    handles(_kind.__next__)(_next)
    handles(_kind.__iter__)(_iter)
