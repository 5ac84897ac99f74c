"""Putting code together: generated instructions around chunks of an untouched original.

Bytes are spliced, not re-made by a bytecode library: since 3.11 all jumps are
relative, so a body keeps its bytes, its inline caches and its rows of the
location table wherever it is moved to, and only its exception table is
shifted. That costs some ten microseconds a function where disassembling
and assembling it again costs half a millisecond, and imports nothing.
"""

from __future__ import annotations

import dis
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType

import msgspec

from aotdyn.rewrite import tables
from aotdyn.rewrite.dialect import version
from aotdyn.rewrite.tables import Position, Region


class Label:
    """A place in the code, known once it is assembled."""

    def __init__(self, chunk: Chunk | None = None, unit: int = 0) -> None:
        self.chunk = chunk
        self._unit = unit

    @property
    def unit(self) -> int:
        """Number of the code unit."""
        return self._unit + (self.chunk.at if self.chunk else 0)

    @unit.setter
    def unit(self, value: int) -> None:
        self._unit = value


class Chunk:
    """Units `first` to `last` of an original, with their location rows, which count from line `before`."""

    def __init__(self, data: bytes, first: int, last: int, locations: bytes, before: int, after: int) -> None:
        self.data = data[2 * first : 2 * last]
        self.first, self.last = first, last
        self.locations = locations
        self.before, self.after = before, after
        self.at = 0

    def label(self, offset: int) -> Label:
        """The place of the original's byte `offset`."""
        return Label(self, offset // 2 - self.first)


class Handler(msgspec.Struct, frozen=True):
    """Where an exception goes, and the depth that the stack is cut to."""

    label: Label
    depth: int
    lasti: bool = False


class Op:
    """One generated instruction; a label as argument is a jump."""

    def __init__(self, name: str, arg: int | Label, position: Position, handler: Handler | None) -> None:
        self.name, self.arg, self.position, self.handler = name, arg, position, handler
        number = dis.opmap[name]
        self.tail = b"\0\0" * version.CACHES.get(number, 0)
        self.extended = 0 if isinstance(arg, Label) else max(0, (arg.bit_length() - 1) // 8)
        self.at = 0

    @property
    def units(self) -> int:
        """Size in code units."""
        return self.extended + 1 + len(self.tail) // 2

    def value(self) -> int:
        """The argument, a jump's distance where it is one."""
        if not isinstance(self.arg, Label):
            return self.arg
        ahead = self.arg.unit - (self.at + self.units)
        distance = -ahead if "BACKWARD" in self.name else ahead
        if distance < 0:
            raise ValueError(f"{self.name} jumps the wrong way")
        return distance

    def data(self) -> bytes:
        """The instruction's bytes, at its place."""
        value = self.value()
        out = bytearray()
        for shift in range(8 * self.extended, 0, -8):
            out += bytes((dis.EXTENDED_ARG, value >> shift & 255))
        return bytes(out + bytes((dis.opmap[self.name], value & 255)) + self.tail)


class Assembler:
    """Collects instructions, chunks and places in order; `names` and `consts` start as the original's."""

    def __init__(self, code: CodeType, position: Position) -> None:
        self.code = code
        self.position = position
        self.names = list(code.co_names)
        self.consts = list(code.co_consts)
        self.depth = code.co_stacksize
        self._items: list[Op | Chunk | Label] = []
        self._handler: Handler | None = None

    def op(self, name: str, arg: int | Label = 0) -> None:
        """Append an instruction at the current position, under the current handler."""
        if self._handler is not None and (isinstance(arg, Label) or arg > 255):
            last = self._items[-1] if self._items else None
            if not isinstance(last, Op) or last.handler != self._handler:
                # TorchDynamo can't put code together whose regions begin with EXTENDED_ARG.
                self._items.append(Op("NOP", 0, self.position, self._handler))
        self._items.append(Op(name, arg, self.position, self._handler))

    def ops(self, *instructions: tuple[str, int]) -> None:
        """Append several."""
        for name, arg in instructions:
            self.op(name, arg)

    def put(self, item: Label | Chunk) -> None:
        """A label's place is here; or a chunk follows here."""
        self._items.append(item)

    def name(self, name: str) -> int:
        """Index of `name` among the names, appended if it isn't there."""
        if name not in self.names:
            self.names.append(name)
        return self.names.index(name)

    def none(self) -> int:
        """Index of None among the constants."""
        return self.const(None)

    def const(self, value: object) -> int:
        """Index of None or a string among the constants, appended if this very object isn't there."""
        for index, known in enumerate(self.consts):
            if known is value:
                return index
        self.consts.append(value)
        return len(self.consts) - 1

    def need(self, depth: int) -> None:
        """The stack reaches `depth` slots."""
        self.depth = max(self.depth, depth)

    @contextmanager
    def under(self, handler: Handler | None) -> Iterator[None]:
        """Instructions appended meanwhile are under `handler`."""
        outer, self._handler = self._handler, handler
        yield
        self._handler = outer

    def finish(self) -> tuple[bytes, bytes, list[Region]]:
        """Bytes, location table and exception table of all that was appended.

        The original's regions follow its chunks, which must hold their targets
        as well.
        """
        self._place()
        data = b"".join(item.data if isinstance(item, Chunk) else item.data() for item in self._code())
        return data, self._locations(), self._own_regions() + self._moved_regions()

    def piece(self) -> tuple[bytes, list[Region]]:
        """The bytes of generated instructions alone, and their regions, from the first unit on."""
        self._place()
        return b"".join(item.data() for item in self._items if isinstance(item, Op)), self._own_regions()

    def _code(self) -> list[Op | Chunk]:
        return [item for item in self._items if not isinstance(item, Label)]

    def _place(self) -> None:
        """Give all items their units; jumps grow until each holds its distance."""
        settled = False
        while not settled:
            unit = 0
            for item in self._items:
                if isinstance(item, Label):
                    item.unit = unit
                else:
                    item.at = unit
                    unit += len(item.data) // 2 if isinstance(item, Chunk) else item.units
            settled = True
            for item in self._items:
                if isinstance(item, Op) and (extended := max(0, (item.value().bit_length() - 1) // 8)) > item.extended:
                    item.extended, settled = extended, False

    def _locations(self) -> bytes:
        out = bytearray()
        line = self.code.co_firstlineno
        code = self._code()
        at = 0
        while at < len(code):
            item = code[at]
            at += 1
            if isinstance(item, Chunk):
                out += item.locations
                line = item.after
                continue
            units, position = item.units, item.position
            follows = code[at] if at < len(code) else None
            while isinstance(follows, Op) and follows.position == position:
                units += follows.units
                at += 1
                follows = code[at] if at < len(code) else None
            to = line if position.line is None else position.line
            if isinstance(follows, Chunk) and follows.before != to:
                # A chunk's rows count from a line of their own: the unit before it leads there.
                out += tables.locations(units - 1, to - line, position)
                line = to if units > 1 else line
                out += tables.locations(1, follows.before - line, Position(follows.before))
                continue
            out += tables.locations(units, to - line, position)
            line = to
        return bytes(out)

    def _own_regions(self) -> list[Region]:
        found: list[Region] = []
        for item in self._items:
            if not isinstance(item, Op) or item.handler is None:
                continue
            label, depth, lasti = item.handler.label, item.handler.depth, item.handler.lasti
            region = Region(item.at, item.at + item.units, label.unit, depth, lasti)
            if found and found[-1].end == region.start and found[-1][2:] == region[2:]:
                region = found.pop()._replace(end=region.end)
            found.append(region)
        return found

    def _moved_regions(self) -> list[Region]:
        chunks = [item for item in self._items if isinstance(item, Chunk)]

        def moved(unit: int, end: bool = False) -> int:
            return next(c.at + unit - c.first for c in chunks if c.first <= unit - end < c.last)

        return [
            Region(moved(start), moved(stop, True), moved(to), depth, lasti)
            for start, stop, to, depth, lasti in tables.regions(self.code)
        ]
