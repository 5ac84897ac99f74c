"""Metadata of tensors as data, checked one by one (slow) or in one batch by torch's own C++ guards (fast).

`torch._C._dynamo.guards.TensorGuards` compares exact type, dtype, device,
sizes, strides, requires_grad and dispatch keys (with autocast, functorch and
conj/neg bits in them), and that no tensor is given twice. It doesn't see grad
mode or the storage offset. It crashes unless both lists of dimensions are
given, and must be built from tensors of the real device.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch._C._dynamo.guards import TensorGuards

FIELDS = ("class", "dtype", "device", "layout", "requires_grad", "keys", "shape", "stride", "offset")
"""Keys of a TENSOR guard's `expected`, in the order in which differences are told."""


def metadata(tensor: torch.Tensor, dynamic: Iterable[int] = (), offset: bool = False) -> dict[str, Any]:
    """What a TENSOR guard expects of `tensor`.

    Dimensions in `dynamic` are null in `shape`, and so is every stride that one of them is a factor of.
    """
    facts = _read(tensor)
    free = frozenset(dynamic)
    if free and facts["stride"] is not None:
        # A stride that a dynamic size multiplies moves with it; those of the dims inside it don't.
        inner = [facts["stride"][dim] for dim in free]
        facts["stride"] = [None if any(stride > s for s in inner) else stride for stride in facts["stride"]]
    facts["shape"] = [None if dim in free else size for dim, size in enumerate(facts["shape"])]
    if not offset:
        facts["offset"] = None
    return facts


def matches(obj: Any, expected: dict[str, Any]) -> bool:
    """Whether `obj` is a tensor with the expected metadata."""
    return difference(obj, expected) is None


def difference(obj: Any, expected: dict[str, Any]) -> tuple[str, Any, Any] | None:
    """The first field that differs, as (name such as `shape[0]`, expected, found); None where all hold."""
    if not isinstance(obj, torch.Tensor):
        return "class", expected["class"], class_path(type(obj))
    found = _read(obj)
    for name in FIELDS:
        wanted, have = expected.get(name), found[name]
        if name in ("shape", "stride") and wanted is not None and have is not None:
            if len(wanted) != len(have):
                return "ndim", len(wanted), len(have)
            for dim, (want, is_) in enumerate(zip(wanted, have, strict=True)):
                if want is not None and want != is_:
                    return f"{name}[{dim}]" if name == "shape" else f"stride({dim})", want, is_
        elif wanted != have and not (name == "offset" and wanted is None):
            return name, wanted, have
    return None


def moved(obj: Any, expected: dict[str, Any]) -> frozenset[int] | None:
    """The dimensions whose sizes differ where nothing else does, but strides with them; None where something does."""
    found = difference(obj, expected)
    if found is None or not found[0].startswith("shape"):
        return None
    now = _read(obj)
    shape = now["shape"]
    if difference(obj, {**expected, "shape": shape, "stride": now["stride"]}) is not None:
        return None
    return frozenset(
        dim for dim, (want, have) in enumerate(zip(expected["shape"], shape, strict=True)) if want not in (None, have)
    )


def batch(tensors: Sequence[torch.Tensor], expected: Sequence[dict[str, Any]]) -> TensorGuards:
    """Guards over all tensors at once, from real tensors whose metadata is as expected."""
    sizes: list[Any] = [list(facts["shape"]) for facts in expected]
    strides: list[Any] = [list(facts["stride"] or [None] * len(facts["shape"])) for facts in expected]
    return TensorGuards(*tensors, dynamic_dims_sizes=sizes, dynamic_dims_strides=strides)


def class_path(cls: type) -> list[str]:
    """Module and qualified name of a class, as guards hold them."""
    return [cls.__module__, cls.__qualname__]


def _read(tensor: torch.Tensor) -> dict[str, Any]:
    with torch._C.DisableTorchFunction():
        strided = tensor.layout is torch.strided
        return {
            "class": class_path(type(tensor)),
            "dtype": str(tensor.dtype).removeprefix("torch."),
            "device": str(tensor.device),
            "layout": str(tensor.layout).removeprefix("torch."),
            "requires_grad": tensor.requires_grad,
            "keys": str(torch._C._dispatch_keys(tensor)),
            "shape": list(tensor.shape),
            "stride": list(tensor.stride()) if strided else None,
            "offset": tensor.storage_offset() if strided else None,
        }


def plain_class(cls: Any) -> bool:
    """Whether operators mean to tensors of a class what they mean to torch.Tensor, and give plain tensors."""
    if cls in (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer):
        return True
    return (
        cls.__torch_function__ is torch._C._disabled_torch_function_impl
        and cls.__torch_dispatch__ is torch._C._disabled_torch_dispatch_impl
    )


def innermost(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor inside the wrappers of functorch levels."""
    functorch = torch._C._functorch  # type: ignore[attr-defined]
    while functorch.is_functorch_wrapped_tensor(tensor):
        tensor = functorch.get_unwrapped(tensor)
    return tensor


def storage(tensor: torch.Tensor) -> int:
    """Identity of a tensor's storage while both live."""
    return innermost(tensor).untyped_storage()._cdata
