"""`torch.inference_mode`: entering and leaving it are nodes of the graph.

What holds the mode open is an object of C, which can't be made again: a break
inside comes before it is entered, and what follows begins in the mode.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd import grad_mode

from aotdyn.graph.build import Operand

from ..control import Break, Unbuildable
from ..handlers import handles
from ..values import Const, Object, Value, force

ATTRIBUTE = "_inference_mode_context"


class Open(Value):
    """The guard that holds the mode: the node that opened it, and the modes before."""

    __slots__ = ("before", "mode", "node")
    cls = torch._C._InferenceMode  # type: ignore[attr-defined]

    def __init__(self, node: Any, mode: bool, before: dict[str, Any], born: int) -> None:
        super().__init__()
        self.node, self.mode, self.before, self.born = node, mode, before, born

    def rebuild(self, e: Any) -> int:
        """There is no other way to be in the mode than to have entered it."""
        raise Unbuildable(self, "inference mode is on")


@handles(torch.inference_mode.__enter__)
def _enter(t: Any, manager: Value) -> Value:
    from .. import model

    owner = force(manager)
    mode = force(model.get_attr(t, owner, "mode"))
    if not isinstance(owner, Object) or not isinstance(mode, Const) or type(mode.value) is not bool:
        raise Break("an unusual torch.inference_mode")
    state = t.state
    before = {key: state.read(key) for key in ("grad", "inference")}
    node, _ = state.record(grad_mode._enter_inference_mode, (mode.value,))
    guard = Open(node, mode.value, before, t.break_position())
    model.set_attr(t, owner, ATTRIBUTE, guard)
    state.opened.append(guard)
    state.current.update(grad=not mode.value, inference=mode.value)
    return Const(None)


@handles(torch.inference_mode.__exit__)
def _exit(t: Any, manager: Value, *exception: Value) -> Value:
    from .. import model

    guard = force(model.get_attr(t, force(manager), ATTRIBUTE))
    state = t.state
    if not isinstance(guard, Open) or state.opened[-1:] != [guard]:
        raise Break("torch.inference_mode is left where it wasn't entered last")
    state.opened.pop()
    state.record(grad_mode._exit_inference_mode, (Operand(guard.node, None),))
    state.current.update(guard.before)
    return Const(None)
