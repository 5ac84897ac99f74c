"""Formatted strings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import flows, model
from ..control import Break, NotConstant
from ..values import Builtin, Const, Value, force
from .table import breaks, opcode

if TYPE_CHECKING:
    from ..decode import Instruction
    from ..frame import Frame


def _string(value: Value) -> str:
    try:
        return str(model.as_constant(value))
    except NotConstant:
        raise Break("A part of a formatted string isn't known while tracing.") from None


CONVERSIONS = ("", "s", "r", "a")


def _convert(t: Any, value: Value, conversion: int) -> Value:
    """`!s`, `!r` and `!a`; 0 is none of them."""
    if not conversion:
        return value
    function = (model.class_value(t, str), Builtin(repr), Builtin(ascii))[conversion - 1]
    return model.call(t, function, [value], {})


@opcode("FORMAT_VALUE")
def FORMAT_VALUE(t: Any, frame: Frame, ins: Instruction) -> None:
    spec = _string(frame.pop()) if ins.arg & 4 else ""
    value = frame.pop()
    flowing = flows.text(force(value), CONVERSIONS[ins.arg & 3], spec)
    frame.push(flowing or model.format_value(t, _convert(t, value, ins.arg & 3), spec))


@opcode("BUILD_STRING")
def BUILD_STRING(t: Any, frame: Frame, ins: Instruction) -> None:
    parts = [force(each) for each in frame.popn(ins.arg)]
    frame.push(flows.joined(parts) or Const("".join(map(_string, parts))))


breaks("PRINT_EXPR", "An expression statement of an interactive session is printed.")
