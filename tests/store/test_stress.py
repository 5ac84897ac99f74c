"""Many processes at random on one store, killed as they go: what is read is what was stored, or nothing.

AOTDYN_FULL=1 runs 32 processes of 200 operations; otherwise it is 4 of 30.
"""

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
FULL = bool(os.environ.get("AOTDYN_FULL"))
WORKERS, OPERATIONS = (32, 200) if FULL else (4, 30)
EVERY = 0.05 if FULL else 0.2
"Seconds between two kills."


def _content(key: str) -> bytes:
    return key.encode() * 2000


class Worker:
    """One process's operations: `done[number]` says how far it is, `bad[number]` how much it read that is wrong."""

    def __init__(self, root: Path, make, number: int, done, bad) -> None:
        self.store = Store(root, limit=4 << 20)
        self.make = make
        self.number = number
        self.done, self.bad = done, bad
        self.chance = random.Random(f"{number} {os.getpid()}")
        self.store._damaged = self._torn  # a reader never meets half of anything

    def _torn(self, path, error) -> None:
        self.bad[self.number] += 1
        print("damaged:", path, error, flush=True)

    def run(self) -> None:
        while self.done[self.number] < OPERATIONS:
            if self.chance.random() < 0.02:  # a process that starts anew
                self.store = Store(self.store.root, limit=4 << 20)
                self.store._damaged = self._torn
            self.chance.choice((self.save, self.load, self.graph, self.kernel, self.claim, self.module, self.tidy))()
            self.done[self.number] += 1

    def expect(self, good: bool) -> None:
        self.bad[self.number] += not good

    def save(self) -> None:
        number = self.chance.randrange(20)
        self.expect(self.store.save(self.make.breaking(number, code=_content(str(number)))))

    def load(self) -> None:
        for one in self.store.load(self.make.spec):
            number = one.guards[0].expected
            self.expect(one == self.make.breaking(number, code=_content(str(number))))

    def graph(self) -> None:
        key = f"g{self.chance.randrange(20)}"
        self.expect(self.store.save_graph(key, _content(key)))
        self.expect(self.store.graph(key) in (_content(key), None))

    def module(self) -> None:
        key = f"m{self.chance.randrange(20)}"
        self.expect(self.store.save_module(key, _content(key)))
        found = self.store.module(key)
        self.expect(found is None or bytes(found) == _content(key))

    def kernel(self) -> None:
        key = f"k{self.chance.randrange(20)}"
        self.expect(self.store.save_kernel(key, {"a.so": _content(key), "b": b"x"}) is not None)
        found = self.store.kernel_path(key)
        self.expect(found is not None)  # this process holds it now: nobody may evict it
        if found is not None:
            self.expect((found / "a.so").read_bytes() == _content(key))

    def claim(self) -> None:
        with self.store.claim(f"c{self.chance.randrange(4)}", 0.05) as claim:
            time.sleep(0.001 if claim.held else 0)

    def tidy(self) -> None:
        if self.chance.random() < 0.3:
            Inventory(self.store.root).gc(1e9, 3 << 20)


def _work(*arguments) -> None:
    Worker(*arguments).run()


def test_many_processes_and_kills(root, make):
    done, bad = (FORK.Array("i", WORKERS, lock=False) for _ in range(2))
    Store(root).save_graph("first", b"")

    def start(number: int):
        process = FORK.Process(target=_work, args=(root, make, number, done, bad))
        process.start()
        return process

    chance = random.Random(0)
    running = {number: start(number) for number in range(WORKERS)}
    kills = 0
    end = time.monotonic() + (600 if FULL else 120)
    while running and time.monotonic() < end:
        victim = chance.randrange(WORKERS)  # the last ones left are hit less often, or would never come to an end
        if victim in running:
            running[victim].kill()
            kills += 1
        time.sleep(EVERY)
        for number, process in list(running.items()):
            if not process.is_alive():
                process.join()
                del running[number]
                if done[number] < OPERATIONS:
                    assert process.exitcode in (0, -signal.SIGKILL), process.exitcode
                    running[number] = start(number)
    for process in running.values():
        process.kill()
    assert not running, "stuck"
    assert list(done) == [OPERATIONS] * WORKERS
    assert sum(bad) == 0
    print(f"{WORKERS} processes, {sum(done)} operations, {kills} kills, {sum(bad)} invalid reads")
    for environment in Inventory(root).environments():
        assert [item for item in environment.damaged()[1] if "not a graph" not in item[1]] == []
    _nothing_is_left(root)


def _nothing_is_left(root: Path) -> None:
    old = time.time() - 7 * 24 * 3600
    for path in root.rglob("*"):
        if ".tmp-" in path.name or path.parent.name == "claims":
            os.utime(path, (old, old))
    Inventory(root).gc(1e9, 1)
    assert not list(root.rglob("*.tmp-*"))
    assert not list(root.rglob("claims/*"))
