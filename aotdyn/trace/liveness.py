"""Which names a frame can still read from an instruction on: what a break has to carry over.

Backward data flow over the code, exception handlers included. A cell counts as
read by every instruction that touches it, because the cell itself is shared.
"""

from __future__ import annotations

import types
from functools import lru_cache

from .decode import Decoded, Instruction, decode

ENDS = frozenset({"RETURN_VALUE", "RAISE_VARARGS", "RERAISE"})
ALWAYS = frozenset({"JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT"})
CELLS = frozenset({"LOAD_DEREF", "STORE_DEREF", "DELETE_DEREF", "LOAD_CLOSURE", "LOAD_CLASSDEREF", "MAKE_CELL"})
LOOKERS = frozenset({"locals", "vars", "dir", "eval", "exec", "_getframe", "currentframe", "stack"})
"names that may stand for a function that reads its caller's locals"


def _next(i: int, ins: Instruction) -> tuple[int, ...]:
    """The instructions that may follow without an exception."""
    if ins.opname in ENDS:
        return ()
    if ins.opname in ALWAYS:
        return (ins.target,)
    return (i + 1,) if ins.target < 0 else (i + 1, ins.target)


def _reads(code: types.CodeType, ins: Instruction) -> frozenset[str]:
    """The names that one instruction needs."""
    if ins.opname in {"LOAD_FAST", "DELETE_FAST"} or ins.opname in CELLS:
        return frozenset({ins.argval})
    if ins.opname == "CALL" and ins.arg == 0 and "__class__" in code.co_freevars:
        return frozenset({"__class__", *code.co_varnames[:1]})  # super() looks at both
    return frozenset()


def _before(code: types.CodeType, decoded: Decoded, live: list[frozenset[str]], i: int) -> frozenset[str]:
    """What is live before instruction `i`, given what is known of the others."""
    ins, handler = decoded.instructions[i], decoded.handlers[i]
    after: frozenset[str] = frozenset().union(*(live[j] for j in _next(i, ins)))
    if ins.opname == "STORE_FAST":
        after -= {ins.argval}
    return after | _reads(code, ins) | (live[handler.target] if handler else frozenset())


@lru_cache(maxsize=4096)
def liveness(code: types.CodeType) -> tuple[frozenset[str], ...]:
    """For each instruction of `code` (by index), the locals and cells that are live before it."""
    decoded = decode(code)
    count = len(decoded.instructions)
    if LOOKERS & set(code.co_names):
        return (frozenset(code.co_varnames + code.co_cellvars + code.co_freevars),) * count
    live: list[frozenset[str]] = [frozenset()] * count
    changed = True
    while changed:
        changed = False
        for i in reversed(range(count)):
            new = _before(code, decoded, live, i)
            changed, live[i] = changed or new != live[i], new
    return tuple(live)
