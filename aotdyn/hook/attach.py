"""Where the hook meets the runtime: a dispatcher in `builtins` for every stub.

Until torch is imported there is nothing to capture, and what is hooked must
not be what imports it: a program may set its environment first. So a stub's
first dispatcher is a small one of ours, which leaves calls to Python until
torch is there and then asks the runtime for the real one.
"""

from __future__ import annotations

import builtins
import logging
import sys
from collections.abc import Iterable
from types import CodeType
from typing import Any, NamedTuple

from aotdyn.report import events
from aotdyn.runtime.variant import FrameSpec

log = logging.getLogger("aotdyn.hook")


class Stub(NamedTuple):
    """One stub, and what it hands its dispatcher."""

    dispatcher: str
    qualname: str
    digest: str
    params: tuple[str, ...]
    cells: tuple[str, ...]


_attached: dict[str, str] = {}
"Dispatcher name to module: all that this process has ever attached."


def attach(module: str, dispatchers: Iterable[str]) -> None:
    """Give every stub of a module its dispatcher; those that have one keep it.

    All stubs share one first dispatcher, so that a warm import, which attaches
    thousands, makes no object for any of them.
    """
    new = dict.fromkeys(dispatchers, module)
    if not _attached.keys().isdisjoint(new):
        new = {name: module for name in new if name not in _attached}
    if new:
        _attached.update(new)
        vars(builtins).update(dict.fromkeys(new, _first))
        events.count("functions_stubbed", len(new))


def detach() -> None:
    """Make every stub step aside: its dispatcher answers None from now on."""
    vars(builtins).update(dict.fromkeys(_attached, passive))


def reattach() -> None:
    """Take back `detach`."""
    for name in _attached:
        if getattr(builtins, name, None) is passive:
            setattr(builtins, name, _first)


def attached(module: str) -> dict[str, Stub]:
    """The stubs of a module, by dispatcher."""
    from aotdyn.rewrite import originals

    return {name: stub_of(name, originals.by_name(name)) for name, owner in _attached.items() if owner == module}


def modules() -> set[str]:
    """The modules that have stubs."""
    return set(_attached.values())


def stub_of(dispatcher: str, code: CodeType) -> Stub:
    """The stub that asks a dispatcher, from its code or the original's."""
    from aotdyn.rewrite.names import digest_in

    count = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 0x4) + bool(code.co_flags & 0x8)
    cells = code.co_cellvars + code.co_freevars
    return Stub(dispatcher, code.co_qualname, "".join(digest_in(dispatcher)), code.co_varnames[:count], cells)


def passive(*_: Any) -> None:
    """A dispatcher that leaves the call to Python."""


def _first(*args: Any) -> Any:
    """The first dispatcher of every stub: whose, the frame that asks shows."""
    if "torch" not in sys.modules:
        return None
    from aotdyn.rewrite.originals import dispatcher_of
    from aotdyn.runtime import dispatch

    frame = sys._getframe(1)
    name = dispatcher_of(frame.f_code)
    if name is None or name not in _attached:
        return None
    stub = stub_of(name, frame.f_code)
    spec = FrameSpec(_attached[name], stub.qualname, stub.digest, 0, stub.params, "", stub.cells)
    return dispatch.install_stub(name, spec, frame.f_globals, args)
