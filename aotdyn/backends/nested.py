"""Training graphs that no stored kernel gives the gradients of: inductor's ordinary path, in each process.

It traces forward and backward together and joins them by a node of autograd of
its own, which can't be differentiated in turn. So it is called on leaves of
its own, apart from the program's history, where `training.Kernel`'s node
stands: a backward of that one is a backward of the other, or, where it is to be
differentiated, runs the graph again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from aotdyn.backends.training import AGAIN, Kernel, Plan, Tangent, autocast_dtype


def plan(inputs: int, outputs: int, differentiable: Sequence[int], written: list[int], draws: bool) -> Plan:
    """How such a graph is joined: every input counts as used, and nothing is saved but by the inner graph."""
    return Plan(
        outputs=outputs,
        saved=[],
        sizes=[],
        tangents=[Tangent(i, "contiguous") for i in differentiable],
        grads=[None] * inputs,
        reach=[[] for _ in range(inputs)],
        used=list(range(inputs)),
        copied=written,
        written=written,
        draws=draws,
        autocast=autocast_dtype(),
    )


class Nested(Kernel):
    """A kernel whose forward has a history of its own, and no backward but that one's."""

    def start(self, ctx: Any, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Run the forward on leaves, which the context keeps with what came of them."""
        ctx.leaves = [each.detach().requires_grad_(each.requires_grad) for each in inputs]
        with torch.enable_grad():
            ctx.results = list(self._forward(*ctx.leaves))
        return [each.detach() for each in ctx.results]

    def differentiate(
        self, ctx: Any, kept: Sequence[torch.Tensor], given: list[torch.Tensor | None], missing: set[int]
    ) -> list[torch.Tensor | None]:
        """Differentiate the inner history; it is let go as autograd lets go of this one."""
        if ctx.results is None:
            raise RuntimeError(AGAIN)
        keep = torch._C._autograd._get_current_graph_task_keep_graph()
        found = self.engine(ctx.results, given, ctx.leaves, keep, False)
        if not keep:
            ctx.leaves = ctx.results = None
        grads: list[torch.Tensor | None] = [None] * len(self.plan.grads)
        for i, grad in found.items():
            grads[i] = grad
        return grads
