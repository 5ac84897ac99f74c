"""From a stub back to the original code: one table, read by the tracer, digests and inlining.

A stub that asks a switchboard enters the table when somebody first asks whose it is.
"""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType

from aotdyn.rewrite import names, switchboard

_table: dict[str, CodeType | Callable[[], CodeType]] = {}

_stand_ins: dict[int, tuple[CodeType, CodeType]] = {}
"By id: code that stands for other code, and that one."


def register(dispatcher: str, code: CodeType | Callable[[], CodeType]) -> None:
    """Note the original behind the stub that asks `dispatcher`; a thunk is called when it is first wanted."""
    _table[dispatcher] = code


def forget(dispatcher: str) -> None:
    """No stub asks `dispatcher` any more."""
    _table.pop(dispatcher, None)


def stands_for(code: CodeType, other: CodeType) -> None:
    """Note that `code`, which is no stub, runs in place of `other`, and does the same as far as anybody can tell."""
    _stand_ins[id(code)] = code, other


def dispatcher_of(code: CodeType) -> str | None:
    """Name of the dispatcher that `code` asks first, None if it isn't a stub."""
    if names.FIX not in code.co_names:
        return None
    # A stub's own names stand behind the original's: dispatcher, fix, enter, then those of its blocks.
    before = code.co_names.index(names.FIX) - 1
    if before >= 0 and code.co_names[before].startswith(names.DISPATCHER):
        return code.co_names[before]
    seat = switchboard.seat_in(code)
    return None if seat is None else switchboard.dispatcher(seat, code)


def original(code: CodeType) -> CodeType:
    """The code that the stub `code` was made from, or that it stands for; `code` itself if it is neither.

    Raises KeyError for a stub that this process never made or registered.
    """
    name = dispatcher_of(code)
    if name is None:
        return _stand_ins.get(id(code), (code, code))[1]
    return by_name(name)


def by_name(dispatcher: str) -> CodeType:
    """The original behind the stub that asks `dispatcher`; KeyError for one never registered."""
    found = _table[dispatcher]
    if not isinstance(found, CodeType):
        found = _table[dispatcher] = found()
    return found
