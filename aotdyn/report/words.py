"""The user's words for what a continuation is handed on the stack: the expression that put it there.

Read from the function's lines and the positions that its code keeps. Only
what is shown asks for them; where the source can't be read, the line is named.
"""

from __future__ import annotations

import ast
import dis
import linecache
import re
import types
from typing import TYPE_CHECKING

from aotdyn.guards.kinds import Reason

if TYPE_CHECKING:
    from aotdyn.runtime.variant import FrameSpec

SLOT = re.compile(r"\bstack\[(\d+)\]")
LONGEST = 60


def of_stack(reason: Reason, code: types.CodeType, spec: FrameSpec) -> Reason:
    """The reason with the user's words in place of `stack[i]`."""
    if "stack[" not in reason:
        return reason
    made = Reason.of(SLOT.sub(lambda match: slot(code, spec, int(match[1])), reason), reason.where)
    made.was, made.now = reason.was, reason.now
    made.subject = SLOT.sub(lambda match: slot(code, spec, int(match[1])), reason.subject)
    return made


def slot(code: types.CodeType, spec: FrameSpec, number: int) -> str:
    """What lies on the stack at slot `number` where a frame starts."""
    made = _maker(code, spec, number)
    if made is None or made.positions is None:
        return f"stack[{number}]"
    iterates = made.opname == "GET_ITER"  # its position is the whole statement's
    text = _text(code.co_filename, _before(code, made).positions if iterates else made.positions)
    if not text:
        return f"a value of line {made.positions.lineno}"
    if iterates:
        return f"iter({text})"
    if made.opname == "BEFORE_WITH":
        return f"{_atom(text)}.__exit__"
    return _atom(text)


def _before(code: types.CodeType, instruction: dis.Instruction) -> dis.Instruction:
    """The instruction that made what one iterates over."""
    return [each for each in dis.get_instructions(code) if each.offset < instruction.offset][-1]


def _maker(code: types.CodeType, spec: FrameSpec, number: int) -> dis.Instruction | None:
    """The instruction that put a slot's value there, going straight back from where the frame starts."""
    depth = len(spec.stack) - 2 * spec.stack.count("p")
    for each in reversed([each for each in dis.get_instructions(code) if each.offset < spec.offset]):
        below = depth - _effect(each)
        replaced = depth == number + 1 and below >= depth and each.opname.startswith(MAKERS)
        if replaced or below <= number < depth:
            return each
        depth = below
    return None


MAKERS = ("BINARY_", "BUILD_", "CALL", "COMPARE_OP", "CONTAINS_OP", "FORMAT_", "GET_", "IS_OP", "LOAD_", "UNARY_")
"""Instructions that put a result in the place of what they take."""


def _effect(each: dis.Instruction) -> int:
    """The effect of an instruction that falls through; what only ends a path has none on what stands behind it."""
    if each.opname in ("RETURN_VALUE", "RAISE_VARARGS", "RERAISE", "JUMP_FORWARD", "JUMP_BACKWARD"):
        return 0
    arg = each.arg if each.opcode >= dis.HAVE_ARGUMENT else None
    return dis.stack_effect(each.opcode, arg, jump=False)


def _atom(text: str) -> str:
    """An expression as it can stand before a dot."""
    try:
        tree = ast.parse(text, mode="eval").body
    except SyntaxError:
        return text
    return text if isinstance(tree, ast.Name | ast.Attribute | ast.Call | ast.Subscript) else f"({text})"


def _text(file: str, where: dis.Positions | None) -> str:
    """The source between two positions; of several lines the first."""
    if where is None or where.lineno is None or where.end_col_offset is None:
        return ""
    line = linecache.getline(file, where.lineno).encode()
    whole = where.lineno == where.end_lineno
    text = line[where.col_offset : where.end_col_offset if whole else None].decode(errors="replace").strip()
    if whole and len(text) <= LONGEST:
        return text
    return f"{text[: LONGEST - 3]}..." if text else ""
