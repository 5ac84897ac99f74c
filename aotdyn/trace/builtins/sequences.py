"""Methods of list, tuple and collections.deque.

Slots (`__len__`, `__getitem__`, ...) work on the values themselves and never
go back to the model for the same operation: the model calls them.
"""

from __future__ import annotations

import sys
from collections import deque
from typing import Any

from aotdyn.guards.sources import Attr
from aotdyn.trace import model
from aotdyn.trace.control import Break
from aotdyn.trace.handlers import handles
from aotdyn.trace.values import Const, Sequence, SequenceIterator, UnreadList, Value, force

from .common import change, native, new_list, none, number, payload, receiver, same_or_equal, type_name
from .numbers import sort_values


class Deque(Sequence):
    """A bounded deque that tracing made."""

    __slots__ = ("maxlen",)

    def __init__(self, items: list[Value], maxlen: int) -> None:
        super().__init__(deque, items)
        self.maxlen = maxlen

    def rebuild(self, e: Any) -> int:
        """The register of an equal deque."""
        return e.call(e.import_("collections", "deque"), [e.value(new_list(self.items)), e.const(self.maxlen)])


def new_deque(items: list[Value], maxlen: int | None) -> Sequence:
    """A deque that tracing makes; a bounded one keeps its last items."""
    return Sequence(deque, items) if maxlen is None else Deque(items[max(len(items) - maxlen, 0) :], maxlen)


def maxlen_of(t: Any, sequence: Sequence) -> int | None:
    """The bound of a deque (guarded where it comes from outside), None for any other sequence."""
    if isinstance(sequence, Deque):
        return sequence.maxlen
    if isinstance(sequence.obj, deque) and sequence.source is not None:
        return native(t, t.wrap(sequence.obj.maxlen, Attr(sequence.source, "maxlen")))
    return None


def _replace(t: Any, value: Value, items: list[Value]) -> None:
    """Give a list or deque other items, in place."""
    sequence = receiver(value, Sequence)
    bound = maxlen_of(t, sequence) if issubclass(sequence.cls, deque) else None
    change(t, value)
    sequence.items[:] = items if bound is None else items[len(items) - bound :] if len(items) > bound else items


@handles(list.append)
def _append(t: Any, self: Value, item: Value) -> Value:
    change(t, self)
    target = receiver(self, Sequence)
    if isinstance(target, UnreadList) and target.unread:
        target.appended.append(item)
    else:
        target.items.append(item)
    return none()


@handles(list.extend)
def _extend(t: Any, self: Value, iterable: Value) -> Value:
    items = model.unpack(t, iterable)
    change(t, self)
    receiver(self, Sequence).items.extend(items)
    return none()


@handles(list.insert)
def _insert(t: Any, self: Value, index: Value, item: Value) -> Value:
    position = number(t, index)
    change(t, self)
    receiver(self, Sequence).items.insert(position, item)
    return none()


@handles(list.pop)
def _pop(t: Any, self: Value, index: Value | None = None) -> Value:
    sequence = receiver(self, Sequence)
    position = -1 if index is None else number(t, index)
    if not sequence.items:
        return t.raise_(IndexError, "pop from empty list")
    if not -len(sequence.items) <= position < len(sequence.items):
        return t.raise_(IndexError, "pop index out of range")
    change(t, self)
    return sequence.items.pop(position)


@handles(list.remove, deque.remove)
def _remove(t: Any, self: Value, item: Value) -> Value:
    sequence = receiver(self, Sequence)
    for position, element in enumerate(sequence.items):
        if same_or_equal(t, element, item):
            change(t, self)
            del sequence.items[position]
            return none()
    message = "deque.remove(x): x not in deque" if sequence.cls is deque else "list.remove(x): x not in list"
    return t.raise_(ValueError, message)


@handles(list.clear, deque.clear)
def _clear(t: Any, self: Value) -> Value:
    _replace(t, self, [])
    return none()


@handles(list.reverse, deque.reverse)
def _reverse(t: Any, self: Value) -> Value:
    _replace(t, self, receiver(self, Sequence).items[::-1])
    return none()


@handles(list.sort)
def _sort(t: Any, self: Value, *, key: Value | None = None, reverse: Value | None = None) -> Value:
    items = list(receiver(self, Sequence).items)
    _replace(t, self, sort_values(t, items, key, reverse is not None and model.truth(t, reverse)))
    return none()


@handles(list.copy, deque.copy, deque.__copy__)
def _copy(t: Any, self: Value) -> Value:
    sequence = receiver(self, Sequence)
    if issubclass(sequence.cls, deque):
        return new_deque(list(sequence.items), maxlen_of(t, sequence))
    return new_list(sequence.items)


@handles(list.index, tuple.index, deque.index)
def _index(t: Any, self: Value, item: Value, start: Value | None = None, stop: Value | None = None) -> Value:
    sequence = receiver(self, Sequence)
    first = 0 if start is None else number(t, start)
    last = sys.maxsize if stop is None else number(t, stop)
    for position in range(*slice(first, last).indices(len(sequence.items))):
        if same_or_equal(t, sequence.items[position], item):
            return Const(position)
    if issubclass(sequence.cls, tuple):
        return t.raise_(ValueError, "tuple.index(x): x not in tuple")
    known = payload(item)
    shown = repr(known.value) if isinstance(known, Const) else None
    if shown is None:
        raise Break("index() of an object that isn't in the list: the message needs its repr")
    return t.raise_(ValueError, f"{shown} is not in {'deque' if issubclass(sequence.cls, deque) else 'list'}")


@handles(list.count, tuple.count, deque.count)
def _count(t: Any, self: Value, item: Value) -> Value:
    return Const(sum(same_or_equal(t, element, item) for element in receiver(self, Sequence).items))


@handles(list.__len__, tuple.__len__, deque.__len__)
def _len(t: Any, self: Value) -> Value:
    return Const(len(receiver(self, Sequence).items))


@handles(list.__contains__, tuple.__contains__, deque.__contains__)
def _contains(t: Any, self: Value, item: Value) -> Value:
    return Const(any(same_or_equal(t, element, item) for element in receiver(self, Sequence).items))


@handles(list.__iter__, tuple.__iter__, deque.__iter__)
def _iter(t: Any, self: Value) -> Value:
    return SequenceIterator(receiver(self, Sequence))


@handles(list.__getitem__, tuple.__getitem__, deque.__getitem__)
def _getitem(t: Any, self: Value, key: Value) -> Value:
    sequence = receiver(self, Sequence)
    bounds = slice_of(t, key)
    if bounds is not None and not issubclass(sequence.cls, deque):
        return Sequence(tuple if issubclass(sequence.cls, tuple) else list, sequence.items[bounds])
    return sequence.items[_position(t, sequence, key, "index out of range")]


def slice_of(t: Any, key: Value) -> slice | None:
    """The slice that a subscript is, None for an index."""
    key = force(key)
    if isinstance(key, Const) and isinstance(key.value, slice):
        return key.value
    if key.cls is not slice:
        return None
    return slice(*(_bound(t, model.get_attr(t, key, name)) for name in ("start", "stop", "step")))


def _bound(t: Any, value: Value) -> int | None:
    value = force(value)
    if isinstance(value, Const) and value.value is None:
        return None
    return number(t, value, "slice indices must be integers or None or have an __index__ method")


def _position(t: Any, sequence: Sequence, key: Value, message: str) -> int:
    """The index of a subscript, checked against the length."""
    name = next(base.__name__ for base in (deque, tuple, list) if issubclass(sequence.cls, base))
    wrong = (
        "sequence index must be integer, not '{}'"
        if name == "deque"
        else name + " indices must be integers or slices, not {}"
    )
    position = number(t, key, wrong)
    if not -len(sequence.items) <= position < len(sequence.items):
        return t.raise_(IndexError, f"{name} {message}")
    return position


@handles(list.__setitem__, deque.__setitem__)
def _setitem(t: Any, self: Value, key: Value, item: Value) -> Value:
    sequence = receiver(self, Sequence)
    bounds = slice_of(t, key)
    if bounds is None:
        position = _position(t, sequence, key, "assignment index out of range")
        change(t, self)
        sequence.items[position] = item
        return none()
    items, new = list(sequence.items), model.unpack(t, item)
    try:
        items[bounds] = new
    except ValueError as error:
        return t.raise_(ValueError, *error.args)
    _replace(t, self, items)
    return none()


@handles(list.__delitem__, deque.__delitem__)
def _delitem(t: Any, self: Value, key: Value) -> Value:
    sequence = receiver(self, Sequence)
    bounds = slice_of(t, key)
    where = _position(t, sequence, key, "assignment index out of range") if bounds is None else bounds
    change(t, self)
    del sequence.items[where]
    return none()


@handles(list.__add__, tuple.__add__)
def _add(t: Any, self: Value, other: Value) -> Value:
    sequence, right = receiver(self, Sequence), payload(other)
    base = tuple if issubclass(sequence.cls, tuple) else list
    if not isinstance(right, Sequence) or not issubclass(right.cls, base):
        name = base.__name__
        return t.raise_(TypeError, f'can only concatenate {name} (not "{type_name(other)}") to {name}')
    return Sequence(base, [*sequence.items, *right.items])


@handles(list.__iadd__)
def _iadd(t: Any, self: Value, other: Value) -> Value:
    _extend(t, self, other)
    return self


@handles(list.__mul__, list.__rmul__, tuple.__mul__, tuple.__rmul__)
def _mul(t: Any, self: Value, times: Value) -> Value:
    sequence = receiver(self, Sequence)
    times = force(times)
    if times.cls is not int and not issubclass(times.cls, int) and not hasattr(times.cls, "__index__"):
        return t.raise_(TypeError, f"can't multiply sequence by non-int of type '{type_name(times)}'")
    return Sequence(tuple if issubclass(sequence.cls, tuple) else list, sequence.items * number(t, times))


@handles(list.__imul__)
def _imul(t: Any, self: Value, times: Value) -> Value:
    _replace(t, self, receiver(self, Sequence).items * number(t, times))
    return self


def _comparison(symbol: str) -> Any:
    """Lexicographic comparison as list and tuple define it (`list_richcompare`)."""

    def handler(t: Any, self: Value, other: Value) -> Value:
        left, right = receiver(self, Sequence), payload(other)
        base = next(base for base in (deque, tuple, list) if issubclass(left.cls, base))
        if not isinstance(right, Sequence) or not issubclass(right.cls, base):
            return Const(NotImplemented)
        a, b = left.items, right.items
        if symbol in ("==", "!=") and len(a) != len(b):
            return Const(symbol == "!=")
        for x, y in zip(a, b, strict=False):
            if not same_or_equal(t, x, y):
                return Const(symbol == "!=") if symbol in ("==", "!=") else model.compare(t, symbol, x, y)
        sizes = {"==": len(a) == len(b), "!=": len(a) != len(b), "<": len(a) < len(b), "<=": len(a) <= len(b)}
        return Const({**sizes, ">": len(a) > len(b), ">=": len(a) >= len(b)}[symbol])

    return handler


for _symbol, _name in {"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}.items():
    _slot = f"__{_name}__"
    handles(getattr(list, _slot), getattr(tuple, _slot), getattr(deque, _slot))(_comparison(_symbol))


@handles(list.__reversed__, deque.__reversed__)
def _reversed(t: Any, self: Value) -> Value:
    from .iterators import Reversed

    return Reversed(t, receiver(self, Sequence))


def _push(left: bool) -> Any:
    def handler(t: Any, self: Value, item: Value) -> Value:
        sequence = receiver(self, Sequence)
        bound = maxlen_of(t, sequence)
        change(t, self)
        sequence.items.insert(0 if left else len(sequence.items), item)
        if bound is not None and len(sequence.items) > bound:
            sequence.items.pop(-1 if left else 0)
        return none()

    return handler


def _take(left: bool) -> Any:
    def handler(t: Any, self: Value) -> Value:
        sequence = receiver(self, Sequence)
        if not sequence.items:
            return t.raise_(IndexError, "pop from an empty deque")
        change(t, self)
        return sequence.items.pop(0 if left else -1)

    return handler


handles(deque.append)(_push(False))
handles(deque.appendleft)(_push(True))
handles(deque.pop)(_take(False))
handles(deque.popleft)(_take(True))


@handles(deque.extend)
def _deque_extend(t: Any, self: Value, iterable: Value) -> Value:
    for item in model.unpack(t, iterable):
        _push(False)(t, self, item)
    return none()


@handles(deque.__iadd__)
def _deque_iadd(t: Any, self: Value, iterable: Value) -> Value:
    _deque_extend(t, self, iterable)
    return self


@handles(deque.extendleft)
def _extendleft(t: Any, self: Value, iterable: Value) -> Value:
    for item in model.unpack(t, iterable):
        _push(True)(t, self, item)
    return none()


@handles(deque.rotate)
def _rotate(t: Any, self: Value, steps: Value | None = None) -> Value:
    items = receiver(self, Sequence).items
    by = (1 if steps is None else number(t, steps)) % len(items) if items else 0
    _replace(t, self, items[len(items) - by :] + items[: len(items) - by])
    return none()


@handles(deque.insert)
def _deque_insert(t: Any, self: Value, index: Value, item: Value) -> Value:
    sequence = receiver(self, Sequence)
    if len(sequence.items) == maxlen_of(t, sequence):
        return t.raise_(IndexError, "deque already at its maximum size")
    return _insert(t, self, index, item)


@handles(deque)
def _deque(t: Any, iterable: Value | None = None, maxlen: Value | None = None) -> Value:
    bound = None if maxlen is None else native(t, maxlen)
    items = [] if iterable is None else model.unpack(t, iterable)
    return new_deque(items, bound)


__all__ = ["Deque", "maxlen_of", "new_deque", "slice_of"]
