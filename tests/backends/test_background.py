"""Kernels that come while the program goes on: swapped in once, kept for the next start, and no process left behind."""

from __future__ import annotations

import errno
import functools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from typing import Any

import pytest

from aotdyn.backends import failures, pool, spool, worker

needs_compiler = pytest.mark.skipif(not shutil.which("g++"), reason="no C++ compiler")

APP = """
    import os, sys, time
    import torch
    from aotdyn.backends import pool

    def f(x, w, state):
        y = torch.dropout(x @ w, 0.5, True).sin() * 2
        state.add_(1)
        return y.sum(), state[0]

    def call():
        torch.manual_seed(0)
        x = torch.linspace(0, 1, 16).view(4, 4)
        w = torch.ones(4, 4, requires_grad=True)
        state = torch.ones(2, 2)
        total, row = f(x, w, state)
        total.backward()
        return total.detach(), w.grad, row.clone(), row._base is state, torch.rand(1)

    first = call()
    start = time.time()
    while len(sys.argv) > 1 and (mine := pool.current()) is not None and mine.open and time.time() - start < 200:
        time.sleep(0.05)
        mine.look()
    for _ in range(30):
        again = call()
        torch.testing.assert_close(again, first)
    print("fine")
"""


def stats(project: Any) -> dict[str, Any]:
    return json.loads((project.folder / "stats").read_text())


@needs_compiler
def test_a_kernel_takes_over_in_a_running_program_and_the_next_starts_with_it(project):
    project.write("app.py", APP)
    for mode in ("--backend=inductor", "--choose=measured"):
        done = project.run("--backend=inductor", mode, "--stats", "stats", "app.py", "wait")
        assert (done.returncode, done.stdout) == (0, "fine\n"), done.stderr
        found = stats(project)
        cold = mode.startswith("--backend")
        assert found["graphs_compiled"] == cold
        assert len(found["chosen"]) == cold
    done = project.run("--backend=inductor", "--require-warm", "--stats", "stats", "app.py")
    assert done.returncode == 0, done.stderr
    assert stats(project)["compiler_modules_imported"] == []


@needs_compiler
def test_a_program_without_a_main_guard_waits_at_its_end_as_long_as_it_is_told(project):
    project.write("app.py", "import torch\ndef f(x):\n    return x.sin() + 1\nprint(f(torch.zeros(3)))\n")
    done = project.run("--backend=inductor", "--exit-wait", "0.2", "--stats", "stats", "app.py")
    assert done.returncode == 0
    assert "up to 0 s" in done.stderr
    assert stats(project)["compiles_dropped"] == 1
    assert "aotdyn: 0 of 1 kernel made, 1 left" in done.stderr
    done = project.run("--backend=inductor", "--exit-wait", "0", "--require-warm", "app.py")
    assert done.returncode == 3
    assert "1 kernel had to be made" in done.stderr
    assert done.stderr.count("\n") == 2
    assert not project.run("--backend=inductor", "--exit-wait", "0", "--no-cache", "app.py").stderr


TOGETHER = """
    import sys, time
    from pathlib import Path
    import torch

    def f(x):
        return (x.sin() + 1).cumsum(0)

    end = time.time() + 150
    while not list(Path(sys.argv[1]).glob("**/kernels/*")) and time.time() < end:
        f(torch.ones(5))
        time.sleep(0.05)
    for _ in range(30):
        found = f(torch.ones(5))
    print(found.tolist())
"""


@needs_compiler
def test_programs_that_start_together_have_a_kernel_compiled_once(project):
    project.write("app.py", TOGETHER)
    commands = [
        [
            sys.executable,
            "-m",
            "aotdyn",
            "run",
            "--backend=inductor",
            "--stats",
            f"stats{i}",
            "app.py",
            str(project.cache),
        ]
        for i in range(3)
    ]
    environment = project.environment({})
    running = [
        subprocess.Popen(each, cwd=project.folder, env=environment, stdout=subprocess.PIPE, text=True)
        for each in commands
    ]
    told = [each.communicate(timeout=200)[0] for each in running]
    assert [each.returncode for each in running] == [0, 0, 0]
    assert len(set(told)) == 1
    found = [json.loads((project.folder / f"stats{i}").read_text()) for i in range(3)]
    assert sum(each["graphs_compiled"] for each in found) == 1
    assert sum(each["graphs_requested"] for each in found) == 3
    assert project.run("--backend=inductor", "--require-warm", "app.py", str(project.cache)).returncode == 0


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_program_that_is_ended_leaves_nothing(project, end):
    project.write(
        "app.py",
        """
        import time, torch
        def f(x):
            return x.sin() + 1
        f(torch.zeros(3))
        print("up", flush=True)
        time.sleep(100)
        """,
    )
    project.env["TMPDIR"] = str(project.folder)
    command = [sys.executable, "-m", "aotdyn", "run", "--backend=inductor", "app.py"]
    program = subprocess.Popen(
        command,
        cwd=project.folder,
        env=project.environment({}),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        # A shell's background jobs, and so these tests where they run as one, ignore SIGINT.
        preexec_fn=functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )
    assert program.stdout is not None
    assert program.stdout.readline() == b"up\n"
    (log,) = _until(lambda: [*project.folder.glob("aotdyn-compile-*/log-*")])
    worker = int(log.name.removeprefix("log-"))
    program.send_signal(end)
    assert program.wait(60) in (-end, 1, 130)
    _until(lambda: not os.path.exists(f"/proc/{worker}"))
    _until(lambda: not [*project.folder.glob("aotdyn-compile-*")])


def _until(answer: Any) -> Any:
    end = time.monotonic() + 60
    while not (found := answer()):
        assert time.monotonic() < end
        time.sleep(0.05)
    return found


@needs_compiler
def test_build_compiles_all_that_a_program_meets(project):
    project.write(
        "app.py",
        """
        import sys, torch
        def f(x):
            return (x + 1).relu().cumsum(0)
        for rows in (3, 5, 7):
            print(f(torch.ones(rows, 2)).sum().item())
        raise SystemExit(5)
        """,
    )
    done = project.python("-m", "aotdyn", "build", "--backend=inductor", "--jobs=2", "app.py")
    assert (done.returncode, done.stdout) == (5, "24.0\n60.0\n112.0\n"), done.stderr
    assert "aotdyn: built: 2 kernels compiled, " in done.stderr
    done = project.run("--backend=inductor", "--require-warm", "app.py")
    assert done.returncode == 5, done.stderr


def test_options_that_are_wrong_give_one_message(project):
    project.write("app.py", "print(1)\n")
    for wrong in (["--jobs=x"], ["--exit-wait=-1"], ["--option=y"], ["--mode=best"]):
        done = project.run(*wrong, "app.py")
        assert done.returncode == 2
        assert done.stderr.count("aotdyn") >= 1
        assert "Traceback" not in done.stderr
        assert not done.stdout


@needs_compiler
def test_a_compiler_that_fails_leaves_the_program_eager_once(project):
    project.write("app.py", "import torch\ndef f(x):\n    return x.sin() + 1\nprint(f(torch.zeros(3)))\n")
    bad = project.write("bad/g++", '#!/bin/sh\ncase "$*" in *" -c "*|*-shared*) exit 1;; esac\nexec g++ "$@"\n')
    bad.chmod(0o755)
    env = {"CXX": str(bad), "TORCHINDUCTOR_CACHE_DIR": str(project.folder / "inductor")}
    done = project.run("--backend=inductor", "--exit-wait=200", "app.py", env=env)
    assert (done.returncode, done.stdout) == (0, "tensor([1., 1., 1.])\n")
    assert done.stderr.count("can't compile") == 1
    key = done.stderr.partition("--repro ")[2].split("`")[0]
    shown = project.python("-m", "aotdyn", "cache", "show", "--repro", key)
    assert "a0.sin()" in shown.stdout
    done = project.run("--backend=inductor", "--require-warm", "app.py", env=env)
    assert (done.returncode, done.stderr) == (0, "")
    done = project.run("--backend=inductor", "--require-warm", "--exit-wait=0", "app.py")
    assert done.returncode == 3, "another compiler is another try"


class Worker:
    pid, returncode = 0, worker.FULL


def test_a_disk_that_is_full_is_no_verdict(tmp_path, monkeypatch):
    """Neither where a compiler says so, nor where a worker has no room to say anything."""
    error = RuntimeError(f"fatal error: error writing to /tmp/x.s: {os.strerror(errno.ENOSPC)}")
    assert failures.of(error).kind == failures.PASSING

    def full(*args: Any) -> None:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(worker, "_made", lambda job, scratch: ({"model.so": b"x"}, True))
    monkeypatch.setattr(spool, "finish", full)
    with pytest.raises(SystemExit) as ended:
        worker._compile(tmp_path, 0, b"", 60.0)
    assert ended.value.code == worker.FULL
    assert list(tmp_path.iterdir()) == []
    assert pool.Pool._crash(object.__new__(pool.Pool), Worker).kind == failures.PASSING  # type: ignore[arg-type]


def test_what_a_compiler_leaves_behind_lies_with_the_jobs(tmp_path, monkeypatch):
    for name in ("TMPDIR", "TORCHINDUCTOR_CACHE_DIR"):
        monkeypatch.setenv(name, "x")
        monkeypatch.delenv(name)
    monkeypatch.setattr(tempfile, "tempdir", None)
    usual = tempfile.gettempdir()
    worker._keep_within(tmp_path)
    assert tempfile.gettempdir() == os.environ["TMPDIR"] == str(tmp_path)
    assert os.environ["TORCHINDUCTOR_CACHE_DIR"].startswith(usual)
