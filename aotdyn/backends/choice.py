"""Which of two ways a graph's calls go: by its kernel, or as plain calls. A few live calls tell the faster one.

Each call is a real one and goes one way alone, its backward with it. The ways
take turns, so that what varies over time meets both; the medians decide, or the
best calls, where these still say otherwise after twice as many. For a
graph with gradients the time of its backward counts: from when the first
gradient of its outputs arrives to when the last of its inputs' is done.

Calls under hooks for saved tensors always go the way that the first of them
went: activation checkpointing runs a call again, and must meet the same one.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import torch

from aotdyn.backends.stored import Compiled, Files
from aotdyn.report import events

if TYPE_CHECKING:
    from aotdyn.store.store import Store


class Policy(msgspec.Struct, frozen=True):
    """How a graph gets its kernel: `later` by a worker, or now; whether it is `measured` against plain calls, and
    whether parameters are `frozen` in it. A worker makes it once calls of the graph have run `often` operators."""

    later: bool = False
    measured: bool = False
    frozen: bool = False
    often: int = 0


NOW = Policy()

EAGER, KERNEL = "eager", "kernel"

ROUNDS, PATIENCE, CLEAR = 5, 12, 2.0
"""Calls each way that decide, those after which a backward isn't waited for, and how much worse
the best of the slower way must be than the worst of the other to decide after three."""

FILE = "choice"

clock = time.perf_counter_ns


class Verdict(msgspec.Struct, frozen=True, array_like=True):
    """The faster way, and the seconds of a call each way."""

    way: str
    eager: float
    kernel: float


def place(digest: str) -> str:
    """The key of a kernel's verdict in the store."""
    return f"{digest}-choice"


def files(verdict: Verdict) -> Files:
    """A verdict as the store keeps it."""
    return {FILE: msgspec.msgpack.encode(verdict)}


def known(store: Store | None, digest: str | None, graph: str | None = None) -> str:
    """The way that an earlier process on such a machine found to be the faster; empty if none did.

    `graph` is the graph's key, for the account of what kernels save.
    """
    directory = store.kernel_path(place(digest)) if store is not None and digest is not None else None
    if directory is None:
        return ""
    try:
        verdict = msgspec.msgpack.decode((directory / FILE).read_bytes(), type=Verdict)
    except (OSError, msgspec.MsgspecError):
        return ""
    note(graph, verdict)
    return verdict.way


def note(graph: str | None, verdict: Verdict) -> None:
    """Tell the account what a call of a graph saves by going the way that was chosen."""
    if graph is not None and verdict.way == KERNEL:
        events.saves(graph, verdict.eager - verdict.kernel)


class Ways:
    """A graph's callable while it isn't settled which way its calls go."""

    made = 0
    "how many there were in this process that go another way soon"
    soon = True

    def __init__(self) -> None:
        Ways.made += self.soon
        self._settled: Compiled | None = None
        self._hooked: Compiled | None = None

    def __call__(self, *inputs: torch.Tensor) -> Sequence[Any]:
        settled = self._settled
        if settled is not None:
            return settled(*inputs)
        if saving_is_hooked():
            if self._hooked is None:
                self._hooked = self.default()
            return self._hooked(*inputs)
        return self.undecided(inputs)

    def default(self) -> Compiled:
        """The way of calls that mustn't change theirs."""
        raise NotImplementedError

    def undecided(self, inputs: tuple[torch.Tensor, ...]) -> Sequence[Any]:
        """A call while nothing is settled."""
        raise NotImplementedError

    def settle(self, run: Compiled) -> None:
        """From the next call on, go this way."""
        hooked = self._hooked
        if hooked is None or hooked is run:
            self._settled = run
        else:
            self._settled = lambda *inputs: (hooked if saving_is_hooked() else run)(*inputs)


def saving_is_hooked() -> bool:
    """Whether hooks for saved tensors are set in this thread."""
    return torch._C._autograd._top_saved_tensors_default_hooks(False) is not None


class Sample(msgspec.Struct):
    """One measured call."""

    way: str
    forward: int = 0
    differentiable: bool = False
    begun: int = 0
    done: int = 0
    backward: int = -1
    "which of autograd's passes it is that counts"
    handles: list[Any] = []

    def begin(self, _: Any) -> None:
        """A gradient of an output arrives; only the first backward counts."""
        if not self.begun:
            self.begun = self.done = clock()
            self.backward = torch._C._current_graph_task_id()

    def finish(self, _: Any) -> None:
        """A gradient of an input is computed."""
        if self.begun and self.backward == torch._C._current_graph_task_id():
            self.done = clock()

    def end(self) -> None:
        """Take the hooks away."""
        for handle in self.handles:
            handle.remove()
        self.handles.clear()

    @property
    def whole(self) -> int:
        """Nanoseconds of the call and its backward."""
        return self.forward + self.done - self.begun


class Measured(Ways):
    """A kernel that is yet to be compared with plain calls.

    Args:
        kernel: the compiled way.
        eager: makes the other way, when it is first needed.
        chosen: told the verdict, once.
    """

    def __init__(self, kernel: Compiled, eager: Callable[[], Compiled], chosen: Callable[[Verdict], None]) -> None:
        super().__init__()
        self._kernel = kernel
        self._make = eager
        self._eager: Compiled | None = None
        self._chosen = chosen
        self._lock = threading.Lock()
        self._calls = 0
        self._samples: list[Sample] = []

    def default(self) -> Compiled:
        return self._kernel

    def undecided(self, inputs: tuple[torch.Tensor, ...]) -> Sequence[Any]:
        """One measured call; unmeasured by the kernel while another one is being measured."""
        if torch.are_deterministic_algorithms_enabled() or not self._lock.acquire(blocking=False):
            return self._kernel(*inputs)
        try:
            verdict = self._verdict()
            if verdict is None:
                return self._measure(inputs)
        finally:
            self._lock.release()
        self.settle(self._kernel if verdict.way == KERNEL else self._plain())
        for sample in self._samples:
            sample.end()
        self._samples.clear()
        self._chosen(verdict)
        return self(*inputs)

    def _plain(self) -> Compiled:
        if self._eager is None:
            self._eager = self._make()
        return self._eager

    def _measure(self, inputs: tuple[torch.Tensor, ...]) -> Sequence[Any]:
        """Calls go kernel, eager, eager, kernel, and so on; the first each way only warms up."""
        sample = Sample(KERNEL if self._calls % 4 in (0, 3) else EAGER)
        run = self._kernel if sample.way == KERNEL else self._plain()
        start = clock()
        outputs = run(*inputs)
        sample.forward = clock() - start
        self._calls += 1
        if self._calls > 2:
            if len(self._samples) > 1:
                self._samples[-2].end()  # its backward is over, or will not come in time
            self._watch(sample, inputs, outputs)
            self._samples.append(sample)
        return outputs

    def _watch(self, sample: Sample, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Note when a backward of the outputs begins and reaches the inputs."""
        if not torch.is_grad_enabled():
            return
        nodes = {id(node): node for each in outputs if (node := getattr(each, "grad_fn", None)) is not None}
        if not nodes:
            return
        sample.differentiable = True
        for node in nodes.values():
            sample.handles.append(node.register_prehook(sample.begin))
        edges = [torch.autograd.graph.get_gradient_edge(each).node for each in inputs if each.requires_grad]
        for node in {id(node): node for node in edges if id(node) not in nodes}.values():
            sample.handles.append(node.register_prehook(sample.finish))

    def _verdict(self) -> Verdict | None:
        """What the samples say; None while there are too few."""
        samples = self._samples
        least = min(sum(each.way == way for each in samples) for way in (EAGER, KERNEL))
        if least < 2:
            return None
        if any(each.differentiable for each in samples):
            whole = [each for each in samples if each.begun]
            enough = min(sum(each.way == way for each in whole) for way in (EAGER, KERNEL))
            if enough < 2 and least < PATIENCE:
                return None
            if enough >= 2:
                samples, least = whole, enough
        times = [[each.whole for each in samples if each.way == way] for way in (EAGER, KERNEL)]
        eager, kernel = (_median(each) for each in times)
        fastest = [min(each) for each in times]
        clear = least >= 3 and max(fastest) > CLEAR * min(max(each) for each in times)
        agreed = (eager < kernel) == (fastest[0] < fastest[1])
        if least < 2 * ROUNDS and not (agreed and (clear or least >= ROUNDS)):
            return None
        if not agreed:  # a busy machine: what was disturbed least tells
            eager, kernel = fastest
        return Verdict(EAGER if eager < kernel else KERNEL, eager / 1e9, kernel / 1e9)


def _median(times: list[int]) -> float:
    """The median: a start that is warm needn't import `statistics` for it."""
    ordered, half = sorted(times), len(times) // 2
    return float(ordered[half]) if len(times) % 2 else (ordered[half - 1] + ordered[half]) / 2
