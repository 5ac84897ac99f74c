"""Processes share one cache: none loses what another stored, and one that is killed leaves no half of a file."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import time
from pathlib import Path

from aotdyn.store.inventory import Inventory
from aotdyn.store.store import Store

FORK = multiprocessing.get_context("fork")


def _work(root: Path, make, worker: int) -> None:
    store = Store(root)
    for number in range(30):
        assert store.save(make.variant(number))  # the same in all processes
        assert store.save(make.variant(1000 * (worker + 1) + number))  # its own
        assert store.save_graph(f"g{number}", b"graph %d" % number)
        assert store.save_kernel(f"k{number}", {"a.so": b"kernel %d" % number}) is not None
        path = store.kernel_path(f"k{number}")
        assert path is not None
        assert path.joinpath("a.so").read_bytes() == b"kernel %d" % number
        assert store.graph(f"g{number}") == b"graph %d" % number
        mine = {one.guards[0].expected for one in store.load(make.spec)}
        assert set(range(number + 1)) <= mine


def test_eight_writers(root, make, listed):
    workers = [FORK.Process(target=_work, args=(root, make, worker)) for worker in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0] * 8
    assert len(Store(root).load(make.spec)) == 9 * 30
    assert len(listed(root, "*.rec")) == 9 * 30
    assert not list(root.rglob("*.tmp-*"))


def _store_for_ever(root: Path, make) -> None:
    store = Store(root)
    number = 0
    while True:
        number += 1
        store.save(make.variant(os.getpid() * 100_000 + number, code=b"x" * 50_000))
        store.save_kernel(f"k{os.getpid()}_{number}", {"a.so": b"y" * 100_000, "b.so": b"z" * 100_000})


def test_killed_while_storing(root, make):
    chance = random.Random(0)
    for _ in range(12):
        writer = FORK.Process(target=_store_for_ever, args=(root, make))
        writer.start()
        time.sleep(chance.uniform(0.02, 0.15))
        os.kill(writer.pid, signal.SIGKILL)
        writer.join()
    inventory = Inventory(root)
    (environment,) = inventory.environments()
    good, damaged = environment.damaged()
    assert damaged == []
    assert good > 0
    assert Store(root).load(make.spec)
    old = time.time() - 7200
    for path in root.rglob("*.tmp-*"):
        os.utime(path, (old, old))
    inventory.gc(1e9)
    assert not list(root.rglob("*.tmp-*"))
    assert environment.damaged() == (good, [])


def test_cleared_while_storing(root, make):
    store = Store(root)
    for number in range(3):
        assert store.save(make.variant(number))
        assert store.save_kernel("k", {"a": b""})
        Inventory(root).clear()
    assert store.load(make.spec) == []
    assert store.kernel_path("k") is None
    assert store.writable
