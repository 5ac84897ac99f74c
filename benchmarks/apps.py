"""Whole programs: plainly, under the hook with an empty cache (cold), once more (next), and a third time (warm).

    python benchmarks/apps.py                      the examples
    python benchmarks/apps.py FOLDER [NAME...]     the programs of a folder, those whose names begin so

A program names the packages to hook in a comment line, `# hook: one, two`. The second process makes up for what the
first has put off (docs/design/policy.md). The ways are run one behind the other, so that a machine that others use as
well is as busy for each. Shown are seconds of work (user and system time of the process and its children) and, in
brackets, of the clock; how many times as much as plainly; whether the output is the same; and what `--stats` says of
the warm process: calls of operators in graphs and, as far as is known, outside of them, and calls with tensors of
functions that no graph served.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
WAYS = ("plain", "cold", "next", "warm")
COLUMNS = ("traced", "graph_calls", "guards_dropped")


class Run(NamedTuple):
    """One process: its output, seconds of work and of the clock, and what `--stats` says."""

    output: str
    status: int
    work: float
    clock: float
    stats: dict[str, object]


def packages(program: Path) -> list[str]:
    """What the program's `# hook:` line names, as options of `run`."""
    found = re.search(r"^# hook: (.*)$", program.read_text(), re.M)
    return ["--package", found.group(1).replace(" ", "")] if found else []


def run(program: Path, way: str, cache: str, timeout: float, backend: str) -> Run:
    """Run a program in one way."""
    stats = Path(cache, f"{program.stem}.json")
    hook = ["-m", "aotdyn", "run", "--backend", backend, "--stats", str(stats), *packages(program)]
    command = [sys.executable, *(hook if way != "plain" else []), str(program)]
    environment = {**os.environ, "AOTDYN_CACHE_DIR": cache, "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=timeout, stdin=subprocess.DEVNULL, check=False
    )
    clock, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    work = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    told = json.loads(stats.read_text()) if way != "plain" and stats.exists() else {}
    return Run(done.stdout, done.returncode, work, clock, told)


def line(program: Path, runs: dict[str, Run]) -> str:
    """A row of the table."""
    plain = runs["plain"]
    cells = [f"{program.stem:24}"]
    for way in WAYS:
        ratio = "" if way == "plain" else f" x{runs[way].work / plain.work:4.2f}"
        cells.append(f"{runs[way].work:6.1f} ({runs[way].clock:5.1f}){ratio}")
    told = runs["warm"].stats
    same = all((each.output, each.status) == (plain.output, plain.status) for each in runs.values())
    cells += ["same" if same else "DIFFERS", *(f"{name} {told.get(name)}" for name in COLUMNS)]
    put_off = told.get("put_off")
    cells.append(f"put off {len(put_off) if isinstance(put_off, list) else '?'}")
    captured, eager = (int(str(told.get(f"tensor_calls_{name}", 0))) for name in ("captured", "eager"))
    part = 100 * captured / max(captured + eager, 1)
    cells.append(f"{captured} captured, {eager} eager ({part:.0f} %), {told.get('calls_left')} calls left")
    return " | ".join(cells)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=EXAMPLES)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--timeout", type=float, default=600.0)
    parser.add_argument("--backend", default="eager")
    chosen = parser.parse_args()
    found = [each for each in sorted(chosen.folder.glob("*.py")) if not each.stem.startswith(("_", "run_"))]
    programs = [each for each in found if not chosen.names or each.stem.startswith(tuple(chosen.names))]
    sums = dict.fromkeys(WAYS, 0.0)
    alike = True
    for program in programs:
        with tempfile.TemporaryDirectory() as cache:
            os.chmod(cache, 0o700)
            runs = {way: run(program, way, cache, chosen.timeout, chosen.backend) for way in WAYS}
        text = line(program, runs)
        alike = alike and "DIFFERS" not in text
        print(text, flush=True)
        for way in WAYS:
            sums[way] += runs[way].work
    if programs:
        print(f"{'all':24} | " + " | ".join(f"{way} {sums[way]:.1f} x{sums[way] / sums['plain']:.2f}" for way in WAYS))
    return not alike


if __name__ == "__main__":
    sys.exit(main())
