"""The instructions of a code object as the frame runs them: decoded once and kept for each code object.

EXTENDED_ARG and inline caches are folded away; jumps name the index of their
target. An instruction's `offset` is that of its first byte, prefixes included.
"""

from __future__ import annotations

import dis
import types
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

JUMPS = frozenset(dis.hasjrel + dis.hasjabs)


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction. `target` is the index of the instruction that a jump goes to, -1 for others."""

    opname: str
    arg: int
    argval: Any
    offset: int
    target: int


@dataclass(frozen=True, slots=True)
class Handler:
    """What the exception table says of an instruction: where to, at which stack depth, and whether to push lasti."""

    target: int
    depth: int
    lasti: bool


@dataclass(frozen=True, slots=True, eq=False)
class Decoded:
    """A code object's instructions, the index of each offset, the handler and the line of each instruction."""

    instructions: tuple[Instruction, ...]
    index: dict[int, int]
    handlers: tuple[Handler | None, ...]
    lines: tuple[int, ...]


def _read(code: types.CodeType) -> tuple[list[tuple[int, dis.Instruction]], dict[int, int]]:
    """The instructions with the offset of their first prefix, and the index of every offset that has one."""
    found: list[tuple[int, dis.Instruction]] = []
    index: dict[int, int] = {}
    start: int | None = None
    for ins in dis.get_instructions(code):
        start = ins.offset if start is None else start
        index[ins.offset] = len(found)
        if ins.opname != "EXTENDED_ARG":
            found.append((start, ins))
            start = None
    return found, index


@lru_cache(maxsize=4096)
def decode(code: types.CodeType) -> Decoded:
    """Decode `code`. Code objects that compare equal have equal instructions, so they share the result's parts
    that matter here; lines are part of that comparison too."""
    found, index = _read(code)
    instructions = tuple(
        Instruction(
            ins.opname,
            ins.arg or 0,
            code.co_consts[ins.arg or 0] if ins.opname == "KW_NAMES" else ins.argval,  # dis doesn't resolve it
            start,
            index[ins.argval] if ins.opcode in JUMPS else -1,
        )
        for start, ins in found
    )
    handlers: list[Handler | None] = [None] * len(instructions)
    # The table's entries are disjoint and sorted (Objects/exception_handling_notes.txt).
    for entry in dis._parse_exception_table(code):  # type: ignore[attr-defined]
        handler = Handler(index[entry.target], entry.depth, entry.lasti)
        for i, ins in enumerate(instructions):
            if entry.start <= ins.offset < entry.end:
                handlers[i] = handler
    positions = list(code.co_positions())
    lines = tuple(positions[ins.offset // 2][0] or code.co_firstlineno for _, ins in found)
    return Decoded(instructions, index, tuple(handlers), lines)
