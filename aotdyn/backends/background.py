"""A graph that runs eagerly until a worker has compiled it; then its kernel takes over, between two calls."""

from __future__ import annotations

import logging
import os
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import torch

from aotdyn.backends import aliasing, ambient, conditions, failures, fresh, inductor, jobs, pool, spool
from aotdyn.backends.choice import Ways
from aotdyn.backends.stored import CONDITIONS, OUTER, SHAPES, Compiled, Files
from aotdyn.report import events
from aotdyn.store import claims

if TYPE_CHECKING:
    from aotdyn.backends.inductor import Job

log = logging.getLogger("aotdyn.backends")

MANY = 32
"Tuples of sizes that a thorough pool compiles one graph for."

WAITED, LATELY = "waited", 24 * 3600.0
"File that says when a start has waited for a kernel in vain, and how long; seconds for which none waits again."

LOOKS = 0.1
"Seconds between two looks for what another process makes."

_tickets: dict[str, pool.Ticket | Awaited] = {}
"By kernel key: graphs that are the same share a job. A fork of the program begins anew."

os.register_at_fork(after_in_child=_tickets.clear)


def later(job: Job, digest: str | None, inputs: list[torch.Tensor]) -> Compiled | None:
    """The graph's callable for now; None where a thorough pool wants it compiled, and no worker can."""
    ticket = None if digest is None else _order(job, digest, inputs)
    if ticket is not None:
        return Later(job, digest, inputs, ticket)
    if _thorough():
        return None
    log.info("aotdyn: a graph that no other process can compile runs eagerly (compile='now' compiles it here)")
    return job.eager()


def _thorough() -> bool:
    """Whether the pool waits for all that it has ordered, and must have it."""
    mine = pool.current()
    return mine is not None and mine.thorough


class Seldom(Ways):
    """A graph's callable while it isn't known to be called often: it runs eagerly, and asks for a kernel later."""

    soon = False

    def __init__(self, job: Job, often: int) -> None:
        super().__init__()
        self._job = job
        self._eager = job.eager()
        self._calls = -(-often // max(len(job.program.steps), 1))

    def default(self) -> Compiled:
        return self._eager

    def undecided(self, inputs: tuple[torch.Tensor, ...]) -> Sequence[Any]:
        """A call while there were few."""
        self._calls -= 1
        if self._calls > 0:
            return self._eager(*inputs)
        self.settle(self._job.at_once(list(inputs)))
        return self(*inputs)


class Later(Ways):
    """One graph's callable. Where no worker can compile it, it stays eager."""

    def __init__(self, job: Job, digest: str | None, inputs: list[torch.Tensor], ticket: pool.Ticket | Awaited) -> None:
        super().__init__()
        self._job = job
        self._digest = digest
        self._eager = job.eager()
        self._pattern = aliasing.pattern(inputs, range(len(inputs)))
        self._ticket = ticket

    def default(self) -> Compiled:
        return self._eager

    def undecided(self, inputs: tuple[torch.Tensor, ...]) -> Sequence[Any]:
        """A call while the kernel isn't there, or the one that finds it."""
        ticket = self._ticket
        if isinstance(ticket, Awaited):
            ticket = self._ticket = ticket.now()
        if ticket.outcome is None:
            if _thorough():
                ticket.keep.note(inputs)
            mine = pool.current()
            if mine is not None:
                mine.look()
        if ticket.outcome is None or torch.are_deterministic_algorithms_enabled():
            return self._eager(*inputs)
        if aliasing.pattern(inputs, range(len(inputs))) != self._pattern:
            return self._eager(*inputs)
        self._swap(list(inputs))
        return self(*inputs)

    def _swap(self, inputs: list[torch.Tensor]) -> None:
        """Go on with what the worker made."""
        folder = self._ticket.folder
        run = self._job.opened(folder, inputs) if folder is not None else None
        if folder is not None and run is None:
            fresh.unloadable(self._job, self._digest, inputs)
        if run is None and self._elsewhere():
            run = self._job.make(self._digest, inputs)
        self.settle(self._eager if run is None else self._job.ready(run, self._digest, inputs, lambda: self._eager))

    def _elsewhere(self) -> bool:
        """Whether a thorough pool leaves the graph to this process."""
        failure = self._ticket.outcome.failure if self._ticket.outcome else None
        return _thorough() and failure is not None and failure.kind == failures.ELSEWHERE


def _order(job: Job, digest: str, inputs: Sequence[torch.Tensor]) -> pool.Ticket | Awaited | None:
    """A ticket for the kernel of this key; None where no worker can make it."""
    if digest in _tickets:
        return _tickets[digest]
    data = jobs.encode(job.program, inputs, job.options, digest, job.frozen)
    if data is None:
        return None
    job.about = ambient.about()
    keeper = Keeper(job, digest, data)
    events.count("graphs_requested")
    if _thorough() or job.store is None or (claims.first_rank() and job.store.take_claim(digest)):
        return _submitted(keeper)
    events.count("claims_waited")
    _tickets[digest] = Awaited(keeper)
    return _tickets[digest]


def _submitted(keeper: Keeper) -> pool.Ticket | None:
    job, digest = keeper.job, keeper.digest
    lasts = job.store is not None and job.store.writable
    try:
        found = pool.pool().submit(keeper.data, job.name(), keeper, lasts)
    except OSError as error:
        log.warning("aotdyn: a graph runs eagerly, since no process can be started to compile it: %s", error)
        keeper.end()
        return None
    _tickets[digest] = found
    return found


class Awaited:
    """A kernel that another process is compiling for the same store; if nothing comes of that, it is ordered here.

    Nobody waits: whoever wants the kernel looks whether it is there, at most every LOOKS seconds.
    """

    def __init__(self, keeper: Keeper) -> None:
        self.keep = keeper
        self.outcome: spool.Outcome | None = None
        self.folder: Path | None = None
        self._since = time.monotonic()
        self._next_look = self._since + LOOKS

    def now(self) -> pool.Ticket | Awaited:
        """What is to be asked from now on: this, or a job of this process's own."""
        moment = time.monotonic()
        if self.outcome is not None or moment < self._next_look:
            return self
        self._next_look = moment + LOOKS
        job, digest = self.keep.job, self.keep.digest
        assert job.store is not None
        self.folder = job.store.kernel_path(digest)
        if self.folder is None and not failures.known(job.store, digest):
            ranks = claims.first_rank() or moment - self._since >= claims.RANK_PATIENCE
            found = _submitted(self.keep) if ranks and job.store.take_claim(digest) else self
            if found is not None:
                return found
        self.outcome = spool.Outcome(False, 0.0)
        return self


class Keeper:
    """Keeps what a worker made of a job, and answers where it lies."""

    def __init__(self, job: Job, digest: str, data: bytes) -> None:
        self.job = job
        self.digest = digest
        self.data = data
        self.sizes: dict[Any, list[torch.Tensor]] = {}
        "inputs like those of a call with other sizes, as they are needed where a kernel doesn't serve them"

    def note(self, inputs: Sequence[torch.Tensor]) -> None:
        """Remember the sizes of a call that a kernel may turn out not to serve; no values."""
        if not any(item.dynamic for item in self.job.program.inputs) or len(self.sizes) >= MANY:
            return
        key = tuple((each.shape, each.stride()) for each in inputs)
        if key not in self.sizes:
            self.sizes[key] = [_like(each) for each in inputs]

    def order_each(self, made: Path) -> None:
        """Have each tuple of sizes compiled that the kernel doesn't serve."""
        if not (made / SHAPES).exists() and not (made / CONDITIONS).exists():
            return
        job = self.job.of_one_size()
        relied_on = conditions.decode((made / CONDITIONS).read_bytes()) if (made / CONDITIONS).exists() else []
        for inputs in self.sizes.values():
            if not relied_on or not all(condition.holds(inputs) for condition in relied_on):
                _order(job, inductor.kernel_key(job.program, inputs, job.options, job.frozen), inputs)
        self.sizes.clear()

    def end(self) -> None:
        """Nothing more comes of the job: the claim on the kernel ends."""
        if self.job.store is not None:
            self.job.store.release_claim(self.digest)

    def hopeful(self, seconds: float) -> bool:
        """Whether no process has waited as long at its end within a day, without a kernel getting done meanwhile."""
        store = self.job.store
        directory = None if store is None else store.kernel_path(f"{self.digest}-{WAITED}")
        if directory is None:
            return True
        try:
            when, waited = msgspec.msgpack.decode((directory / WAITED).read_bytes(), type=tuple[float, float])
        except (OSError, msgspec.MsgspecError):
            return True
        return seconds > waited or not 0 <= time.time() - when < LATELY

    def in_vain(self, seconds: float) -> None:
        """Have the starts that follow not wait so, too: their workers go on while they run, and `build` has time."""
        place = f"{self.digest}-{WAITED}"
        if self.job.store is not None:
            self.job.store.drop_kernel(place)  # what is stored already would stay
        self.job.save(place, {WAITED: msgspec.msgpack.encode((time.time(), seconds))})

    def __call__(self, outcome: spool.Outcome, made: Path) -> Path | None:
        try:
            return self._kept(outcome, made)
        finally:
            self.end()

    def _kept(self, outcome: spool.Outcome, made: Path) -> Path | None:
        job = self.job
        if outcome.failure is not None:
            if outcome.failure.kind == failures.ELSEWHERE:
                log.info("aotdyn: a graph runs eagerly, since a worker can't compile it: %s", outcome.failure.what)
            else:
                fresh.failed(job, self.digest, outcome.failure, self.data)
            return None
        files: Files = {path.name: path for path in made.iterdir() if path.name != spool.OUTCOME}
        if OUTER in files:
            events.count("graphs_compiled")
        self.order_each(made)
        kept = job.save(self.digest, files) if outcome.lasting else None
        if kept is None:
            return made
        shutil.rmtree(made, ignore_errors=True)
        return kept


def _like(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor of the same kind, without the values; parameters are there anyway."""
    if isinstance(tensor, torch.nn.Parameter):
        return tensor
    made = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype)
    return made.zero_().requires_grad_(tensor.requires_grad)
