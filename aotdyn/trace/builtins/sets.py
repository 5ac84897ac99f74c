"""Methods and operators of set and frozenset.

The order of a set isn't known while tracing where it depends on hashes that
differ from process to process: whoever iterates asks `ordered_items`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from aotdyn.guards.sources import Pure
from aotdyn.trace import model
from aotdyn.trace.control import Break
from aotdyn.trace.handlers import handles
from aotdyn.trace.values import Const, Generator, Iterator, Sequence, SetValue, Value, force

from .common import change, each, none, payload, receiver
from .views import DictView, as_set


def both(name: str) -> list[Any]:
    """A method's descriptors in set and frozenset."""
    return [getattr(cls, name) for cls in (set, frozenset) if hasattr(cls, name)]


def _unique(t: Any, items: list[Value]) -> dict[Any, Value]:
    result: dict[Any, Value] = {}
    for item in items:
        result.setdefault(model.native_key(t, item), item)
    return result


def unordered_items(t: Any, iterable: Value) -> list[Value] | None:
    """The elements of a set in some order, for a consumer that doesn't look at it; None for what isn't a set."""
    part = payload(iterable)
    return list(part.items.values()) if isinstance(part, SetValue) else None


def in_any_order(t: Any, iterable: Value) -> Iterable[Value]:
    """The values of an iterable for a consumer whose result is the same in any order, where they are ints or text."""
    items = unordered_items(t, iterable)
    if items is None or not all(type(getattr(force(item), "value", None)) in (int, bool, str) for item in items):
        return each(t, iterable)
    return items


def elements(t: Any, iterable: Value) -> dict[Any, Value]:
    """What a set operation takes from any iterable."""
    part = payload(iterable)
    if isinstance(part, SetValue):
        return part.items
    return _unique(t, part.items(t) if isinstance(part, DictView) else model.unpack(t, iterable))


def ordered_items(t: Any, value: SetValue) -> list[Value]:
    """The elements in the order in which the real set gives them; Break where it can't be known.

    Ints below 8 go to the slot of their value in a table of any size, whatever
    the set's history. Other orders depend on hashes, collisions and deletions:
    the order is a fact, read from the real set or from one that grows in the
    same way, and it is guarded, since hashes of strings differ from process to
    process.
    """
    keys = list(value.items)
    if len(keys) < 2:
        return list(value.items.values())
    if all(type(key) is int and 0 <= key < 8 for key in keys):
        return [value.items[key] for key in sorted(keys)]
    if all(type(key) in (int, str) for key in keys):
        if value.grown == len(keys):
            order = t.set_order(tuple(keys))
            return [value.items[key] for key in order]
        if value.source is not None and value not in t.changed:
            order = tuple(value.obj)
            t.guard("CONST", Pure("tuple", value.source), order)
            return [value.items[key] for key in order]
    raise Break("iteration over a set in an order that differs from process to process", "iterate over sorted(...)")


@handles(set)
def _set(t: Any, iterable: Value | None = None) -> Value:
    return _new(t, set, iterable)


def _new(t: Any, cls: type, iterable: Value | None) -> SetValue:
    """A set of what an iterable gives; one that isn't a set or dict is added item by item."""
    if iterable is None:
        return SetValue(cls, {})
    made = SetValue(cls, dict(elements(t, iterable)))
    if isinstance(payload(iterable), (Const, Generator, Iterator, Sequence)):
        made.grown = len(made.items)
    return made


@handles(frozenset)
def _frozenset(t: Any, iterable: Value | None = None) -> Value:
    if iterable is not None and force(iterable).cls is frozenset:
        return force(iterable)
    return _new(t, frozenset, iterable)


@handles(set.__init__)
def _init(t: Any, self: Value, iterable: Value | None = None) -> Value:
    new = {} if iterable is None else dict(elements(t, iterable))
    return _replace(t, self, new)


def _replace(t: Any, self: Value, items: dict[Any, Value]) -> Value:
    change(t, self)
    part = receiver(self, SetValue)
    part.items, part.grown = items, 0
    return none()


@handles(set.add)
def _add(t: Any, self: Value, item: Value) -> Value:
    key = model.native_key(t, item)
    part = receiver(self, SetValue)
    if key not in part.items:
        change(t, self)
        part.items[key] = item
        part.grown += 1
    return none()


@handles(set.discard)
def _discard(t: Any, self: Value, item: Value) -> Value:
    return _take_out(t, self, item, silently=True)


@handles(set.remove)
def _remove(t: Any, self: Value, item: Value) -> Value:
    return _take_out(t, self, item, silently=False)


def _take_out(t: Any, self: Value, item: Value, silently: bool) -> Value:
    key = model.native_key(t, item)
    part = receiver(self, SetValue)
    if key in part.items:
        change(t, self)
        del part.items[key]
        part.grown = -1 << 30
        return none()
    return none() if silently else t.raise_(KeyError, item)


@handles(set.pop)
def _pop(t: Any, self: Value) -> Value:
    part = receiver(self, SetValue)
    if not part.items:
        return t.raise_(KeyError, "pop from an empty set")
    if len(part.items) > 1:
        raise Break("set.pop() takes an element that differs from process to process")
    key, item = next(iter(part.items.items()))
    change(t, self)
    del part.items[key]
    part.grown = -1 << 30
    return item


@handles(set.clear)
def _clear(t: Any, self: Value) -> Value:
    return _replace(t, self, {})


@handles(*both("copy"))
def _copy(t: Any, self: Value) -> Value:
    part = receiver(self, SetValue)
    return part if part.cls is frozenset else SetValue(set, dict(part.items))


@handles(*both("__len__"))
def _len(t: Any, self: Value) -> Value:
    return Const(len(receiver(self, SetValue).items))


@handles(*both("__contains__"))
def _contains(t: Any, self: Value, item: Value) -> Value:
    return Const(model.native_key(t, item) in receiver(self, SetValue).items)


@handles(*both("__iter__"))
def _iter(t: Any, self: Value) -> Value:
    from .iterators import SetIterator

    part = receiver(self, SetValue)
    return SetIterator(part, ordered_items(t, part))


Combine = Callable[[dict[Any, Value], dict[Any, Value]], dict[Any, Value]]


def _union(a: dict[Any, Value], b: dict[Any, Value]) -> dict[Any, Value]:
    return {**a, **{key: item for key, item in b.items() if key not in a}}


def _intersection(a: dict[Any, Value], b: dict[Any, Value]) -> dict[Any, Value]:
    return {key: item for key, item in a.items() if key in b}


def _difference(a: dict[Any, Value], b: dict[Any, Value]) -> dict[Any, Value]:
    return {key: item for key, item in a.items() if key not in b}


def _symmetric(a: dict[Any, Value], b: dict[Any, Value]) -> dict[Any, Value]:
    return {**_difference(a, b), **_difference(b, a)}


def _method(combine: Combine) -> Any:
    """`a.union(b, ...)`: any iterables, the result is of the receiver's kind."""

    def handler(t: Any, self: Value, *others: Value) -> Value:
        part = receiver(self, SetValue)
        items = dict(part.items)
        for other in others:
            items = combine(items, elements(t, other))
        return SetValue(part.cls, items)

    return handler


def _update(combine: Combine) -> Any:
    """`a.update(b, ...)`: any iterables, in place."""

    def handler(t: Any, self: Value, *others: Value) -> Value:
        items = dict(receiver(self, SetValue).items)
        for other in others:
            items = combine(items, elements(t, other))
        return _replace(t, self, items)

    return handler


def _operator(combine: Combine, reflected: bool) -> Any:
    """`a | b`: sets alone, the result is of the left operand's kind."""

    def handler(t: Any, self: Value, other: Value) -> Value:
        left, right = receiver(self, SetValue), payload(other)
        if isinstance(right, DictView) and right.kind != "values":
            right = as_set(t, right)
        if not isinstance(right, SetValue):
            return Const(NotImplemented)
        if reflected:
            left, right = right, left
        return SetValue(left.cls, combine(dict(left.items), right.items))

    return handler


def _inplace(combine: Combine) -> Any:
    def handler(t: Any, self: Value, other: Value) -> Value:
        part = payload(other)
        if not isinstance(part, SetValue):
            return Const(NotImplemented)
        _replace(t, self, combine(dict(receiver(self, SetValue).items), part.items))
        return self

    return handler


for _combine, _name, _in_place, _symbol in (
    (_union, "union", "update", "or"),
    (_intersection, "intersection", "intersection_update", "and"),
    (_difference, "difference", "difference_update", "sub"),
    (_symmetric, "symmetric_difference", "symmetric_difference_update", "xor"),
):
    handles(*both(_name))(_method(_combine))
    handles(getattr(set, _in_place))(_update(_combine))
    handles(*both(f"__{_symbol}__"))(_operator(_combine, reflected=False))
    handles(*both(f"__r{_symbol}__"))(_operator(_combine, reflected=True))
    handles(getattr(set, f"__i{_symbol}__"))(_inplace(_combine))


def _relation(test: Callable[[Any, Any], bool], sets_only: bool) -> Any:
    """Subset, superset, equality, disjointness: of the keys."""

    def handler(t: Any, self: Value, other: Value) -> Value:
        if sets_only and not isinstance(payload(other), SetValue):
            return Const(NotImplemented)
        return Const(test(receiver(self, SetValue).items.keys(), elements(t, other).keys()))

    return handler


for _name, _test in {
    "__eq__": lambda a, b: a == b,
    "__ne__": lambda a, b: a != b,
    "__le__": lambda a, b: a <= b,
    "__lt__": lambda a, b: a < b,
    "__ge__": lambda a, b: a >= b,
    "__gt__": lambda a, b: a > b,
    "issubset": lambda a, b: a <= b,
    "issuperset": lambda a, b: a >= b,
    "isdisjoint": lambda a, b: a.isdisjoint(b),
}.items():
    handles(*both(_name))(_relation(_test, _name.startswith("__")))

__all__ = ["elements", "ordered_items", "unordered_items"]
