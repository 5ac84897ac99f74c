"""Jumps, loops and return."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import model
from ..torch_ import checks
from ..values import Const
from .table import opcode

if TYPE_CHECKING:
    from ..decode import Instruction
    from ..frame import Frame


@opcode("JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT")
def JUMP(t: Any, frame: Frame, ins: Instruction) -> None:
    frame.jump(ins)


@opcode("POP_JUMP_FORWARD_IF_TRUE", "POP_JUMP_BACKWARD_IF_TRUE")
def POP_JUMP_IF_TRUE(t: Any, frame: Frame, ins: Instruction) -> None:
    if checks.branch(t, frame, ins, frame.pop()):
        frame.jump(ins)


@opcode("POP_JUMP_FORWARD_IF_FALSE", "POP_JUMP_BACKWARD_IF_FALSE")
def POP_JUMP_IF_FALSE(t: Any, frame: Frame, ins: Instruction) -> None:
    if not checks.branch(t, frame, ins, frame.pop()):
        frame.jump(ins)


@opcode("POP_JUMP_FORWARD_IF_NONE", "POP_JUMP_BACKWARD_IF_NONE")
def POP_JUMP_IF_NONE(t: Any, frame: Frame, ins: Instruction) -> None:
    if model.is_same(t, frame.pop(), Const(None)):
        frame.jump(ins)


@opcode("POP_JUMP_FORWARD_IF_NOT_NONE", "POP_JUMP_BACKWARD_IF_NOT_NONE")
def POP_JUMP_IF_NOT_NONE(t: Any, frame: Frame, ins: Instruction) -> None:
    if not model.is_same(t, frame.pop(), Const(None)):
        frame.jump(ins)


@opcode("JUMP_IF_TRUE_OR_POP")
def JUMP_IF_TRUE_OR_POP(t: Any, frame: Frame, ins: Instruction) -> None:
    if model.truth(t, frame.stack[-1]):
        frame.jump(ins)
    else:
        frame.pop()


@opcode("JUMP_IF_FALSE_OR_POP")
def JUMP_IF_FALSE_OR_POP(t: Any, frame: Frame, ins: Instruction) -> None:
    if model.truth(t, frame.stack[-1]):
        frame.pop()
    else:
        frame.jump(ins)


@opcode("GET_ITER")
def GET_ITER(t: Any, frame: Frame, ins: Instruction) -> None:
    frame.push(model.iterate(t, frame.pop()))


@opcode("FOR_ITER")
def FOR_ITER(t: Any, frame: Frame, ins: Instruction) -> None:
    item = model.advance(t, frame.stack[-1])
    if item is not None:
        frame.push(item)
    else:
        frame.pop()
        frame.jump(ins)


@opcode("RETURN_VALUE")
def RETURN_VALUE(t: Any, frame: Frame, ins: Instruction) -> None:
    frame.outcome = ("return", frame.pop())
