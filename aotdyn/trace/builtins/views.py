"""Views of dicts: `keys()`, `values()`, `items()`, and iterators over them."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from aotdyn.trace import model
from aotdyn.trace.control import Break, Unbuildable
from aotdyn.trace.handlers import handles
from aotdyn.trace.values import Const, Iterator, Mapping, Sequence, SetValue, Value, force

from .common import advanced, new_tuple, same_or_equal

_plain: dict[int, int] = {}
_ordered: OrderedDict[int, int] = OrderedDict()
ORDERED_VIEWS: dict[str, type] = {
    "keys": type(_ordered.keys()),
    "values": type(_ordered.values()),
    "items": type(_ordered.items()),
}
DICT_VIEWS: dict[str, type] = {
    "keys": type(_plain.keys()),
    "values": type(_plain.values()),
    "items": type(_plain.items()),
}


class DictView(Value):
    """`mapping.keys()`, `.values()` or `.items()`: `kind` is the method's name."""

    __slots__ = ("kind", "mapping")

    def __init__(self, mapping: Mapping, kind: str) -> None:
        super().__init__()
        self.mapping = mapping
        self.kind = kind

    @property
    def cls(self) -> type:  # type: ignore[override]
        return (ORDERED_VIEWS if issubclass(self.mapping.cls, OrderedDict) else DICT_VIEWS)[self.kind]

    def items(self, t: Any) -> list[Value]:
        """What iterating over the view gives."""
        return [self.of(entry) for entry in self._entries(t).values()]

    def of(self, entry: tuple[Value, Value]) -> Value:
        """What the view shows of an entry."""
        return new_tuple(entry) if self.kind == "items" else entry[0 if self.kind == "keys" else 1]

    def _entries(self, t: Any) -> dict[Any, tuple[Value, Value]]:
        if self.mapping.entries is None:
            model.load_entries(t, self.mapping)
        assert self.mapping.entries is not None
        return self.mapping.entries

    def iterator(self, backwards: bool = False) -> DictIterator:
        """A fresh iterator over the view."""
        return DictIterator(self, backwards)

    def rebuild(self, e: Any) -> int:
        method = e.call(e.import_("builtins", "getattr"), [e.value(self.mapping), e.const(self.kind)])
        return e.call(method, [])


class DictIterator(Iterator):
    """Over a dict's view. A dict that changed its size raises; one that was changed at the same size is Python's."""

    __slots__ = ("backwards", "done", "index", "keys", "view")

    def __init__(self, view: DictView, backwards: bool = False) -> None:
        super().__init__()
        entries = view.mapping.entries or {}
        self.view = view
        self.backwards = backwards
        self.keys = list(reversed(entries) if backwards else entries)
        self.index = 0
        self.done = False

    @property
    def cls(self) -> type:  # type: ignore[override]
        view = getattr(OrderedDict() if issubclass(self.view.mapping.cls, OrderedDict) else {}, self.view.kind)()
        return type(reversed(view) if self.backwards else iter(view))

    def advance(self, t: Any) -> Value | None:
        if self.done:
            return None
        entries = self.view.mapping.entries or {}
        t.mutated(self)
        if len(entries) != len(self.keys):
            self.done = True
            kind = (
                "OrderedDict mutated" if issubclass(self.view.mapping.cls, OrderedDict) else "dictionary changed size"
            )
            return t.raise_(RuntimeError, f"{kind} during iteration")
        if self._has_other_keys():
            raise Break("a dict got other keys while it was iterated")
        if self.index == len(self.keys):
            self.done = True
            return None
        entry = entries[self.keys[self.index]]
        self.index += 1
        return self.view.of(entry)

    def _has_other_keys(self) -> bool:
        return list(self.view.mapping.entries or {}) != (self.keys[::-1] if self.backwards else self.keys)

    def rebuild(self, e: Any) -> int:
        if not self.done and self._has_other_keys():
            raise Unbuildable(self, "a dict got other keys while something iterates over it")
        e.settle(self.view.mapping)
        start = e.import_("builtins", "reversed" if self.backwards else "iter")
        steps = len(self.keys) + 1 if self.done else self.index
        return advanced(e, e.call(start, [e.value(self.view)]), steps)


def _each(name: str, *kinds: str) -> list[Any]:
    """The descriptors of a method of views."""
    classes = [table[kind] for kind in kinds for table in (DICT_VIEWS, ORDERED_VIEWS)]
    found = [getattr(cls, name) for cls in classes]
    return list({id(each): each for each in found}.values())


ALL = ("keys", "values", "items")
SETS = ("keys", "items")


def _view(value: Value) -> DictView:
    value = force(value)
    if not isinstance(value, DictView):
        raise Break("a dict's view from outside")
    return value


@handles(*_each("__len__", *ALL))
def _len(t: Any, self: Value) -> Value:
    return Const(len(_view(self).items(t)))


@handles(*_each("__iter__", *ALL))
def _iter(t: Any, self: Value) -> Value:
    _view(self).items(t)
    return _view(self).iterator()


@handles(*_each("__reversed__", *ALL))
def _reversed(t: Any, self: Value) -> Value:
    _view(self).items(t)
    return _view(self).iterator(backwards=True)


@handles(*_each("__contains__", *SETS))
def _contains(t: Any, self: Value, item: Value) -> Value:
    view = _view(self)
    if view.kind == "keys":
        return Const(model.lookup(t, view.mapping, item) is not None)
    pair = force(item)
    if not isinstance(pair, Sequence) or not issubclass(pair.cls, tuple) or len(pair.items) != 2:
        return Const(False)
    found = model.lookup(t, view.mapping, pair.items[0])
    return Const(found is not None and same_or_equal(t, found, pair.items[1]))


def as_set(t: Any, value: Value) -> SetValue:
    """A set of what an iterable gives."""
    value = force(value)
    if isinstance(value, SetValue):
        return value
    items = value.items(t) if isinstance(value, DictView) else model.unpack(t, value)
    result: dict[Any, Value] = {}
    for item in items:
        result.setdefault(model.native_key(t, item), item)
    return SetValue(set, result)


def _operator(name: str, swap: bool) -> Any:
    """Set arithmetic of views: the result is a set."""

    def handler(t: Any, self: Value, other: Value) -> Value:
        left, right = as_set(t, self), as_set(t, other)
        result = model.call_method(t, *((right, name, left) if swap else (left, name, right)))
        made = force(result)
        added = name == "__or__" and not swap and not isinstance(force(other), SetValue)
        if added and isinstance(made, SetValue) and len(made.items) <= SMALL:
            made.grown = len(made.items)  # the left side's keys first, then the right's, in a table of the least size
        return result

    return handler


SMALL = 4
"""Elements for which a set's table never grows."""


for _name in ("__and__", "__or__", "__sub__", "__xor__"):
    handles(*_each(_name, *SETS))(_operator(_name, False))
    handles(*_each(_name.replace("__", "__r", 1), *SETS))(_operator(_name, True))


def _comparison(name: str) -> Any:
    def handler(t: Any, self: Value, other: Value) -> Value:
        if not isinstance(force(other), (SetValue, DictView)) or _kind_of(other) == "values":
            return Const(NotImplemented)
        return model.call_method(t, as_set(t, self), name, as_set(t, other))

    return handler


def _kind_of(value: Value) -> str:
    return getattr(force(value), "kind", "")


for _name in ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"):
    handles(*_each(_name, *SETS))(_comparison(_name))


@handles(*_each("isdisjoint", *SETS))
def _isdisjoint(t: Any, self: Value, other: Value) -> Value:
    return model.call_method(t, as_set(t, self), "isdisjoint", as_set(t, other))
