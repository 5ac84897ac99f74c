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
from functools import partial
from typing import Any, NamedTuple

from aotdyn.report import events
from aotdyn.runtime.variant import FrameSpec

log = logging.getLogger("aotdyn.hook")


class Stub(NamedTuple):
    """What a module's record keeps of one stub; stored, and handed to `attach`, as a plain tuple."""

    dispatcher: str
    qualname: str
    digest: str
    params: tuple[str, ...]
    cells: tuple[str, ...]


Row = tuple[str, str, str, tuple[str, ...], tuple[str, ...]]
"A Stub as marshal gives it back: a warm import makes thousands, and no more of each than it must."

_attached: dict[str, tuple[str, Row]] = {}
"Dispatcher name to module and stub: all that this process has ever attached."


def attach(module: str, rows: Iterable[Row]) -> None:
    """Give every stub of a module its dispatcher; those that have one keep it."""
    new = {row[0]: (module, row) for row in rows if row[0] not in _attached}
    if new:
        _attached.update(new)
        vars(builtins).update({name: partial(_first, module, row) for name, (_, row) in new.items()})
        events.count("functions_stubbed", len(new))


def detach() -> None:
    """Make every stub step aside: its dispatcher answers None from now on."""
    vars(builtins).update(dict.fromkeys(_attached, passive))


def reattach() -> None:
    """Take back `detach`."""
    for name, (module, row) in _attached.items():
        if getattr(builtins, name, None) is passive:
            setattr(builtins, name, partial(_first, module, row))


def attached(module: str) -> dict[str, Stub]:
    """The stubs of a module, by dispatcher."""
    return {name: Stub(*row) for name, (owner, row) in _attached.items() if owner == module}


def passive(*_: Any) -> None:
    """A dispatcher that leaves the call to Python."""


def module_of(name: str) -> str:
    """The name in `sys.modules` behind a stub's module: `__main__` is keyed by its file, as `__main__@<file>`."""
    return name.partition("@")[0]


def _first(module: str, row: Row, /, *args: Any) -> Any:
    """The first dispatcher of a stub."""
    if "torch" not in sys.modules:
        return None
    _install(module, Stub(*row))
    return getattr(builtins, row[0])(*args)


def _install(module: str, stub: Stub) -> None:
    """Put the runtime's dispatcher in the place of ours."""
    from aotdyn.runtime import dispatch

    spec = FrameSpec(module, stub.qualname, stub.digest, 0, stub.params, "", stub.cells)
    dispatch.install_stub(stub.dispatcher, spec, lambda: vars(sys.modules[module_of(module)]))
