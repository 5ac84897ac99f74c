"""The tracer's one entry: a frame and its real arguments in, a variant and its graph out.

A trace is attempted, and attempted again with a planned end where the frame
has to break: tracing is deterministic and touches nothing real, so that the
second attempt arrives at the same place in a clean state.
"""

from __future__ import annotations

import contextlib
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from aotdyn.errors import GraphBreakError
from aotdyn.graph.build import FakeFailure
from aotdyn.guards import ahead
from aotdyn.guards.globalstate import FACTS
from aotdyn.guards.sources import Arg, Source
from aotdyn.runtime.variant import BreakInfo, FrameSpec, Inlined, Variant

from . import builtins, numpy_, torch_
from .control import Break, LeaveAlone, LookedAt, Raised, Unbuildable
from .finish import broken, left_alone, returned
from .frame import Frame
from .giveup import called_from, chain_of, constructs, is_tensor_operation, last_frame
from .sizes import STATIC, Policy
from .tracer import MAX_DEPTH, Stop, Tracer
from .values import NULL, SavedException, Value

MAX_ATTEMPTS = 24
SOON = 1000
"Turns of a loop that are worth going on for, though none captures anything."

_filled = (builtins, numpy_, torch_)  # imported so that the tables of handlers are full


@dataclass
class Traced:
    """What a trace gave: the variant, its graph (None without operations) and the graph's inputs as real tensors."""

    variant: Variant
    graph: Any = None
    example_inputs: list[Any] = field(default_factory=list)


def trace(
    spec: FrameSpec,
    code: types.CodeType,
    globals: dict[str, Any],
    args: tuple[Any, ...],
    options: Any,
    fullgraph: bool = False,
    hooked: bool = False,
    sizes: Policy = STATIC,
    orders: Mapping[tuple[Any, ...], tuple[Any, ...]] | None = None,
    sparing: bool = False,
) -> Traced:
    """Trace the frame that `spec` describes, with the dispatcher's arguments `args`; `sizes` says which sizes vary.

    `orders` foresees another process: in which order it iterates over a set grown by some keys. `sparing` gives up a
    frame that only calls, again and again, what is better compiled by itself.

    Raises:
        GraphBreakError: `fullgraph` is set and the frame breaks.
    """
    tracers: list[Tracer] = []
    looked_at: set[Source] = set()

    def tracer(stop_at: int | None) -> Tracer:
        tracers.append(Tracer(spec, globals, options, stop_at, hooked, sizes, frozenset(looked_at)))
        tracers[-1].orders = orders or {}
        tracers[-1].sparing = sparing
        return tracers[-1]

    try:
        with _deep_stack():
            while True:
                try:
                    return _attempts(tracer, code, globals, args, fullgraph)
                except LookedAt as seen:
                    looked_at |= seen.sources
    finally:
        for each in tracers:
            each.release()


@contextlib.contextmanager
def _deep_stack() -> Iterator[None]:
    """Room for the tracer's own frames: several for each frame of the program."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, 20 * MAX_DEPTH + limit))
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)


def _attempts(
    tracer: Callable[[int | None], Tracer],
    code: types.CodeType,
    globals: dict[str, Any],
    args: tuple[Any, ...],
    fullgraph: bool,
) -> Traced:
    stop_at: int | None = None
    reason: Break | None = None
    where: BreakInfo | None = None
    callee: Source | None = None
    for _ in range(MAX_ATTEMPTS):
        t = tracer(stop_at)
        if FACTS["saved_tensor_hooks"].read():
            # The hooks see each tensor that autograd saves: a graph, without what is dead, would show them others.
            t.guard_global("saved_tensor_hooks")
            return _traced(t, left_alone(t, "hooks on saved tensors are active"))
        frame = _outermost(t, code, globals, args)
        try:
            with t.state.restored():
                value = frame.run()
            return _traced(t, returned(t, frame, value))
        except Stop:
            position = t.break_position()
            if position < t.position:
                stop_at = position
                continue
            assert where is not None
            if fullgraph:
                raise GraphBreakError.at(where) from None
            try:
                return _broken(t, where, callee, args)
            except Unbuildable as problem:
                stop_at = _earlier(problem, stop_at)
        except Break as found:
            numpy_.arrays.looked_at(t, t.frame.saved if t.frame is not None else ())
            if t.hooked and not t.spec.offset and constructs(code):
                return _traced(t, left_alone(t, f"a constructor that breaks: {found.reason}"))
            reason, where = found, _where(t, found)
            _forget_frames(found)
            inner = called_from(t.frame, last_frame(t, t.frame))
            callee = inner.owner if inner is not None and not inner.path else None
            stop_at = t.break_position() if found.position is None else found.position
        except Raised as raised:
            _forget_frames(raised)
            reason = Break(_exception_text(raised), "An exception leaves the compiled code.")
            where = _where(t, reason, getattr(t, "raised_here", None))
            stop_at = getattr(t, "raised_at", 1)
        except Unbuildable as problem:
            reason = Break(f"{problem.reason}, and it leaves the frame")
            where = where or _where(t, reason)
            stop_at = _earlier(problem, stop_at)
        except LeaveAlone as verdict:
            result = left_alone(t, verdict.reason)
            result[0].prepares, result[0].seconds = verdict.prepares, verdict.seconds
            return _traced(t, result)
        if stop_at is None or stop_at < 1:
            return _traced(t, left_alone(t, str(reason) or "no place to break"))
    return _traced(t, left_alone(t, f"no clean place to break: {reason}"))


def _broken(t: Tracer, where: BreakInfo, callee: Source | None, args: tuple[Any, ...]) -> Traced:
    """What was traced up to a break; Unbuildable where a value that is needed behind it can't be made."""
    result = broken(t, chain_of(t.frame), where, callee)
    if _idles(t, result[0], args):
        return _traced(t, left_alone(t, "a loop from whose body nothing is captured"))
    result[0].eager_operations = int(is_tensor_operation(t.frame))
    return _traced(t, result)


def _forget_frames(error: BaseException) -> None:
    """Drop the tracebacks of an error of ours and of the operator behind it: they hold the arguments."""
    error.__traceback__ = None
    failure = error.__cause__
    if isinstance(failure, FakeFailure):
        failure.__traceback__ = None
        if failure.original is not None:
            failure.original.__traceback__ = None


def _idles(t: Tracer, variant: Variant, args: tuple[Any, ...]) -> bool:
    """Whether what follows a break captures nothing and ends in a break that leads back to where it began.

    A loop that is known to end soon doesn't: what stands behind it may be worth its turns.
    """
    if t.operations or not t.spec.offset or len(variant.resumes) != 1:
        return False
    stack = args[len(t.spec.params) : len(args) - len(t.spec.cells)]
    iterator = next((each for each in reversed(stack) if type(each) in ahead.TYPES), None)
    if iterator is not None and ahead.known(iterator) and not ahead.longer(iterator, SOON):
        return False
    return any(exit.offset == t.spec.offset for exit in variant.resumes[0].exits)


def _earlier(problem: Unbuildable, stop_at: int | None) -> int:
    born = problem.value.born
    if born <= 0 or (stop_at is not None and born >= stop_at):
        return 0
    return born


def _outermost(t: Tracer, code: types.CodeType, globals: dict[str, Any], args: tuple[Any, ...]) -> Frame:
    """The traced frame, with its parameters, stack and cells as values loaded from the arguments."""
    spec = t.spec
    cell_names = set(spec.cells)
    locals: dict[str, Value] = {}
    for i, name in enumerate(spec.params):
        if name not in cell_names:
            locals[name] = t.wrap(args[i], Arg(i, name))
    i = len(spec.params)
    stack: list[Value] = []
    handled: Value | None = None
    letters = list(spec.stack)
    while letters:
        letter = letters.pop(0)
        if letter == "n":
            stack.append(NULL)
            continue
        if letter == "e":
            stack.append(SavedException(handled))
            letters.pop(0)
        value = t.wrap(args[i], Arg(i, f"stack[{len(stack)}]"))
        i += 1
        if letter == "e":
            handled = value
            if letters[:1] == ["p"]:
                letters.pop(0)  # popped already
                continue
        stack.append(value)
    t.handled = handled
    t.sizes.hand(Inlined(spec.module, spec.qualname, spec.digest), locals)
    cells = {name: t.cell(args[i + j], Arg(i + j, name)) for j, name in enumerate(spec.cells)}
    frame = Frame(t, code, t.namespace(globals), locals, cells, None, (), None, True)
    if spec.offset:
        frame.start_at(spec.offset, stack)
    return frame


def _where(t: Tracer, reason: Break, place: tuple[str, int, str] | None = None) -> BreakInfo:
    file, line, function = place or t.here()
    if t.frame is None:  # it has returned: its result can't be rebuilt
        return BreakInfo(function, file, line, reason.reason, reason.hint)
    last = last_frame(t, t.frame) if place is None else t.frame
    callee = called_from(t.frame, last)
    if callee is not None and callee.stub:
        text = f"call of {callee.code.co_qualname}, which is compiled by itself, since it breaks"
        return BreakInfo(last.code.co_qualname, last.code.co_filename, last.line or 0, text)
    return BreakInfo(function, file, line, reason.reason, reason.hint)


def _exception_text(raised: Raised) -> str:
    return f"{raised.value.cls.__name__} leaves the frame"


def _traced(t: Tracer, result: tuple[Variant, Any, list[Any]]) -> Traced:
    return Traced(*result)
