"""Continuations: what goes on behind a break, as functions that are handed the frame's state."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any

from aotdyn.runtime.extent import Extent
from aotdyn.runtime.variant import FrameSpec


class Continuation:
    """The function form of what follows a break.

    Args:
        name: name in the module that the function is spliced into.
        code: the continuation's code (rewrite.points.continuation): its arguments are the first items of the
            state, its free variables the cells at the state's tail.
        globals: globals of the frame that it continues.
        spec: the broken frame.
    """

    __slots__ = ("arity", "block", "call", "code", "extent", "globals", "made", "name", "spec")

    def __init__(
        self, name: str, code: types.CodeType, globals: dict[str, Any], spec: FrameSpec, extent: Extent | None = None
    ) -> None:
        self.name = name
        self.code = code
        self.globals = globals
        self.spec = spec
        self.extent = extent
        "of a `compile()`: what runs from here on belongs to it"
        self.arity = code.co_argcount
        self.call = mover(code.co_argcount)
        self.made = None if code.co_freevars else types.FunctionType(code, globals)
        self.block = -1
        "number of the block of the function's own code that continues in place; -1: none"

    def function(self, state: tuple[Any, ...]) -> Any:
        """Runs the continuation on a state; its result, or a `Pending` where it broke again."""
        made = self.made
        if made is None:
            made = types.FunctionType(self.code, self.globals, None, None, state[self.arity :])
        items = list(state[: self.arity])
        del state
        items.reverse()
        return self.call(made, items.pop)

    def __repr__(self) -> str:
        return f"<continuation {self.name}>"


@functools.cache
def mover(arity: int) -> Callable[[types.FunctionType, Callable[[], Any]], Any]:
    """`function(pop(), ..., pop())`: moves arguments into the callee's frame; `function(*items)` would hold them."""
    pops = ", ".join(["pop()"] * arity)
    namespace: dict[str, Any] = {}
    exec(compile(f"def call(function, pop): return function({pops})", __file__, "exec"), namespace)
    return namespace["call"]
