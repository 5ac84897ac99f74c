"""Operators: unary, binary, in place, comparison, subscription."""

from __future__ import annotations

import dis
from typing import TYPE_CHECKING, Any

from .. import model
from ..values import Const
from .table import opcode

if TYPE_CHECKING:
    from ..decode import Instruction
    from ..frame import Frame

NB_OPS: list[str] = [symbol for _, symbol in dis._nb_ops]  # type: ignore[attr-defined]
"the symbol of each argument of BINARY_OP; in-place ones end in '='"


@opcode("UNARY_POSITIVE")
def UNARY_POSITIVE(t: Any, frame: Frame, ins: Instruction) -> None:
    frame.push(model.unary(t, "+", frame.pop()))


@opcode("UNARY_NEGATIVE")
def UNARY_NEGATIVE(t: Any, frame: Frame, ins: Instruction) -> None:
    frame.push(model.unary(t, "-", frame.pop()))


@opcode("UNARY_INVERT")
def UNARY_INVERT(t: Any, frame: Frame, ins: Instruction) -> None:
    frame.push(model.unary(t, "~", frame.pop()))


@opcode("UNARY_NOT")
def UNARY_NOT(t: Any, frame: Frame, ins: Instruction) -> None:
    frame.push(Const(not model.truth(t, frame.pop())))


@opcode("BINARY_OP")
def BINARY_OP(t: Any, frame: Frame, ins: Instruction) -> None:
    left, right = frame.popn(2)
    symbol = NB_OPS[ins.arg]
    operate = model.inplace if symbol.endswith("=") else model.binary
    frame.push(operate(t, symbol.removesuffix("="), left, right))


@opcode("COMPARE_OP")
def COMPARE_OP(t: Any, frame: Frame, ins: Instruction) -> None:
    left, right = frame.popn(2)
    frame.push(model.compare(t, ins.argval, left, right))


@opcode("IS_OP")
def IS_OP(t: Any, frame: Frame, ins: Instruction) -> None:
    left, right = frame.popn(2)
    frame.push(Const(model.is_same(t, left, right) != bool(ins.arg)))


@opcode("CONTAINS_OP")
def CONTAINS_OP(t: Any, frame: Frame, ins: Instruction) -> None:
    item, container = frame.popn(2)
    found = model.contains(t, container, item)
    frame.push(Const(not model.truth(t, found)) if ins.arg else found)


@opcode("BINARY_SUBSCR")
def BINARY_SUBSCR(t: Any, frame: Frame, ins: Instruction) -> None:
    container, key = frame.popn(2)
    frame.push(model.get_item(t, container, key))


@opcode("STORE_SUBSCR")
def STORE_SUBSCR(t: Any, frame: Frame, ins: Instruction) -> None:
    value, container, key = frame.popn(3)
    model.set_item(t, container, key, value)


@opcode("DELETE_SUBSCR")
def DELETE_SUBSCR(t: Any, frame: Frame, ins: Instruction) -> None:
    container, key = frame.popn(2)
    model.del_item(t, container, key)
