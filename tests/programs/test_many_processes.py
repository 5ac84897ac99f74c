"""Processes that share a cache, are killed while they store, or find it damaged: output is right, the cache valid."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from typing import Any

APP = """
    import torch

    def f(x, n):
        y = x * n
        if y.sum() > 0:
            y = y + 1
        return y.relu()

    if __name__ == "__main__":
        for n in (1, 2, -3):
            print(f(torch.arange(4.0), float(n)).tolist())
"""
EXPECTED = "[1.0, 2.0, 3.0, 4.0]\n[1.0, 3.0, 5.0, 7.0]\n[-0.0, 0.0, 0.0, 0.0]\n"
RUN = ("-m", "aotdyn", "run", "--backend", "eager", "--stats", "s{}.json", "app.py")


def start(project: Any, number: int) -> subprocess.Popen[str]:
    argv = [sys.executable, *(each.format(number) for each in RUN)]
    return subprocess.Popen(
        argv, cwd=project.folder, env=project.environment({}), text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def check_warm(project: Any) -> None:
    """The cache is valid, and a process that finds it traces nothing."""
    assert project.python("-m", "aotdyn", "cache", "verify").returncode == 0
    for _ in range(2):
        done = project.run("--backend", "eager", "--stats", "warm.json", "app.py")
        assert (done.returncode, done.stdout) == (0, EXPECTED), done.stderr
    stats = json.loads((project.folder / "warm.json").read_text())
    assert stats["traced"] == 0
    assert stats["graph_calls"] > 0


def test_eight_at_once_on_an_empty_cache(project: Any) -> None:
    project.write("app.py", APP)
    running = [start(project, number) for number in range(8)]
    for process in running:
        out, err = process.communicate(timeout=600)
        assert (process.returncode, out) == (0, EXPECTED), err
    check_warm(project)


def test_killed_while_it_stores(project: Any) -> None:
    project.write("app.py", APP)
    chance = random.Random(0)
    for number in range(3):
        process = start(project, number)
        deadline = time.monotonic() + 120
        while process.poll() is None and not any(project.cache.rglob("*.rec")) and time.monotonic() < deadline:
            time.sleep(0.001)
        time.sleep(chance.uniform(0, 0.01))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        if number < 2:
            for path in project.cache.rglob("*.rec"):
                path.unlink()
    check_warm(project)


def test_damaged_cache_is_a_miss(project: Any) -> None:
    project.write("app.py", APP)
    project.run("--backend", "eager", "app.py")
    for path in [*project.cache.rglob("*.rec"), *project.cache.rglob("*.graph"), *project.cache.rglob("*.mod")]:
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(bytes(data))
    for _ in range(2):  # the first meets damaged records, the second a damaged graph of records made anew
        done = project.run("--backend", "eager", "app.py")
        assert (done.returncode, done.stdout) == (0, EXPECTED), done.stderr
        assert "Traceback" not in done.stderr
    check_warm(project)


def test_no_compiler_falls_back_to_eager(project: Any) -> None:
    project.write("app.py", APP)
    empty = project.folder / "bin"
    empty.mkdir()
    done = project.run("app.py", env={"PATH": str(empty), "CXX": os.devnull + "/none", "AOTDYN_LOG": ""})
    assert (done.returncode, done.stdout) == (0, EXPECTED), done.stderr
    assert done.stderr.count("eager") == 1, done.stderr


def test_a_script_that_raises_in_a_captured_function(project: Any) -> None:
    project.write(
        "app.py",
        """
        import sys
        import torch

        def f(x):
            y = x * 2
            if y.sum() > 3:
                raise ValueError(f"too much: {y.shape}")
            return y + 1

        print(f(torch.zeros(2)))
        try:
            f(torch.ones(2))
        except ValueError as error:
            sys.exit(7)
        """,
    )
    for _ in range(2):
        plain, ours = project.python("app.py"), project.run("--backend", "eager", "app.py")
        assert (ours.returncode, ours.stdout, ours.stderr) == (plain.returncode, plain.stdout, plain.stderr)
    (project.folder / "app.py").write_text((project.folder / "app.py").read_text().replace("sys.exit(7)", "raise"))
    for _ in range(2):
        plain, ours = project.python("app.py"), project.run("--backend", "eager", "app.py")
        assert (ours.returncode, ours.stdout, ours.stderr) == (plain.returncode, plain.stdout, plain.stderr)
