"""What each opcode of CPython 3.11 does to a frame of values, by family.

A function here is named for its opcode, moves values on the stack and calls
one operation of `aotdyn.trace.model`, which says what the operation means.
Rules are those of `Python/ceval.c` and of the `dis` documentation.
"""

from __future__ import annotations

from . import (
    asynchronous,
    calls,
    containers,
    control,
    exceptions,
    formatting,
    functions,
    generators,
    imports,
    matching,
    operators,
    stack,
    unpacking,
    variables,
)
from .table import BREAKS, OPCODES

__all__ = [
    "BREAKS",
    "OPCODES",
    "asynchronous",
    "calls",
    "containers",
    "control",
    "exceptions",
    "formatting",
    "functions",
    "generators",
    "imports",
    "matching",
    "operators",
    "stack",
    "unpacking",
    "variables",
]
