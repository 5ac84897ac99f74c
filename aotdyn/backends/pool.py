"""Workers that compile in the background, as the program that wants their kernels sees them.

No thread watches them: whoever waits for a kernel looks, now and then, at what
lies in the folder (`spool`). A worker that dies takes its job to one more try,
alone in a new one. At the program's end what is under way and worth keeping is
waited for, up to `exit_wait`; then, or where nothing is, the workers are
killed, each with all that it has started. A wait in which nothing gets done, as
on a machine that is busy with other things, isn't repeated by each start that
follows (`Keeper.hopeful`).
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from aotdyn import config
from aotdyn.backends import failures, spool
from aotdyn.backends.failures import Failure
from aotdyn.backends.worker import FULL
from aotdyn.report import events

log = logging.getLogger("aotdyn.backends")

INTERVAL = 0.02
"Seconds between two looks at the folder."

NICENESS = 10

COMMAND = (sys.executable, "-P", "-m", "aotdyn.backends.worker")

NOT_FOR_WORKERS = ("AOTDYN_", "PYTHONINSPECT", "PYTHONWARNINGS")
"Beginnings of the names of variables that are meant for the program."

STARTS = 3
"Workers that may end one after another without having finished a job."


class Keeper(Protocol):
    """Whom a job's outcome is told."""

    def __call__(self, outcome: spool.Outcome, made: Path) -> Path | None:
        """Take an outcome and the folder with the files; answers where they are to be found from then on."""

    def end(self) -> None:
        """Nothing comes of the job any more, or all that was to come has come."""

    def hopeful(self, seconds: float) -> bool:
        """Whether a wait of so many seconds may help: none as long was in vain lately."""

    def in_vain(self, seconds: float) -> None:
        """No job was done in a wait of so many seconds."""

    def note(self, inputs: Sequence[Any]) -> None:
        """Hear of a call for which the kernel isn't there yet."""


class Ticket:
    """One job: what is to be told of its outcome, and whether it has come."""

    def __init__(self, number: int, name: str, keep: Keeper, worth_waiting: bool) -> None:
        self.number = number
        self.name = name
        self.keep = keep
        self.worth_waiting = worth_waiting
        self.outcome: spool.Outcome | None = None
        self.folder: Path | None = None
        "the kernel's files, if it has any"
        self.tries = 1


class Pool:
    """The workers of this process; `jobs` of them at most, started as they are needed.

    Args:
        thorough: what failed is tried again in a process of its own, and what a kernel doesn't serve gets others.
    """

    def __init__(self, thorough: bool = False) -> None:
        options = config.current()
        self.size = options.jobs or max(1, (os.cpu_count() or 1) // 2)
        self.timeout = options.compile_timeout
        self.patience = options.exit_wait
        self.process = os.getpid()
        self.folder = Path(tempfile.mkdtemp(prefix="aotdyn-compile-"))
        self.open: list[Ticket] = []
        "tickets without an outcome, the oldest first"
        self.total = 0
        self.thorough = thorough
        self.failed: list[tuple[str, Failure]] = []
        self.durations: list[float] = []
        self._workers: list[subprocess.Popen[bytes]] = []
        self._fruitless = 0
        self._next_look = 0.0
        self._lock = threading.RLock()

    def submit(self, job: bytes, name: str, keep: Keeper, worth_waiting: bool) -> Ticket:
        """Have a job compiled. `keep` is called once, in a thread that looks, with what came of it.

        Raises:
            OSError: there is no room for the job, or no process for a worker.
        """
        with self._lock:
            ticket = Ticket(self.total, name, keep, worth_waiting)
            spool.put(self.folder, ticket.number, job)
            self.total += 1
            self.open.append(ticket)
            self._staff()
            return ticket

    def look(self) -> None:
        """See what has come; cheap, and does nothing where another thread is at it."""
        if time.monotonic() < self._next_look or not self._lock.acquire(blocking=False):
            return
        try:
            self._look()
        finally:
            self._next_look = time.monotonic() + INTERVAL
            self._lock.release()

    def _look(self) -> None:
        for ticket in [each for each in self.open if spool.finished(self.folder, each.number)]:
            self._deliver(ticket, spool.outcome(self.folder, ticket.number))
        if self.open:
            self._bury()
            self._staff()

    def _deliver(self, ticket: Ticket, outcome: spool.Outcome) -> None:
        if outcome.failure is not None:
            if self.thorough and ticket.tries == 1 and outcome.failure.kind == failures.COMPILER:
                self._again(ticket)
                return
            self.failed.append((ticket.name, outcome.failure))
        self.open.remove(ticket)
        ticket.folder = ticket.keep(outcome, spool.place(self.folder, ticket.number))
        ticket.outcome = outcome
        self.durations.append(outcome.seconds)
        self._fruitless = 0

    def _again(self, ticket: Ticket) -> None:
        """Try a job once more, by a new worker that has nothing else to do."""
        ticket.tries += 1
        for worker in self._workers:
            if spool.taken(self.folder, ticket.number) == worker.pid:
                _kill(worker)
        shutil.rmtree(spool.place(self.folder, ticket.number), ignore_errors=True)
        spool.give_back(self.folder, ticket.number)

    def _bury(self) -> None:
        """See to the jobs of workers that have ended."""
        for worker in [each for each in self._workers if each.poll() is not None]:
            self._workers.remove(worker)
            _kill(worker)
            held = [each for each in self.open if spool.taken(self.folder, each.number) == worker.pid]
            for ticket in held:
                if spool.finished(self.folder, ticket.number):
                    continue
                if ticket.tries == 1:
                    ticket.tries += 1
                    spool.give_back(self.folder, ticket.number)
                else:
                    self._deliver(ticket, spool.Outcome(False, 0.0, self._crash(worker)))
            if not held and worker.returncode:
                self._fruitless += 1

    def _crash(self, worker: subprocess.Popen[bytes]) -> Failure:
        code = worker.returncode
        if code == FULL:
            return Failure(failures.PASSING, "there is no room on the disk for what a compile makes")
        how = signal.Signals(-code).name if code < 0 else f"exit status {code}"
        return Failure(failures.COMPILER, f"the compiling process ended by {how}", spool.log(self.folder, worker.pid))

    def _staff(self) -> None:
        """Start workers for what waits."""
        if self._fruitless >= STARTS:
            what = Failure(failures.PASSING, "no compiling process stays alive")
            for ticket in list(self.open):
                self._deliver(ticket, spool.Outcome(False, 0.0, what))
            return
        again = any(ticket.tries > 1 for ticket in self.open)
        while len(self._workers) < min(1 if again else self.size, len(self.open)):
            self._workers.append(self._start())

    def _start(self) -> subprocess.Popen[bytes]:
        root = str(Path(__file__).resolve().parents[2])
        kept = {name: value for name, value in os.environ.items() if not name.startswith(NOT_FOR_WORKERS)}
        path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
        environment = {**kept, "AOTDYN_DISABLE": "1", "PYTHONPATH": path, "TORCHINDUCTOR_COMPILE_THREADS": "1"}
        command = [*COMMAND, str(self.folder), str(self.timeout), str(NICENESS)]
        with open(self.folder / "log", "ab") as out:
            worker = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=out,
                cwd=self.folder,
                env=environment,
                start_new_session=True,
            )
            with contextlib.suppress(OSError):
                os.link(self.folder / "log", self.folder / f"log-{worker.pid}")
                os.unlink(self.folder / "log")
        return worker

    def wait(self, seconds: float, tell: Callable[[Pool], None]) -> None:
        """Look until all has come, or the time is over; `tell` is called now and then."""
        end = time.monotonic() + seconds
        while self.open and time.monotonic() < end:
            self.look()
            tell(self)
            time.sleep(INTERVAL * 2)

    def drop(self) -> None:
        """End the workers, and forget what they were at."""
        with self._lock:
            for worker in self._workers:
                _kill(worker)
            for worker in self._workers:
                worker.wait()
            self._workers.clear()
            for ticket in self.open:
                ticket.keep.end()
            self.open.clear()
            shutil.rmtree(self.folder, ignore_errors=True)

    def left_behind(self) -> None:
        """In a fork of the program: the workers are the parent's."""
        for worker in self._workers:
            assert worker.stdin is not None
            worker.stdin.close()
            worker.returncode = 0  # or the interpreter would warn of it
        self._workers.clear()
        self.open.clear()


def _kill(worker: subprocess.Popen[bytes]) -> None:
    """End a worker's process group, which outlives it where it has crashed."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(worker.pid, signal.SIGKILL)
    if worker.stdin is not None:
        with contextlib.suppress(OSError):
            worker.stdin.close()


_pool: Pool | None = None


def pool(thorough: bool = False) -> Pool:
    """This process's pool; `thorough` where it isn't made yet.

    Raises:
        OSError: there is no place for its folder.
    """
    global _pool
    if _pool is None or _pool.process != os.getpid():
        if _pool is None:
            os.register_at_fork(after_in_child=_forked)
            atexit.register(at_exit)
        _pool = Pool(thorough)
    return _pool


def current() -> Pool | None:
    """The pool, if anything was ever compiled in it."""
    return _pool


def _forked() -> None:
    if _pool is not None:
        _pool.left_behind()


def at_exit() -> None:
    """Wait for what is worth keeping, as long as the options allow, and end the workers."""
    mine = _pool
    if mine is None or mine.process != os.getpid():
        return
    try:
        worth = any(ticket.worth_waiting and ticket.keep.hopeful(mine.patience) for ticket in mine.open)
        failed = getattr(sys, "last_value", None) is not None  # whoever sees a traceback shouldn't have to wait
        if worth and mine.patience and not failed:
            _finish(mine)
    except KeyboardInterrupt:
        pass  # drop what is left, as asked
    finally:
        if mine.open:
            events.count("compiles_dropped", len(mine.open))
            events.count("kernels_left", sum(ticket.worth_waiting for ticket in mine.open))
        mine.drop()


def _finish(mine: Pool) -> None:
    from aotdyn.report import progress

    with progress.line(
        f"aotdyn: compiling for the next start, up to {mine.patience:.0f} s (Ctrl-C ends it, --exit-wait sets it)"
    ) as say:
        done = len(mine.durations)
        mine.wait(mine.patience, lambda pool: say(pool.total - len(pool.open), pool.total))
    if len(mine.durations) == done:
        events.count("waits_in_vain")
        for ticket in mine.open:
            if ticket.worth_waiting:
                ticket.keep.in_vain(mine.patience)
