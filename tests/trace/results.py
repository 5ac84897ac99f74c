"""What two runs gave, compared: structure, classes, and all that can be seen of what is inside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def exactly(a: Any, b: Any) -> None:
    """Compare what holds nothing: of a tensor its metadata and every element."""
    if isinstance(a, torch.Tensor):
        assert (a.dtype, a.shape, a.requires_grad) == (b.dtype, b.shape, b.requires_grad)
        torch.testing.assert_close(a, b, rtol=0, atol=0, equal_nan=True)
    else:
        assert a == b


def same(a: Any, b: Any, leaf: Callable[[Any, Any], None] = exactly) -> None:
    """Compare results, into containers; `leaf` compares what isn't one."""
    assert type(a) is type(b)
    if isinstance(a, (list, tuple)):
        assert len(a) == len(b)
        for one, other in zip(a, b, strict=True):
            same(one, other, leaf)
    elif isinstance(a, dict):
        same(list(a.items()), list(b.items()), leaf)
    else:
        leaf(a, b)
