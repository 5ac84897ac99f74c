"""Inputs that share memory: code compiled for inputs apart is wrong where one that it writes to overlaps another.

A compiled loop reads and writes in an order of its own. Traces don't guard
how inputs lie in memory, so code that writes to inputs looks at their
addresses in each call, and each way of overlapping has code of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from aotdyn.backends.stored import Compiled
from aotdyn.graph.program import Input

Pattern = tuple[tuple[int, int], ...]
"Pairs of a written input and another one whose addresses meet."


class PerAliasing:
    """Compiled code for each way in which written inputs overlap others.

    Args:
        items: what is said of the inputs: sizes that don't vary are measured once.
        written: indices of the inputs that the code writes to.
        inputs: those that `compiled` was made for.
        make: compiles for inputs that overlap in another way.
    """

    def __init__(
        self,
        items: Sequence[Input],
        written: Sequence[int],
        inputs: Sequence[torch.Tensor],
        compiled: Compiled,
        make: Callable[[list[torch.Tensor]], Compiled],
    ) -> None:
        self._written = tuple(written)
        self._make = make
        pairs = list(zip(items, inputs, strict=True))
        self._sizes = None if any(item.dynamic for item in items) else [extent(tensor) for _, tensor in pairs]
        self._made = {self._pattern(inputs): compiled}

    def __call__(self, *inputs: torch.Tensor) -> Sequence[object]:
        pattern = self._pattern(inputs)
        compiled = self._made.get(pattern)
        if compiled is None:
            compiled = self._made[pattern] = self._make(list(inputs))
        return compiled(*inputs)

    def _pattern(self, inputs: Sequence[torch.Tensor]) -> Pattern:
        return pattern(inputs, self._written, self._sizes)


def pattern(inputs: Sequence[torch.Tensor], written: Sequence[int], sizes: Sequence[int] | None = None) -> Pattern:
    """Which written inputs meet which others; `sizes` are their extents, where those are known."""
    starts = [tensor.data_ptr() for tensor in inputs]
    sizes = sizes or [extent(tensor) for tensor in inputs]
    reached = 0
    for start, size in sorted(zip(starts, sizes, strict=True)):
        if start < reached and size:
            return _pairs(starts, sizes, written)
        reached = max(reached, start + size)
    return ()


def _pairs(starts: Sequence[int], sizes: Sequence[int], written: Sequence[int]) -> Pattern:
    return tuple(
        (one, other)
        for one in written
        for other in range(len(starts))
        if one != other
        and sizes[one]
        and sizes[other]
        and starts[one] < starts[other] + sizes[other]
        and starts[other] < starts[one] + sizes[one]
    )


def extent(tensor: torch.Tensor) -> int:
    """Bytes from a strided tensor's first element to behind its last."""
    if not tensor.numel():
        return 0
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return (last + 1) * tensor.element_size()
