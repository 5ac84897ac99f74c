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
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from aotdyn.report import events
from aotdyn.runtime.variant import FrameSpec

log = logging.getLogger("aotdyn.hook")


class Stub(NamedTuple):
    """What a module's record keeps of one stub, as data that marshals."""

    dispatcher: str
    qualname: str
    digest: str
    params: tuple[str, ...]
    cells: tuple[str, ...]


_attached: dict[str, tuple[str, Stub]] = {}
"Dispatcher name to module and stub: all that this process has ever attached."


def attach(module: str, stubs: Iterable[Stub]) -> None:
    """Give every stub of a module its dispatcher; those that have one keep it."""
    new = 0
    for stub in stubs:
        if stub.dispatcher not in _attached:
            _attached[stub.dispatcher] = (module, stub)
            setattr(builtins, stub.dispatcher, _first(module, stub))
            new += 1
    if new:
        events.count("functions_stubbed", new)


def detach() -> None:
    """Make every stub step aside: its dispatcher answers None from now on."""
    for name in _attached:
        setattr(builtins, name, passive)


def reattach() -> None:
    """Take back `detach`."""
    for name, (module, stub) in _attached.items():
        if getattr(builtins, name, None) is passive:
            setattr(builtins, name, _first(module, stub))


def attached(module: str) -> dict[str, Stub]:
    """The stubs of a module, by dispatcher."""
    return {name: stub for name, (owner, stub) in _attached.items() if owner == module}


def passive(*_: Any) -> None:
    """A dispatcher that leaves the call to Python."""


def module_of(name: str) -> str:
    """The name in `sys.modules` behind a stub's module: `__main__` is keyed by its file, as `__main__@<file>`."""
    return name.partition("@")[0]


def _first(module: str, stub: Stub) -> Callable[..., Any]:
    def first(*args: Any) -> Any:
        if "torch" not in sys.modules:
            return None
        _install(module, stub)
        return getattr(builtins, stub.dispatcher)(*args)

    return first


def _install(module: str, stub: Stub) -> None:
    """Put the runtime's dispatcher in the place of ours."""
    from aotdyn.runtime import dispatch

    spec = FrameSpec(module, stub.qualname, stub.digest, 0, stub.params, "", stub.cells)
    dispatch.install_stub(stub.dispatcher, spec, lambda: vars(sys.modules[module_of(module)]))
