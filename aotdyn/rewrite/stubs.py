"""Stubs: a short call of a dispatcher in front of a function's own, untouched body."""

from __future__ import annotations

from dis import opmap
from itertools import islice, pairwise
from types import CodeType

import msgspec

from aotdyn.rewrite import digest as digests
from aotdyn.rewrite import names, tables
from aotdyn.rewrite.assembler import Assembler, Chunk
from aotdyn.rewrite.dialect import header_units, instructions, version
from aotdyn.rewrite.frames import parameters, spec_of
from aotdyn.rewrite.names import dispatcher_name
from aotdyn.rewrite.protocol import Asking, Load
from aotdyn.rewrite.question import added, question
from aotdyn.rewrite.switchboard import Seat
from aotdyn.rewrite.tables import Position, Region

__all__ = ["StubInfo", "dispatcher_name", "eligible", "original", "parameters", "spec_of", "stub", "stub_tree"]

LOAD_CONST, EXTENDED_ARG, IF_NONE = (opmap[name] for name in ("LOAD_CONST", "EXTENDED_ARG", "POP_JUMP_FORWARD_IF_NONE"))
_MOVES = frozenset(opmap[name] for name in version.MOVES) | {EXTENDED_ARG}
OPTIMIZED = 0x1
SUSPENDING = 0x20 | 0x80 | 0x100 | 0x200
"generator, coroutine, iterable coroutine, async generator"

COMPREHENSIONS = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")


class StubInfo(msgspec.Struct, frozen=True):
    """One stub that stub_tree made. `code` is the original, whose nested functions are stubs already."""

    dispatcher: str
    qualname: str
    digest: str
    code: CodeType
    order: str = ""
    "what tells it apart, behind the digest, from functions of the same name and code"


def eligible(code: CodeType) -> str:
    """Why `code` can't be a stub; an empty string if it can."""
    if code.co_flags & SUSPENDING:
        return "a generator or coroutine"
    if not code.co_flags & OPTIMIZED:
        return "the body of a module or class"
    if code.co_name in COMPREHENSIONS:
        return "a comprehension"
    if code.co_name == "__getattribute__":
        return "runs at each read of an attribute, those of its own guards included"
    return _looks_at_frame(code)


def _looks_at_frame(code: CodeType) -> str:
    if {"_getframe", "currentframe"} & set(code.co_names):
        return "looks at its own frame"
    suspects = {"locals", "eval", "exec", "vars", "dir"} & set(code.co_names)
    if not suspects:
        return ""
    program = instructions(code.co_code)
    for ins, follows in pairwise(program):
        index = version.global_name(ins.op, ins.arg)
        name = code.co_names[index] if index is not None else ""
        # vars and dir of an object are harmless
        if name in suspects and (name not in ("vars", "dir") or follows[:2] == version.call(0)[0]):
            return f"looks at its own frame by {name}()"
    return ""


def does_nothing(code: CodeType) -> bool:
    """Whether no tensor operation can stand in `code` itself: it only moves values, makes functions or raises.

    Setters that it may run are functions of their own.
    """
    return _MOVES.issuperset(code.co_code[::2])


def stub(code: CodeType, dispatcher: str | Seat) -> CodeType:
    """`code` behind a question to `dispatcher`, under the protocol of docs/design/contracts.md."""
    asked = question(code, dispatcher, *arguments(code)) if isinstance(dispatcher, Seat) else None
    if asked is None:
        return assembled(code, dispatcher)
    assert isinstance(dispatcher, Seat)
    header, units = header_units(code), len(asked.data) // 2
    head, body = tables.split_locations(code.co_linetable, header)
    own = [Region(header + r.start, header + r.end, header + r.target, r.depth, r.lasti) for r in asked.regions]
    moved = [Region(r.start + units, r.end + units, r.target + units, r.depth, r.lasti) for r in tables.regions(code)]
    return code.replace(
        co_code=code.co_code[: 2 * header] + asked.data + code.co_code[2 * header :],
        co_linetable=head + asked.locations + body,
        co_exceptiontable=tables.encode_regions(own + moved),
        co_names=(*code.co_names, *added(dispatcher)),
        co_consts=(*code.co_consts, dispatcher.number),
        co_stacksize=max(code.co_stacksize, asked.depth),
    )


def assembled(code: CodeType, dispatcher: str | Seat) -> CodeType:
    """The same, put together instruction by instruction, for whatever dispatcher."""
    header = header_units(code)
    head, body = tables.split_locations(code.co_linetable, header)
    last = next(islice(code.co_positions(), header - 1, None))[0]
    line = code.co_firstlineno if last is None else last
    asm = Assembler(code, Position(line))
    # Where originals.dispatcher_of looks for it: the dispatcher, or switchboard and `ask`, then fix.
    asm.names += [dispatcher, names.FIX, names.ENTER] if isinstance(dispatcher, str) else added(dispatcher)
    asm.put(Chunk(code.co_code, 0, header, head, code.co_firstlineno, line))
    Asking(asm, "", names.ENTER).ask(dispatcher, *arguments(code))
    units = len(code.co_code) // 2
    asm.put(Chunk(code.co_code, header, units, body, line, line))
    data, locations, regions = asm.finish()
    return code.replace(
        co_code=data,
        co_linetable=locations,
        co_exceptiontable=tables.encode_regions(regions),
        co_names=tuple(asm.names),
        co_consts=tuple(asm.consts),
        co_stacksize=asm.depth,
    )


def number_in(code: CodeType) -> int:
    """The number by which a stub asks its switchboard."""
    return code.co_consts[_first_constant(code)]


def original(code: CodeType) -> CodeType:
    """The code that `stub` made a stub of, which asks a switchboard.

    Equal to what it was, but for the size of the stack, which stays the stub's.
    """
    header, constants = header_units(code), _first_constant(code)
    # The first jump leads to the POP_TOP in front of the body.
    distance, end = _first(code, IF_NONE)
    start = end // 2 + distance + 1
    head, rest = tables.split_locations(code.co_linetable, header)
    body = tables.split_locations(rest, start - header)[1]
    shift = start - header
    regions = [
        Region(first - shift, last - shift, to - shift, depth, lasti)
        for first, last, to, depth, lasti in tables.regions(code)
        if first >= start
    ]
    return code.replace(
        co_code=code.co_code[: 2 * header] + code.co_code[2 * start :],
        co_linetable=head + body,
        co_exceptiontable=tables.encode_regions(regions),
        co_names=code.co_names[: code.co_names.index(names.FIX) - 2],
        co_consts=code.co_consts[:constants],
    )


def _first_constant(code: CodeType) -> int:
    """Index of the constant that `code` loads first: a stub's is its number, and stands behind the original's own."""
    return _first(code, LOAD_CONST)[0]


def _first(code: CodeType, wanted: int) -> tuple[int, int]:
    """Of the first instruction with this operation the argument, and the byte offset behind it."""
    data, at, arg = code.co_code, 0, 0
    while (op := data[at]) != wanted:
        arg = (arg | data[at + 1]) << 8 if op == EXTENDED_ARG else 0
        at += 2 + 2 * version.CACHES.get(op, 0)
    return arg | data[at + 1], at + 2 + 2 * version.CACHES.get(op, 0)


def arguments(code: CodeType) -> tuple[list[Load], list[Load]]:
    """Loads of the arguments' values and of the cells, at the start of `code`."""
    values: list[Load] = []
    for i, name in enumerate(parameters(code)):
        values.append(("LOAD_DEREF" if name in code.co_cellvars else "LOAD_FAST", i))
    return values, [("LOAD_CLOSURE", index) for index in cell_indices(code)]


def cell_indices(code: CodeType) -> list[int]:
    """Variable indices of cellvars, then freevars: an argument's own where it is a cell, else behind the locals."""
    indices = []
    behind = code.co_nlocals
    for name in code.co_cellvars:
        if name in code.co_varnames:
            indices.append(code.co_varnames.index(name))
        else:
            indices.append(behind)
            behind += 1
    return indices + [behind + i for i in range(len(code.co_freevars))]


def stub_tree(code: CodeType, module: str, board: str = "") -> tuple[CodeType, list[StubInfo]]:
    """The code of a module with every eligible function of it a stub, and what was made.

    Methods and nested functions are stubs too; lambdas, comprehensions and
    functions that `does_nothing` knows are left alone, class bodies are only
    walked through. Nothing is registered. With `board`, stubs ask this
    switchboard, each by its place in the list.
    """
    tree = _Tree(module, board)
    return tree.rewritten(code), tree.made


class _Tree:
    """Makes the stubs of one module."""

    def __init__(self, module: str, board: str) -> None:
        self.module, self.board = module, board
        self.made: list[StubInfo] = []
        self._taken: dict[str, int] = {}

    def rewritten(self, code: CodeType) -> CodeType:
        """`code` with stubs for all functions in it."""
        if not any(isinstance(value, CodeType) for value in code.co_consts):
            return code
        consts = []
        for value in code.co_consts:
            if isinstance(value, CodeType):
                digest = digests.digest(value)
                value = self.rewritten(value)
                if value.co_name != "<lambda>" and not eligible(value) and not does_nothing(value):
                    value = self._stub(value, digest)
            consts.append(value)
        return code.replace(co_consts=tuple(consts))

    def _stub(self, code: CodeType, digest: str) -> CodeType:
        name = dispatcher_name(code.co_qualname, digest, module=self.module)
        count = self._taken[name] = self._taken.get(name, 0) + 1
        order = f".{count}" if count > 1 else ""
        name = dispatcher_name(code.co_qualname, digest + order, module=self.module)
        number = len(self.made)
        self.made.append(StubInfo(name, code.co_qualname, digest + order, code, order))
        return stub(code, Seat(self.board, number) if self.board else name)
