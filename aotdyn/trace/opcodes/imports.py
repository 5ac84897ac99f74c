"""Imports inside functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import model
from ..control import Break, NotConstant, Raised
from ..values import Value
from .table import breaks, opcode

if TYPE_CHECKING:
    from ..decode import Instruction
    from ..frame import Frame


def _known(value: Value) -> Any:
    try:
        return model.as_constant(value)
    except NotConstant:
        raise Break("The arguments of an import aren't known.") from None


@opcode("IMPORT_NAME")
def IMPORT_NAME(t: Any, frame: Frame, ins: Instruction) -> None:
    level, fromlist = map(_known, frame.popn(2))
    frame.push(t.import_name(frame.globals, ins.argval, fromlist, level))


@opcode("IMPORT_FROM")
def IMPORT_FROM(t: Any, frame: Frame, ins: Instruction) -> None:
    try:
        frame.push(model.get_attr(t, frame.stack[-1], ins.argval))
    except Raised:
        # Python looks for a submodule, and words the ImportError.
        raise Break(f"The module has no attribute {ins.argval!r} to import.") from None


breaks("IMPORT_STAR", "`from module import *` is run: module bodies aren't traced.")
