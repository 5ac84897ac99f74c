"""Claims: one process makes a kernel, those that start with it wait for that, and nobody waits for the dead."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time

import pytest

from aotdyn.store import claims, processes
from aotdyn.store.store import Store

FORK = multiprocessing.get_context("fork")


@pytest.fixture
def path(store, make):
    """Where the claim on `k` lies."""
    store.save(make.variant())
    return store._layout.claim("k")


def _make(root, made) -> None:
    store = Store(root)
    with store.claim("k", 20) as claim:
        if not claim.done:
            made.put(os.getpid())
            time.sleep(0.2)
            store.save_kernel("k", {"a.so": b"x"})


def test_those_that_start_together_make_it_once(root):
    made = FORK.SimpleQueue()
    workers = [FORK.Process(target=_make, args=(root, made)) for _ in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0] * 8
    made.get()
    assert made.empty()
    assert not list(root.rglob("claims/*"))


def test_threads_of_one_process_wait_for_each_other(store):
    made = []

    def work() -> None:
        with store.claim("k", 20) as claim:
            if not claim.done:
                made.append(1)
                time.sleep(0.1)
                store.save_kernel("k", {"a.so": b"x"})

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made == [1]


def _hold(root, ready) -> None:
    with Store(root).claim("k"):
        ready.put(1)
        time.sleep(60)


def test_the_claim_of_a_killed_process_is_taken_over_at_once(root, store, path):
    ready = FORK.SimpleQueue()
    holder = FORK.Process(target=_hold, args=(root, ready))
    holder.start()
    ready.get()
    os.kill(holder.pid, signal.SIGKILL)
    holder.join()
    assert os.path.exists(path)
    with store.claim("k", 60) as claim:
        assert claim.held
        assert claim.waited < 10
    assert not os.path.exists(path)


def test_a_living_holder_is_waited_for_so_long_and_no_longer(root, store, path):
    ready = FORK.SimpleQueue()
    holder = FORK.Process(target=_hold, args=(root, ready))
    holder.start()
    ready.get()
    with store.claim("k", 0.3) as claim:
        assert not claim.held
        assert claim.waited >= 0.3
    assert os.path.exists(path)  # not ours to take back
    holder.kill()
    holder.join()


def test_another_machines_claim_ends_by_its_age(store, path):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write("elsewhere/boot/1 77 123")
    with store.claim("k", 0.2) as claim:
        assert not claim.held  # it may well be alive
    old = time.time() - 100
    os.utime(path, (old, old))
    with store.claim("k", 0.2) as claim:
        assert claim.held


def test_a_number_that_another_process_has_by_now(store, path):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(f"{processes.machine()} {os.getpid()} 1")
    with store.claim("k", 60) as claim:
        assert claim.held


def test_asking_twice_in_one_thread_does_not_wait(store):
    with store.claim("k", 60) as outer, store.claim("k", 60) as inner:
        assert outer.held
        assert not inner.held
        assert inner.waited == 0


def test_a_fork_leaves_its_parents_claim_alone(store, path):
    block = store.claim("k", 60)
    block.__enter__()
    if (child := os.fork()) == 0:
        block.__exit__(None, None, None)
        os._exit(0)
    os.waitpid(child, 0)
    assert os.path.exists(path)
    block.__exit__(None, None, None)
    assert not os.path.exists(path)


def test_what_cannot_be_claimed_is_made_all_the_same(root, make):
    for store in (Store(None), Store(root, readonly=True), Store(root)):
        with store.claim("../x") as claim:
            assert not claim.held
            assert not claim.done
    root.parent.joinpath("file").write_text("")
    with Store(root.parent / "file").claim("k") as claim:
        assert not claim.held


def _rank(number, root, key, made, before=0.0) -> None:
    os.environ["LOCAL_RANK"] = str(number)
    claims._spent = 0.0
    time.sleep(before)
    store = Store(root)
    with store.claim(key, 20) as claim:
        if not claim.done:
            made.put(number)
            time.sleep(0.1)
            store.save_kernel(key, {"a.so": b"x"})


def test_the_first_rank_of_a_machine_makes_it_however_late_it_comes(root):
    made = FORK.SimpleQueue()
    ranks = [FORK.Process(target=_rank, args=(n, root, "k", made, 0 if n else 0.6)) for n in range(4)]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join()
    assert made.get() == 0
    assert made.empty()


def test_a_rank_waits_in_vain_so_long_in_all(store, path, monkeypatch):
    monkeypatch.setenv("LOCAL_RANK", "1")
    monkeypatch.setattr(claims, "RANK_PATIENCE", 0.3)
    monkeypatch.setattr(claims, "_spent", 0.0)
    begun = time.monotonic()
    with store.claim("k") as claim:
        assert claim.held
    assert time.monotonic() - begun >= 0.3
    spent = claims._spent
    assert spent >= 0.3
    with store.claim("k2") as claim:  # ranks that run different graphs don't wait again
        assert claim.held
    assert claims._spent - spent < 0.3


def test_what_the_first_rank_has_made_costs_the_others_no_patience(store, path, monkeypatch):
    monkeypatch.setenv("LOCAL_RANK", "1")
    monkeypatch.setattr(claims, "_spent", 0.0)
    store.save_kernel("k", {"a.so": b"x"})
    with store.claim("k") as claim:
        assert claim.done
    assert claims._spent == 0.0


def _take(path, tell) -> None:
    tell.put(claims.take(path, 20))
    time.sleep(60)


def test_a_claim_without_waiting_lasts_until_its_release(path):
    assert claims.take(path, 20)
    assert claims.take(path, 20)
    tell = FORK.SimpleQueue()
    other = FORK.Process(target=_take, args=(path, tell))
    other.start()
    assert tell.get() is False
    other.kill()
    other.join()
    claims.release(path)
    assert not os.path.exists(path)


def test_a_killed_holder_of_such_a_claim_is_followed_at_once(path):
    tell = FORK.SimpleQueue()
    other = FORK.Process(target=_take, args=(path, tell))
    other.start()
    assert tell.get() is True
    assert not claims.take(path, 20)
    claims.release(path)
    assert os.path.exists(path)  # it is another's
    other.kill()
    other.join()
    assert claims.take(path, 20)
    claims.release(path)
