"""A runtime of thirty lines for the tests of rewrite, and a stepper that breaks a function at every instruction."""

from __future__ import annotations

import builtins
import itertools
import marshal
import sys
from collections.abc import Callable
from contextlib import contextmanager
from types import CellType, CodeType, FunctionType, TracebackType
from typing import Any

from aotdyn.rewrite import blocks, dialect, digest, names, originals, points, protocol, stubs, tables
from aotdyn.rewrite.assembler import Assembler, Chunk, Label
from aotdyn.rewrite.tables import Position
from aotdyn.runtime.variant import ResumePoint


class Pending(tuple):
    """What a continuation returns that breaks again."""

    def __new__(cls, state: tuple[Any, ...], k: Any) -> Pending:
        return tuple.__new__(cls, (state, k))


class Continuation:
    """A point's function, called with a whole state tuple and this."""

    def __init__(self, point: ResumePoint, namespace: dict[str, Any], code: CodeType | None = None) -> None:
        self.point, self.namespace = point, namespace
        self.code = code or marshal.loads(point.code)
        self.block = points.label_in(self.code, point)

    @property
    def made(self) -> FunctionType:
        cells = tuple(CellType() for _ in self.code.co_freevars)
        return FunctionType(self.code, self.namespace, "resume", None, cells)


def enter(state: tuple[Any, ...], k: Continuation) -> Any:
    while True:
        result = k.made(state, k)
        if type(result) is not Pending:
            return result
        state, k = result


def fix(exc: BaseException) -> None:
    caller = sys._getframe(1)
    kept = []
    entry = exc.__traceback__
    while entry is not None:
        ours = entry.tb_frame is caller or entry.tb_frame.f_code.co_filename == __file__
        if not ours or kept:
            kept.append(entry)
        entry = entry.tb_next
    kept = [e for e in kept if e.tb_frame.f_code.co_filename != __file__]
    rest = None
    for entry in reversed(kept):
        rest = TracebackType(rest, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    exc.__traceback__ = rest


@contextmanager
def installed(**dispatchers: Any):
    """The builtins of a runtime, and any dispatchers, for a while."""
    before = dict(vars(builtins))
    vars(builtins).update({names.ENTER: enter, names.FIX: fix, names.PENDING: Pending, names.TYPE: type}, **dispatchers)
    try:
        yield
    finally:
        for name in set(vars(builtins)) - set(before):
            delattr(builtins, name)
        vars(builtins).update(before)


class Stepper:
    """Runs a function through a continuation an instruction, handlers of exceptions included.

    At the start and behind each instruction a dispatcher hands over to the
    continuation that runs the next one, `limit` times; from then on all answer
    None, and the original goes on from there.
    """

    def __init__(self, function: FunctionType) -> None:
        self.plain = function
        self.limit = self.steps = 0
        self.seen: set[str] = set()
        code = function.__code__
        self.digest = digest.digest(code)
        self.code = _watch_handlers(code, self._handler_name)
        self.spec = stubs.spec_of(code, "sample")
        self.name = points.dispatcher_name(self.spec)
        originals.register(self.name, self.code)
        self.function = FunctionType(
            stubs.stub(self.code, self.name),
            function.__globals__,
            code.co_name,
            function.__defaults__,
            function.__closure__,
        )
        self.function.__kwdefaults__ = function.__kwdefaults__
        self.first = next(ins.end for ins in dialect.instructions(self.code.co_code) if ins.op == "RESUME")
        self.ops = {ins.start: ins.op for ins in dialect.instructions(self.code.co_code)}
        self.handlers = handler_slots(code)
        self.points: dict[tuple[Any, ...], Continuation | None] = {}
        vars(builtins)[self.name] = self._start
        for target in self.handlers:
            vars(builtins)[self._handler_name(target)] = lambda *values, t=target: self._handle(t, values)

    def into_blocks(self, every: int = 1) -> None:
        """From now on every n-th of the points met so far is a block of the function's own code."""
        chosen = [k for k in self.points.values() if k and blocks.possible(self.plain.__code__, k.point)][::every]
        code = WatchedStub(self, [blocks.Block(k.block, k.point) for k in chosen]).build()
        self.function.__code__ = code

    def run(self, limit: int) -> FunctionType:
        """The function, to be called once: its next call breaks `limit` times."""
        self.limit, self.steps = limit, 0
        return self.function

    def _handler_name(self, target: int) -> str:
        return f"{names.DISPATCHER}handler_{self.digest}_{target}"

    def _start(self, *values: Any) -> Any:
        params = [n for n in self.spec.params if n not in self.spec.cells]
        given = dict(zip(self.spec.params, values, strict=False))
        state = tuple(given[n] for n in params) + values[len(self.spec.params) :]
        return self._go(self.first, params, "", state)

    def _handle(self, target: int, values: tuple[Any, ...]) -> Any:
        variables = sys._getframe(2).f_locals
        live = [n for n in self.code.co_varnames if n not in self.spec.cells and n in variables]
        return self._go(
            target, live, dialect.letters(self.handlers[target]), tuple(variables[n] for n in live) + values
        )

    def _go(self, offset: int, bound: Any, stack: str, state: tuple[Any, ...]) -> Any:
        if self.steps >= self.limit:
            return None
        key = offset, tuple(bound), stack
        if key not in self.points:
            self.points[key] = self._make(*key)
        k = self.points[key]
        if k is None:
            return None
        self.steps += 1
        return state, k

    def _make(self, offset: int, bound: tuple[str, ...], stack: str) -> Continuation | None:
        op = dialect.operation(dialect.instructions(self.code.co_code), offset)[-1].op
        self.seen.add(op)
        if op == "RETURN_VALUE":
            return None
        point = points.resume_point(self.code, "sample", self.code.co_qualname, self.digest, offset, bound, stack)
        for spec in point.exits:
            vars(builtins)[points.dispatcher_name(spec)] = lambda *values, spec=spec: self._go(
                spec.offset, spec.params, spec.stack, values
            )
        return Continuation(point, self.plain.__globals__)


class WatchedStub(blocks.Stub):
    """A stub with blocks whose handlers first ask a dispatcher."""

    def __init__(self, stepper: Stepper, chosen: list[blocks.Block]) -> None:
        super().__init__(stepper.plain.__code__, stepper.name, chosen)
        self.stepper = stepper
        self.places: dict[int, Label] = {}

    def more(self) -> None:
        for target, slots in self.stepper.handlers.items():
            if "n" in slots and self.scratch < 0:
                continue
            self.places[target] = label = Label()
            self.asm.put(label)
            asking = protocol.Asking(self.asm, slots, self.switch, self.scratch)
            asking.ask(self.stepper._handler_name(target), [], self.loads())
            self.asm.op("JUMP_BACKWARD", self.body.label(target))

    def redirected(self, regions: list[tables.Region]) -> list[tables.Region]:
        to = {self.body.label(target).unit: label.unit for target, label in self.places.items()}
        return [r._replace(target=to.get(r.target, r.target)) for r in regions]


def handler_slots(code: CodeType) -> dict[int, str]:
    """The stack at each handler, by abstract interpretation of the whole function."""
    program = {ins.start: ins for ins in dialect.instructions(code.co_code)}
    regions = tables.regions(code)
    known: dict[int, str] = {}
    handlers: dict[int, str] = {}
    todo = [(2 * dialect.header_units(code), "")]
    while todo:
        offset, slots = todo.pop()
        if offset in known:
            assert known[offset] == slots
            continue
        known[offset] = slots
        ins = program[offset]
        for region in regions:
            # PUSH_EXC_INFO can't raise, and its exception isn't where a handler's region expects the saved state.
            if region.start <= ins.offset // 2 < region.end and ins.op != "PUSH_EXC_INFO":
                left = slots[: region.depth]
                left = left[:-1] + "h" if left.endswith("e") else left
                handlers[2 * region.target] = left + "v" * (1 + region.lasti)
                todo.append((2 * region.target, handlers[2 * region.target]))
        if ins.op != "RETURN_VALUE":
            todo += [(way.offset, way.slots) for way in dialect.exits(ins, slots)]
    return handlers


def _watch_handlers(code: CodeType, name: Callable[[int], str]) -> CodeType:
    """`code` whose handlers first ask a dispatcher, from blocks behind the body."""
    asm = Assembler(code, Position(tables.last_line(code)))
    asm.names += [names.PENDING, names.FIX]
    body = Chunk(
        code.co_code, 0, len(code.co_code) // 2, code.co_linetable, code.co_firstlineno, tables.last_line(code)
    )
    asm.put(body)
    places = {}
    for target, slots in handler_slots(code).items():
        places[target // 2] = label = Label()
        asm.put(label)
        cells = [("LOAD_CLOSURE", index) for index in stubs.cell_indices(code)]
        protocol.Asking(asm, slots, names.PENDING, scratch=0).ask(name(target), [], cells)
        asm.op("JUMP_BACKWARD", body.label(target))
    data, locations, regions = asm.finish()
    regions = [
        r._replace(target=places[r.target].unit) if r.start < len(code.co_code) // 2 and r.target in places else r
        for r in regions
    ]
    return code.replace(
        co_code=data,
        co_linetable=locations,
        co_exceptiontable=tables.encode_regions(regions),
        co_names=tuple(asm.names),
        co_consts=tuple(asm.consts),
        co_stacksize=asm.depth,
    )


def outcome(call: Callable[[], Any]) -> Any:
    """Result of a call, or what a user sees of its exception: types, texts, traceback down to the columns, context."""
    try:
        return "returned", call()
    except Exception as exc:
        return "raised", _seen(exc)
    finally:
        assert sys.exception() is None


def _seen(exc: BaseException | None) -> Any:
    if exc is None:
        return None
    frames = []
    entry = exc.__traceback__
    while entry is not None:
        code = entry.tb_frame.f_code
        if code.co_filename != __file__:
            place = next(itertools.islice(code.co_positions(), entry.tb_lasti // 2, None))
            frames.append((code.co_qualname, code.co_filename, entry.tb_lineno, place))
        entry = entry.tb_next
    return type(exc), str(exc), frames, _seen(exc.__context__), _seen(exc.__cause__)
