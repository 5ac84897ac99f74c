"""Continuations as blocks behind the body of a function: its code, with places where it goes on after a break.

Behind the body, which stays as it is, stands for each known point:

    unpack the state into variables and stack
    the broken operation, and the questions behind it; None: jump into the body there

and at the very end the switch, which every question that is answered by a
break leads to. It looks at the continuation's `block`: a label of this code
jumps to that block; for any other the state is handed on. So a frame goes on
itself from break to break, however many there are, and code with fewer blocks
than are known today is right as well. Labels are compared by `is`. Jumps are
those that TorchDynamo knows in this Python: it may go through the code.

In front of the body stands one of two things. A *stub* asks the function's own
dispatcher; its frame is the one that broke, and nothing else shows. A *host*
takes state and continuation as its two arguments and goes to the switch: it
continues what broke in another frame.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from types import CodeType
from typing import NamedTuple

from aotdyn.rewrite import dialect, names, protocol, tables
from aotdyn.rewrite.assembler import Assembler, Chunk, Handler, Label
from aotdyn.rewrite.dialect import header_units, version
from aotdyn.rewrite.frames import VARARGS, VARKEYWORDS
from aotdyn.rewrite.operation import Operation
from aotdyn.rewrite.stubs import arguments, cell_indices
from aotdyn.rewrite.tables import Position
from aotdyn.rewrite.unpack import unpack
from aotdyn.runtime.variant import ResumePoint


class Block(NamedTuple):
    """A point, under a label, and the names of dispatchers behind it that have others than `dispatcher_name` gives."""

    label: str
    point: ResumePoint
    asks: Mapping[str, str] = {}


def possible(code: CodeType, point: ResumePoint) -> bool:
    """Whether a stub of `code` can have a block for `point`: where its stack has NULLs, it needs a plain local."""
    return _plain(code) >= 0 or not any("n" in spec.stack for spec in point.exits)


def stub(code: CodeType, dispatcher: str, blocks: Sequence[Block], asked: Sequence[str] = ()) -> CodeType:
    """The stub of the original `code`, as `stubs.stub` makes it, with blocks; each must be `possible`.

    `asked` are the names by which a stub without blocks finds the dispatcher.
    """
    return Stub(code, dispatcher, blocks, asked).build()


def asked_by(stub: CodeType, original: CodeType) -> tuple[str, ...]:
    """The names by which a stub finds its dispatcher: they stand behind those of the original."""
    return stub.co_names[len(original.co_names) : stub.co_names.index(names.FIX)]


def host(code: CodeType, blocks: Sequence[Block]) -> CodeType:
    """The code of a function `(state, continuation)` that goes on in one of the blocks of the original `code`.

    Returns what the function would, or what `__aotdyn_pending(state, k)` makes
    where it meets a continuation without a block. Its free variables are the
    original's; any cells do for them, since it takes those of the state.
    """
    return Host(code, blocks).build()


def _plain(code: CodeType) -> int:
    """A local that may lose its value where the frame ends or hands its state over; -1: all are cells."""
    plain = [i for i, name in enumerate(code.co_varnames) if name not in code.co_cellvars]
    return plain[-1] if plain else -1


class Blocks:
    """Builds a body with blocks; `front` puts something before it, `rest` says what becomes of other states."""

    own_names: tuple[str, ...]
    "the names that it uses, right behind the original's: see originals.dispatcher_of"

    def __init__(self, code: CodeType, blocks: Sequence[Block], pad: int = 0) -> None:
        """With `pad` locals more than the original has."""
        self.code, self.blocks = code, blocks
        header = header_units(code)
        self.header_locations, rest = tables.split_locations(code.co_linetable, header)
        last = next(islice(code.co_positions(), header - 1, None))[0]
        line = code.co_firstlineno if last is None else last
        self.start = Position(line)
        self.asm = Assembler(code, self.start)
        self.asm.names += self.own_names
        self.varnames = code.co_varnames + tuple(f".{i}" for i in range(pad))
        indices = cell_indices(code)
        self.moved = {i: i + pad for i in indices if pad and i >= code.co_nlocals}
        self.cells = [self.moved.get(i, i) for i in indices]
        body = move_cells(code.co_code, self.moved)
        self.body = Chunk(body, header, len(body) // 2, rest, line, tables.last_line(code))
        self.scratch = len(self.varnames) - 1 if pad else _plain(code)
        self.switch = Label()

    def build(self) -> CodeType:
        """The code."""
        asm = self.asm
        self.front()
        asm.put(self.body)
        places = [self._block(block) for block in self.blocks]
        self.more()
        asm.position = self.start
        self._choose(places)
        data, locations, regions = asm.finish()
        return self.finished(
            self.code.replace(
                co_code=data,
                co_linetable=locations,
                co_exceptiontable=tables.encode_regions(self.redirected(regions)),
                co_names=tuple(asm.names),
                co_consts=tuple(asm.consts),
                co_varnames=self.varnames,
                co_nlocals=len(self.varnames),
                co_stacksize=asm.depth,
            )
        )

    def front(self) -> None:
        """What stands before the body."""
        raise NotImplementedError

    def hand_on(self) -> None:
        """Returns with what a state comes to that no block takes; it and its continuation are on the stack."""
        raise NotImplementedError

    def cell_places(self) -> Sequence[int] | None:
        """Where the cells of a state go; None where the frame has them."""
        return None

    def finished(self, code: CodeType) -> CodeType:
        """The code, with other arguments perhaps."""
        return code

    def more(self) -> None:
        """What stands between blocks and switch: nothing, but for tests that break in a frame's own handlers."""

    def redirected(self, regions: list[tables.Region]) -> list[tables.Region]:
        """The exception table, as such tests want it."""
        return regions

    def loads(self) -> list[protocol.Load]:
        """Instructions that push the cells."""
        return [("LOAD_CLOSURE", index) for index in self.cells]

    def _block(self, block: Block) -> Label:
        asm, point = self.asm, block.point
        if self.scratch < 0 and not possible(self.code, point):
            raise ValueError(f"no local of {self.code.co_qualname} can take a NULL from the stack")
        place = Label()
        operation = Operation(asm, self.code, point, self.body, self.moved)
        asm.position = operation.position
        asm.put(place)
        unpack(asm, self.code, point, self.cell_places())
        operation.follow(operation.run(), self.switch, self.scratch, self.loads(), block.asks)
        return place

    def _choose(self, places: Sequence[Label]) -> None:
        """The switch, which finds continuation and state on the stack."""
        asm = self.asm
        failed = Label()
        asm.need(8)
        asm.put(self.switch)
        with asm.under(Handler(failed, 0)):
            asm.ops(("COPY", 2), ("LOAD_ATTR", asm.name("block")))
        for block, place in zip(self.blocks, places, strict=True):
            other = Label()
            asm.ops(("COPY", 1), ("LOAD_CONST", asm.const(block.label)), ("IS_OP", 0))
            asm.op("POP_JUMP_FORWARD_IF_FALSE", other)
            asm.ops(("POP_TOP", 0), ("SWAP", 2), ("POP_TOP", 0))
            asm.op("JUMP_BACKWARD", place)
            asm.put(other)
        asm.op("POP_TOP")
        for i, name in enumerate(self.code.co_varnames):
            if name not in self.code.co_cellvars:
                # The state has them now: a local that the user deletes in what follows must not live on here.
                asm.ops(("PUSH_NULL", 0), ("STORE_FAST", i))
        with asm.under(Handler(failed, 0)):
            self.hand_on()
        asm.op("RETURN_VALUE")
        asm.put(failed)
        protocol.Asking(asm, "", self.switch).fail()


class Stub(Blocks):
    """Blocks behind a stub."""

    def __init__(self, code: CodeType, dispatcher: str, blocks: Sequence[Block], asked: Sequence[str] = ()) -> None:
        self.dispatcher = dispatcher
        self.own_names = (*(asked or (dispatcher,)), names.FIX, names.ENTER)
        super().__init__(code, blocks)

    def front(self) -> None:
        header, line = header_units(self.code), self.start.line
        assert line is not None
        self.asm.put(Chunk(self.code.co_code, 0, header, self.header_locations, self.code.co_firstlineno, line))
        protocol.Asking(self.asm, "", self.switch).ask(self.dispatcher, *arguments(self.code))

    def hand_on(self) -> None:
        protocol.call_with_state(self.asm, names.ENTER)


class Host(Blocks):
    """Blocks behind arguments that say where to go on."""

    own_names = (names.PENDING, names.FIX)

    def __init__(self, code: CodeType, blocks: Sequence[Block]) -> None:
        # Two locals for the arguments, one of all that isn't a cell.
        super().__init__(code, blocks, max(2 - code.co_nlocals, int(_plain(code) < 0)))

    def front(self) -> None:
        asm, code = self.asm, self.code
        if code.co_freevars:
            asm.op("COPY_FREE_VARS", len(code.co_freevars))
        asm.ops(("LOAD_FAST", 1), ("LOAD_FAST", 0))
        # Storing NULL unbinds.
        asm.ops(("PUSH_NULL", 0), ("STORE_FAST", 0), ("PUSH_NULL", 0), ("STORE_FAST", 1))
        for index in self.cells[: len(code.co_cellvars)]:
            # Frames find out by MAKE_CELL whether a place holds a cell (PyFrame_FastToLocals).
            asm.op("MAKE_CELL", index)
        asm.op("RESUME", 0)
        asm.op("JUMP_FORWARD", self.switch)
        asm.op("NOP")  # the last unit before a chunk lends its line

    def hand_on(self) -> None:
        protocol.call_with_state(self.asm, names.PENDING)

    def cell_places(self) -> Sequence[int]:
        return self.cells

    def finished(self, code: CodeType) -> CodeType:
        flags = code.co_flags & ~(VARARGS | VARKEYWORDS)
        return code.replace(co_argcount=2, co_posonlyargcount=2, co_kwonlyargcount=0, co_flags=flags)


def move_cells(data: bytes, moved: Mapping[int, int]) -> bytes:
    """`data` with cells' indices replaced. Raises ValueError where one needs more bytes than it has."""
    if not moved:
        return data
    out = bytearray(data)
    for ins in dialect.instructions(data):
        if ins.op not in version.DEREF:
            continue
        new = moved.get(ins.arg, ins.arg)
        if new >> 8 * ((ins.offset - ins.start) // 2 + 1):
            raise ValueError("too many cells, and too few other variables")
        for at in range(ins.offset, ins.start - 2, -2):
            out[at + 1] = new & 255
            new >>= 8
    return bytes(out)
