"""Entry: the variants of one function (or of what follows one break), and what happens when none fits.

The dispatcher that a stub calls is the generated function of the variant used
last. Where its guards fail it calls `others`, which tries the rest; where all
fail, `miss` loads, binds again or traces, and always ends in an answer by the
dispatch protocol: None lets the original body run.
"""

from __future__ import annotations

import contextlib
import functools
import marshal
import os
import sys
import threading
import types
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch.compiler import is_dynamo_compiling

from aotdyn import collecting, config, errors, interrupted
from aotdyn.guards import naming
from aotdyn.report import events
from aotdyn.runtime import binding, dispatch, reached
from aotdyn.runtime.served import Line, Served, Tally, counted
from aotdyn.runtime.variant import FrameSpec, Recipe, Variant
from aotdyn.runtime.waiting import Waiting

if TYPE_CHECKING:
    from aotdyn.guards.kinds import Reason
    from aotdyn.guards.sources import Source
    from aotdyn.runtime import limit
    from aotdyn.runtime.home import Home
    from aotdyn.runtime.moved import Moved

MISS = type("Miss", (), {"__repr__": lambda self: "<miss>"})()
"""What a variant's function answers `others` where its guards fail."""

entries: weakref.WeakSet[Entry] = weakref.WeakSet()
"""All entries of the process, for statistics."""


PACKAGE = os.path.dirname(os.path.dirname(__file__))

OFTEN = 64
"""Calls past the limit for which every stored variant is tried."""


class Tracing(threading.local):
    """Whether this thread is in the tracer or a backend: every stub answers None then."""

    active = False


tracing = Tracing()


@contextlib.contextmanager
def at_work() -> Iterator[None]:
    """While aotdyn traces and compiles for a call: stubs answer None, and a profile of the program doesn't see it."""
    profiled = torch.autograd._profiler_enabled()
    tracing.active = True
    if profiled:
        torch._C._autograd._enable_record_function(False)
    try:
        yield
    finally:
        tracing.active = False
        if profiled:
            torch._C._autograd._enable_record_function(True)


def _answer_miss(*args: Any) -> Any:
    return MISS


def left(*_: Any) -> None:
    """The dispatcher of what the policy leaves to Python."""


def _no_code() -> types.CodeType:
    return left.__code__


def release() -> None:
    """Have all entries let go of what is the program's, at the end of the process."""
    for entry in list(entries):
        entry.release()


class Entry(Waiting):
    """One dispatcher: its variants in the order of use, its counters.

    Args:
        name: the dispatcher's name in builtins.
        spec: where the frame starts and what the dispatcher is handed.
        extent: what `cold` needs to know of the compilation (backend, options); opaque here.
        globals: globals of the frame.
        code: gives the original code.
        publish: called with the function that is to be the dispatcher from then on; installs it by default.
        direct: whether a frame asks the dispatcher itself, so that the dispatcher sees to it that the frame's globals
            are those of the entry; else whoever asks vouches for them.
    """

    def __init__(
        self,
        name: str,
        spec: FrameSpec,
        extent: Any,
        globals: dict[str, Any],
        code: Callable[[], types.CodeType],
        publish: Callable[[Callable[..., Any]], None] | None = None,
        direct: bool = True,
    ) -> None:
        super().__init__(extent)
        self.name = name
        self.spec = spec
        self.globals = globals
        self.code = code
        self.direct = direct
        self.variants: list[Variant] = []
        self.lines: list[Line] = []
        self.moved: Moved = {}
        "sizes that were seen to vary: the next trace makes them symbols"
        self.numbers: frozenset[Source] = frozenset()
        "numbers that were seen to change: the next trace lets them flow where nobody looks at them"
        self.homes: list[Home] = []
        "functions whose own code may continue the frame"
        self.misses = 0
        self._retired = Tally()
        self.closed = False
        "the recompile limit has been met, and what was decided then doesn't fit"
        self.rests: list[Variant] = []
        "what the recompile limit decided: behind all variants"
        self.loaded = False
        self._unbound = ""
        "what a variant lacked whose guards held"
        self._unfit: set[int] = set()
        "variants (by id) whose fast guards failed although their data held"
        self._served = Served()
        self._behind: list[Line] = []
        "bound `rests`"
        self._given = 0
        "calls that these took"
        self._told = False
        self._last: Line | None = None
        self.failures = 0
        "how often tracing or compiling for it has failed by a fault of ours"
        if terms := getattr(extent, "sparing", ""):
            from aotdyn.runtime import thrift

            self.account, self.quiet = thrift.account(self), thrift.QUIET[terms]
        self._lock = threading.Lock()
        self._publish = publish or (lambda dispatcher: dispatch.install(name, dispatcher))
        entries.add(self)

    @property
    def dispatcher(self) -> Callable[..., Any]:
        """What the stub calls now."""
        if self.account is not None and self.account.verdict:
            return left
        if self.lines and self.scale is not None:
            return self.scale
        return self.lines[0].head if self.lines else self.first

    def publish_by(self, wrap: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
        """From now on publish what `wrap` makes of the dispatcher."""
        publish = self._publish
        self.direct = False
        self._publish = lambda dispatcher: publish(wrap(dispatcher))
        self.install()

    def install(self) -> None:
        """Makes the dispatcher known to stubs."""
        self._publish(self.dispatcher)

    def forget(self) -> None:
        """Drops all variants; the next call starts anew."""
        with self._lock:
            self._retired = self.tally()
            self.variants, self.lines, self._unfit, self._last = [], [], set(), None
            self.rests, self._behind, self._given = [], [], 0
            self.closed = self.loaded = self._told = False
            self._served.clear()
            self.moved, self.numbers = {}, frozenset()
            for home in self.homes:
                home.clear()
            self.misses = self.failures = 0
            self.wait_anew()
            if self.account is not None:
                self.account.forget()
            self.install()

    def graph_calls(self) -> int:
        """How many calls graphs have served."""
        return self.tally().graph_calls

    def tally(self) -> Tally:
        """What has been served so far."""
        return functools.reduce(Tally.plus, (line.tally() for line in self.lines), self._retired)

    def left_to_python(self) -> int:
        """Calls with tensors that no graph served."""
        return self.left + self._given + self.paused()

    def give_back(self) -> None:
        """The entry is given up: what it has counted goes over to the process's counters."""
        entries.discard(self)
        for name, count in counted([self]).items():
            events.count(name, count)

    def release(self) -> None:
        """Let go of all that is the program's: the process ends, and its objects are to end as they would."""
        self.give_back()
        self.drop()
        self.homes, self.globals, self.code = [], {}, _no_code
        self._publish(left)

    def others(self, *args: Any) -> Any:
        """Tries the variants behind the first; one that serves two calls in a row moves to the front."""
        for line in self.lines[1:]:
            answer = line.probe(*args)
            if answer is not MISS:
                if self._last is line:
                    self._promote(line)
                self._last = line
                return answer
        return self.miss(*args)

    def first(self, *args: Any) -> Any:
        """The dispatcher where no variant is bound."""
        if is_dynamo_compiling():
            return None  # TorchDynamo goes through here itself
        if self.skip > 0:
            return self.skipped()
        return self.asked(sys._getframe(1).f_globals, args) if self.direct else self.miss(*args)

    def stranger(self, *args: Any) -> Any:
        """A frame with other globals asks a bound variant."""
        return self.asked(sys._getframe(2).f_globals, args)

    def asked(self, globals: dict[str, Any], args: tuple[Any, ...]) -> Any:
        """The answer to a frame with these globals where no variant is bound for them."""
        return self.miss(*args) if self._at_home(globals) else None

    def _at_home(self, globals: dict[str, Any]) -> bool:
        """Whether a frame with these globals is this entry's.

        A copy of the function in another namespace isn't: its body runs. But
        a module that was loaded anew takes the entry over from its older self.
        """
        if globals is self.globals:
            return True
        if naming.module_name(globals) is None or naming.module_name(self.globals) is not None:
            return False
        self.forget()
        self.globals = globals
        return True

    def miss(self, *args: Any) -> Any:
        """No bound variant fits: finds or makes one, and runs it; None where the original body is to run."""
        if is_dynamo_compiling():
            return None  # first of all, as in `first`
        if self.lines and self.account is not None and self.misfits():
            return None
        if self.skip > 0:
            return self.skipped()
        if self.idle > 0:
            self.idle -= 1
            return None
        if tracing.active or dispatch.foreign_tracer() or dispatch.foreign_values(args):
            return None
        if dispatch.traced_by_debugger(self.spec):
            return None
        for rest in self._behind:
            answer = rest.probe(*args)
            if answer is not MISS and not self._tries():
                return answer
        if self.meets is not None and not self.meets(args, self.globals, self.code):
            return self.met_none()
        self.idled = 0
        if not self._lock.acquire(blocking=False):
            return None  # another thread traces, or this one met the function again while it does
        try:
            with collecting.put_off():
                line = self._find(args)
        finally:
            self._lock.release()
        self.left += line is None or line.variant.rest
        if line is None:
            return None
        answer = line.probe(*args)
        if answer is not MISS:
            return answer
        self._retire(line)
        return None

    def _tries(self) -> bool:
        """Whether variants that aren't bound yet are tried before a call is left to Python: ever more rarely."""
        self._given += 1
        often = self._given <= OFTEN or not self._given & (self._given - 1)
        return often and len(self.lines) < len(self.variants)

    def explain(self, args: tuple[Any, ...]) -> list[Reason]:
        """Why no variant fits: the first guard that fails of each, oldest first."""
        from aotdyn.runtime import explain

        failed = (explain.explain_miss(variant, args, self.globals) for variant in self.variants)
        return [self._in_words(reasons[0]) for reasons in failed if reasons]

    def _in_words(self, reason: Reason) -> Reason:
        """The reason with the user's words for what lies on the stack behind a break."""
        from aotdyn.report import words

        return words.of_stack(reason, self.code(), self.spec)

    # Finding a variant.

    def _find(self, args: tuple[Any, ...]) -> Line | None:
        from aotdyn.runtime import cold

        self.misses += 1
        if self.closed and self.misses & (self.misses - 1):
            return None  # past the limit, arms are tried again ever more rarely
        if self.account is not None:
            from aotdyn.runtime import thrift

            if thrift.too_busy(self):
                return None
        if not self.loaded:
            self.loaded = True
            self._take(cold.load(self))
            if self.account is not None and self.account.verdict:
                return None
        with at_work():
            try:
                return self._made(args)
            except errors.AotdynError:
                raise
            except (RecursionError, MemoryError):
                raise
            except Exception as error:
                interrupted.hand_on(error)
                cold.failed(self, error)
                return None

    def _take(self, stored: list[Variant]) -> None:
        """Have what is stored; what the policy has decided ends where there is no thrift."""
        from aotdyn.runtime import cold

        for variant in stored:
            if variant.thrifty and self.account is None:
                cold.prune(self, variant)
            else:
                (self.rests if variant.rest else self.variants).append(variant)

    def _made(self, args: tuple[Any, ...]) -> Line | None:
        """A variant that fits a call: one that is known and binds, or a new one; None leaves the call to Python."""
        known = self._rebind(args)
        if known is not None:
            self.unserved = 0
            return known
        if self.account is not None and not self._due(args):
            return None
        from aotdyn.runtime import limit, thrift

        found = limit.count(self._fit(), self._served, args, self.globals, len(self.code().co_freevars))
        if self._at_limit(found) or thrift.never_repeats(self, len(found.counted)):
            return self._give_up(found, args)
        traced = self._trace(args, found)
        return None if traced is None else self._bind_new(traced, args)

    def _due(self, args: tuple[Any, ...]) -> bool:
        """Under thrift: whether this call, which nothing serves, is to be traced."""
        from aotdyn.runtime import thrift

        self.unserved += 1
        self._ran += 1
        if not thrift.is_due(self, sys._getframe(), args):
            return False
        self.unserved = 0
        return True

    def made_for(self, args: Sequence[Any], enough: int) -> int:
        """How many variants for calls like this one have served fewer than `enough` calls.

        Those for modules of other classes aren't for this one.
        """
        proven = {id(line.variant) for line in self.lines if line.graph_calls() >= enough}
        return sum(id(each) not in proven and not self._served.others(each, args) for each in self.variants)

    def undecided(self) -> bool:
        """Whether the policy may have calls of the function traced yet."""
        return self.account is not None and not (self.account.verdict or self.closed or self.rests or self.needs)

    def drop(self) -> None:
        """Lose all variants: the policy leaves the function to Python from now on."""
        self._retired = self.tally()
        self.variants, self.lines, self._unfit, self._last = [], [], set(), None
        self.rests, self._behind = [], []
        self.weight = self.scale = None
        self._served.clear()
        self.install()

    def _rebind(self, args: tuple[Any, ...]) -> Line | None:
        """Binds the first known variant whose data holds: one from the store, or one whose objects were replaced."""
        self._unbound = ""
        for variant in [*self._fit(), *self.rests]:
            try:
                return self._bind(variant, args)
            except binding.BindingMiss as miss:
                self._unbound = miss.sentence or self._unbound
        return None

    def _fit(self) -> list[Variant]:
        return [variant for variant in self.variants if id(variant) not in self._unfit]

    def _bind(self, variant: Variant, args: tuple[Any, ...]) -> Line:
        from aotdyn.runtime import cold

        if getattr(self.extent, "fullgraph", False) and not variant.rest:
            self._whole(variant)
        host = binding.Host(
            graph=lambda inputs: cold.graph(self, variant, inputs),
            continuation=lambda point, *where: cold.continuation(self, variant.resumes[point], *where),
            code=self.code,
            lowering=self._lower,
            **self._reaching(),
        )
        bound = binding.bind(variant, args, self.globals, host, _answer_miss)
        asks = {"kframe": sys._getframe, "kstranger": self.stranger} if self.direct else {}
        line = Line(variant, bound, knext=self.others, **asks)
        if variant.rest:
            self._tell(variant.leave, variant.thrifty)
            self._behind = [line, *(old for old in self._behind if old.variant is not variant)]
            return line
        self._served.note(variant, args, self.globals)
        for old in self.lines:
            if old.variant is variant:
                self._retired = self._retired.plus(old.tally())
        self.lines = [line, *(old for old in self.lines if old.variant is not variant)]
        self._last = line
        if self.account is not None:
            from aotdyn.runtime import weighing

            weighing.begin(self, MISS)
        self.install()
        return line

    def _bind_new(self, variant: Variant, args: tuple[Any, ...]) -> Line | None:
        """Bind a variant to the call it was traced for; None where that doesn't meet what was taken for granted."""
        try:
            return self._bind(variant, args)
        except binding.BindingMiss as miss:
            expected = variant.guards[miss.guard].expected if miss.guard >= 0 else None
            if isinstance(expected, dict) and expected.get("assumed"):
                return None
            raise

    def _reaching(self) -> dict[str, Any]:
        """What an extent of its own does for what Python calls: see `runtime.reached`."""
        if not getattr(self.extent, "number", ""):
            return {}
        arity = len(self.spec.params)
        return {
            "reach": reached.reach,
            "leave": lambda: reached.Body(self.code(), self.globals, self.extent, arity),
        }

    def join(self, home: Home) -> None:
        """The entry's frame is of a home: what continues it becomes blocks there."""
        from aotdyn.runtime import cold

        if home not in self.homes:
            self.homes.append(home)
            for line in self.lines:
                if line.variant.resumes:
                    cold.continuation(self, line.variant.resumes[0], self.globals)

    def _whole(self, variant: Variant) -> None:
        """Refuses a variant that isn't one graph."""
        if variant.breaks:
            raise errors.GraphBreakError.at(variant.breaks[0])
        if variant.leave and not variant.prepares:
            raise errors.GraphBreakError(
                f"{self.spec.qualname} is left to Python, which fullgraph=True forbids: {variant.leave}"
            )

    @collecting.ending_frames()
    def _trace(self, args: tuple[Any, ...], found: limit.Count) -> Variant | None:
        from aotdyn.runtime import cold, limit, thrift

        if self.variants:
            self._again(args)
            self._learn(args)
        variant = cold.trace(self, args)
        if variant is not None and self.postponed and not variant.seconds:
            self.pay()
        if variant is None or (self.account is not None and not thrift.is_worth(self, variant)):
            return None
        variant.restless = limit.rows(found.restless)
        variant.made_up = thrift.making_up
        self._lower(variant)
        self.variants.append(variant)
        if not variant.process_local:
            cold.save(self, variant)
            other = cold.foresee(self, variant, args)
            if other is not None:
                self._lower(other)
                cold.save(self, other)
        return variant

    def _again(self, args: tuple[Any, ...]) -> None:
        """Say why a call is traced that others were traced before."""
        from aotdyn.guards.kinds import Reason, merged
        from aotdyn.report import logs
        from aotdyn.runtime import cold

        reasons = self.explain(args) or [Reason.of(self._unbound or "no variant fits")]
        events.recompile(self.spec.qualname, reasons[-1])
        said = "; ".join(merged(reasons))
        cold.missed(self, said)
        logs.logger("recompiles").debug("%s is traced again: %s", self.spec.qualname, said)
        if config.current().error_on_recompile:
            raise errors.RecompileLimitError(f"{self.spec.qualname} would be compiled again: {said}")

    def _learn(self, args: tuple[Any, ...]) -> None:
        """Note the sizes by which the call misses a variant, and those that earlier traces knew of."""
        from aotdyn.runtime import cold
        from aotdyn.runtime.moved import changed, learnt, merge, moved

        for variant in self.variants:
            self.numbers |= changed(variant, args, self.globals)
        if cold.learns(self):
            for variant in self.variants:
                merge(self.moved, learnt(variant, args, self.globals))
                merge(self.moved, moved(variant, args, self.globals))
            if self.moved:
                cold.handed_on(self, self.moved)

    def _lower(self, variant: Variant) -> tuple[types.CodeType, list[Recipe]]:
        from aotdyn.rewrite import lower

        code = self.code()
        with events.phase("lower"):
            lowered = lower.lower(variant, code.co_name, code.co_filename, code.co_firstlineno)
            compiled = lower.compile_lowered(lowered)
        variant.code, variant.pool = marshal.dumps(compiled), lowered.pool
        return compiled, lowered.pool

    def _at_limit(self, found: limit.Count) -> bool:
        options = config.current()
        full = len(self.variants) >= options.accumulated_recompile_limit
        return full or len(found.counted) >= options.recompile_limit

    def _give_up(self, found: limit.Count, args: tuple[Any, ...]) -> Line | None:
        """Past the limit: from now on Python runs calls like this one. What is decided is kept."""
        from aotdyn.runtime import cold, limit

        options = config.current()
        enough = len(found.counted) >= options.recompile_limit
        option = "recompile_limit" if enough else "accumulated_recompile_limit" if self._at_limit(found) else "thrift"
        text = limit.told(self._where(), found, len(self.variants), option, self._in_words)
        thrifty = option == "thrift"
        if options.fail_on_recompile_limit_hit and not thrifty:
            raise errors.RecompileLimitError(text)
        variant = limit.verdict(found, self.rests, text, thrifty)
        if variant is None:
            self.closed = True
            self._tell(text, thrifty)
            return None
        self._lower(variant)
        if len(self.rests) >= limit.RESTS:
            for old in self.rests:
                cold.prune(self, old)
            self.rests, self._behind = [], []
        self.rests.append(variant)
        if not variant.process_local:
            cold.save(self, variant)
        try:
            return self._bind(variant, args)
        except binding.BindingMiss:
            self.closed = True
            return None

    def _where(self) -> str:
        """The function, with its place."""
        code, name = self.code(), self.spec.qualname
        return name if code.co_filename.startswith(PACKAGE) else f"{name} ({code.co_filename}:{code.co_firstlineno})"

    def _tell(self, text: str, thrifty: bool) -> None:
        """Warn of the limit, once; of what thrift has decided in a package there are only the counters."""
        if self._told:
            return
        self._told = True
        if not thrifty or (self.account is not None and self.account.program):
            _logger().warning("aotdyn: %s", text)
        events.left_alone(self.spec.qualname, text)

    def _promote(self, line: Line) -> None:
        self.lines = [line, *(other for other in self.lines if other is not line)]
        self.install()

    def _retire(self, line: Line) -> None:
        """Its data held and its fast guards failed at once: a fault of ours, so the variant is given up."""
        self._unfit.add(id(line.variant))
        self._retired = self._retired.plus(line.tally())
        self.lines = [other for other in self.lines if other is not line]
        self.install()
        text = f"guards of a variant of {self.spec.qualname} fail on the very call that they were bound for"
        if config.current().strict:
            raise errors.AotdynError(text)
        _logger().warning("aotdyn: %s; it runs as plain Python", text)


def _logger() -> Any:
    import logging

    return logging.getLogger("aotdyn")


def _counts() -> dict[str, Any]:
    cold = sys.modules.get("aotdyn.runtime.cold")
    if cold is not None:
        cold.sweep()
    return counted(list(entries))


events.add_source(_counts)
