"""Graphs that can't be compiled: why, for which compiler that holds, and the verdict in the store.

A verdict lies under the kernel's key and the compiler's version, so that
another compiler gets a try of its own. What may pass (a full disk) isn't kept.
It holds the compile job as data: `aotdyn cache show --repro` makes a script of it.
"""

from __future__ import annotations

import errno
import functools
import hashlib
import logging
import os
import subprocess
from typing import TYPE_CHECKING

import msgspec

from aotdyn import config
from aotdyn.backends.stored import EAGER, Files

if TYPE_CHECKING:
    from aotdyn.store.store import Store

log = logging.getLogger("aotdyn.backends")

JOB, VERDICT = "job", "failed"

PASSING, COMPILER, ELSEWHERE = "passing", "compiler", "elsewhere"
"""Kinds: a failure that says nothing of the next try, one that holds for this compiler, and one of another process,
which doesn't have what the graph needs."""


class Failure(msgspec.Struct, frozen=True, array_like=True):
    """Why a graph has no kernel: a kind, a line that says what happened, and the whole text."""

    kind: str
    what: str
    text: str = ""


def of(error: BaseException) -> Failure:
    """What an exception of inductor's says."""
    from aotdyn.backends import jobs, making

    if isinstance(error, jobs.Unlike):
        return Failure(ELSEWHERE, str(error))
    cause = making.inner(error) if isinstance(error, Exception) else error
    full = os.strerror(errno.ENOSPC) in str(error)  # what a compiler says that found no room
    passing = full or (isinstance(cause, OSError) and not isinstance(cause, subprocess.SubprocessError))
    lines = str(error).strip().splitlines() or [""]
    return Failure(PASSING if passing else COMPILER, f"{type(error).__name__}: {lines[0]}"[:300], str(error)[:20_000])


def place(failure: Failure, digest: str | None) -> str | None:
    """The key under which a verdict is kept; None for one that isn't."""
    return None if digest is None or failure.kind != COMPILER else _key(digest)


def _key(digest: str) -> str:
    return f"{digest}-failed-{compiler()[0]}"


def files(failure: Failure, job: bytes | None) -> Files:
    """A verdict as the store keeps it."""
    found: Files = {EAGER: failure.what.encode(), VERDICT: msgspec.msgpack.encode([failure, compiler()[1]])}
    if job is not None:
        from aotdyn.backends import jobs

        found[JOB] = jobs.without_values(job)
    return found


def known(store: Store, digest: str) -> bool:
    """Whether this graph has failed with this very compiler."""
    directory = store.kernel_path(_key(digest))
    if directory is None:
        return False
    log.info("aotdyn: a graph runs eagerly, since an earlier process couldn't compile it: see %s", directory)
    return True


def tell(failure: Failure, digest: str | None) -> None:
    """The warning for a graph that runs eagerly since it has no kernel; `digest` if the verdict is kept."""
    how = f"; `python -m aotdyn cache show --repro {digest[:12]}` writes a script that shows it" if digest else ""
    log.warning("aotdyn: inductor can't compile a graph, which runs eagerly instead: %s%s", failure.what, how)


@functools.cache
def compiler() -> tuple[str, str]:
    """The C++ compiler: a digest of what it says of itself, and its first line. `none` where there is none."""
    found = config.cxx_compiler()
    if not found:
        return "none", "no compiler"
    try:
        command = [os.path.realpath(found), "--version"]
        said = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False).stdout
    except (OSError, subprocess.SubprocessError) as error:
        said = f"{found}: {error}"
    return hashlib.blake2b(f"{found}\n{said}".encode(), digest_size=4).hexdigest(), said.partition("\n")[0]
