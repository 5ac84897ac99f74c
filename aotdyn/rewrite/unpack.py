"""A frame's variables and stack from the state tuple of a break.

The items of the state lie on the stack at first, the last one undermost. What
the stack is to hold besides them, NULLs and exception states, is pushed; all
is put in order by SWAPs; and what the stack doesn't keep, which comes to lie
on top, is stored or dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import CodeType

from aotdyn.rewrite import dialect
from aotdyn.rewrite.assembler import Assembler
from aotdyn.runtime.variant import ResumePoint

Item = tuple[str, int]
"""One thing on the stack: `value` or `cell` with its number in the state, `null`, `saved` exception state, `inner`."""


def unpack(asm: Assembler, code: CodeType, point: ResumePoint, cells: Sequence[int] | None = None) -> None:
    """Instructions that take the state from the top of the stack, and leave the frame as the point wants it.

    With `point.inner` they leave the inner continuation and state on top.
    `cells` are the places of cells; None: the frame has them already.
    """
    params, stack = point.frame.params, point.frame.stack
    values, count = stack.count("v"), len(point.frame.cells)
    total = len(params) + values + 2 * point.inner + count
    asm.op("UNPACK_SEQUENCE", total)
    for i, name in enumerate(code.co_varnames):
        if name not in params and name not in code.co_cellvars:
            # Storing NULL unbinds, without the error that DELETE_FAST may raise.
            asm.ops(("PUSH_NULL", 0), ("STORE_FAST", i))
    for name in params:
        asm.op("STORE_FAST", code.co_varnames.index(name))
    held: list[Item] = [("cell", i) for i in reversed(range(count))]
    held += [("inner", i) for i in reversed(range(2 * point.inner))]
    held += [("value", i) for i in reversed(range(values))]
    wanted = _push(asm, stack, held)
    if point.inner:
        wanted += [("inner", 1), ("inner", 0)]
    asm.need(total + len(wanted) + 8)
    _arrange(asm, held, wanted)
    for kind, i in reversed(held[len(wanted) :]):
        if kind == "cell" and cells is not None:
            asm.op("STORE_FAST", cells[i])
        else:
            asm.op("POP_TOP")


def _push(asm: Assembler, stack: str, held: list[Item]) -> list[Item]:
    """Push what isn't in the state, noting it in `held`; gives what the stack is to hold, in order."""
    wanted: list[Item] = []
    value = 0
    for number, slot in enumerate(dialect.slots(stack)):
        item: Item = ("null", 0)
        if slot == "v":
            item = ("value", value)
            value += 1
        elif slot == "n":
            asm.op("PUSH_NULL")
            held.append(item)
        else:
            item = ("saved", number)
            asm.op("COPY", len(held) - held.index(("value", value)))
            asm.ops(("PUSH_EXC_INFO", 0), ("POP_TOP", 0))
            held.append(item)
            value += slot == "h"  # the exception is handled, and not on the stack
        wanted.append(item)
    return wanted


def _arrange(asm: Assembler, held: list[Item], wanted: Sequence[Item]) -> None:
    """Put the stack, whose upper part is `held`, in the order of `wanted`, the rest above it."""
    top = len(held) - 1
    for place, item in enumerate(wanted):
        if held[place] == item:
            continue
        for at in (held.index(item, place), place):
            if at != top:
                asm.op("SWAP", top - at + 1)
                held[at], held[top] = held[top], held[at]
