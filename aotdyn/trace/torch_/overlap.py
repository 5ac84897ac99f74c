"""Writes to memory that an operator also reads, or writes to twice.

PyTorch refuses some for where their memory lies; fake tensors have no addresses, and let them pass. Follows ATen's
MemoryOverlap.cpp: nearly all operators raise where an element is written twice (`expand`), or where they write to a
part of what they read. Numbers come from the sizes of this call; no guard is noted.

Operators on lists (`_foreach_add_`) go through them in order: where a position reads what an earlier one writes, each
becomes a call of its own, since a compiler that makes such an operator functional has all of it read first.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from collections.abc import Sequence as Items
from typing import Any

import torch
from torch import fx

from aotdyn.graph import effects

from ..control import Break
from ..values import Const, Sequence, Tensor, Value, force

FILLS = frozenset(("fill_", "zero_"))
"""Operators that write the same number everywhere: the same element twice is as good as once."""


IN_PLACE = frozenset(f"i{name}" for name in effects.INPLACE)
"""Names of Python's operators in place."""


Call = tuple[list[Value], dict[str, Value]]
"Arguments of a call, by position and by name."


def one_by_one(name: str, args: Items[Value], kwargs: Mapping[str, Value]) -> list[Call]:
    """The calls, one for each position, that a write to a list is where positions share memory; empty for one call."""
    if not name.startswith(("_foreach_", "_fused_")) or not name.endswith("_"):
        return []
    lists = [list(map(force, value.items)) for value in _sequences([*args, *kwargs.values()])]
    length = max(map(len, lists), default=0)
    shared = [value for value in map(force, [*args, *kwargs.values()]) if isinstance(value, Tensor)]
    positions = [[each[i] for each in lists if i < len(each) and isinstance(each[i], Tensor)] for i in range(length)]
    fused = name.startswith("_fused_")
    if not _positions_meet(positions, [each.fake for each in shared], fused):
        return []
    if fused:
        raise Break(f"{name} writes to a tensor that stands in its lists twice")
    return [
        ([_at(value, i, length) for value in args], {key: _at(value, i, length) for key, value in kwargs.items()})
        for i in range(length)
    ]


def _sequences(values: Items[Value]) -> list[Sequence]:
    return [value for value in map(force, values) if isinstance(value, Sequence)]


def _positions_meet(positions: list[list[Any]], shared: list[torch.Tensor], within: bool) -> bool:
    """Whether what one position writes to (its first tensor) is another's, or everyone's; `within` one, too."""
    fakes = [[value.fake for value in position] for position in positions]
    for i, position in enumerate(fakes):
        others = [fake for j, other in enumerate(fakes) if j != i for fake in other]
        others += position[1:] if within else []
        if position and any(_meet(position[0], other) for other in (*shared, *others)):
            return True
    return False


def _meet(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors may have an element in common: sizes that vary say nothing."""
    from .calls import memory

    if memory(one) != memory(other):
        return False
    (begin, end), (other_begin, other_end) = _stretch(one), _stretch(other)
    return begin < other_end and other_begin < end


def _stretch(fake: torch.Tensor) -> tuple[float, float]:
    """First byte of a tensor in its memory, and the one behind its last; all of it where numbers vary."""
    from .calls import innermost

    inner = innermost(fake)
    if inner.layout is not torch.strided:
        return 0, float("inf")
    numbers = (inner.storage_offset(), *inner.shape, *inner.stride())
    if not all(isinstance(each, int) for each in numbers):
        return 0, float("inf")
    if 0 in inner.shape:
        return 0, 0
    begin, size = int(inner.storage_offset()), inner.element_size()
    last = begin + sum((int(n) - 1) * int(step) for n, step in zip(inner.shape, inner.stride(), strict=True))
    return begin * size, (last + 1) * size


def _at(value: Value, i: int, length: int) -> Value:
    """What an argument is for one position: the item of a list, else the same for all."""
    value = force(value)
    if isinstance(value, Sequence) and len(value.items) == length:
        return Sequence(list, [value.items[i]])
    if isinstance(value, Const) and isinstance(value.value, tuple) and len(value.value) == length:
        return Const((value.value[i],))
    return value


def check_overlap(name: str, node: fx.Node, written: list[Tensor], read: list[Tensor]) -> None:
    """Break before an operator whose write PyTorch may refuse; then Python raises what there is to raise."""
    if any(_writes_back(node, value.node) for value in read):
        return
    for target in written:
        place = _place(target.fake)
        if place is None:
            continue
        if name not in FILLS and any(stride == 0 and size > 1 for size, stride in place[1]):
            raise Break(f"{name} writes to a tensor several of whose elements are one place in memory")
        for other in read:
            if other is not target and _partly_same(target.fake, place, other.fake):
                raise Break(f"{name} writes to memory that it reads by another view")


def _writes_back(node: fx.Node, view: Any) -> bool:
    """Whether this is the store of `x[i] += y`: it writes to a view what that view is since the operation in place."""
    while isinstance(view, fx.Node) and getattr(view.target, "__name__", "") in IN_PLACE:
        view = view.args[0]
    index = operator.getitem, node.args[:2]
    return node.target is operator.setitem and isinstance(view, fx.Node) and (view.target, view.args) == index


def _partly_same(target: torch.Tensor, place: Any, other: torch.Tensor) -> bool:
    """`get_overlap_status(...) == MemOverlapStatus::Partial`."""
    from .calls import memory

    if memory(target) != memory(other):
        return False
    there = _place(other)
    if there is None or not (_dense(place[1]) and _dense(there[1])):
        return False
    (begin, dims), (other_begin, other_dims) = place, there
    end, other_end = begin + _bytes(target, dims), other_begin + _bytes(other, other_dims)
    if (begin, end) == (other_begin, other_end):
        return [stride for _, stride in dims] != [stride for _, stride in other_dims]
    return begin < other_end and other_begin < end


def _place(fake: torch.Tensor) -> tuple[int, list[tuple[int, int]]] | None:
    """A tensor's first byte in its memory, and size and stride of each dimension; None where they aren't known."""
    from .calls import innermost

    inner = innermost(fake)
    if inner.layout is not torch.strided:
        return None
    sizes, strides = [_number(each) for each in inner.shape], [_number(each) for each in inner.stride()]
    offset = _number(inner.storage_offset())
    if offset is None or None in sizes or None in strides or 0 in sizes:
        return None
    return offset * inner.element_size(), list(zip(sizes, strides))  # type: ignore[arg-type]


def _number(size: Any) -> int | None:
    return size.node.hint if isinstance(size, torch.SymInt) else size


def _bytes(fake: torch.Tensor, dims: list[tuple[int, int]]) -> int:
    count = fake.element_size()
    for size, _ in dims:
        count *= size
    return count


def _dense(dims: list[tuple[int, int]]) -> bool:
    """Whether the elements fill a stretch of memory, each once."""
    expected = 1
    for size, stride in sorted((each for each in dims if each[0] != 1), key=lambda each: each[1]):
        if stride != expected:
            return False
        expected *= size
    return True
