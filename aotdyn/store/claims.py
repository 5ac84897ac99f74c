"""Who compiles what: a claim on a key, so that processes that start together compile each graph once.

A claim is a file made with O_EXCL, which says whose it is: no locks, so it
works on shared file systems, and over forks. Nothing rests on it but time.
Whoever waits looks for the result or the end of the claim, and goes on by
itself when the holder is gone or the time is up; two who both think that
they hold one compile twice, and store the same.

A holder is gone when its process is (on this machine), or when its claim is
older than the wait allows, by the clock of the file system that holds it.

Under torchrun the first rank of each machine is who makes things: the others,
which LOCAL_RANK tells, wait for its claim before they make one of their own.
No message is sent and nobody is asked, so they can't know whether it will want
the same: the time that a process spends in vain is bounded by RANK_PATIENCE in
all, and then it claims as anybody does. Workers that a rank starts to compile
for it inherit the variable, and the rule.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator

from aotdyn.store import disk
from aotdyn.store.layout import TEMPORARY
from aotdyn.store.processes import alive, holder

STEP = (0.005, 0.1)
"Seconds between two looks at a claim: the first, and the longest."

RANK_PATIENCE = 5.0
"Seconds in all that a rank waits in vain for the first one of its machine to claim what it wants itself."

_held: dict[str, int] = {}
"Paths of this process's claims, and the threads that hold them; of no meaning in a fork."
_pid = os.getpid()
_spent = 0.0
"Seconds that this process has waited in vain for the first rank: ranks that run different graphs stop waiting."


class Claim:
    """What `claim` gave: whether the key is this process's to make, and whether somebody else has made it."""

    __slots__ = ("done", "held", "path", "waited")

    def __init__(self, path: str) -> None:
        self.path = path
        self.held = False
        "this process has the claim"
        self.done = False
        "the result is there: nothing is to be made"
        self.waited = 0.0
        "seconds that another holder was waited for"


@contextlib.contextmanager
def claim(path: str, done: Callable[[], bool], wait: float) -> Iterator[Claim]:
    """Claim `path` for the length of a block, or wait until whoever has it is done, gone, or `wait` seconds are over.

    The block runs in any case. A folder that can't be written gives a claim
    that isn't held; so does one that this very thread holds already.

    Args:
        done: whether the result is there.
    """
    mine = Claim(path)
    _settle(mine, done, wait)
    process = os.getpid()
    try:
        yield mine
    finally:
        if mine.held and os.getpid() == process:  # a fork that comes through here leaves its parent's alone
            _held.pop(path, None)
            _drop(path)


def take(path: str, longest: float) -> bool:
    """Claim `path` at once, until `release`. False where a living process has it, by what `longest` seconds allow.

    True as well where nothing can be claimed, or this process has it already: who asks then makes what it wants.
    """
    for _ in range(2):
        try:
            if _own(path) is not None or _take(path):
                return True
        except OSError:  # read-only, full, gone
            return True
        if not _abandoned(path, longest):
            return False
        _break(path)
    return False


def release(path: str) -> None:
    """End a claim of `take`, if this process has it."""
    if _own(path) is not None:
        _held.pop(path, None)
        _drop(path)


def first_rank() -> bool:
    """Whether this isn't another rank than the first of its machine."""
    return os.environ.get("LOCAL_RANK", "0") in ("0", "")


def _settle(mine: Claim, done: Callable[[], bool], wait: float) -> None:
    _let_first_rank(mine.path, done, wait)
    start, step = time.monotonic(), STEP[0]
    while True:
        if done():
            mine.done = True
            return
        if _own(mine.path) == threading.get_ident():
            return
        try:
            mine.held = _take(mine.path)
        except OSError:  # read-only, full, gone
            return
        if mine.held:
            mine.done = done()  # made between the last look and the claim
            return
        mine.waited = time.monotonic() - start
        if mine.waited >= wait:
            return
        if _abandoned(mine.path, wait):
            _break(mine.path)
            continue
        time.sleep(min(step, max(wait - mine.waited, 0.0)))
        step = min(step * 1.5, STEP[1])


def _own(path: str) -> int | None:
    """The thread of this process that holds a claim."""
    global _pid
    if _pid != os.getpid():
        _held.clear()
        _pid = os.getpid()
    return _held.get(path)


def _let_first_rank(path: str, done: Callable[[], bool], wait: float) -> None:
    """Where this is another rank than the first of its machine: wait for a claim or result of what it wants."""
    global _spent
    if first_rank():
        return
    start, step = time.monotonic(), STEP[0]
    end = start + min(RANK_PATIENCE - _spent, wait)
    while (now := time.monotonic()) < end:
        if done() or os.path.exists(path):
            return
        time.sleep(min(step, end - now))
        step = min(step * 1.5, STEP[1])
    _spent += time.monotonic() - start


def _take(path: str) -> bool:
    """Make the claim. Whether it wasn't there.

    Raises:
        OSError: it can't be made.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0)
    for last in (False, True):
        try:
            handle = os.open(path, flags, 0o600)
            break
        except FileExistsError:
            return False
        except FileNotFoundError:
            if last:
                raise
            disk.make_directory(os.path.dirname(path))
    try:
        os.write(handle, holder().encode())
    except OSError:
        disk.remove(path)
        raise
    finally:
        os.close(handle)
    _held[path] = threading.get_ident()
    return True


def _drop(path: str) -> None:
    """Take this process's claim back, unless another has it by now."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            found = file.read(400)
    except OSError:
        return
    if found in (holder(), ""):
        disk.remove(path)


def _abandoned(path: str, wait: float) -> bool:
    """Whether the holder of a claim is gone."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            words = file.read(400)
            made = os.fstat(file.fileno()).st_mtime
    except OSError:
        return False
    living = alive(words)
    if living is not None:
        return not living
    return _now_there(path) - made > wait


def _now_there(path: str) -> float:
    """The time by the clock of the file system that has `path`: another machine's claims are dated by it."""
    probe = disk.temporary(path)
    try:
        handle = os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError:
        return time.time()
    try:
        return os.fstat(handle).st_mtime
    finally:
        os.close(handle)
        disk.remove(probe)


def _break(path: str) -> None:
    """Remove an abandoned claim; one that somebody made in its place meanwhile is put back."""
    aside = f"{path}{TEMPORARY}broken-{os.urandom(4).hex()}"
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            judged = file.read(400)
        os.rename(path, aside)
        with open(aside, encoding="utf-8", errors="replace") as file:
            moved = file.read(400)
        if moved != judged:
            os.link(aside, path)
    except OSError:
        pass
    disk.remove(aside)
