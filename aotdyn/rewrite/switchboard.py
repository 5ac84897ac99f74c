"""Switchboards: where the stubs of hooked modules find their dispatchers.

All stubs of a module ask one object in `builtins`, each by a number:

    __aotdyn_s_<module>_<digest>.ask[7](x, y)

so that a warm import, which has thousands of stubs, makes one object a module and not a name for each stub. A
dispatcher's name, which holds the digest of the original code, is worked out when somebody first wants to know it.
"""

from __future__ import annotations

import builtins
import threading
from collections.abc import Callable, Mapping
from types import CodeType
from typing import Any

import msgspec

from aotdyn.rewrite import names

Dispatcher = Callable[..., Any]


class Seat(msgspec.Struct, frozen=True):
    """Where a stub finds its dispatcher: a switchboard's name in builtins, and a number."""

    board: str
    number: int


class Switchboard:
    """The dispatchers of one module's stubs.

    Args:
        module: the module's name; `__main__@<file>` for a program.
        count: how many stubs it has.
        orders: what is put behind the digest in the names of some of them (`.2`): see `stubs.stub_tree`.
    """

    __slots__ = ("ask", "count", "module", "named", "orders")

    def __init__(self, module: str, count: int, orders: Mapping[int, str]) -> None:
        self.module = module
        self.count = count
        self.orders = orders
        self.named: dict[int, str] = {}
        self.ask = idle
        "a list of its own as soon as one of the dispatchers is another than that which most start with"

    def __call__(self) -> None:
        """TorchDynamo, which goes through stubs, takes what lies in builtins and isn't callable for a literal."""
        raise TypeError("a switchboard isn't to be called")

    def install(self, number: int, dispatcher: Dispatcher) -> None:
        """Put a dispatcher in its seat."""
        with _lock:
            if self.ask is idle:
                self.ask = idle[: self.count]
            self.ask[number] = dispatcher


idle: list[Dispatcher] = []
"What the first switchboard starts with, and all that start with the same, as long as any of them needs."

_lock = threading.Lock()

boards: dict[str, Switchboard] = {}
"All of this process, by name. None goes away: code that asks it may be anywhere."

_seats: dict[str, Seat] = {}

_known: dict[int, tuple[CodeType, Seat]] = {}
"Stubs whose seats somebody has asked for, by id: code objects compare, and hash, all that they hold."


def board_name(module: str, digest: str) -> str:
    """The name in builtins of the switchboard of a module whose source has this digest."""
    return f"{names.SWITCHBOARD}{names.identifier(module)}_{digest}"


def put_in(board: str, module: str, count: int, orders: Mapping[int, str], first: Dispatcher) -> bool:
    """Make a switchboard known to stubs, unless it is already; whether it is new."""
    if board in boards:
        return False
    found = Switchboard(module, count, orders)
    if idle and idle[0] is not first:
        found.ask = [first] * count
    elif len(idle) < count:
        idle.extend([first] * (count - len(idle)))
    boards[board] = found
    setattr(builtins, board, found)
    return True


def exchange(change: Callable[[Dispatcher], Dispatcher]) -> None:
    """Put what `change` makes of it in the place of each dispatcher, and of that which all start with."""
    with _lock:
        for found in (idle, *(board.ask for board in boards.values() if board.ask is not idle)):
            found[:] = [change(dispatcher) for dispatcher in found]


def seat_in(code: CodeType) -> Seat | None:
    """Where `code` finds its dispatcher, if it is a stub that asks a switchboard of this process."""
    known = _known.get(id(code))
    if known is not None and known[0] is code:
        return known[1]
    found = _seat_in(code)
    if found is not None:
        _known[id(code)] = code, found
    return found


def _seat_in(code: CodeType) -> Seat | None:
    found = code.co_names
    if names.FIX not in found:
        return None
    # A stub's own names stand behind the original's: switchboard, `ask`, fix, enter.
    at = found.index(names.FIX) - 2
    if at < 0 or found[at] not in boards:
        return None
    from aotdyn.rewrite.stubs import number_in

    return Seat(found[at], number_in(code))


def dispatcher(seat: Seat, stub: CodeType) -> str:
    """The name of the dispatcher that `stub` finds in its seat; seat and original are known by it from then on."""
    board = boards[seat.board]
    known = board.named.get(seat.number)
    if known is None:
        from aotdyn.rewrite import originals, stubs
        from aotdyn.rewrite.digest import digest

        code = stubs.original(stub)
        whole = digest(code) + board.orders.get(seat.number, "")
        known = names.dispatcher_name(code.co_qualname, whole, module=board.module)
        originals.register(known, code)
        _seats[known] = seat
        board.named[seat.number] = known
    return known


def seat(name: str) -> Seat | None:
    """The seat of the dispatcher of this name, where it has one."""
    return _seats.get(name)


def install(name: str, dispatcher: Dispatcher) -> bool:
    """Put a dispatcher in the seat that its name stands for; whether it has one."""
    found = _seats.get(name)
    if found is not None:
        boards[found.board].install(found.number, dispatcher)
    return found is not None
