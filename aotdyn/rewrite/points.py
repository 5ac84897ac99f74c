"""Resume points: what follows a break, as data and as the code of a continuation function.

A continuation function is the original body, byte for byte, behind a front:

    fill the variables and the stack from the arguments
    the broken operation, under the handlers and at the lines that it has in the body
    for each of its exits: ask the dispatcher of what follows; None: jump into the body there

Its positional parameters are the values of `point.frame.params`, the `v` slots
of the stack (bottom first) and, with `point.inner`, the inner state and
continuation. The cells come as its closure: `co_freevars` is
`point.frame.cells`. It returns what the function would, or what
`__aotdyn_pending(state, k)` makes, and its names, file and lines are the
original's.
"""

from __future__ import annotations

import marshal
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import CodeType

import msgspec

from aotdyn.rewrite import dialect, names, originals, protocol, tables
from aotdyn.rewrite.assembler import Assembler, Chunk
from aotdyn.rewrite.dialect import Instruction, version
from aotdyn.rewrite.operation import Operation, dispatcher_name, hashed
from aotdyn.rewrite.stubs import VARARGS, VARKEYWORDS, cell_indices
from aotdyn.rewrite.tables import Position
from aotdyn.runtime.variant import FrameSpec, ResumePoint


def resume_point(
    code: CodeType,
    module: str,
    qualname: str,
    digest: str,
    offset: int,
    bound: Iterable[str],
    stack: str,
    inner: bool = False,
) -> ResumePoint:
    """The point at the operation that the byte `offset` of `code` belongs to.

    `code` is the original. `bound` names the locals that are bound before it
    (cells and order don't matter), `stack` its stack before it. With `inner`
    the operation is a CALL and `stack` doesn't hold callee and arguments any
    more. Raises ValueError where no frame can resume: returns, `yield`.
    """
    code = originals.original(code)
    cells = code.co_cellvars + code.co_freevars
    group = dialect.operation(dialect.instructions(code.co_code), offset)
    last = group[-1]
    live = set(bound) - set(cells)

    def spec(at: int, alive: set[str], slots: str) -> FrameSpec:
        params = tuple(name for name in code.co_varnames if name in alive)
        return FrameSpec(module, qualname, digest, at, params, dialect.letters(slots), cells)

    frame = spec(group[0].start, live, dialect.slots(stack))
    if inner:
        if last.op not in version.CALLS:
            raise ValueError(f"no inner frame returns to {last.op}")
        ways = [dialect.Exit(last.end, dialect.slots(stack) + "v", False)]
    else:
        ways = dialect.exits(last, dialect.slots(stack))
    after = _bound_after(code, last, live)
    name = (
        f"{names.RESUME}{names.identifier(qualname)}_{hashed(module, digest, frame.offset, frame.params, stack, inner)}"
    )
    exits = tuple(spec(way.offset, after, way.slots) for way in ways)
    point = ResumePoint(name, frame, last.end, inner, exits, origin=marshal.dumps(code))
    return msgspec.structs.replace(point, code=marshal.dumps(continuation(code, point)))


def _bound_after(code: CodeType, ins: Instruction, live: set[str]) -> set[str]:
    if ins.op == "STORE_FAST":
        return live | {code.co_varnames[ins.arg]}
    if ins.op == "DELETE_FAST":
        return live - {code.co_varnames[ins.arg]}
    return live


def retarget(code: CodeType, mapping: Mapping[str, str]) -> CodeType:
    """`code` with the dispatchers it asks renamed, for the extent of a `compile()`."""
    return code.replace(co_names=tuple(mapping.get(name, name) for name in code.co_names))


def continuation(code: CodeType, point: ResumePoint, extent: str = "") -> CodeType:
    """Code of the continuation function of `point` in the original `code`: see the module's docstring."""
    return _Continuation(originals.original(code), point, extent).build()


@dataclass
class _Layout:
    """Where the variables of a continuation lie.

    Arguments come in the first slots, so locals are padded where there are
    more of them. Each cell of the original is a free variable, behind all
    else, and put from there into the slot where the body looks for it; free
    variables are looked for at their new place, so that an unbound one is
    still called free.
    """

    body: bytes
    varnames: tuple[str, ...]
    cellvars: tuple[str, ...]
    fill: list[tuple[int, int]]
    "free variable's index, slot that wants the same cell"
    cells: list[int]
    "indices of the cells, as free variables"
    moved: dict[int, int]
    "from a cell's index in the original to that in `body`"


def _layout(code: CodeType, size: int) -> _Layout:
    """A layout with `size` or more locals."""
    count = code.co_nlocals
    indices = cell_indices(code)
    pad = max(0, size - count)
    padding = tuple(f".{i}" for i in range(pad))
    total = code.co_nlocals + pad + sum(i >= count for i in indices[: len(code.co_cellvars)])
    free = range(total, total + len(indices))
    own = len(code.co_cellvars)
    moved = {i: i + pad if i >= count else i for i in indices[:own]} | dict(zip(indices[own:], free[own:], strict=True))
    body = _move_cells(code.co_code, moved)
    if body is not None:
        fill = [(free[k], moved[i]) for k, i in enumerate(indices[:own])]
        return _Layout(body, code.co_varnames + padding, code.co_cellvars, fill, list(free), moved)
    # An index past 255 that was below would need more bytes: keep all indices, and put free cells in locals' slots.
    behind = sum(i >= count for i in indices)
    stand_ins = tuple(f".cell{i}" for i in range(behind))
    padding = tuple(f".{i}" for i in range(max(0, size - count - behind)))
    varnames = code.co_varnames + stand_ins + padding
    cellvars = tuple(name for name in code.co_cellvars if name in code.co_varnames)
    free = range(len(varnames), len(varnames) + len(indices))
    fill = list(zip(free, indices, strict=True))
    return _Layout(code.co_code, varnames, cellvars, fill, list(free), {i: i for i in indices})


def _move_cells(data: bytes, moved: Mapping[int, int]) -> bytes | None:
    """`data` with cells' indices replaced, None where one needs more bytes than it has."""
    if all(old == new for old, new in moved.items()):
        return data
    out = bytearray(data)
    for ins in dialect.instructions(data):
        if ins.op not in version.DEREF:
            continue
        new = moved[ins.arg]
        if new >> 8 * ((ins.offset - ins.start) // 2 + 1):
            return None
        for at in range(ins.offset, ins.start - 2, -2):
            out[at + 1] = new & 255
            new >>= 8
    return bytes(out)


class _Continuation:
    """Builds one continuation function."""

    def __init__(self, code: CodeType, point: ResumePoint, extent: str) -> None:
        self.code, self.point = code, point
        self.asks = {dispatcher_name(spec): dispatcher_name(spec, extent) for spec in point.exits}
        self.slots = dialect.slots(point.frame.stack)
        self.arguments = len(point.frame.params) + point.frame.stack.count("v") + 2 * point.inner
        # One more local to drop NULLs into: see protocol.Asking.
        self.layout = _layout(code, max(self.arguments, code.co_nlocals) + 1)
        self.asm = Assembler(code, Position(code.co_firstlineno))
        # A continuation is no stub: see originals.dispatcher_of.
        self.asm.names += [names.PENDING, names.FIX]
        self.asm.need(self.arguments + len(self.slots) + 8)
        units = len(code.co_code) // 2
        first = code.co_firstlineno
        self.body = Chunk(self.layout.body, 0, units, code.co_linetable, first, tables.last_line(code))
        self.operation = Operation(self.asm, code, point, self.body, self.layout.moved)
        self.asm.position = self.operation.position

    def build(self) -> CodeType:
        """The code."""
        code, asm, layout = self.code, self.asm, self.layout
        self._fill()
        with asm.under(self.operation.handler):
            asm.op("RESUME", 0)
        jumped = self.operation.run()
        cells: list[protocol.Load] = [("LOAD_CLOSURE", index) for index in layout.cells]
        self.operation.follow(jumped, names.PENDING, len(layout.varnames) - 1, cells, self.asks, "JUMP_FORWARD")
        if not jumped:
            asm.op("NOP")  # the last unit before a chunk lends its line: it mustn't be the operation's
        asm.put(self.body)
        data, locations, regions = asm.finish()
        return code.replace(
            co_code=data,
            co_linetable=locations,
            co_exceptiontable=tables.encode_regions(regions),
            co_names=tuple(asm.names),
            co_consts=tuple(asm.consts),
            co_varnames=layout.varnames,
            co_nlocals=len(layout.varnames),
            co_cellvars=layout.cellvars,
            co_freevars=code.co_cellvars + code.co_freevars,
            co_argcount=self.arguments,
            co_posonlyargcount=self.arguments,
            co_kwonlyargcount=0,
            co_flags=code.co_flags & ~(VARARGS | VARKEYWORDS),
            co_stacksize=asm.depth,
        )

    def _fill(self) -> None:
        """Stack and variables from the arguments, before RESUME: no tracer sees the frame half filled."""
        asm, params = self.asm, self.point.frame.params
        if self.layout.cells:
            asm.op("COPY_FREE_VARS", len(self.layout.cells))
        argument = len(params)
        for before, slot in zip(" " + self.slots, self.slots, strict=False):
            if slot == "n":
                asm.op("PUSH_NULL")
                continue
            if before != "e":
                asm.op("LOAD_FAST", argument)
                argument += 1
            if slot in "eh":
                asm.op("PUSH_EXC_INFO")  # saved state, exception
            if slot == "h":
                asm.op("POP_TOP")
        if self.point.inner:
            asm.ops(version.global_function(asm.name(names.ENTER)))
            asm.ops(("LOAD_FAST", argument), ("LOAD_FAST", argument + 1))
        for i in range(len(params)):
            asm.op("LOAD_FAST", i)
        for i in range(self.arguments):
            # Storing NULL unbinds, without the error that DELETE_FAST may raise.
            asm.ops(("PUSH_NULL", 0), ("STORE_FAST", i))
        for name in reversed(params):
            asm.op("STORE_FAST", self.code.co_varnames.index(name))
        for free, place in self.layout.fill:
            # Frames find out by MAKE_CELL whether a place holds a cell (PyFrame_FastToLocals).
            asm.ops(("MAKE_CELL", place), ("LOAD_CLOSURE", free), ("STORE_FAST", place))
