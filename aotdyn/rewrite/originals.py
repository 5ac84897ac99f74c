"""From a stub back to the original code: one table, read by the tracer, digests and inlining."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import CodeType

from aotdyn.rewrite import names

_table: dict[str, CodeType | Later | Callable[[], CodeType]] = {}


def register(dispatcher: str, code: CodeType | Callable[[], CodeType]) -> None:
    """Note the original behind the stub that asks `dispatcher`; a thunk is called when it is first wanted."""
    _table[dispatcher] = code


class Later:
    """Gives the original code behind a dispatcher when it is first wanted: one object for all stubs of a module."""

    __slots__ = ("read",)

    def __init__(self, read: Callable[[str], CodeType]) -> None:
        self.read = read


def register_later(dispatchers: Iterable[str], read: Callable[[str], CodeType]) -> None:
    """Note that `read` gives the originals behind these dispatchers."""
    _table.update(dict.fromkeys(dispatchers, Later(read)))


def dispatcher_of(code: CodeType) -> str | None:
    """Name of the dispatcher that `code` asks first, None if it isn't a stub."""
    if names.FIX not in code.co_names:
        return None
    # A stub's own names stand behind the original's: dispatcher, fix, enter, then those of its blocks.
    before = code.co_names.index(names.FIX) - 1
    if before >= 0 and code.co_names[before].startswith(names.DISPATCHER):
        return code.co_names[before]
    return None


def original(code: CodeType) -> CodeType:
    """The code that the stub `code` was made from; `code` itself if it is no stub.

    Raises KeyError for a stub that this process never made or registered.
    """
    name = dispatcher_of(code)
    if name is None:
        return code
    return by_name(name)


def by_name(dispatcher: str) -> CodeType:
    """The original behind the stub that asks `dispatcher`; KeyError for one never registered."""
    found = _table[dispatcher]
    if not isinstance(found, CodeType):
        found = _table[dispatcher] = found.read(dispatcher) if isinstance(found, Later) else found()
    return found
