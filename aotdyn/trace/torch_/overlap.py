"""Writes that PyTorch refuses for where their memory lies: fake tensors have no addresses, and let them pass.

Follows ATen's MemoryOverlap.cpp: nearly all operators raise where an element is written twice (`expand`), or where
they write to a part of what they read. Numbers come from the sizes of this call; no guard is noted.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import fx

from aotdyn.graph import effects

from ..control import Break
from ..values import Tensor

FILLS = frozenset(("fill_", "zero_"))
"""Operators that write the same number everywhere: the same element twice is as good as once."""


IN_PLACE = frozenset(f"i{name}" for name in effects.INPLACE)
"""Names of Python's operators in place."""


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
