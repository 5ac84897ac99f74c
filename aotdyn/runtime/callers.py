"""What a call that is due shows of who makes it: a function of a package that should wait, or is never traced itself.

Loaded where a function of a hooked package is due: see `runtime.thrift`.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Sequence
from typing import Any

from aotdyn.rewrite import switchboard
from aotdyn.runtime import worth

CONSTRUCTORS = frozenset(("__init__", "__new__", "__post_init__"))

STARS = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS


def wraps(code: types.CodeType, cells: Sequence[Any]) -> bool:
    """Whether code is a decorator's wrapper: it hands its arguments on to a hooked function, and names no operator.

    Args:
        code: the code.
        cells: the frame's cells, those of its closure last.
    """
    closure = cells[len(cells) - len(code.co_freevars) :]
    if not code.co_flags & STARS or not any(map(_is_hooked, closure)):
        return False
    return not worth.names_operators(code)


def _is_hooked(cell: Any) -> bool:
    """Whether a cell has a function that is a stub of the hook."""
    try:
        found = cell.cell_contents
    except (AttributeError, ValueError):  # it is no cell, or an empty one
        return False
    return type(found) is types.FunctionType and switchboard.seat_in(found.__code__) is not None


def under_construction(frame: types.FrameType | None) -> bool:
    """Whether a module, or an optimizer, is being made: by a constructor on the stack from `frame` on.

    Only code is looked at: a frame that was asked for its locals would keep them.
    """
    while frame is not None:
        if frame.f_code.co_name in CONSTRUCTORS and _makes_modules(frame):
            return True
        frame = frame.f_back
    return False


def _makes_modules(frame: types.FrameType) -> bool:
    """Whether a constructor's frame is that of a class of modules, as far as its qualified name leads to one."""
    first, *others = frame.f_code.co_qualname.split(".")[:-1] or [""]
    found = frame.f_globals.get(first)
    for name in others:
        found = found.__dict__.get(name) if isinstance(found, type) else None
    return isinstance(found, type) and issubclass(found, worth.MET)
