"""Where the hook meets the runtime: a dispatcher for every stub.

Until torch is imported there is nothing to capture, and what is hooked must
not be what imports it: a program may set its environment first. So a stub's
first dispatcher is a small one of ours, which leaves calls to Python until
torch is there, and then to those that meet no tensor; for the others it asks the
runtime for the real one.
"""

from __future__ import annotations

import atexit
import functools
import gc
import logging
import sys
from collections.abc import Callable, Mapping
from types import CodeType, FrameType, FunctionType
from typing import Any, NamedTuple

from aotdyn import collecting
from aotdyn.hook import importing
from aotdyn.report import events
from aotdyn.rewrite import switchboard
from aotdyn.runtime.variant import FrameSpec

log = logging.getLogger("aotdyn.hook")


class Stub(NamedTuple):
    """One stub, and what it hands its dispatcher."""

    dispatcher: str
    qualname: str
    digest: str
    params: tuple[str, ...]
    cells: tuple[str, ...]


def attach(board: str, module: str, count: int, orders: Mapping[int, str]) -> None:
    """Give the stubs of a module their switchboard, with `count` dispatchers; a module loaded again keeps its own.

    All stubs share one first dispatcher, so that a warm import, which attaches
    thousands, makes no object for any of them.
    """
    if switchboard.put_in(board, module, count, orders, _first):
        events.count("functions_stubbed", count)


def detach() -> None:
    """Make every stub step aside: its dispatcher answers None from now on."""
    switchboard.exchange(lambda _: passive)


def reattach() -> None:
    """Take back `detach`."""
    switchboard.exchange(lambda dispatcher: _first if dispatcher is passive else dispatcher)


@functools.cache
def release_at_the_end() -> None:
    """When the process ends, let go of all that is the program's: its objects are to end as they would."""
    atexit.register(_release)


def _release() -> None:
    runtime = sys.modules.get("aotdyn.runtime.entry")
    if runtime is not None:
        runtime.release()
    detach()


def attached(module: str) -> dict[str, Stub]:
    """The stubs that the functions of a module have, by dispatcher: not for the warm path, it looks at all objects."""
    from aotdyn.rewrite import originals

    collecting.thaw()
    codes = [obj.__code__ for obj in gc.get_objects() if type(obj) is FunctionType]
    found: dict[str, Stub] = {}
    seen: set[CodeType] = set()
    while codes:
        code = codes.pop()
        if code in seen:
            continue
        seen.add(code)
        codes += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
        seat = switchboard.seat_in(code)
        if seat is not None and switchboard.boards[seat.board].module == module:
            name = originals.dispatcher_of(code)
            assert name is not None
            found[name] = stub_of(name, code)
    return found


def modules() -> set[str]:
    """The modules that have stubs."""
    return {board.module for board in switchboard.boards.values()}


def stub_of(dispatcher: str, code: CodeType) -> Stub:
    """The stub that asks a dispatcher, from its code or the original's."""
    from aotdyn.rewrite.names import digest_in

    count = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 0x4) + bool(code.co_flags & 0x8)
    cells = code.co_cellvars + code.co_freevars
    return Stub(dispatcher, code.co_qualname, "".join(digest_in(dispatcher)), code.co_varnames[:count], cells)


def passive(*_: Any) -> None:
    """A dispatcher that leaves the call to Python."""


_looks: dict[int, int] = {}
"How often the calls of a code (by id) were looked at and no tensor was found, beyond what is of no matter."


def _seen_nothing(code: CodeType, globals: dict[str, Any]) -> None:
    """A call of a stub met no tensor: after many, some go by without a look, and at last all do."""
    looks = _looks.get(id(code))
    if looks is not None and looks < 0:
        _looks[id(code)] = looks + 1
        return
    from aotdyn.runtime import thrift

    seat = switchboard.seat_in(code)
    if seat is None:
        return
    board = switchboard.boards[seat.board]
    terms = thrift.terms(of_the_program(board.module))
    if looks is None:
        looks = -thrift.QUIET.get(terms, sys.maxsize)
    elif looks != thrift.LOOKS.get(terms) or not _retire(seat, code, globals):
        _rest(board, seat.number, thrift.unasked(looks))
    _looks[id(code)] = looks + 1


def _retire(seat: switchboard.Seat, code: CodeType, globals: dict[str, Any]) -> int:
    """Give a stub's functions their own code back; how many were found."""
    from aotdyn.runtime import retired

    return retired.retire(switchboard.dispatcher(seat, code), code.co_qualname, globals)


def _rest(board: switchboard.Switchboard, number: int, calls: int) -> None:
    """Leave so many calls of a stub to Python, at as little cost as can be, and look again behind them."""
    from aotdyn.runtime import retired

    def then(*_: Any) -> None:
        if board.ask[number] is resting:
            board.install(number, _first)

    resting, _ = retired.rest(calls, then)
    board.install(number, resting)


_worth: Any = None
"The module of that name, once torch is there."


def with_torch() -> Any:
    """What `_worth` is from now on: None until torch has been imported to the end."""
    global _worth
    torch = sys.modules.get("torch")
    if torch is None or getattr(torch.__spec__, "_initializing", False) or torch.compiler.is_dynamo_compiling():
        return None
    from aotdyn.runtime import worth

    _worth = worth
    return worth


def of_the_program(module: str) -> bool:
    """Whether a hooked module is of the program that is run, rather than of a package that somebody named."""
    from aotdyn.hook.finder import finder

    if module.startswith("__main__"):
        return True
    found = [selection for selection in finder.selections if selection.named(module)]
    return bool(finder.selections) and all(selection.of_the_program(module) for selection in found)


def _first(*args: Any) -> Any:
    """The first dispatcher of every stub: whose, the frame that asks shows.

    While it looks, stubs that are asked step aside: what it imports may ask the program's own `__import__` or finders.
    """
    global _looking
    if _looking or (_worth is not None and _worth.torch.compiler.is_dynamo_compiling()):
        return None  # TorchDynamo goes through here itself
    _looking = True
    try:
        asked = _look(args, sys._getframe(1))
    finally:
        _looking = False
    return None if asked is None else asked()


_looking = False


def _look(args: tuple[Any, ...], frame: FrameType) -> Callable[[], Any] | None:
    """What asks the runtime for a call of a stub; None where the call is left to Python."""
    worth = _worth or with_torch()
    if worth is None:
        return None
    if not worth.meets_tensors(args) and not worth.names_tensors(frame.f_globals, frame.f_code.co_names):
        _seen_nothing(frame.f_code, frame.f_globals)
        return None
    importing.work_begins()
    seat = switchboard.seat_in(frame.f_code)
    if seat is None:
        return None
    from aotdyn.runtime import dispatch

    name = switchboard.dispatcher(seat, frame.f_code)
    stub = stub_of(name, frame.f_code)
    spec = FrameSpec(switchboard.boards[seat.board].module, stub.qualname, stub.digest, 0, stub.params, "", stub.cells)
    mine = of_the_program(spec.module)
    return lambda: dispatch.install_stub(name, spec, frame.f_globals, args, mine)
