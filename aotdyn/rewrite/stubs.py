"""Stubs: a short call of a dispatcher in front of a function's own, untouched body."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice, pairwise
from types import CodeType

from aotdyn.rewrite import digest as digests
from aotdyn.rewrite import names, originals, tables
from aotdyn.rewrite.assembler import Assembler, Chunk
from aotdyn.rewrite.dialect import header_units, instructions, version
from aotdyn.rewrite.names import dispatcher_name
from aotdyn.rewrite.protocol import Asking, Load
from aotdyn.rewrite.tables import Position
from aotdyn.runtime.variant import FrameSpec

__all__ = ["StubInfo", "dispatcher_name", "eligible", "parameters", "spec_of", "stub", "stub_tree"]

OPTIMIZED, VARARGS, VARKEYWORDS = 0x1, 0x4, 0x8
SUSPENDING = 0x20 | 0x80 | 0x100 | 0x200
"generator, coroutine, iterable coroutine, async generator"

COMPREHENSIONS = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")


@dataclass(frozen=True)
class StubInfo:
    """One stub that stub_tree made. `code` is the original, whose nested functions are stubs already."""

    dispatcher: str
    qualname: str
    digest: str
    code: CodeType


def eligible(code: CodeType) -> str:
    """Why `code` can't be a stub; an empty string if it can."""
    if code.co_flags & SUSPENDING:
        return "a generator or coroutine"
    if not code.co_flags & OPTIMIZED:
        return "the body of a module or class"
    if code.co_name in COMPREHENSIONS:
        return "a comprehension"
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


def parameters(code: CodeType) -> tuple[str, ...]:
    """Names of all arguments in `co_varnames` order, with those of `*args` and `**kwargs`."""
    count = code.co_argcount + code.co_kwonlyargcount
    count += bool(code.co_flags & VARARGS) + bool(code.co_flags & VARKEYWORDS)
    return code.co_varnames[:count]


def spec_of(code: CodeType, module: str) -> FrameSpec:
    """What the dispatcher at the start of `code` (a stub or an original) is handed.

    A stub's spec has the digest of its dispatcher's name, with the order among equal functions.
    """
    stubbed = originals.dispatcher_of(code)
    digest = "".join(names.digest_in(stubbed)) if stubbed else digests.digest(code)
    cells = code.co_cellvars + code.co_freevars
    return FrameSpec(module, code.co_qualname, digest, params=parameters(code), cells=cells)


def stub(code: CodeType, dispatcher: str) -> CodeType:
    """`code` behind a question to `dispatcher`, under the protocol of docs/design/contracts.md."""
    header = header_units(code)
    head, body = tables.split_locations(code.co_linetable, header)
    last = next(islice(code.co_positions(), header - 1, None))[0]
    line = code.co_firstlineno if last is None else last
    asm = Assembler(code, Position(line))
    # Where originals.dispatcher_of looks for it: the dispatcher, then fix.
    asm.names += [dispatcher, names.FIX, names.ENTER]
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
        co_stacksize=asm.depth,
    )


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


def stub_tree(code: CodeType, module: str) -> tuple[CodeType, list[StubInfo]]:
    """The code of a module with every eligible function of it a stub, and what was made.

    Methods and nested functions are stubs too; lambdas and comprehensions are
    left alone, class bodies are only walked through. Nothing is registered.
    """
    made: list[StubInfo] = []
    taken: dict[str, int] = {}
    return _tree(code, module, made, taken), made


def _tree(code: CodeType, module: str, made: list[StubInfo], taken: dict[str, int]) -> CodeType:
    if not any(isinstance(value, CodeType) for value in code.co_consts):
        return code
    consts = []
    for value in code.co_consts:
        if isinstance(value, CodeType):
            digest = digests.digest(value)
            value = _tree(value, module, made, taken)
            if value.co_name != "<lambda>" and not eligible(value):
                value = _stub(value, digest, module, made, taken)
        consts.append(value)
    return code.replace(co_consts=tuple(consts))


def _stub(code: CodeType, digest: str, module: str, made: list[StubInfo], taken: dict[str, int]) -> CodeType:
    name = dispatcher_name(code.co_qualname, digest, module=module)
    order = taken[name] = taken.get(name, 0) + 1
    if order > 1:
        digest = f"{digest}.{order}"
        name = dispatcher_name(code.co_qualname, digest, module=module)
    made.append(StubInfo(name, code.co_qualname, digest, code))
    return stub(code, name)
