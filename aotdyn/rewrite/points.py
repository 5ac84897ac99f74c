"""Resume points: what follows a break, as data and as the code of a continuation function.

A continuation function is a host (rewrite.blocks) with the point's block alone.
It takes the state and the continuation itself, whose `block` must be the
label that its code has, and returns what the function would, or what
`__aotdyn_pending(state, k)` makes where it breaks again. Its names, file and
lines are the original's.
"""

from __future__ import annotations

import marshal
from collections.abc import Iterable, Mapping
from types import CodeType

import msgspec

from aotdyn.rewrite import blocks, dialect, names, originals
from aotdyn.rewrite.dialect import Instruction, version
from aotdyn.rewrite.frames import dispatcher_name, hashed
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
    asks = {dispatcher_name(spec): dispatcher_name(spec, extent) for spec in point.exits}
    return blocks.host(originals.original(code), [blocks.Block(point.name, point, asks)])


def label_in(code: CodeType, point: ResumePoint) -> str:
    """The label of the one block of a continuation's code: the very object that it compares with."""
    return next(value for value in code.co_consts if type(value) is str and value == point.name)


def settled(code: CodeType, current: CodeType | None) -> CodeType:
    """`code`, stored once, at the file and lines of the `current` code of its function; without one as it is."""
    if current is None:
        return code
    return _moved(code, current.co_filename, current.co_firstlineno - code.co_firstlineno)


def _moved(code: CodeType, file: str, lines: int) -> CodeType:
    if code.co_filename == file and not lines:
        return code
    inside = [_moved(value, file, lines) if isinstance(value, CodeType) else value for value in code.co_consts]
    return code.replace(co_filename=file, co_firstlineno=code.co_firstlineno + lines, co_consts=tuple(inside))
