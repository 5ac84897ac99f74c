"""Compile jobs as data, the pool that has them done, and what it makes of workers that fail."""

from __future__ import annotations

import contextlib
import operator
import os
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from aotdyn import config
from aotdyn.backends import background, choice, failures, inductor, jobs, pool, repro, spool
from aotdyn.graph import codegen
from aotdyn.graph.program import Input, Program, Ref, Step
from aotdyn.store import claims
from aotdyn.store.store import Store

BASE = torch.randn(6, 6)

LIKE = [
    torch.randn(3, 4),
    torch.randn(3, 4).t(),
    torch.randn(8, 8)[2:, ::2],
    torch.nn.Parameter(torch.randn(2)),
    torch.randn(2, requires_grad=True) * 2,
    torch.tensor([3, 1]),
    torch.tensor(True),
    torch.randn(2, dtype=torch.complex64).conj(),
    torch.empty(0, 3),
    torch.randn(1, 3).expand(4, 3),
    BASE[:2],
    BASE[1:],
]


def program(inputs: int, target: Any = operator.add) -> Program:
    return Program([Input(f"x{i}") for i in range(inputs)], [Step(target, (Ref(0), 1), {})], (Ref(inputs),))


def test_a_worker_makes_inputs_of_the_same_kind():
    graph = program(len(LIKE))
    digest = inductor.kernel_key(graph, LIKE, {"max_autotune": True})
    job = jobs.decode(jobs.encode(graph, LIKE, {"max_autotune": True}, digest))
    made = jobs.inputs(job)
    assert inductor.kernel_key(job.graph(), made, job.options) == digest
    assert made[5].tolist() == [3, 1]
    assert made[3].is_leaf
    assert not made[4].is_leaf
    assert made[10].untyped_storage().data_ptr() == made[11].untyped_storage().data_ptr()
    bare = jobs.decode(jobs.without_values(jobs.encode(graph, LIKE, {}, digest)))
    assert not any(each.values for each in bare.inputs)


def test_what_only_this_process_knows_is_no_job():
    def local(x: torch.Tensor, number: int) -> torch.Tensor:
        return x + number

    assert jobs.encode(program(1, local), [torch.ones(2)], {}, "0" * 32) is None
    assert jobs.encode(program(1), [torch.ones(2)], {"a": object()}, "0" * 32) is None


def test_modes_travel(monkeypatch):
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        told = jobs.ambient()
    before = jobs.ambient()
    try:
        told.enter(torch.get_num_threads())
        assert jobs.ambient() == told
    finally:
        before.enter(torch.get_num_threads())


class Kept(list[Any]):
    """A keeper that remembers."""

    def __call__(self, outcome: spool.Outcome, made: Path) -> Path | None:
        self.append(outcome)
        return None

    def note(self, inputs: Any) -> None:
        """Nothing."""

    def end(self) -> None:
        """Nothing."""

    def hopeful(self, seconds: float) -> bool:
        """Whether it wasn't told of such a wait."""
        return seconds not in self

    def in_vain(self, seconds: float) -> None:
        """Remembers that as well."""
        self.append(seconds)


PRELUDE = f"import sys, os, time; sys.path.insert(0, {str(Path(pool.__file__).parents[2])!r})\n"
TAKE = PRELUDE + "from aotdyn.backends import spool; from pathlib import Path; folder = Path(sys.argv[1])\n"
TAKEN = TAKE + "number, job = spool.take(folder)\n"


@pytest.fixture
def outcome(monkeypatch: pytest.MonkeyPatch) -> Any:
    """What a pool says of one job whose worker is a given program; and the pool."""
    made: list[pool.Pool] = []

    def run(worker: str) -> tuple[spool.Outcome, pool.Pool]:
        monkeypatch.setattr(pool, "COMMAND", (sys.executable, "-c", worker))
        mine = pool.Pool()
        made.append(mine)
        kept = Kept()
        mine.submit(b"job", "f", kept, True)
        mine.wait(100, lambda _: None)
        return kept[0], mine

    yield run
    for mine in made:
        mine.drop()
        assert not mine.folder.exists()


def test_a_worker_that_crashes_is_tried_once_more(outcome):
    said, mine = outcome(TAKEN + "print('last words', flush=True); os.abort()")
    assert said.failure.kind == failures.COMPILER
    assert "SIGABRT" in said.failure.what
    assert "last words" in said.failure.text
    assert [name for name, _ in mine.failed] == ["f"]
    twice = "seen = folder / 'seen'\nif not seen.exists(): seen.touch(); os.abort()\n"
    good = "spool.finish(folder, number, {'model.so': b''}, spool.Outcome(True, 1.0))"
    assert outcome(TAKEN + twice + good)[0].failure is None


def test_workers_that_never_start_leave_the_program_eager(outcome):
    said, _ = outcome("raise SystemExit(3)")
    assert said.failure.kind == failures.PASSING


def test_a_job_that_takes_too_long_ends_with_all_it_started(outcome):
    worker = (
        TAKEN + "import subprocess\nfrom aotdyn.backends import worker\n"
        "child = subprocess.Popen(['sleep', '1000']); (folder / 'child').write_text(str(child.pid))\n"
        "worker._give_up(folder, number, 5)"
    )
    kept: list[int] = []
    said, mine = outcome(worker + "\n")
    kept.append(int((mine.folder / "child").read_text()))
    assert "longer than 5 seconds" in said.failure.what
    for _ in range(100):
        if not _alive(kept[0]):
            break
        time.sleep(0.05)
    assert not _alive(kept[0])


def _alive(process: int) -> bool:
    try:
        with open(f"/proc/{process}/stat", encoding="utf-8") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_verdict_holds_for_one_compiler_and_gives_a_script(monkeypatch, tmp_path, capsys):
    graph = program(1)
    x = torch.ones(2, requires_grad=True)
    digest = inductor.kernel_key(graph, [x], {})
    failure = failures.Failure(failures.COMPILER, "CppCompileError: boom", "all of it")
    monkeypatch.setattr(failures, "compiler", lambda: ("one", "g++ 1"))
    where = failures.place(failure, digest)
    monkeypatch.setattr(failures, "compiler", lambda: ("two", "g++ 2"))
    assert failures.place(failure, digest) != where
    assert failures.place(failures.Failure(failures.PASSING, "disk full"), digest) is None
    for name, content in failures.files(failure, jobs.encode(graph, [x], {}, digest)).items():
        (tmp_path / name).write_bytes(content)
    text = repro.of(tmp_path)
    assert all(part in text for part in ("boom", "all of it", "g++ 2", "a0 + 1", "requires_grad_()"))
    monkeypatch.setattr(torch, "compile", lambda graph, **options: graph)
    exec(compile(text, "repro.py", "exec"), {})
    assert capsys.readouterr().out == "eager: fine\ncompiled: fine\n"


def test_those_that_wait_take_a_failure_for_the_holders_result(tmp_path, monkeypatch):
    tmp_path.chmod(0o700)
    store, graph, x = Store(tmp_path / "cache"), program(1), torch.ones(2)
    digest = inductor.kernel_key(graph, [x], {})
    job = inductor.Job(graph, {}, store, None, codegen.locate)
    monkeypatch.setattr(job, "make", lambda *_: pytest.fail("it was compiled again"))

    @contextlib.contextmanager
    def waited(key):
        """The claim of a process that waited for another, which failed."""
        store.save_kernel(failures._key(key), failures.files(failures.Failure(failures.COMPILER, "boom"), None))
        claim = claims.Claim(key)
        claim.waited = 1.0
        yield claim

    monkeypatch.setattr(store, "claim", waited)
    assert torch.equal(job.claimed(digest, [x])(x)[0], codegen.to_function(graph)(x)[0])


def test_of_options():
    with config.overrides(mode="max-autotune", options=("epilogue_fusion=False", "cpp.simdlen=256", "x=y")) as options:
        wanted = {"max_autotune": True, "epilogue_fusion": False, "cpp.simdlen": 256, "x": "y"}
        assert options.inductor() == wanted
    with config.overrides(options=("nothing",)) as options, pytest.raises(config.ConfigError, match="name=value"):
        options.inductor()


def test_a_fork_leaves_the_workers_to_its_parent(outcome):
    good = "spool.finish(folder, number, {'model.so': b''}, spool.Outcome(True, 1.0)); time.sleep(1)"
    said, mine = outcome(TAKEN + good)
    child = os.fork()
    if not child:
        mine.left_behind()
        os._exit(0 if not mine.open and mine.folder.exists() else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert said.failure is None


def test_a_wait_at_the_end_in_which_nothing_gets_done_is_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes of a program that ends at once, on a machine where nothing is compiled in time."""
    monkeypatch.setattr(pool, "COMMAND", (sys.executable, "-c", "import time; time.sleep(100)"))
    kept, waited = Kept(), []
    true = pool.Pool.wait
    monkeypatch.setattr(pool.Pool, "wait", lambda mine, *args: waited.append(args[0]) or true(mine, *args))
    for patience in (0.1, 0.1, 0.2):
        mine = pool.Pool()
        monkeypatch.setattr(pool, "_pool", mine)
        mine.patience = patience
        mine.submit(b"job", "f", kept, True)
        pool.at_exit()
        assert not mine.open
    assert waited == [0.1, 0.2]
    assert kept == [0.1, 0.2]


def test_what_was_waited_for_in_vain_is_known_for_a_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path)
    job: Any = SimpleNamespace(store=store, save=store.save_kernel)
    keeper, other = background.Keeper(job, "ab" * 16, b""), background.Keeper(job, "cd" * 16, b"")
    assert keeper.hopeful(60.0)
    keeper.in_vain(5.0)
    assert [keeper.hopeful(seconds) for seconds in (1.0, 5.0, 60.0)] == [False, False, True]
    keeper.in_vain(60.0)
    assert not keeper.hopeful(60.0)
    assert other.hopeful(1.0)
    later = time.time() + background.LATELY + 1
    monkeypatch.setattr(background, "time", SimpleNamespace(time=lambda: later))
    assert keeper.hopeful(60.0)


def test_a_graph_of_a_package_gets_its_kernel_once_it_is_called_often() -> None:
    """As many operators have to run as the policy says; until then a graph is plain calls."""
    ordered: list[list[torch.Tensor]] = []

    def at_once(inputs: list[torch.Tensor]) -> Any:
        ordered.append(inputs)
        return lambda x: ("kernel", x)

    job: Any = SimpleNamespace(
        program=SimpleNamespace(steps=[None] * 5), eager=lambda: lambda x: ("eager", x), at_once=at_once
    )
    before = choice.Ways.made
    graph = background.Seldom(job, 12)
    x = torch.ones(1)
    assert [graph(x)[0] for _ in range(5)] == ["eager", "eager", "kernel", "kernel", "kernel"]
    assert len(ordered) == 1
    assert choice.Ways.made == before
