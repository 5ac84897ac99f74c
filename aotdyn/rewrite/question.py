"""What stands in front of a stub's body, from templates: a module that is rewritten has hundreds of them.

The instructions by which a stub asks its switchboard are the same for all functions whose arguments and cells lie
alike, but for the numbers of the four names and of the one constant that it adds to the function's own. So they are
assembled once, and the numbers put in; a function with so many names that a number takes more than a byte is assembled
by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from types import CodeType

import msgspec

from aotdyn.rewrite import names, tables
from aotdyn.rewrite.assembler import Assembler
from aotdyn.rewrite.protocol import Asking, Load
from aotdyn.rewrite.switchboard import Seat
from aotdyn.rewrite.tables import Position, Region

NOWHERE = (lambda: None).__code__
LINE = Position(1)


class Question(msgspec.Struct, frozen=True):
    """The instructions of one question, in parts of a stub."""

    data: bytes
    regions: tuple[Region, ...]
    "counted from the question's first unit"
    depth: int
    "slots of the stack that it takes"
    locations: bytes
    "all at the line of what stands before"


class _Template(msgspec.Struct, frozen=True):
    question: Question
    names: tuple[tuple[int, int], ...]
    "offsets of bytes that grow with the number of the function's names, and by how much"
    constants: tuple[tuple[int, int], ...]
    "the same for its constants"


def added(seat: Seat) -> list[str]:
    """The names that a stub's code has behind those of the function, in their order."""
    # Where originals.dispatcher_of looks for it: switchboard and `ask`, then fix.
    return [seat.board, "ask", names.FIX, names.ENTER]


def question(code: CodeType, seat: Seat, values: Sequence[Load], cells: Sequence[Load]) -> Question | None:
    """The question in front of `code`, whose stub has `added` behind its names, the seat's number behind its constants.

    None where the template doesn't hold for it.
    """
    count, constants = len(code.co_names), len(code.co_consts)
    if count > 100 or constants > 255 or not set(added(seat)).isdisjoint(code.co_names):
        return None
    found = _template(tuple(values), tuple(cells))
    data = bytearray(found.question.data)
    for at, step in found.names:
        data[at] += step * count
    for at, step in found.constants:
        data[at] += step * constants
    return msgspec.structs.replace(found.question, data=bytes(data))


@lru_cache(maxsize=1024)
def _template(values: tuple[Load, ...], cells: tuple[Load, ...]) -> _Template:
    first = _assembled(values, cells, 0, 0)
    by_name, by_constant = _assembled(values, cells, 1, 0), _assembled(values, cells, 0, 1)
    return _Template(first, _growth(first.data, by_name.data), _growth(first.data, by_constant.data))


def _growth(before: bytes, after: bytes) -> tuple[tuple[int, int], ...]:
    pairs = enumerate(zip(before, after, strict=True))
    return tuple((at, new - old) for at, (old, new) in pairs if new != old)


def _assembled(values: tuple[Load, ...], cells: tuple[Load, ...], count: int, constants: int) -> Question:
    """The question of a function with so many names and constants of its own."""
    seat = Seat(names.SWITCHBOARD, 0)
    asm = Assembler(NOWHERE, LINE)
    asm.names, asm.consts, asm.depth = [*map(str, range(count)), *added(seat)], [None] * constants, 0
    Asking(asm, "", names.ENTER).ask(seat, values, cells)
    data, regions = asm.piece()
    return Question(data, tuple(regions), asm.depth, tables.locations(len(data) // 2, 0, LINE))
