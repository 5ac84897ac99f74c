"""What user code says of its functions and tensors, kept where neither tracer nor torch has to be loaded to say it."""

from __future__ import annotations

import weakref
from typing import Any, NamedTuple

from aotdyn import errors

IN_GRAPH: set[Any] = set()
"Functions that go into the graph as they are (`allow_in_graph`)."

ALLOWED_LATER: dict[int, weakref.ref[Any]] = {}
"By id: what a program has told `torch.compiler.allow_in_graph`, as long as it hasn't been passed on to TorchDynamo."


class DimRange(NamedTuple):
    """What `mark_dynamic` says of a dimension."""

    dim: int
    min: int | None
    max: int | None


def mark_dynamic(tensor: Any, index: Any, *, min: int | None = None, max: int | None = None) -> None:
    """Say that a dimension (or several) of `tensor` varies, between `min` and `max`: the first variant allows it.

    Code that makes it constant is an error then.
    """
    for dim in _mark(tensor, index, "_dynamo_dynamic_indices"):
        ranges = tensor.__dict__.setdefault("_dynamo_dynamic_range", set())
        ranges.add(DimRange(dim, min, max))


def maybe_mark_dynamic(tensor: Any, index: Any) -> None:
    """The same as a hint: code may make the dimension constant."""
    _mark(tensor, index, "_dynamo_weak_dynamic_indices")


def mark_unbacked(tensor: Any, index: Any, *, min: int | None = None, max: int | None = None) -> None:
    """Say that a dimension (or several) varies, 0 and 1 included, and that nothing may be decided by its size.

    One variant serves all sizes between `min` and `max`; a branch on the size ends the graph there.
    """
    for dim in _mark(tensor, index, "_dynamo_unbacked_indices"):
        if min is not None or max is not None:
            tensor.__dict__.setdefault("_dynamo_unbacked_bounds", {})[dim] = (min, max)


def mark_static(tensor: Any, index: Any = None) -> None:
    """Say that a dimension (several; None: all) of `tensor` gets a variant for each size."""
    _mark(tensor, range(tensor.dim()) if index is None else index, "_dynamo_static_indices")


def _mark(tensor: Any, index: Any, attribute: str) -> list[int]:
    """Note dimensions on a tensor, under the names that torch has for it."""
    dims = [index] if isinstance(index, int) else list(index)
    for dim in dims:
        if not -tensor.dim() <= dim < tensor.dim():
            raise errors.UserError(None, f"a tensor of {tensor.dim()} dimensions has no dimension {dim}")
    dims = [dim % tensor.dim() for dim in dims]
    tensor.__dict__.setdefault(attribute, set()).update(dims)
    return dims
