"""Whole programs: plainly, under the hook with an empty cache (cold), once more (next), and a third time (warm).

    python benchmarks/apps.py                      the examples
    python benchmarks/apps.py FOLDER [NAME...]     the programs of a folder, those whose names begin so
    ... --ways plain,settle,warm --backend inductor --repeats 3 --cache KEPT

A program names the packages to hook in a comment line, `# hook: one, two`. The second process makes up for what the
first has put off (docs/design/policy.md). The ways are run one behind the other, so that a machine that others use as
well is as busy for each. Other ways: `settle` is processes until one traces and compiles nothing, at most six;
`build` is `aotdyn build`. With `--repeats` the ways plain and warm are taken so often, in turns, and medians are shown;
`--cache` keeps each program's cache in a folder, so that a later call begins with it.

Shown are seconds of work (user and system time of the process and its children) and, in brackets, of the clock; how
many times as much as plainly; whether the output is the same; and what `--stats` says of the last process: calls of
operators in graphs and, as far as is known, outside of them, calls with tensors of functions that no graph served, and
seconds that kernels have saved. The statistics lie in the cache's folder, a file a program and way.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
WAYS = ("plain", "cold", "next", "warm")
REPEATED = ("plain", "warm")
COLUMNS = ("traced", "graph_calls", "guards_dropped")
SETTLES = 6
"Processes of the way `settle` at most."


class Run(NamedTuple):
    """One process: its output, seconds of work and of the clock, and what `--stats` says."""

    output: str
    status: int
    work: float
    clock: float
    stats: dict[str, Any]


def packages(program: Path) -> list[str]:
    """What the program's `# hook:` line names, as options of `run`."""
    found = re.search(r"^# hook: (.*)$", program.read_text(), re.M)
    return ["--package", found.group(1).replace(" ", "")] if found else []


def run(program: Path, way: str, cache: str, chosen: argparse.Namespace) -> Run:
    """Run a program in one way."""
    stats = Path(cache, f"{program.stem}.{way}.json")
    command = "build" if way == "build" else "run"
    hook = ["-m", "aotdyn", command, "--backend", chosen.backend, "--stats", str(stats), *packages(program)]
    line = [sys.executable, *(hook if way != "plain" else []), str(program)]
    environment = {**os.environ, "AOTDYN_CACHE_DIR": cache, "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package has its bytecode
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(
        line, env=environment, capture_output=True, text=True, timeout=chosen.timeout, stdin=subprocess.DEVNULL
    )
    clock, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    work = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    told = json.loads(stats.read_text()) if way != "plain" and stats.exists() else {}
    Path(cache, f"{program.stem}.{way}.err").write_text(done.stderr)
    return Run(done.stdout, done.returncode, work, clock, told)


def settled(program: Path, cache: str, chosen: argparse.Namespace) -> Run:
    """The last of the processes that it takes until one traces and compiles nothing."""
    for _ in range(SETTLES):
        last = run(program, "settle", cache, chosen)
        if not last.stats.get("traced") and not last.stats.get("graphs_requested"):
            break
    return last


def ways(program: Path, cache: str, chosen: argparse.Namespace) -> dict[str, Run]:
    """A program in all the ways; of what is repeated the median."""
    order = chosen.ways.split(",")
    runs: dict[str, list[Run]] = {way: [] for way in order}
    for turn in range(chosen.repeats):
        for way in order:
            if turn == 0 or way in REPEATED:
                made = settled(program, cache, chosen) if way == "settle" else run(program, way, cache, chosen)
                runs[way].append(made)
    return {way: median(each) for way, each in runs.items()}


def median(runs: list[Run]) -> Run:
    """The last of some runs, with the medians of their seconds; one whose output differs tells."""
    last = next((each for each in runs if (each.output, each.status) != (runs[0].output, runs[0].status)), runs[-1])
    work, clock = (statistics.median(getattr(each, name) for each in runs) for name in ("work", "clock"))
    return last._replace(work=work, clock=clock)


def line(program: Path, runs: dict[str, Run]) -> str:
    """A row of the table."""
    plain = runs.get("plain")
    cells = [f"{program.stem:24}"]
    for way, each in runs.items():
        ratio = "" if way == "plain" or plain is None else f" x{each.work / plain.work:4.2f}"
        cells.append(f"{way} {each.work:6.1f} ({each.clock:5.1f}){ratio}")
    last = list(runs.values())[-1]
    told = last.stats
    same = all((each.output, each.status) == (last.output, last.status) for each in runs.values())
    cells += ["same" if same else "DIFFERS", *(f"{name} {told.get(name)}" for name in COLUMNS)]
    put_off = told.get("put_off")
    cells.append(f"put off {len(put_off) if isinstance(put_off, list) else '?'}")
    captured, eager = (int(told.get(f"tensor_calls_{name}", 0)) for name in ("captured", "eager"))
    part = 100 * captured / max(captured + eager, 1)
    cells.append(f"{captured} captured, {eager} eager ({part:.0f} %), {told.get('calls_left')} calls left")
    cells.append(f"kernels saved {told.get('account', {}).get('saved')} s")
    return " | ".join(cells)


@contextlib.contextmanager
def cache_of(program: Path, kept: Path | None) -> Iterator[str]:
    """The folder of a program's cache: kept, or gone afterwards."""
    if kept is not None:
        folder = kept / program.stem
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        yield str(folder)
        return
    with tempfile.TemporaryDirectory() as made:
        os.chmod(made, 0o700)
        yield made


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=EXAMPLES)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--timeout", type=float, default=600.0)
    parser.add_argument("--backend", default="eager")
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--cache", type=Path)
    chosen = parser.parse_args()
    found = [each for each in sorted(chosen.folder.glob("*.py")) if not each.stem.startswith(("_", "run_"))]
    programs = [each for each in found if not chosen.names or each.stem.startswith(tuple(chosen.names))]
    sums: dict[str, float] = {}
    alike = True
    for program in programs:
        with cache_of(program, chosen.cache) as cache:
            runs = ways(program, cache, chosen)
        text = line(program, runs)
        alike = alike and "DIFFERS" not in text
        print(text, flush=True)
        for way, each in runs.items():
            sums[way] = sums.get(way, 0.0) + each.work
    if programs:
        plain = sums.get("plain", float("nan"))
        print(f"{'all':24} | " + " | ".join(f"{way} {work:.1f} x{work / plain:.2f}" for way, work in sums.items()))
    return not alike


if __name__ == "__main__":
    sys.exit(main())
