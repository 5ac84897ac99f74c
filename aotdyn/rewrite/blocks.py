"""Continuations as blocks in the function's own code: the frame that broke goes on itself.

A stub with blocks is the stub, then behind the body, for each known point:

    unpack the state into variables and stack
    the broken operation, and the questions behind it; None: jump into the body there

and at the very end the switch, which every question that is answered by a
break leads to. It looks at the continuation's `block`: a number of this code
jumps to that block, any other enters the continuation's function form. So the
frame stays the same from break to break, whatever the number of breaks, and
code with fewer blocks than are known today is right as well.
"""

from __future__ import annotations

import dis
from collections.abc import Mapping, Sequence
from itertools import islice
from types import CodeType
from typing import NamedTuple

from aotdyn.rewrite import dialect, names, protocol, tables
from aotdyn.rewrite.assembler import Assembler, Chunk, Handler, Label
from aotdyn.rewrite.dialect import header_units, version
from aotdyn.rewrite.operation import Operation
from aotdyn.rewrite.stubs import arguments, cell_indices
from aotdyn.rewrite.tables import Position
from aotdyn.runtime.variant import ResumePoint

EQUAL, LESS = dis.cmp_op.index("=="), dis.cmp_op.index("<")
GARBAGE = -1


class Block(NamedTuple):
    """A point, and the names of dispatchers behind it that have others than `dispatcher_name` gives."""

    point: ResumePoint
    asks: Mapping[str, str] = {}


def possible(code: CodeType, point: ResumePoint) -> bool:
    """Whether the original `code` can have a block for `point`: where its stack has NULLs, it needs a plain local."""
    return _scratch(code) >= 0 or not any("n" in spec.stack for spec in point.exits)


def stub(code: CodeType, dispatcher: str, blocks: Sequence[Block], within: tuple[str, str] | None = None) -> CodeType:
    """The stub of the original `code`, as `stubs.stub` makes it, with a block for each point.

    The number of a block is its index. `within` names builtins that are called
    around each operation: see `Operation`. Raises ValueError for a point that
    isn't possible.
    """
    return Stub(code, dispatcher, blocks, within).build()


def _scratch(code: CodeType) -> int:
    """A local that may lose its value where the frame ends or hands its state over; -1: all are cells."""
    plain = [i for i, name in enumerate(code.co_varnames) if name not in code.co_cellvars]
    return plain[-1] if plain else -1


class Stub:
    """Builds one stub with blocks."""

    def __init__(
        self, code: CodeType, dispatcher: str, blocks: Sequence[Block], within: tuple[str, str] | None = None
    ) -> None:
        self.code, self.dispatcher, self.blocks, self.within = code, dispatcher, blocks, within
        header = header_units(code)
        head, rest = tables.split_locations(code.co_linetable, header)
        last = next(islice(code.co_positions(), header - 1, None))[0]
        first = code.co_firstlineno
        self.start = Position(first if last is None else last)
        assert self.start.line is not None
        self.asm = Assembler(code, self.start)
        self.asm.names += [dispatcher, names.FIX, names.ENTER]
        self.head = Chunk(code.co_code, 0, header, head, first, self.start.line)
        units = len(code.co_code) // 2
        self.body = Chunk(code.co_code, header, units, rest, self.start.line, tables.last_line(code))
        self.cells: list[protocol.Load] = [("LOAD_CLOSURE", index) for index in cell_indices(code)]
        self.scratch = _scratch(code)
        self.switch = Label()

    def build(self) -> CodeType:
        """The code."""
        asm, code = self.asm, self.code
        asm.put(self.head)
        protocol.Asking(asm, "", self.switch).ask(self.dispatcher, *arguments(code))
        asm.put(self.body)
        places = [self._block(block) for block in self.blocks]
        self.more()
        asm.position = self.start
        self._choose(places)
        data, locations, regions = asm.finish()
        return code.replace(
            co_code=data,
            co_linetable=locations,
            co_exceptiontable=tables.encode_regions(self.redirected(regions)),
            co_names=tuple(asm.names),
            co_consts=tuple(asm.consts),
            co_stacksize=asm.depth,
        )

    def more(self) -> None:
        """What stands between blocks and switch: nothing, but for tests that break in a frame's own handlers."""

    def redirected(self, regions: list[tables.Region]) -> list[tables.Region]:
        """The exception table, as such tests want it."""
        return regions

    def _block(self, block: Block) -> Label:
        asm, point = self.asm, block.point
        if not possible(self.code, point):
            raise ValueError(f"no local of {self.code.co_qualname} can take a NULL from the stack")
        place = Label()
        operation = Operation(asm, self.code, point, self.body, {}, self.within)
        asm.position = operation.position
        asm.put(place)
        self._unpack(point)
        operation.follow(
            operation.run(), self.switch, self.scratch, self.cells, block.asks, "JUMP_BACKWARD_NO_INTERRUPT"
        )
        return place

    def _unpack(self, point: ResumePoint) -> None:
        """Variables and stack from the state on top of the stack.

        Its items lie on the stack at first, the last one undermost. What the
        stack is to hold besides them is pushed, all is put in order by SWAPs,
        and what isn't needed, which comes to lie on top, is dropped.
        """
        asm, params = self.asm, point.frame.params
        values = point.frame.stack.count("v")
        count = len(params) + values + 2 * point.inner + len(point.frame.cells)
        asm.op("UNPACK_SEQUENCE", count)
        for name in self.code.co_varnames:
            if name not in params and name not in self.code.co_cellvars:
                # Storing NULL unbinds, without the error that DELETE_FAST may raise.
                asm.ops(("PUSH_NULL", 0), ("STORE_FAST", self.code.co_varnames.index(name)))
        for name in params:
            asm.op("STORE_FAST", self.code.co_varnames.index(name))
        given = count - len(params)
        # Items of the state by number, as they lie; those of the cells are in the frame already.
        held = [i if i < values + 2 * point.inner else GARBAGE for i in reversed(range(given))]
        wanted = self._slots(point, held)
        asm.need(count + len(wanted) + 8)
        self._arrange(held, wanted)

    def _slots(self, point: ResumePoint, held: list[int]) -> list[int]:
        """Push what isn't in the state; the numbers of all items in the order of the stack.

        `held` gets the numbers of the pushed ones, which are told apart only
        where they differ.
        """
        asm = self.asm
        null, function, saved = 10_000, 10_001, 10_002
        wanted: list[int] = []
        item = 0
        slots = dialect.slots(point.frame.stack)
        for slot, before in zip(slots, " " + slots, strict=False):
            if slot == "n":
                asm.op("PUSH_NULL")
                held.append(null)
                wanted.append(null)
                continue
            if slot in "eh":
                asm.op("COPY", len(held) - held.index(item))
                asm.ops(("PUSH_EXC_INFO", 0), ("POP_TOP", 0))
                held.append(saved)
                wanted.append(saved)
                saved += 1
                if slot == "h":
                    held[held.index(item)] = GARBAGE
                    item += 1
                continue
            assert before != "e" or wanted[-1] == saved - 1
            wanted.append(item)
            item += 1
        if point.inner:
            asm.ops(version.global_function(asm.name(names.ENTER)))
            held += [null, function]
            wanted += [null, function, item, item + 1]
        return wanted

    def _arrange(self, held: list[int], wanted: Sequence[int]) -> None:
        """Put the stack, whose upper part is `held`, in the order of `wanted`, and drop the rest."""
        asm = self.asm
        for place, item in enumerate(wanted):
            if held[place] == item:
                continue
            found = held.index(item, place)
            for at in (found, place):
                top = len(held) - 1
                if at != top:
                    asm.op("SWAP", top - at + 1)
                    held[at], held[top] = held[top], held[at]
        for _ in range(len(held) - len(wanted)):
            asm.op("POP_TOP")

    def _choose(self, places: Sequence[Label]) -> None:
        """The switch, which finds continuation and state on the stack."""
        asm = self.asm
        enter, failed = Label(), Label()
        asm.need(8)
        asm.put(self.switch)
        with asm.under(Handler(failed, 0)):
            asm.ops(("COPY", 2), ("LOAD_ATTR", asm.name("block")))
        self._search(places, 0, enter)
        asm.put(enter)
        for i, name in enumerate(self.code.co_varnames):
            if name not in self.code.co_cellvars:
                # The state has them now: a local that the user deletes in what follows must not live on here.
                asm.ops(("PUSH_NULL", 0), ("STORE_FAST", i))
        with asm.under(Handler(failed, 0)):
            protocol.call_with_state(asm, names.ENTER)
        asm.op("RETURN_VALUE")
        asm.put(failed)
        protocol.Asking(asm, "", self.switch).fail()

    def _search(self, places: Sequence[Label], first: int, enter: Label) -> None:
        """Jump to the block whose number is on top, `first` being that of the first place; else to `enter`."""
        asm = self.asm
        half = len(places) // 2
        if half:
            upper = Label()
            asm.ops(("COPY", 1), ("LOAD_CONST", asm.const(first + half)), ("COMPARE_OP", LESS))
            asm.op("POP_JUMP_FORWARD_IF_FALSE", upper)
            self._search(places[:half], first, enter)
            asm.put(upper)
            self._search(places[half:], first + half, enter)
        elif places:
            asm.ops(("LOAD_CONST", asm.const(first)), ("COMPARE_OP", EQUAL))
            asm.op("POP_JUMP_FORWARD_IF_FALSE", enter)
            asm.ops(("SWAP", 2), ("POP_TOP", 0))
            asm.op("JUMP_BACKWARD_NO_INTERRUPT", places[0])
        else:
            asm.op("POP_TOP")
