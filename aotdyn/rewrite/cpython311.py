"""What is so in CPython 3.11 and may differ in another version (Python/ceval.c, Lib/opcode.py)."""

from __future__ import annotations

import opcode

CACHES: dict[int, int] = {number: size for number, size in enumerate(opcode._inline_cache_entries) if size}  # type: ignore[attr-defined]
"units of inline cache behind an instruction, by opcode"

CALL_GROUP = ("KW_NAMES", "PRECALL", "CALL")
"instructions that are one operation: nothing may be cut between them"

CALLS = frozenset({"CALL", "CALL_FUNCTION_EX"})
"instructions that call the callee on the stack"

DEREF = frozenset({"LOAD_DEREF", "STORE_DEREF", "DELETE_DEREF", "LOAD_CLOSURE", "LOAD_CLASSDEREF", "MAKE_CELL"})
"instructions whose argument numbers a cell among the variables"

NEVER_BACK = frozenset({"RAISE_VARARGS", "RERAISE"})
"instructions that only ever raise"

CHOOSES = frozenset({"CHECK_EG_MATCH"})
"instructions that may make another exception the one that is handled than the one on the stack"

_MOVES = """
    RESUME NOP CACHE MAKE_CELL COPY_FREE_VARS POP_TOP COPY SWAP PUSH_NULL LOAD_CONST LOAD_FAST STORE_FAST DELETE_FAST
    LOAD_DEREF STORE_DEREF LOAD_CLOSURE LOAD_GLOBAL STORE_GLOBAL STORE_ATTR BUILD_TUPLE BUILD_LIST BUILD_MAP
    BUILD_CONST_KEY_MAP MAKE_FUNCTION IS_OP POP_JUMP_FORWARD_IF_NONE POP_JUMP_FORWARD_IF_NOT_NONE JUMP_FORWARD
    LOAD_ASSERTION_ERROR RAISE_VARARGS RETURN_VALUE
"""
MOVES = frozenset(_MOVES.split())
"instructions that take no value for anything but an object: no operator, call, truth, attribute or item is asked for"

CONDITIONAL = frozenset(
    {
        "FOR_ITER",
        "JUMP_IF_FALSE_OR_POP",
        "JUMP_IF_TRUE_OR_POP",
        *(
            f"POP_JUMP_{way}_IF_{what}"
            for way in ("FORWARD", "BACKWARD")
            for what in ("TRUE", "FALSE", "NONE", "NOT_NONE")
        ),
    }
)
UNCONDITIONAL = frozenset({"JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT"})


def call(count: int) -> tuple[tuple[str, int], ...]:
    """Instructions that call the function under `count` positional arguments, pushed as NULL, function, arguments."""
    return ("PRECALL", count), ("CALL", count)


def global_function(name: int) -> tuple[str, int]:
    """The instruction that pushes NULL, then the global number `name`, ready for its arguments."""
    return "LOAD_GLOBAL", name << 1 | 1


def global_value(name: int) -> tuple[str, int]:
    """The instruction that pushes the global number `name` alone."""
    return "LOAD_GLOBAL", name << 1


def global_name(op: str, arg: int) -> int | None:
    """Index of the name that `op` looks up among the globals, None if it doesn't."""
    return arg >> 1 if op == "LOAD_GLOBAL" else None


def forward(op: str) -> str:
    """The conditional jump `op` in its form that jumps ahead."""
    return op.replace("BACKWARD", "FORWARD")


def static_form(op: str, arg: int) -> tuple[tuple[str, int], ...]:
    """`op` as instructions that leave the stack that `effect` foretells.

    LOAD_METHOD leaves method and self, or NULL and the attribute; which, isn't
    known before. The copy always takes the second.
    """
    return (("LOAD_ATTR", arg), ("PUSH_NULL", 0), ("SWAP", 2)) if op == "LOAD_METHOD" else ((op, arg),)


def effect(op: str, arg: int, jump: bool = False) -> tuple[int, str]:
    """What `op` pops, as a count, and then pushes, as letters of a FrameSpec's stack; with `jump`, where it jumps.

    Raises ValueError for instructions that can't be resumed at. SWAP, COPY,
    PUSH_EXC_INFO and POP_EXCEPT are the dialect's: they move slots.
    """
    if op == "FOR_ITER":
        return (1, "") if jump else (0, "v")
    if op in ("JUMP_IF_FALSE_OR_POP", "JUMP_IF_TRUE_OR_POP"):
        return (0, "") if jump else (1, "")
    if op in CONDITIONAL:
        return 1, ""
    if op in _FIXED:
        return _FIXED[op]
    if op in _COUNTED:
        return _COUNTED[op](arg)
    raise ValueError(f"no frame resumes at {op}")


_FIXED: dict[str, tuple[int, str]] = {}
for _row in (
    """
    NOP KW_NAMES PRECALL DELETE_NAME DELETE_GLOBAL DELETE_FAST DELETE_DEREF SETUP_ANNOTATIONS
        JUMP_FORWARD JUMP_BACKWARD JUMP_BACKWARD_NO_INTERRUPT: 0 -
    POP_TOP PRINT_EXPR IMPORT_STAR STORE_NAME STORE_GLOBAL STORE_FAST STORE_DEREF DELETE_ATTR RAISE_VARARGS RERAISE
        LIST_APPEND SET_ADD LIST_EXTEND SET_UPDATE DICT_UPDATE DICT_MERGE: 1 -
    STORE_ATTR DELETE_SUBSCR MAP_ADD: 2 -
    STORE_SUBSCR: 3 -
    PUSH_NULL: 0 n
    LOAD_CONST LOAD_FAST LOAD_DEREF LOAD_CLASSDEREF LOAD_CLOSURE LOAD_NAME LOAD_BUILD_CLASS LOAD_ASSERTION_ERROR
        IMPORT_FROM GET_LEN MATCH_MAPPING MATCH_SEQUENCE MATCH_KEYS WITH_EXCEPT_START: 0 v
    UNARY_POSITIVE UNARY_NEGATIVE UNARY_NOT UNARY_INVERT GET_ITER LIST_TO_TUPLE LOAD_ATTR CHECK_EXC_MATCH: 1 v
    BINARY_OP BINARY_SUBSCR COMPARE_OP IS_OP CONTAINS_OP IMPORT_NAME PREP_RERAISE_STAR: 2 v
    MATCH_CLASS: 3 v
    LOAD_METHOD: 1 nv
    BEFORE_WITH: 1 vv
    CHECK_EG_MATCH: 2 vv
""".replace("\n        ", " ")
    .strip()
    .split("\n")
):
    _names, _, _what = _row.rpartition(":")
    _pops, _pushes = _what.split()
    _FIXED.update(dict.fromkeys(_names.split(), (int(_pops), _pushes.strip("-"))))

_COUNTED = {
    "LOAD_GLOBAL": lambda arg: (0, "nv" if arg & 1 else "v"),
    "CALL": lambda arg: (arg + 2, "v"),
    "CALL_FUNCTION_EX": lambda arg: (3 + (arg & 1), "v"),
    "UNPACK_SEQUENCE": lambda arg: (1, "v" * arg),
    "UNPACK_EX": lambda arg: (1, "v" * ((arg & 255) + 1 + (arg >> 8))),
    "BUILD_TUPLE": lambda arg: (arg, "v"),
    "BUILD_LIST": lambda arg: (arg, "v"),
    "BUILD_SET": lambda arg: (arg, "v"),
    "BUILD_STRING": lambda arg: (arg, "v"),
    "BUILD_SLICE": lambda arg: (arg, "v"),
    "BUILD_MAP": lambda arg: (2 * arg, "v"),
    "BUILD_CONST_KEY_MAP": lambda arg: (arg + 1, "v"),
    "FORMAT_VALUE": lambda arg: (2 if arg & 4 else 1, "v"),
    "MAKE_FUNCTION": lambda arg: (1 + (arg & 15).bit_count(), "v"),
}
