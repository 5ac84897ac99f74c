"""Gradient hooks on tensors that the graph makes: the hook is a graph inside the graph."""

from __future__ import annotations

from typing import Any

from torch.utils.hooks import RemovableHandle

from aotdyn.graph import native
from aotdyn.graph.build import Operand

from ..control import Break, Unbuildable
from ..handlers import handles
from ..values import Const, Tensor, Value, force
from . import calls, leaf, regions

NAME = "a gradient hook"


class Handle(Value):
    """What `register_hook` gives: where it is asked for, Python registers the hook."""

    __slots__ = ()
    cls = RemovableHandle

    def __init__(self, born: int) -> None:
        super().__init__()
        self.born = born

    def rebuild(self, e: Any) -> int:
        """It belongs to a tensor within the graph."""
        raise Unbuildable(self, "the handle of a hook")


@handles(leaf.raw_method("register_hook"))
def _register_hook(t: Any, v: Value, hook: Value) -> Value:
    """A node; Break for a tensor from outside (the hook outlives the graph) and for what raises."""
    from .. import model

    tensor = force(v)
    if not isinstance(tensor, Tensor) or tensor.source is not None:
        raise Break(f"{NAME} on a tensor from outside", "It runs in Python, at each backward pass.")
    calls.check_ordinary(tensor)
    regions.no_levels(NAME)
    if not tensor.fake.requires_grad or id(tensor.fake) in t.lifted:
        raise Break(f"{NAME} on a tensor without a history")
    with regions.region(t, NAME, grad=False) as scope:
        operand = t.builder.fresh_like("gradient", tensor.fake)
        t.unlaid.add(id(operand.fake))
        with regions.differentiating(t):
            result = force(model.call(t, hook, [Tensor(operand.node, operand.fake)], {}))
        if not isinstance(result, Tensor) and not (isinstance(result, Const) and result.value is None):
            raise Break(f"{NAME} that gives a {result.cls.__qualname__}")
        (output,) = regions.leaves(t, NAME, [result])
    nested = regions.close(NAME, scope, output)
    graph = t.builder.nested(nested, "hook")
    regions.call(t, native.register_hook, [Operand(tensor.node, tensor.fake), graph, tuple(regions.outer(nested))])
    return Handle(t.break_position())
