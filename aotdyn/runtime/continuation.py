"""Continuations: what goes on behind a break, as functions that are handed the frame's state."""

from __future__ import annotations

import types
from collections.abc import Mapping
from typing import Any

from aotdyn.runtime.extent import Extent
from aotdyn.runtime.variant import FrameSpec


class Continuation:
    """What follows one break.

    Args:
        name: name in the module that the function is spliced into.
        code: the continuation function's (rewrite.points.continuation).
        globals: globals of the frame that it continues.
        spec: the broken frame.
        block: the label of what continues it, in the function's code and in that of others.
        asks: the dispatchers that it asks: from the name that every process has to that of this one.
        extent: of a `compile()`: what runs from here on belongs to it.
    """

    __slots__ = ("asks", "block", "code", "extent", "globals", "made", "name", "spec")

    def __init__(
        self,
        name: str,
        code: types.CodeType,
        globals: dict[str, Any],
        spec: FrameSpec,
        block: str,
        asks: Mapping[str, str],
        extent: Extent | None = None,
    ) -> None:
        self.name = name
        self.code = code
        self.globals = globals
        self.spec = spec
        self.block = block
        self.asks = asks
        self.extent = extent
        self.made = function(code, globals)
        "`made(state, self)` runs it: its result, or a `Pending` where it broke again"

    def __repr__(self) -> str:
        return f"<continuation {self.name}>"


def function(code: types.CodeType, globals: dict[str, Any]) -> types.FunctionType:
    """The function of a host's code. Its cells are those of each state; what it has itself only has to be there."""
    cells = tuple(types.CellType() for _ in code.co_freevars)
    return types.FunctionType(code, globals, None, None, cells)
