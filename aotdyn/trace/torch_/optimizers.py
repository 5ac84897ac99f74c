"""Steps of RAdam and ASGD, which ask a number of their state which of two ways to go.

`torch.optim` has for each a form that doesn't ask (`capturable=True`): both ways
are computed, and one is taken. That is traced, where all tensors are on the CPU,
with steps counted in float64, as Python's floats are: the numbers are the same
but for rounding.
"""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch.optim import asgd, radam

from ..builtins.left_to_python import leave
from ..handlers import handles
from ..model.calls import bind_arguments
from ..values import Const, Function, Sequence, Tensor, Value, force


def _step(function: Any) -> None:
    @handles(function)
    def step(t: Any, *args: Value, **kwargs: Value) -> Value:
        known = force(t.durable(function))
        assert isinstance(known, Function)
        bound = bind_arguments(t, known, list(args), kwargs)
        if not all(map(_on_the_cpu, args)):
            return t.inline(known, bound, False)
        steps = force(bound["state_steps"])
        assert isinstance(steps, Sequence)
        wide = [t.graph_method("to", [each, Const(torch.float64)]) for each in steps.items]
        bound |= {"capturable": Const(True), "state_steps": Sequence(list, wide)}
        result = t.inline(known, bound, False)
        for own, counted in zip(steps.items, wide, strict=True):
            t.graph_method("copy_", [own, counted])
        return result


def _on_the_cpu(tensors: Value) -> bool:
    """Whether an argument is a list of tensors on the CPU."""
    known = force(tensors)
    items = [force(each) for each in known.items] if isinstance(known, Sequence) else [known]
    return all(isinstance(each, Tensor) and each.fake.device.type == "cpu" for each in items)


leave("how often LBFGS calls its closure depends on data", inspect.unwrap(torch.optim.LBFGS.step))
for _module in (asgd, radam):
    for _name in ("single", "multi"):
        _step(getattr(_module, f"_{_name}_tensor_{_module.__name__.rpartition('.')[2]}"))
