"""Opcodes that only rearrange the stack."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..values import NULL
from .table import opcode

if TYPE_CHECKING:
    from ..decode import Instruction
    from ..frame import Frame


@opcode("NOP", "RESUME", "PRECALL", "COPY_FREE_VARS")
def NOP(t: Any, frame: Frame, ins: Instruction) -> None:
    """Nothing to do: who makes a frame gives it its cells, and CALL does the work of PRECALL."""


@opcode("POP_TOP")
def POP_TOP(t: Any, frame: Frame, ins: Instruction) -> None:
    frame.let_go(frame.pop())


@opcode("PUSH_NULL")
def PUSH_NULL(t: Any, frame: Frame, ins: Instruction) -> None:
    frame.stack.append(NULL)


@opcode("COPY")
def COPY(t: Any, frame: Frame, ins: Instruction) -> None:
    frame.stack.append(frame.stack[-ins.arg])


@opcode("SWAP")
def SWAP(t: Any, frame: Frame, ins: Instruction) -> None:
    stack = frame.stack
    stack[-1], stack[-ins.arg] = stack[-ins.arg], stack[-1]
