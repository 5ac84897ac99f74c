"""`torch._foreach_addcdiv` and `_foreach_addcmul` with factors that are tensors.

An optimizer that finds itself compiled computes its step sizes as tensors.
The operators take such from one tensor on the CPU alone, and look at its
numbers: in a graph the products are computed, and added, one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .. import model
from ..handlers import handles
from ..values import Sequence, Tensor, Value, force
from . import calls


def scaled(parts: Any, scalars: Any) -> Any:
    """Each tensor times its own factor; a tensor of factors is taken apart."""
    factors = scalars.unbind() if isinstance(scalars, torch.Tensor) else scalars
    return [part * factor for part, factor in zip(parts, factors)]


def addcdiv(self: Any, tensor1: Any, tensor2: Any, scalars: Any) -> Any:
    """Sums with new tensors."""
    return torch._foreach_add(self, scaled(torch._foreach_div(tensor1, tensor2), scalars))


def addcdiv_(self: Any, tensor1: Any, tensor2: Any, scalars: Any) -> None:
    """The same in place."""
    torch._foreach_add_(self, scaled(torch._foreach_div(tensor1, tensor2), scalars))


def addcmul(self: Any, tensor1: Any, tensor2: Any, scalars: Any) -> Any:
    """Sums with new tensors."""
    return torch._foreach_add(self, scaled(torch._foreach_mul(tensor1, tensor2), scalars))


def addcmul_(self: Any, tensor1: Any, tensor2: Any, scalars: Any) -> None:
    """The same in place."""
    torch._foreach_add_(self, scaled(torch._foreach_mul(tensor1, tensor2), scalars))


def _declare(operator: Callable[..., Any], traced: Callable[..., Any]) -> None:
    @handles(operator)
    def handler(t: Any, *args: Value, **kwargs: Value) -> Value:
        given = kwargs.get("scalars", args[3] if len(args) > 3 else None)
        scalars = None if given is None else force(given)
        if isinstance(scalars, Tensor) or (
            isinstance(scalars, Sequence) and any(isinstance(force(each), Tensor) for each in scalars.items)
        ):
            return model.call(t, t.polyfill(traced), list(args), kwargs)
        return calls.record(t, operator, list(args), kwargs)


for _operator, _traced in (
    (torch._foreach_addcdiv, addcdiv),
    (torch._foreach_addcdiv_, addcdiv_),
    (torch._foreach_addcmul, addcmul),
    (torch._foreach_addcmul_, addcmul_),
):
    _declare(_operator, _traced)
