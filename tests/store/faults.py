"""Run with the library of faults.c preloaded: every system call of a session fails once, or is the last.

    python faults.py FOLDER STEP

FOLDER takes one store for each case; STEP is how many calls lie between two
cases. Prints how many cases there were, and fails at the first that isn't as
it must be.
"""

from __future__ import annotations

import ctypes
import errno
import logging
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from conftest import SPEC, breaking

from aotdyn.store import leases
from aotdyn.store.inventory import Inventory
from aotdyn.store.store import Store

library = ctypes.CDLL(None)
library.faults_left.restype = ctypes.c_long


def session(root: Path) -> None:
    """What a process does with a store; nothing may be raised, whatever the disk does."""
    store = Store(root)
    store.save_graph("g", b"graph" * 100)
    store.save(breaking(1, graph="g"))
    store.save_module("m", b"module")
    with store.claim("k", 0.05) as claim:
        if not claim.done:
            store.save_kernel("k", {"a.so": b"x" * 5000, "b": b"y"}, "g")
    assert store.load(SPEC) in ([breaking(1, graph="g")], [])
    assert store.graph("g") in (b"graph" * 100, None)
    assert store.kernel_path("k") is None or (store.kernel_path("k") / "a.so").read_bytes() == b"x" * 5000
    store.note_miss(SPEC, "because")
    leases.account(store._layout.base).end()


def check(root: Path) -> None:
    """Afterwards: what is there is whole, and the next process stores and finds everything."""
    for environment in Inventory(root).environments():
        for path, reason in environment.damaged()[1]:
            assert path.endswith("environment.json") or "not a graph" in reason, (path, reason)
    session(root)
    store = Store(root)
    assert store.load(SPEC) == [breaking(1, graph="g")]
    assert store.graph("g") == b"graph" * 100
    assert store.module("m") == b"module"
    assert store.kernel_path("k") is not None


def case(root: Path, number: int, code: int, always: bool) -> bool:
    """One session in a fork, with a fault at its call `number`. Whether it came so far."""
    if (child := os.fork()) == 0:
        try:
            library.faults_set(os.fsencode(root), number, code, always)
            session(root)
            reached = library.faults_left() < 0 or (always and library.faults_left() == 0)
            library.faults_set(b"", -1, 0, 0)
            os._exit(0 if reached else 7)
        except BaseException:
            library.faults_set(b"", -1, 0, 0)
            logging.exception("a session failed")
            os._exit(1)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in ((-9, 7) if code == 0 else (0, 7)), (number, code, always, status)
    check(root)
    return status != 7


def main(folder: Path, step: int) -> None:
    logging.disable(logging.WARNING)
    cases = 0
    for code, always in ((0, False), (errno.ENOSPC, True), (errno.EDQUOT, False), (errno.EROFS, True)):
        number = 0
        while case(folder / f"{code}-{number}", number, code, always):
            number += step
            cases += 1
        assert number > 20, "the faults don't reach the store"
    print(cases)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
