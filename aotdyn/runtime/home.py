"""Homes: functions whose own code holds the blocks that continue their frames.

Where a frame has broken and gone on in continuation functions, the points
become blocks of one code, which is put in once that frame has ended: from the
next call on frames go on themselves. Frames that run the old code know their
own blocks alone.
"""

from __future__ import annotations

import logging
import types
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from aotdyn import collecting, config
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

    def host(self) -> None:
        """Continue the frames in one function beside the stub, which has all blocks."""
        from aotdyn.rewrite import blocks

        continuations = list(self.continuations.values())
        if len(continuations) > 1:
            code = blocks.host(self.code(), list(self.blocks.values()))
            made = continuation.function(code, continuations[0].globals)
            for k in continuations:
                k.made = made


class InPlace(Home):
    """Stubs that continue their frames themselves. `functions` gives those that can be found."""

    def __init__(
        self, name: str, code: Callable[[], types.CodeType], functions: Callable[[], Iterable[types.FunctionType]]
    ) -> None:
        super().__init__(name, code)
        self.functions = functions

    def settle(self) -> None:
        from aotdyn.rewrite import blocks

        original = self.code()
        chosen = [block for block in list(self.blocks.values()) if blocks.possible(original, block.point)]
        code: types.CodeType | None = None
        for each in self.functions():
            old = each.__code__
            same = (old.co_filename, old.co_firstlineno) == (original.co_filename, original.co_firstlineno)
            if same and _asks(old, self.name):
                code = code or blocks.stub(original, self.name, chosen, blocks.asked_by(old, original))
                each.__code__ = code
        if code is None:
            self.host()


class Hosted(Home):
    """A stub whose frames go on in a function beside it: what runs there is within an extent (`dispatch.enter`)."""

    def settle(self) -> None:
        self.host()


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
            log.warning("aotdyn: %s has no blocks behind its breaks: %s: %s", home.name, type(error).__name__, error)


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


thorough = False
"""Whether a function that its qualified name doesn't lead to is looked for: a process that has traced has the time."""


def in_module(qualname: str, dispatcher: str, globals: dict[str, Any]) -> list[types.FunctionType]:
    """The functions of a module whose code asks a dispatcher: one that its qualified name leads to, else all there are.

    The latter are found as what refers to the module's dict, which takes some
    40 ms in a process with torch.
    """
    found = named(qualname, dispatcher, globals)
    if found or not thorough:
        return found
    referrers = [each for each in collecting.referrers(globals) if isinstance(each, types.FunctionType)]
    return [each for each in referrers if _asks(each.__code__, dispatcher)]


def named(qualname: str, dispatcher: str, globals: dict[str, Any]) -> list[types.FunctionType]:
    """The functions of a module that a qualified name leads to and whose code asks a dispatcher."""
    return [each for each in _named(qualname, globals) if _asks(each.__code__, dispatcher)]


def _asks(code: types.CodeType, dispatcher: str) -> bool:
    """Whether code is a stub that asks this dispatcher. The names of other seats aren't worked out."""
    from aotdyn.rewrite import originals, switchboard

    seat = switchboard.seat(dispatcher)
    return originals.dispatcher_of(code) == dispatcher if seat is None else switchboard.seat_in(code) == seat


def _named(qualname: str, globals: dict[str, Any]) -> Iterator[types.FunctionType]:
    """The function of a qualified name, and those it wraps; no code of the program runs."""
    obj: Any = None
    names: Mapping[str, Any] = globals
    for part in qualname.split("."):
        obj = names.get(part)
        names = type.__dict__["__dict__"].__get__(obj) if isinstance(obj, type) else {}
    if type(obj) in (staticmethod, classmethod):
        obj = obj.__func__
    elif type(obj) is property:
        obj = obj.fget
    while isinstance(obj, types.FunctionType):
        yield obj
        obj = obj.__dict__.get("__wrapped__")
