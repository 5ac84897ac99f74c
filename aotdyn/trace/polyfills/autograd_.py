"""`torch.autograd` in Python."""

from __future__ import annotations

from typing import Any

from torch.autograd.function import FunctionCtx


class Context(FunctionCtx):
    """The context of an autograd function: what its C class adds."""

    to_save: tuple[Any, ...] = ()
    non_differentiable: tuple[Any, ...] = ()
    dirty_tensors: tuple[Any, ...] = ()
    materialize_grads = True

    def __init__(self, needs_input_grad: tuple[bool, ...]) -> None:
        self.needs_input_grad = needs_input_grad

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """What `save_for_backward` was given."""
        return tuple(self.to_save)
