"""Reading bytecode: decoded instructions, operations, jumps, and stacks by letters.

A *stack* is written as in a FrameSpec, one letter a slot, bottom first: `v` a
value, `n` NULL, `e` the exception state saved by PUSH_EXC_INFO under the `v`
that is the exception being handled. Most of an `except` body runs with that
exception popped while the saved state stays: this is written `evp`, one slot
of the real stack whose exception is still a value of the state. In here that
slot is the single letter `h`: see `slots` and `letters`.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Sequence
from functools import lru_cache
from types import CodeType
from typing import NamedTuple

import msgspec

if sys.version_info[:2] == (3, 11):
    from aotdyn.rewrite import cpython311 as version
else:
    raise ImportError(f"aotdyn has no bytecode dialect for Python {sys.version.split()[0]}")


_RESUME = dis.opmap["RESUME"]


class Instruction(NamedTuple):
    """One instruction: byte offsets of its first EXTENDED_ARG, of its opcode, and behind its inline cache."""

    op: str
    arg: int
    start: int
    offset: int
    end: int


class Exit(msgspec.Struct, frozen=True):
    """Where an operation may lead: byte offset, slots of the stack there, and whether by a jump."""

    offset: int
    slots: str
    jump: bool


@lru_cache(maxsize=16)
def instructions(data: bytes) -> tuple[Instruction, ...]:
    """The instructions of `co_code`, EXTENDED_ARG folded in and caches skipped."""
    result = []
    at = start = arg = 0
    while at < len(data):
        number = data[at]
        arg = arg << 8 | data[at + 1]
        end = at + 2 + 2 * version.CACHES.get(number, 0)
        if number != dis.EXTENDED_ARG:
            result.append(Instruction(dis.opname[number], arg, start, at, end))
            start, arg = end, 0
        at = end
    return tuple(result)


def header_units(code: CodeType) -> int:
    """Units up to and with RESUME: making cells, copying free variables."""
    return code.co_code[::2].index(_RESUME) + 1


def operation(program: Sequence[Instruction], offset: int) -> list[Instruction]:
    """The instructions of the operation that the byte `offset` belongs to: one, or a call's group."""
    at = next((i for i, ins in enumerate(program) if ins.start <= offset < ins.end), None)
    if at is None:
        raise ValueError(f"no instruction at offset {offset}")
    first = last = at
    group = version.CALL_GROUP
    if program[at].op in group:
        while program[last].op != group[-1]:
            last += 1
        while first and program[first - 1].op in group[: group.index(program[first].op)]:
            first -= 1
    return list(program[first : last + 1])


def target(ins: Instruction) -> int | None:
    """Byte offset that `ins` may jump to, None if it doesn't jump."""
    if ins.op not in version.CONDITIONAL and ins.op not in version.UNCONDITIONAL:
        return None
    return ins.end + (-2 if "BACKWARD" in ins.op else 2) * ins.arg


def exits(ins: Instruction, before: str) -> list[Exit]:
    """Where `ins` leads from the stack `before` (slots); none for what only raises."""
    jump = target(ins)
    found = []
    if ins.op not in version.UNCONDITIONAL and ins.op not in version.NEVER_BACK:
        found.append(Exit(ins.end, after(ins, before), False))
    if jump is not None:
        found.append(Exit(jump, after(ins, before, True), True))
    return found


def after(ins: Instruction, before: str, jump: bool = False) -> str:
    """Slots behind `ins`, from the slots `before`."""
    slot = list(before)
    if ins.op == "SWAP":
        slot[-1], slot[-ins.arg] = slot[-ins.arg], slot[-1]
    elif ins.op == "COPY":
        slot.append("v" if slot[-ins.arg] in "eh" else slot[-ins.arg])
    elif ins.op == "PUSH_EXC_INFO":
        slot[-1:] = "ev"
    elif ins.op == "POP_EXCEPT":
        if slot.pop() == "v":  # a copy of the saved state: the original is a mere value from here on
            saved = max(i for i, letter in enumerate(slot) if letter in "eh")
            slot[saved] = "v"
    else:
        pops, pushes = version.effect(ins.op, ins.arg, jump)
        if pops > len(slot):
            raise ValueError(f"{ins.op} takes {pops} slots, the stack is {before!r}")
        for _ in range(pops):
            _pop(slot)
        slot.extend(pushes)
        if ins.op in version.CHOOSES:
            at = max(i for i, letter in enumerate(slot) if letter in "eh")
            slot[at] = "h"
    return "".join(slot)


def _pop(slot: list[str]) -> None:
    popped = slot.pop()
    if popped == "v" and slot and slot[-1] == "e":
        slot[-1] = "h"


def slots(stack: str) -> str:
    """A FrameSpec's stack as one letter a real slot: `evp` becomes `h`. Raises ValueError if it is malformed."""
    found = stack.replace("evp", "h")
    if set(found) - set("vneh") or "e" in found.replace("ev", ""):
        raise ValueError(f"malformed stack {stack!r}: each `e` stands under the `v` of its exception")
    return found


def letters(slot: str) -> str:
    """Slots as a FrameSpec's stack. Raises ValueError where a saved state's exception isn't right above it."""
    if "e" in slot.replace("ev", ""):
        raise ValueError(f"the exception of a saved state isn't above it in {slot!r}")
    return slot.replace("h", "evp")
