"""The broken operation, run natively by what resumes: a copy of its instructions and the questions behind it.

Continuation functions and blocks put it in front of their jumps into the
body. It stands under the handlers and at the lines that it has there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import CodeType

from aotdyn.rewrite import dialect, protocol, tables
from aotdyn.rewrite.assembler import Assembler, Chunk, Handler, Label
from aotdyn.rewrite.dialect import Instruction, version
from aotdyn.rewrite.frames import dispatcher_name
from aotdyn.rewrite.tables import Position
from aotdyn.runtime.variant import ResumePoint


class Operation:
    """The operation of a resume point, in the code that `asm` makes around `body`.

    Args:
        code: the original.
        body: the chunk of the original that holds all of its instructions behind the header.
        moved: from a cell's index in the original to that in `body`, where it has another.
    """

    def __init__(
        self, asm: Assembler, code: CodeType, point: ResumePoint, body: Chunk, moved: Mapping[int, int]
    ) -> None:
        self.asm, self.code, self.point, self.body, self.moved = asm, code, point, body, moved
        self.group = dialect.operation(dialect.instructions(code.co_code), point.frame.offset)
        self.handler = self._handler(self.group[-1].offset)
        self._positions = [Position(*position) for position in code.co_positions()]

    @property
    def position(self) -> Position:
        """Where the operation stands in the source."""
        return self._position(self.group[-1])

    def _position(self, ins: Instruction) -> Position:
        position = self._positions[ins.offset // 2]
        return Position(self.code.co_firstlineno) if position.line is None else position

    def _handler(self, offset: int) -> Handler | None:
        """The handler that the instruction at a byte offset is under in the body."""
        unit = offset // 2
        for start, end, to, depth, lasti in tables.regions(self.code):
            if start <= unit < end:
                return Handler(self.body.label(2 * to), depth, lasti)
        return None

    def run(self) -> list[Label | None]:
        """The operation; gives for each exit the label it jumps to, None where it falls through.

        The stack before holds the point's slots; with `inner`, the inner
        frame's continuation and state above them.
        """
        asm, last, jump = self.asm, self.group[-1], Label()
        with asm.under(self.handler):
            if self.point.inner:
                protocol.run_inner(asm)
                return [None]
            for ins in self.group:
                asm.position = self._position(ins)
                if ins.op in version.CONDITIONAL:
                    asm.op(version.forward(ins.op), jump)
                elif ins.op not in version.UNCONDITIONAL:
                    arg = self.moved.get(ins.arg, ins.arg) if ins.op in version.DEREF else ins.arg
                    asm.ops(*version.static_form(ins.op, arg))
        return [None, jump] if last.op in version.CONDITIONAL else [None] * len(self.point.exits)

    def follow(
        self,
        jumped: Sequence[Label | None],
        hand_over: Label,
        scratch: int,
        cells: Sequence[protocol.Load],
        asks: Mapping[str, str],
    ) -> None:
        """Behind each exit the question to the dispatcher of what follows, and a jump back into the body.

        Args:
            jumped: what `run` gave.
            hand_over, scratch: as for `protocol.Asking`.
            cells: loads of the frame's cells.
            asks: the names of dispatchers that have others than `dispatcher_name` gives.
        """
        asm, code = self.asm, self.code
        for spec, label in zip(self.point.exits, jumped, strict=True):
            if label is not None:
                asm.put(label)
            values: list[protocol.Load] = [("LOAD_FAST", code.co_varnames.index(name)) for name in spec.params]
            name = dispatcher_name(spec)
            asking = protocol.Asking(asm, dialect.slots(spec.stack), hand_over, scratch)
            asking.ask(asks.get(name, name), values, cells)
            with asm.under(self._handler(spec.offset)):  # a signal may come at the jump
                asm.op("JUMP_BACKWARD", self.body.label(spec.offset))
