"""A frame of the traced program, and the loop that runs its instructions on values."""

from __future__ import annotations

import os
import types
from collections.abc import Sequence as AnySequence
from typing import TYPE_CHECKING, Any

from aotdyn.guards.sources import Arg

from .control import Break, Raised
from .decode import Instruction, decode
from .liveness import liveness
from .opcodes import OPCODES
from .opcodes.exceptions import Chained, chain
from .values import Cell, Const, Generator, Method, Namespace, Value, cleans_up, force

if TYPE_CHECKING:
    from aotdyn.guards.sources import Source

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
"""Where our own Python lies, polyfills among it: its frames don't show."""


class Frame:
    """One activation of a code object.

    `owner` and `path` say where the code comes from (see `values.Function`).
    `by_call` says that the caller reached this frame by a CALL of its own.
    `saved` is the stack, and `position` the tracer's position, at the start of
    the current instruction. `calling` is true while a CALL of this frame looks
    for its callee; who makes the callee's frame reads and clears it. `given`
    are the parameters as they came, `entered` how many operations had been
    captured then, and `stub` says that the function is hooked: called by
    Python it would be compiled by itself.
    """

    def __init__(
        self,
        t: Any,
        code: types.CodeType,
        globals: Namespace,
        locals: dict[str, Value],
        cells: dict[str, Cell],
        owner: Source | None = None,
        path: tuple[int, ...] = (),
        caller: Frame | None = None,
        by_call: bool = False,
    ) -> None:
        self.t, self.code, self.globals, self.locals, self.cells = t, code, globals, locals, cells
        self.owner, self.path, self.caller, self.by_call = owner, path, caller, by_call
        self.decoded = decode(code)
        self.stack: list[Value] = []
        self.saved: list[Value] = []
        self.index = self.next = 0
        self.position = 0
        self.calling = False
        self.given = tuple(locals.values())
        self.entered = t.operations
        self.stub = False
        self.turns: dict[int, tuple[int, int, int]] = {}
        "by the index of a jump back: how often it was taken; operations captured and where to break at the first"
        self.kw_names: tuple[str, ...] = ()
        self.constants: dict[int, Value] = {}
        self.outcome: tuple[str, Value] | None = None
        self.generator: Generator | None = None
        # Of a generator's frame: the exception that it handles while it waits, and what its resumer handles.
        self.own_handled: Value | None = None
        self.outer_handled: Value | None = None

    # -- Where it stands ----------------------------------------------------------------------------------------------

    @property
    def instruction(self) -> Instruction:
        return self.decoded.instructions[self.index]

    @property
    def offset(self) -> int:
        """The byte offset of the current instruction (of its first EXTENDED_ARG, if any)."""
        return self.instruction.offset

    @property
    def line(self) -> int:
        """The source line of the current instruction."""
        return self.decoded.lines[self.index]

    def live(self) -> frozenset[str]:
        """The locals and cells that may still be read from the current instruction on."""
        return liveness(self.code)[self.index]

    def live_behind(self) -> frozenset[str]:
        """Those that may still be read once the current instruction, a call, has returned or raised."""
        found, handler = liveness(self.code), self.decoded.handlers[self.index]
        return found[self.index + 1] | (found[handler.target] if handler else frozenset())

    def start_at(self, offset: int, stack: AnySequence[Value] = ()) -> None:
        """Make the instruction at `offset` the next to run, with `stack`."""
        self.index = self.next = self.decoded.index[offset]
        self.stack = list(stack)

    def guarded(self) -> bool:
        """Whether an exception raised by the current instruction could reach a handler or a `with` of the user's.

        The exits of torch's own context managers, and the compiler's clean-up handlers, don't count.
        """
        handler = self.decoded.handlers[self.index]
        while handler is not None:
            first, second = self.decoded.instructions[handler.target : handler.target + 2]
            if first.opname == "PUSH_EXC_INFO":
                if second.opname != "WITH_EXCEPT_START":
                    return True
                leave = self.stack[handler.depth - 1] if handler.depth <= len(self.stack) else None
                if not (isinstance(leave, Method) and leave.self_value.cls.__module__.startswith("torch.")):
                    return True
            handler = self.decoded.handlers[handler.target]
        return False

    def waits_guarded(self) -> bool:
        """Whether a generator's frame waits where an exception would find a handler (`finally` and `with` are such)."""
        return self.decoded.handlers[self.index] is not None

    # -- The stack ----------------------------------------------------------------------------------------------------

    def push(self, value: Value) -> None:
        if value.source is None and not value.born:
            value.born = self.position
        self.stack.append(value)

    def pop(self) -> Value:
        return self.stack.pop()

    def let_go(self, value: Value | None) -> None:
        """To be called where a name or stack slot gives up a value: Python does it where code may run at its end."""
        if value is not None and cleans_up(value):
            raise Break(f"a {value.cls.__qualname__} is given up, which may have something to clean up")
        if value is not None and isinstance(value.source, Arg):
            self.t.given_up.append(value)

    def popn(self, count: int) -> list[Value]:
        """The topmost `count` values, the deepest first."""
        if not count:
            return []
        found = self.stack[-count:]
        del self.stack[-count:]
        return found

    def jump(self, ins: Instruction) -> None:
        """Go on at the target of `ins`."""
        if ins.target <= self.index:
            self.t.turn(self)
        self.next = ins.target

    # -- Running ------------------------------------------------------------------------------------------------------

    def run(self) -> Value:
        """Run until RETURN_VALUE; of a generator function, make the generator.

        `Raised` leaves the frame. After a `Break`, or whatever else ends the
        trace, `t.frame` still is the innermost frame.
        """
        return self.advance()[1]

    def advance(self) -> tuple[str, Value]:
        """Run until the frame returns or yields: ('return' or 'yield', value)."""
        self.t.enter(self)
        try:
            self.outcome = None
            while self.outcome is None:
                self.step()
        except Raised:
            self.t.leave(self)
            raise
        self.t.leave(self)
        return self.outcome

    def step(self) -> None:
        """Run one instruction."""
        t, ins = self.t, self.decoded.instructions[self.index]
        self.saved = list(self.stack)
        t.step(self)
        self.position = t.position
        self.next = self.index + 1
        try:
            OPCODES[ins.opname](t, self, ins)
        except Raised as raised:
            self.unwind(raised)
        if self.outcome is None:
            self.index = self.next

    def unwind(self, raised: Raised) -> None:
        """Go to the handler of the current instruction, or leave the frame with the exception."""
        value = force(raised.value)
        if not isinstance(raised, Chained):
            chain(self.t, value)
        if not isinstance(raised, Chained) or value is not self.t.raised:
            self.t.raised, self.t.raised_at, self.t.raised_here = value, self.t.break_position(), self.t.here()
        self.log(value)
        self.kw_names = ()
        handler = self.decoded.handlers[self.index]
        if handler is None:
            try:
                raise raised if isinstance(raised, Chained) else Chained(raised.value)
            finally:
                del raised  # its traceback refers to this frame, and this frame to all its callers
        del self.stack[handler.depth :]
        if handler.lasti:
            self.push(Const(self.offset // 2))
        self.push(raised.value)
        self.next = handler.target

    def log(self, exception: Value) -> None:
        """Note this frame in the traceback of an exception, as PyTraceBack_Here does: not where it is raised again."""
        ins = self.instruction
        again = ins.opname == "RERAISE" or (ins.opname == "RAISE_VARARGS" and not ins.arg)
        if not again and not self.code.co_filename.startswith(PACKAGE):
            entry = (self.code.co_filename, self.line, self.code.co_name)
            self.t.thrown[exception] = (entry, *self.t.thrown.get(exception, ()))

    def __repr__(self) -> str:
        return f"Frame({self.code.co_qualname}:{self.line})"
