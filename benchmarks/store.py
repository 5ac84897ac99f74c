"""What a store costs when it is full, and what it saves where many processes start together.

    python benchmarks/store.py full [records [times]]

A warm start from a store that holds many other programs' records, against one
that holds this program's alone. Processor time of the calls that load fifty
functions, in processes that have imported torch; the two stores in turn.
Prints the best of each, their ratio, and the median of the ratios of
neighbours. The aim is 1.1 for 10,000 records.

    python benchmarks/store.py together [processes [times]]

Processes that start together on an empty store. Each graph is compiled once,
and all end within 1.3 times one process's time, the compile aside. Where there
are fewer processors than processes, that time is what as many processes take,
started together, that find all kernels and nothing else in the store: they
import and trace as the others do. What plain Python takes is printed beside it.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from aotdyn.runtime.variant import FrameSpec
from aotdyn.store.inventory import Inventory
from aotdyn.store.store import Store

FUNCTIONS = 50

PROGRAM = """
import time, torch
import aotdyn, lib
x = torch.ones(3)
start = time.process_time()
for i in range({functions}):
    getattr(lib, f"f{{i}}")(x)
print(time.process_time() - start)
"""


TOGETHER = """
import torch
import lib
x = torch.linspace(0, 1, 64).view(8, 8)
print(lib.scores(x).sum().item(), lib.normal(x).sum().item())
"""

LIBRARY = """
def scores(x):
    return (x @ x.t() / 8).softmax(-1) @ x


def normal(x):
    return (x - x.mean(0)) / (x.std(0) + 1e-5)
"""

GRAPHS = 2


def full(records: int = 10_000, times: int = 9) -> None:
    """Print the time of a warm start from each of the two stores, and their ratio."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "lib.py").write_text("\n".join(f"def f{i}(x):\n    return x * {i} + 1\n" for i in range(FUNCTIONS)))
        (folder / "app.py").write_text(PROGRAM.format(functions=FUNCTIONS))
        alone, full = folder / "alone", folder / "full"
        for _ in range(2):
            _run(folder, alone)
        shutil.copytree(alone, full)
        _fill(full, records)
        pairs = [(_run(folder, alone), _run(folder, full)) for _ in range(times)]
    best, crowded = (min(each) for each in zip(*pairs, strict=True))
    median = statistics.median(b / a for a, b in pairs)
    print(f"{FUNCTIONS} functions from a store of their own {best * 1e3:.1f} ms, "
          f"beside {records} records {crowded * 1e3:.1f} ms [{crowded / best:.2f}, median {median:.2f}]")  # fmt: skip


def _fill(root: Path, records: int) -> None:
    """Other programs' variants and graphs, made of this one's."""
    (environment,) = [each for each in Inventory(root).environments() if any(each.variants())]
    models = [stored.variant for stored in environment.variants()]
    store = Store(root, limit=1 << 40)
    for number in range(records):
        model = models[number % len(models)]
        spec = FrameSpec(f"other{number % 97}", f"f{number}", f"{number:020x}", params=model.spec.params)
        graph = f"{number:032x}"
        store.save_graph(graph, environment.graph(str(model.graph)) or b"")
        store.save(replace(model, spec=spec, graph=graph))


def _run(folder: Path, cache: Path) -> float:
    command = [sys.executable, "-m", "aotdyn", "run", "app.py"]
    env = _environment(cache, "eager")
    return float(subprocess.run(command, cwd=folder, env=env, check=True, capture_output=True, text=True).stdout)


def _environment(cache: Path, backend: str) -> dict[str, str]:
    env = {**os.environ, "AOTDYN_CACHE_DIR": str(cache), "AOTDYN_BACKEND": backend, "OMP_NUM_THREADS": "1"}
    env["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).resolve().parent.parent), os.environ.get("PYTHONPATH", "")])
    return env


def together(processes: int = 8, times: int = 1) -> None:
    """Print what each kind of start takes, and the ratio of the start together to what it may take."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "lib.py").write_text(LIBRARY)
        (folder / "app.py").write_text(TOGETHER)
        for number in range(times):
            alone = folder / f"alone{number}"
            one, (stats,) = _started(folder, alone, 1)
            compiling = stats["seconds"]["compile"]
            plain = _all_of([[sys.executable, "app.py"]] * processes, folder, dict(os.environ))
            cold, found = _started(folder, folder / f"empty{number}", processes)
            for records in alone.glob("v1/*/records"):
                shutil.rmtree(records)
            traced, _ = _started(folder, alone, processes)
            compiled = [each["graphs_compiled"] for each in found]
            allowed = 1.3 * (one - compiling if processes <= len(os.sched_getaffinity(0)) else traced) + compiling
            print(f"one process on an empty store {one:.1f} s, {compiling:.1f} of it compiling")
            print(f"{processes} in plain Python {plain:.1f} s, that only trace {traced:.1f} s")
            print(
                f"{processes} on an empty store {cold:.1f} s [{cold / allowed:.2f} of the {allowed:.1f} s allowed], "
                f"{sum(compiled)} compiled for {GRAPHS} graphs",
                flush=True,
            )


def _started(folder: Path, cache: Path, processes: int) -> tuple[float, list[dict[str, object]]]:
    """Seconds until all of some processes that start together have ended, and the counters of each."""
    command = [sys.executable, "-m", "aotdyn", "run", "--compile", "now", "--choose", "always", "--stats"]
    commands = [[*command, f"stats{number}.json", "app.py"] for number in range(processes)]
    seconds = _all_of(commands, folder, _environment(cache, "inductor"))
    return seconds, [json.loads((folder / f"stats{number}.json").read_text()) for number in range(processes)]


def _all_of(commands: list[list[str]], folder: Path, env: dict[str, str]) -> float:
    """Seconds until all of these commands, started together, have ended."""
    start = time.perf_counter()
    running = [subprocess.Popen(each, cwd=folder, env=env, stdout=subprocess.DEVNULL) for each in commands]
    failed = [process.pid for process in running if process.wait()]
    seconds = time.perf_counter() - start
    if failed:
        raise SystemExit(f"processes {failed} failed")
    return seconds


PARTS: dict[str, Callable[..., None]] = {"full": full, "together": together}

if __name__ == "__main__":
    PARTS[sys.argv[1]](*map(int, sys.argv[2:]))
