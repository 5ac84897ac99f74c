"""What a start costs up to the first result and what a call costs then, beside plain PyTorch and torch.compile.

    python benchmarks/warm_start.py [--only inference,training,process,pointwise,steady,cold] [--repeats 5]
                                    [--limit SECONDS] [--kinds plain,aotdyn,...] [--models FILE [NAME ...]]

- `inference`, `training`: seconds from a 6-layer GPT of width 128 to its first result (in training: forward, loss,
  backward, step), from before the compiler is imported; less plain PyTorch's. With the peak of the process's memory.
- `process`: seconds of a whole process, `aotdyn run app.py` warm and `python app.py`, for one call and for a thousand.
- `pointwise`: microseconds of a call of two element-wise operators on 8x8, warm.
- `steady`: milliseconds of a call and of a training step of each model, three ways in one process, and their ratios.
- `cold`: seconds to the GPT's first result in a process with empty caches, kernels being compiled in the background,
  beside torch.compile(backend="eager"), which compiles none.

Every figure is a median of `--repeats` processes. The ways take turns, so that a busy machine is as busy for each, and
differences are taken between neighbours. Beside the seconds of the clock stand, in brackets, those of the processor,
which other programs disturb less. Cold processes have empty caches, warm ones those of the first cold one. Past
`--limit` no further round begins: what has been measured is printed, with the number of rounds.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent

SETUP = """
import sys
sys.path[:0] = [{here!r}, {root!r}]
import torch, time, resource
from models import GPT
torch.manual_seed(0)
model = GPT(width=128)
tokens = torch.zeros(2, 16, dtype=torch.long)
"""
START = "start, work = time.perf_counter(), time.process_time()\n{compile}\n"
END = """
print(time.perf_counter() - start, time.process_time() - work,
      resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, flush=True)
"""
INFERENCE = SETUP + "model.eval()\n" + START + "with torch.no_grad():\n    model(tokens)\n" + END
TRAINING = (
    SETUP
    + "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
    + START
    + "loss = torch.nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())\n"
    + "loss.backward()\noptimizer.step()\n"
    + END
)
POINTWISE = """
import sys, timeit
sys.path[:0] = [{root!r}]
import torch
def model(x):
    return (x + 1).sin()
{compile}
x = torch.randn(8, 8)
with torch.no_grad():
    for _ in range(100):
        model(x)
    times = timeit.repeat(lambda: model(x), number=1000, repeat=20)
print(min(times) / 1000 * 1e6, 0, 0)
"""
APP = """
if __name__ == "__main__":
    model = GPT(width=128).eval()
    tokens = torch.zeros(2, 16, dtype=torch.long)
    with torch.no_grad():
        for _ in range({calls}):
            model(tokens)
"""

OURS = "import aotdyn; model = aotdyn.compile(model, backend='inductor')"
THEIRS = "model = torch.compile(model, backend='inductor')"
PRECOMPILE = (
    "import torch._dynamo, torch.compiler; torch._dynamo.config.caching_precompile = True\n"
    "from torch._dynamo.precompile_context import PrecompileContext\n" + THEIRS
)
SAVE = "PrecompileContext.save_to_dynamo_cache()\n"


class Kind(NamedTuple):
    """A way to run a program, and what a process has been left by an earlier one."""

    compile: str = ""
    warm: bool = True
    variables: dict[str, str] = {}

    def of(self, program: str) -> str:
        """The program's text."""
        text = program.format(here=str(HERE), root=str(HERE.parent), compile=self.compile)
        return text + SAVE if self.compile == PRECOMPILE else text


KINDS = {
    "plain": Kind(),
    "aotdyn": Kind(OURS),
    "torch.compile": Kind(THEIRS),
    "caching_precompile": Kind(PRECOMPILE),
    "aotdyn, cold": Kind(OURS, False),
    "torch.compile, cold": Kind(THEIRS, False),
}

COLD = {
    "plain": Kind(),
    "aotdyn, background": Kind(OURS, False, {"AOTDYN_COMPILE": "background", "AOTDYN_EXIT_WAIT": "0"}),
    "torch.compile, eager": Kind(THEIRS.replace("inductor", "eager"), False),
}


class Run(NamedTuple):
    """One process: what it measured of itself (clock, processor, MiB), and its whole time of both kinds."""

    clock: float
    work: float
    memory: float
    whole: float
    whole_work: float


class Bench:
    """Runs programs in processes of their own, the ways in turn."""

    def __init__(self, repeats: int, limit: float, kinds: str) -> None:
        self.repeats = repeats
        self.end = time.monotonic() + limit
        self.kinds = [each.strip() for each in kinds.split("|")] if kinds else []

    def chosen(self, kinds: dict[str, Kind]) -> dict[str, Kind]:
        """The kinds that are asked for; the first is what others are compared with, and always there."""
        return {name: kind for name, kind in kinds.items() if name in [next(iter(kinds)), *(self.kinds or kinds)]}

    def rounds(self, run: Callable[[str], Run], names: list[str]) -> dict[str, list[Run]]:
        """What each of these gives in turn, until there is enough or the time is over; one round at least."""
        found: dict[str, list[Run]] = {name: [] for name in names}
        for number in range(self.repeats):
            if number and time.monotonic() > self.end:
                break
            for name in names:
                found[name].append(run(name))
        return found

    def programs(self, text: str, kinds: dict[str, Kind]) -> dict[str, list[Run]]:
        """Runs of a program in these ways; before them, one that fills the caches of each that is warm."""
        kinds = self.chosen(kinds)
        with tempfile.TemporaryDirectory() as folder:
            places = {name: f"{folder}/{number}" for number, name in enumerate(kinds)}

            def run(name: str) -> Run:
                kind = kinds[name]
                if not kind.warm:
                    shutil.rmtree(places[name], ignore_errors=True)
                return once([sys.executable, "-c", kind.of(text)], places[name], kind.variables)

            for name, kind in kinds.items():
                if kind.warm and kind.compile:
                    run(name)
            return self.rounds(run, list(kinds))


def once(command: list[str], folder: str, variables: Mapping[str, str] | None = None) -> Run:
    """Run a command with its caches in a folder."""
    caches = {"AOTDYN_CACHE_DIR": f"{folder}/aotdyn", "TORCHINDUCTOR_CACHE_DIR": f"{folder}/inductor"}
    os.makedirs(caches["AOTDYN_CACHE_DIR"], 0o700, exist_ok=True)
    fixed = {"PYTHONPATH": str(HERE.parent), "PYTHONDONTWRITEBYTECODE": ""}  # an installed package has .pyc files
    environment = {**os.environ, **fixed, **caches, **(variables or {})}
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    whole, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise SystemExit(done.stderr)
    work = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    told = [float(word) for word in done.stdout.split()[-3:]] or [whole, work, 0.0]
    return Run(*told, whole, work)


def median(runs: list[Run], field: str) -> float:
    """The median of a field."""
    return statistics.median(getattr(each, field) for each in runs)


def more(runs: list[Run], than: list[Run], field: str) -> float:
    """By how much runs exceed their neighbours: the median of the differences."""
    pairs = zip(runs, than, strict=True)
    return statistics.median(getattr(one, field) - getattr(other, field) for one, other in pairs)


def first_result(bench: Bench, name: str, text: str, kinds: dict[str, Kind]) -> Iterator[str]:
    """Seconds to the first result, and beyond plain PyTorch's."""
    rows = bench.programs(text, kinds)
    plain = rows["plain"]
    for kind, runs in rows.items():
        yield (
            f"{name:10} {kind:22} first result {median(runs, 'clock'):7.3f} s ({median(runs, 'work'):7.3f})   "
            f"beyond plain {more(runs, plain, 'clock'):+7.3f} ({more(runs, plain, 'work'):+7.3f})   "
            f"memory {median(runs, 'memory'):5.0f} MiB   of {len(runs)}"
        )


def pointwise(bench: Bench) -> Iterator[str]:
    """Microseconds of a call."""
    kinds = {name: KINDS[name] for name in ("plain", "aotdyn", "torch.compile")}
    rows = bench.programs(POINTWISE, kinds)
    for kind, runs in rows.items():
        value, ratio = median(runs, "clock"), median(runs, "clock") / median(rows["plain"], "clock")
        yield f"pointwise  {kind:22} {value:6.2f} us a call (x{ratio:.2f})   of {len(runs)}"


def process(bench: Bench) -> Iterator[str]:
    """Seconds of whole processes."""
    source = (HERE / "models.py").read_text()
    for calls in (1, 1000):
        with tempfile.TemporaryDirectory() as folder:
            app = Path(folder, "app.py")
            app.write_text(source + APP.format(calls=calls))
            ways = {
                "plain": [sys.executable, str(app)],
                "aotdyn run": [sys.executable, "-m", "aotdyn", "run", "--backend", "inductor", str(app)],
            }
            built = [sys.executable, "-m", "aotdyn", "build", "--backend", "inductor", str(app)]
            once(built, folder)
            once(ways["aotdyn run"], folder)  # which way is the faster is told by live calls, and stored
            rows = bench.rounds(lambda name: once(ways[name], folder), list(ways))  # noqa: B023
        for kind, runs in rows.items():
            beyond = (more(runs, rows["plain"], field) for field in ("whole", "whole_work"))
            yield "process    {:22} {:5} calls {:7.3f} s ({:7.3f})   beyond plain {:+.3f} ({:+.3f})   of {}".format(
                kind, calls, median(runs, "whole"), median(runs, "whole_work"), *beyond, len(runs)
            )


def steady(bench: Bench, file: str, names: list[str]) -> Iterator[str]:
    """Milliseconds of calls, in a process for each model and kind; kernels come from AOTDYN_CACHE_DIR, if it is set."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {"AOTDYN_CACHE_DIR": folder, **os.environ, "PYTHONPATH": str(HERE.parent)}
        for name in names:
            for kind in ("inference", "training"):
                if time.monotonic() > bench.end:
                    return
                command = [sys.executable, str(HERE / "steady.py"), "--kinds", kind, file, name]
                done = subprocess.run(command, env=environment, capture_output=True, text=True)
                failed = f"steady     {name:22} {kind:9} {done.stderr.strip()[-300:]}"
                yield failed if done.returncode else done.stdout.rstrip()


def main() -> None:
    """Print what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="pointwise,inference,training,process,cold,steady")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--limit", type=float, default=1e9, help="seconds after which no round begins")
    parser.add_argument("--kinds", default="", help="ways to run, with `|` between: " + " | ".join(KINDS))
    parser.add_argument("--models", nargs="+", default=[""], metavar="FILE NAME", help="for `steady`: see steady.py")
    args = parser.parse_args()
    bench = Bench(args.repeats, args.limit, args.kinds)
    parts = {
        "inference": lambda: first_result(bench, "inference", INFERENCE, KINDS),
        "training": lambda: first_result(bench, "training", TRAINING, KINDS),
        "process": lambda: process(bench),
        "pointwise": lambda: pointwise(bench),
        "cold": lambda: first_result(bench, "cold", INFERENCE, COLD),
        "steady": lambda: steady(bench, args.models[0], args.models[1:] or ["gpt", "sequential"]),
    }
    for name in args.only.split(","):
        for line in parts[name]():
            print(line, flush=True)


if __name__ == "__main__":
    main()
