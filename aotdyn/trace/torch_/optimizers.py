"""Steps of optimizers, as plain Python takes them.

Numbers of their state (how many steps there were, a rate that is a tensor) are
Python's floats there, in double precision, and tensors in the form that
`torch.optim` has for compilers: here tensors of float64, on the CPU, so that
what is calculated with them is as precise as it is plainly.

RAdam and ASGD ask such a number which of two ways to go. `torch.optim` has for
each a form that doesn't ask (`capturable=True`): both ways are computed, and
one is taken. That is traced, where all tensors are on the CPU: the numbers are
the same but for rounding.
"""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch.optim import asgd, optimizer, radam

from ..builtins.left_to_python import leave
from ..handlers import handles
from ..model.calls import bind_arguments
from ..values import Const, Function, Sequence, Tensor, Value, force


@handles(optimizer._get_value)
def _get_value(t: Any, value: Value) -> Value:
    """A number of the state, whether it is one or a tensor."""
    known = force(value)
    if isinstance(known, Tensor) and known.fake.device.type == "cpu" and known.fake.is_floating_point():
        return t.graph_method("to", [known, Const(torch.float64)])
    return known


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
