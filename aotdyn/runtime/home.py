"""Homes: functions whose own code holds the blocks that continue their frames.

Where a frame has broken and gone on in continuation functions, the points
become blocks of one code, which is put in once that frame has ended: from the
next call on frames go on themselves. Frames that run the old code know their
own blocks alone.
"""

from __future__ import annotations

import gc
import logging
import types
import weakref
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from aotdyn import config
from aotdyn.runtime import continuation
from aotdyn.runtime.continuation import Continuation

if TYPE_CHECKING:
    from aotdyn.rewrite.blocks import Block

log = logging.getLogger("aotdyn")

unsettled: list[Home] = []
"""Homes that have got blocks which no function has yet."""


class Home:
    """The blocks of one dispatcher's frames. `code` gives their original code."""

    def __init__(self, name: str, code: Callable[[], types.CodeType]) -> None:
        self.name = name
        self.code = code
        self.blocks: dict[str, Block] = {}
        self.continuations: dict[str, Continuation] = {}

    def add(self, block: Block, k: Continuation) -> None:
        """From the next settling on there is this block, for a continuation."""
        if self.continuations.get(block.label) is not k:
            self.blocks[block.label] = block
            self.continuations[block.label] = k
            if self not in unsettled:
                unsettled.append(self)

    def clear(self) -> None:
        """Forget all blocks; code that has them keeps them."""
        self.blocks.clear()
        self.continuations.clear()

    def settle(self) -> None:
        """Put in the code with all blocks."""
        raise NotImplementedError


class InPlace(Home):
    """Stubs that continue their frames themselves. `functions` gives those that can be found."""

    def __init__(
        self, name: str, code: Callable[[], types.CodeType], functions: Callable[[], Iterable[types.FunctionType]]
    ) -> None:
        super().__init__(name, code)
        self.functions = functions

    def settle(self) -> None:
        from aotdyn.rewrite import blocks, originals

        original = self.code()
        chosen = [block for block in self.blocks.values() if blocks.possible(original, block.point)]
        code = blocks.stub(original, self.name, chosen)
        for each in self.functions():
            old = each.__code__
            same = (old.co_filename, old.co_firstlineno) == (code.co_filename, code.co_firstlineno)
            if same and originals.dispatcher_of(old) == self.name:
                each.__code__ = code


class Hosted(Home):
    """A function beside the stub that continues its frames: what runs in it is within an extent (`dispatch.enter`)."""

    def settle(self) -> None:
        from aotdyn.rewrite import blocks

        if len(self.blocks) > 1:
            host = continuation.function(
                blocks.host(self.code(), list(self.blocks.values())), next(iter(self.continuations.values())).globals
            )
            for k in self.continuations.values():
                k.made = host


def blocks_wanted() -> bool:
    """Whether the options ask for blocks at all."""
    return config.current().continuations == "block"


def settle() -> None:
    """Put in all blocks that have come up; a failure leaves the functions as they are."""
    while unsettled:
        home = unsettled.pop()
        try:
            home.settle()
        except Exception as error:
            if config.current().strict:
                raise
            log.warning("%s has no blocks behind its breaks: %s: %s", home.name, type(error).__name__, error)


class Alive:
    """Gives functions that were added, as long as the program keeps them."""

    def __init__(self, *functions: types.FunctionType) -> None:
        self._references: list[weakref.ref[types.FunctionType]] = []
        for each in functions:
            self.append(each)

    def append(self, function: types.FunctionType) -> None:
        """From now on this one as well."""
        self._references = [reference for reference in self._references if reference() is not None]
        self._references.append(weakref.ref(function))

    def __call__(self) -> list[types.FunctionType]:
        return [function for reference in self._references if (function := reference()) is not None]


def in_module(qualname: str, dispatcher: str, globals: dict[str, Any]) -> list[types.FunctionType]:
    """The functions of a module whose code asks a dispatcher: one that its qualified name leads to, else all there are.

    The latter are found as what refers to the module's dict, which takes some
    40 ms in a process with torch.
    """
    from aotdyn.rewrite.originals import dispatcher_of

    obj: Any = globals
    for part in qualname.split("."):
        names = obj if type(obj) is dict else getattr(obj, "__dict__", {})
        obj = names.get(part)
    wrapped = getattr(obj, "__func__", None) or getattr(obj, "fget", None) or obj
    if isinstance(wrapped, types.FunctionType) and dispatcher_of(wrapped.__code__) == dispatcher:
        return [wrapped]
    everywhere = gc.get_referrers(globals)
    found = [function for function in everywhere if isinstance(function, types.FunctionType)]
    return [function for function in found if dispatcher_of(function.__code__) == dispatcher]
