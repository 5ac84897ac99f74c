"""Iteration: `iter`, `next`, unpacking, the old sequence protocol."""

from __future__ import annotations

import collections
import enum
from typing import TYPE_CHECKING, Any

from ..control import Break, Raised, Unbuildable
from ..values import (
    Class,
    Const,
    Generator,
    InstanceDict,
    Iterator,
    Mapping,
    Namespace,
    Object,
    Opaque,
    Sequence,
    SequenceIterator,
    SetValue,
    Tensor,
    Value,
    force,
)
from .attributes import class_lookup
from .calls import call, special_method
from .containers import get_item, load_entries

if TYPE_CHECKING:
    from ..tracer import Tracer


class OldProtocolIterator(Iterator):
    """Over an object that has `__getitem__` alone (language reference, 3.3.7)."""

    __slots__ = ("index", "target")

    def __init__(self, target: Value) -> None:
        super().__init__()
        self.target: Value | None = target
        self.index = 0

    def advance(self, t: Any) -> Value | None:
        if self.target is None:
            return None
        t.mutated(self)
        try:
            item = get_item(t, self.target, Const(self.index))
        except Raised as raised:
            if not issubclass(raised.value.cls, (IndexError, StopIteration)):
                raise
            self.target = None
            return None
        self.index += 1
        return item

    def rebuild(self, e: Any) -> int:
        return e.helper(
            "sequence_iterator_at", e.value(self.target or Const(())), e.const(self.index if self.target else None)
        )


class DequeIterator(SequenceIterator):
    """Over a deque, which must not change meanwhile: Python alone knows when that is an error."""

    __slots__ = ("before",)

    def __init__(self, t: Any, sequence: Sequence) -> None:
        super().__init__(sequence)
        self.before = t.deque_changes[sequence]

    def advance(self, t: Any) -> Value | None:
        check_deque(t, self)
        return super().advance(t)

    def rebuild(self, e: Any) -> int:
        check_deque(e.t, self)
        return super().rebuild(e)


def check_deque(t: Any, iterator: Any) -> None:
    """Leave an iterator to Python whose `sequence` is a deque that has changed since `before`."""
    if t.deque_changes[iterator.sequence] != iterator.before:
        raise Unbuildable(iterator, "a deque is changed while something iterates over it")


def iterate(t: Tracer, v: Value) -> Value:
    """`iter(v)`."""
    v = force(v)
    if isinstance(v, (Iterator, Generator)):
        return v
    if isinstance(v, Sequence):
        return DequeIterator(t, v) if issubclass(v.cls, collections.deque) else SequenceIterator(v)
    if isinstance(v, Mapping):
        from ..builtins.views import DictView

        load_entries(t, v)
        return DictView(v, "keys").iterator()
    if isinstance(v, SetValue):
        from ..builtins.iterators import SetIterator
        from ..builtins.sets import ordered_items

        return SetIterator(v, ordered_items(t, v))
    if isinstance(v, Const):
        if isinstance(v.value, range):
            return SequenceIterator(v)
        try:
            return SequenceIterator(Sequence(tuple, [Const(each) for each in v.value]))
        except TypeError as error:
            t.raise_(TypeError, *error.args)
    if isinstance(v, Tensor):
        from ..torch_.tensors import tensor_iterate

        return SequenceIterator(tensor_iterate(t, v))
    if isinstance(v, InstanceDict):
        return SequenceIterator(Sequence(tuple, [Const(name) for name in t.instance_names(v.owner)]))
    if isinstance(v, Class) and issubclass(v.obj, enum.Enum):
        return SequenceIterator(Sequence(tuple, [Const(each) for each in v.obj]))
    if isinstance(v, Namespace):
        raise Break("iteration over a module's namespace")
    method = special_method(t, v, "__iter__")
    if method is not None:
        return force(call(t, method, [], {}))
    if class_lookup(t, v.cls, "__getitem__") is not None:
        return OldProtocolIterator(v)
    t.raise_(TypeError, f"{v.cls.__name__!r} object is not iterable")


def advance(t: Tracer, it: Value) -> Value | None:
    """`next(it)`; None at the end."""
    it = force(it)
    if isinstance(it, Iterator):
        return it.advance(t)
    if isinstance(it, Generator):
        from ..opcodes.generators import resume_generator

        kind, value = resume_generator(t, it, Const(None))
        return value if kind == "yield" else None
    if isinstance(it, Opaque):
        raise Break(
            f"the next item of a {it.cls.__qualname__} from outside",
            "The loop was entered before the frame was compiled.",
        )
    method = special_method(t, it, "__next__")
    if method is None:
        t.raise_(TypeError, f"{it.cls.__name__!r} object is not an iterator")
    try:
        return call(t, method, [], {})
    except Raised as raised:
        if issubclass(raised.value.cls, StopIteration):
            return None
        raise


def unpack(t: Tracer, v: Value) -> list[Value]:
    """All items of an iterable, in a new list."""
    v = force(v)
    if isinstance(v, Sequence):
        return list(v.items)
    if (
        isinstance(v, Object)
        and isinstance(v.payload, Sequence)
        and getattr(v.cls, "__iter__", None) in (list.__iter__, tuple.__iter__)
    ):
        return list(v.payload.items)
    iterator = iterate(t, v)
    items: list[Value] = []
    while (item := advance(t, iterator)) is not None:
        items.append(item)
        t.unrolled()
    return items
