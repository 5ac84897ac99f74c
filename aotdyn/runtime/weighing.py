"""Whether what was captured of a function pays: some of its calls are weighed, once (docs/design/policy.md).

A call that is served costs its guards, the graph's inputs and what stands
behind the graph: all that a dispatcher takes but for the graph. It saves what
Python takes for the instructions that were traced, and what a call of the
kernel takes less than plain calls. Both are added up for all pieces of a
function; where they cost more than they save, the function is left to Python.
A graph of which it isn't settled yet whether its kernel is used isn't weighed.
"""

from __future__ import annotations

import collections
import sys
import time
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch.compiler import is_dynamo_compiling

from aotdyn.report import events

if TYPE_CHECKING:
    from aotdyn.runtime.entry import Entry
    from aotdyn.runtime.served import Line
    from aotdyn.runtime.thrift import Account
    from aotdyn.runtime.variant import Variant

INSTRUCTION, MEASURING = 40e-9, 0.4e-6
"Seconds that Python takes for an instruction (with what it calls of C, but for operators), and that a sample takes."
RARE, SAMPLES = 200, 25
"Calls of one variant before one is weighed, and those that are: what is called less often isn't worth a thought."
WARMING = 10
"Calls of the function that tells the time before CPython has specialized its code."
CLEAR, LEAST = 1.25, 1e-6
"How many times as much a call has to cost as it saves, and how many seconds more, for a verdict."

PAYS = "its calls were weighed: they save more than they cost"

clock = time.perf_counter_ns


class Weight(NamedTuple):
    """Seconds that a call costs and saves, on an average of so many calls."""

    calls: int
    cost: float
    gain: float


class Scale:
    """Weighs the calls of one entry: stands in front of its variants until it knows."""

    def __init__(self, entry: Entry, miss: Any) -> None:
        self.entry = entry
        self._miss = miss
        self._busy = False
        "a call is weighed just now"
        self._inside = 0
        "nanoseconds of it that the graph has taken"
        self._seen: collections.Counter[Line] = collections.Counter()
        "calls that weren't weighed"
        self._twins: dict[Line, Callable[..., Any]] = {}
        self._samples: dict[Line, list[int]] = {}

    def __call__(self, *args: Any) -> Any:
        """The dispatcher: what serves the call answers, as ever."""
        if is_dynamo_compiling():
            return None  # TorchDynamo goes through here itself
        entry = self.entry
        if entry.direct and (globals := sys._getframe(1).f_globals) is not entry.globals:
            return entry.asked(globals, args)
        start = clock()
        for line in entry.lines:
            if self._seen[line] < RARE:
                answer = line.probe(*args)
                self._seen[line] += answer is not self._miss
            else:
                answer = self._weigh(line, start, args)
            if answer is not self._miss:
                return answer
        return entry.miss(*args)

    def _weigh(self, line: Line, start: int, args: tuple[Any, ...]) -> Any:
        """A variant's answer to a call that began at `start`."""
        if self._busy:  # it is another thread's, or this one lies inside of it
            return line.probe(*args)
        self._busy = True
        try:
            self._inside = 0
            answer = self._twin(line)(*args)
            if answer is not self._miss:
                self._note(line, clock() - start - self._inside)
            return answer
        finally:
            self._busy = False

    def _twin(self, line: Line) -> Callable[..., Any]:
        """A variant's function that tells how long its graph takes."""
        if line not in self._twins:
            function: Any = line.probe
            names = [f"k{i}" for i, recipe in enumerate(line.variant.pool) if recipe.op == "graph"]
            timed = {name: self._timed(function.__globals__[name]) for name in names}
            self._twins[line] = types.FunctionType(function.__code__, {**function.__globals__, **timed})
            self._samples[line] = []
        return self._twins[line]

    def _timed(self, graph: Callable[..., Any]) -> Callable[..., Any]:
        def run(*inputs: Any) -> Any:
            start = clock()
            try:
                return graph(*inputs)
            finally:
                self._inside += clock() - start

        return run

    def _note(self, line: Line, took: int) -> None:
        samples = self._samples[line]
        samples.append(took)
        if len(samples) == WARMING + SAMPLES:
            _weighed(self.entry, self._weight())

    def _weight(self) -> Weight:
        calls, cost, gain = 0, 0.0, 0.0
        for line, samples in self._samples.items():
            counted = sorted(samples[WARMING:])
            if counted:
                calls += len(counted)
                cost += len(counted) * max(counted[len(counted) // 2] / 1e9 - MEASURING, 0.0)
                gain += len(counted) * saves(line)
        return Weight(calls, cost / calls, gain / calls)


def _weighed(entry: Entry, weight: Weight) -> None:
    """Where the calls of the whole function don't pay, it is left to Python; this holds for the backend alone."""
    from aotdyn.runtime import cold, thrift

    entry.weight, entry.scale = weight, None
    account = entry.account
    assert account is not None
    reason = judge(account)
    if reason is None:
        entry.install()
    elif reason:
        thrift.leave(entry, reason, weighed=_backend(entry))
    else:
        account.pays = True
        for piece in account.entries:
            if not piece.spec.offset:
                cold.keep_verdict(piece.spec, entry.extent, PAYS, weighed=_backend(entry), pays=True)
            piece.scale = None
            piece.install()


def holds(entry: Entry, verdict: Variant) -> bool:
    """Whether a stored verdict holds under the entry's backend."""
    return verdict.weighed in ("", _backend(entry))


def _backend(entry: Entry) -> str:
    from aotdyn.backends import registry
    from aotdyn.runtime import cold

    return registry.resolve(cold.backend(entry.extent)).name


def saves(line: Line) -> float:
    """Seconds that a call of a variant saves besides what its dispatcher takes."""
    variant = line.variant
    kernel = 0.0 if variant.graph is None else events.saved_per_call(variant.graph)
    return variant.instructions * INSTRUCTION + kernel


def begin(entry: Entry, miss: Any) -> None:
    """Have an entry's calls weighed, once: under thrift, where what is the faster is found out by measuring."""
    if entry.account is None or entry.account.pays or entry.weight is not None or entry.scale is not None:
        return
    from aotdyn.runtime import thrift

    measured = thrift.chosen().choose == "measured" and not torch.are_deterministic_algorithms_enabled()
    if measured and all(map(settled, entry.lines)):
        entry.scale = Scale(entry, miss)


def settled(line: Line) -> bool:
    """Whether it is known of a variant what Python would have run, and which way its graph goes."""
    from aotdyn.runtime import cold

    return line.variant.instructions > 0 and line.variant.graph not in cold.unsettled


def judge(account: Account) -> str | None:
    """Why a function doesn't pay, all of its pieces together; empty where it does, None where it isn't known yet."""
    often = [(entry.weight, n) for entry in account.entries if entry.lines and (n := entry.graph_calls()) >= RARE]
    if not often or any(weight is None for weight, _ in often):
        return None
    calls = max(n for _, n in often)
    cost = sum(weight.cost * n for weight, n in often if weight)
    gain = sum(weight.gain * n for weight, n in often if weight)
    if cost <= CLEAR * gain or cost - gain <= LEAST * calls:
        return ""
    return f"its guards take {1e6 * cost / calls:.0f} us a call and save {1e6 * gain / calls:.0f} us"
