"""A cache stays below its limit: what wasn't used for longest goes first, what a living process holds never."""

from __future__ import annotations

import multiprocessing
import os
import time

import pytest

from aotdyn.store import disk, leases, usage
from aotdyn.store.inventory import Inventory, Removed
from aotdyn.store.layout import MANIFEST
from aotdyn.store.store import Store

FORK = multiprocessing.get_context("fork")
DAY = disk.DAY


def _fill(root, number: int) -> None:
    """Kernels k0 (the oldest) to k<number - 1>, stored by a process that is gone, each a day apart."""

    def work() -> None:
        store = Store(root)
        for n in range(number):
            store.save_kernel(f"k{n}", {"a.so": bytes(10_000)}, f"g{n}")

    worker = FORK.Process(target=work)
    worker.start()
    worker.join()
    assert worker.exitcode == 0
    for n in range(number):
        then = time.time() - (100 - n) * DAY
        os.utime(next(root.rglob(f"k{n}/{MANIFEST}")), (then, then))


def _there(root) -> set[str]:
    return {path.parent.name for path in root.rglob(MANIFEST)}


def test_least_recently_used_goes_first(root):
    _fill(root, 8)
    assert Inventory(root).bound(50_000) <= 45_000
    assert _there(root) == {"k4", "k5", "k6", "k7"}
    assert Store(root).kernel_path("k4")  # which is the last used from now on
    leases.account(Store(root)._layout.base).end()
    Inventory(root).bound(30_000)
    assert _there(root) == {"k4", "k7"}


def _use(root, key, ready, go) -> None:
    store = Store(root)
    assert store.kernel_path(key)
    then = time.time() - 99 * DAY
    os.utime(next(root.rglob(f"{key}/{MANIFEST}")), (then, then))
    ready.put(1)
    go.get()
    os._exit(0)


def test_what_a_living_process_holds_stays(root):
    _fill(root, 6)
    ready, go = FORK.SimpleQueue(), FORK.SimpleQueue()
    worker = FORK.Process(target=_use, args=(root, "k0", ready, go))
    worker.start()
    ready.get()
    removed = Removed()
    Inventory(root).bound(1, removed)
    assert _there(root) == {"k0"}
    assert removed.kinds["kernels"].entries == 5
    go.put(1)
    worker.join()  # killed, as it were: its lease stays behind
    Inventory(root).bound(1)
    assert _there(root) == set()
    assert not list(root.rglob("leases/*"))


def test_frames_that_a_living_process_loaded_stay(root, make):
    store = Store(root)
    store.save(make.variant(1))
    assert store.load(make.spec)
    old = make.variant(2, make.after)
    store.save(old)
    entry = next(path for path in root.glob("v1/*/records/*/*") if store.load(make.spec) and path.name)
    for path in root.glob("v1/*/records/*/*"):
        if path != entry:
            os.utime(path, (1e9, 1e9))
    Inventory(root).bound(1)
    assert len(list(root.glob("v1/*/records/*/*"))) == 1


def test_writing_over_the_limit_evicts(root):
    _fill(root, 6)
    store = Store(root, limit=70_000)
    for n in range(20, 30):
        assert store.save_kernel(f"k{n}", {"a.so": bytes(10_000)})
    assert "k0" not in _there(root)
    assert {f"k{n}" for n in range(20, 30)} <= _there(root)  # this process holds them: they come above the limit


def test_leases_of_other_machines_count_for_a_while(root):
    _fill(root, 2)
    store = Store(root)
    os.makedirs(f"{store._layout.base}/leases", exist_ok=True)
    path = f"{store._layout.base}/leases/other"
    with open(path, "w") as file:
        file.write("elsewhere/boot/1 7 8\nk0\n")
    Inventory(root).bound(1)
    assert _there(root) == {"k0"}
    os.utime(path, (1e9, 1e9))
    Inventory(root).bound(1)
    assert _there(root) == set()


@pytest.mark.parametrize("jump", [-40 * DAY, 40 * DAY])
def test_a_clock_that_jumped(root, make, monkeypatch, jump):
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + jump)
    store = Store(root)
    store.save(make.variant(1))
    assert store.load(make.spec) == [make.variant(1)]
    for path in root.rglob("*"):
        os.utime(path, (now + jump, now + jump))
    monkeypatch.undo()
    assert Store(root).load(make.spec) == [make.variant(1)]
    entry = next(root.glob("v1/*/records/*/*"))
    assert abs(entry.stat().st_mtime - time.time()) < 60


def test_uses_are_counted_by_process(root, make):
    store = Store(root)
    store.save(make.variant(1))
    account = leases.account(store._layout.base)
    for _ in range(3):
        assert store.load(make.spec)
        account.end()
    (count,) = usage.uses(store._layout.base).values()
    assert count == 3
