"""Assignment to several targets: `a, b = x` and `a, *b = x`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import model
from ..values import Sequence, Tensor, Value, force
from .containers import iterable
from .table import opcode

if TYPE_CHECKING:
    from ..decode import Instruction
    from ..frame import Frame


@opcode("UNPACK_SEQUENCE")
def UNPACK_SEQUENCE(t: Any, frame: Frame, ins: Instruction) -> None:
    items = _exactly(t, frame.pop(), ins.arg)
    for item in reversed(items):
        frame.push(item)


@opcode("UNPACK_EX")
def UNPACK_EX(t: Any, frame: Frame, ins: Instruction) -> None:
    before, after = ins.arg & 0xFF, ins.arg >> 8
    items = _checked(t, frame.pop())
    need, split = before + after, len(items) - after
    if len(items) < need:
        t.raise_(ValueError, f"not enough values to unpack (expected at least {need}, got {len(items)})")
    middle = Sequence(list, items[before:split])
    for item in reversed([*items[:before], middle, *items[split:]]):
        frame.push(item)


def _exactly(t: Any, value: Value, count: int) -> list[Value]:
    """The `count` items of `value`. An iterator is asked for one more and no further."""
    known = isinstance(force(value), Sequence | Tensor)
    items = _checked(t, value) if known else _ask(t, value, count + 1)
    if len(items) < count:
        t.raise_(ValueError, f"not enough values to unpack (expected {count}, got {len(items)})")
    if len(items) > count:
        t.raise_(ValueError, f"too many values to unpack (expected {count})")
    return items


def _must_iterate(t: Any, value: Value) -> None:
    if not iterable(t, value):
        t.raise_(TypeError, f"cannot unpack non-iterable {model.type_of(t, value).__name__} object")


def _checked(t: Any, value: Value) -> list[Value]:
    """All items of `value`."""
    _must_iterate(t, value)
    return model.unpack(t, value)


def _ask(t: Any, value: Value, most: int) -> list[Value]:
    """The first items of `value`, `most` at most."""
    _must_iterate(t, value)
    iterator = model.iterate(t, value)
    items: list[Value] = []
    while len(items) < most and (item := model.advance(t, iterator)) is not None:
        items.append(item)
    return items
