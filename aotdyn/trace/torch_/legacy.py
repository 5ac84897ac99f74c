"""The constructors that torch had before there were factories: `torch.Tensor(2, 3)`, `torch.LongTensor([1])`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ..control import Break
from ..handlers import HANDLERS
from ..values import Const, Scalar, Sequence, Value, force
from . import calls


def _legacy(dtype: torch.dtype | None) -> Callable[..., Value]:
    """The handler of a constructor like `torch.FloatTensor`, which takes sizes or data."""

    def construct(t: Any, *args: Value, **kwargs: Value) -> Value:
        if kwargs:
            raise Break("a legacy constructor of tensors with keyword arguments")
        placed: dict[str, Value] = {
            "dtype": Const(dtype or t.state.read("default_dtype")),
            "device": Const(torch.device("cpu")),
        }
        given = [force(arg) for arg in args]
        if len(given) == 1 and isinstance(given[0], Sequence) and given[0].cls in (list, tuple):
            return HANDLERS[torch.tensor](t, given[0], **placed)
        if len(given) == 1 and isinstance(given[0], Sequence) and given[0].cls is torch.Size:
            return calls.record(t, torch.empty, given, placed)
        if all(isinstance(size, Scalar) or type(getattr(size, "value", None)) is int for size in given):
            return calls.record(t, torch.empty, [Sequence(tuple, list(given) or [Const(0)])], placed)
        raise Break("a legacy constructor of tensors with something else than sizes or data")

    return construct


LEGACY: dict[type, torch.dtype | None] = {
    torch.Tensor: None,
    torch.FloatTensor: torch.float32,
    torch.DoubleTensor: torch.float64,
    torch.HalfTensor: torch.float16,
    torch.BFloat16Tensor: torch.bfloat16,
    torch.LongTensor: torch.int64,
    torch.IntTensor: torch.int32,
    torch.ShortTensor: torch.int16,
    torch.CharTensor: torch.int8,
    torch.ByteTensor: torch.uint8,
    torch.BoolTensor: torch.bool,
}
"""Constructors on the CPU, with the dtype of what they make; None: the default dtype."""

for _cls, _dtype in LEGACY.items():
    HANDLERS[_cls] = _legacy(_dtype)
