"""`python -m tests.fuzz`: checks many random programs, each plainly, cold and warm in a second process.

Failing programs are saved with a smaller form. The exit status is 1 where one failed.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from .check import Outcome, is_hooked, text_of
from .minimise import attempt, kind_of, minimised

ROOT = Path(__file__).resolve().parents[2]
BATCH = 100
"Programs a process checks: few enough that a process that dies costs little."


def environment(cache: Path, hash_seed: int) -> dict[str, str]:
    """The environment of a worker; strings hash differently in the second process, as they would."""
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    ours = {"AOTDYN_CACHE_DIR": str(cache), "AOTDYN_STRICT": "1", "AOTDYN_BACKEND": "eager", "AOTDYN_THRIFT": "off"}
    ours["OMP_NUM_THREADS"] = "1"
    return {**os.environ, **ours, "PYTHONPATH": path, "PYTHONHASHSEED": str(hash_seed)}


def batch(kind: str, first: int, count: int) -> Iterator[tuple[str, Outcome]]:
    """Check some programs in two processes, one behind the other; gives (way, outcome)."""
    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder, "cache")
        cache.mkdir(mode=0o700)
        for number, way in enumerate(("cold", "warm")):
            env = environment(cache, 2 * first + number)
            argv = [sys.executable, "-m", "tests.fuzz.worker", kind, folder, way, str(first), str(count)]
            done = subprocess.run(argv, env=env, cwd=ROOT, check=False, capture_output=True, text=True)
            told = [Outcome(**json.loads(line)) for line in done.stdout.splitlines()]
            yield from ((way, outcome) for outcome in told)
            if len(told) < count:
                yield way, Outcome(first + len(told), 0, f"the process died\n{done.stderr[-2000:]}")


def save(kind: str, way: str, outcome: Outcome, folder: Path, seconds: float) -> Path:
    """Write a failing program, what was wrong, and a smaller program that fails in the same way."""
    text = text_of(kind, outcome.seed)
    how = kind_of(outcome.fault)
    small = minimised(text, lambda each: kind_of(attempt(outcome.seed, each, way)) == how, seconds) if seconds else ""
    file = folder / f"{kind}_{outcome.seed}_{way}.py"
    parts = [f'"""\n{outcome.fault}\n"""', text, "# -- smaller --", small]
    file.write_text("\n\n".join(parts))
    return file


def main(argv: list[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--n", type=int, default=200, help="how many programs")
    parser.add_argument("--seed", type=int, default=0, help="the seed of the first; the others follow")
    parser.add_argument("--jobs", type=int, default=1, help="how many batches run at a time")
    parser.add_argument("--kind", choices=("programs", "sizes"), default="programs", help="sizes: shapes that vary")
    parser.add_argument("--save", type=Path, default=Path(tempfile.gettempdir(), "fuzz"), help="where failures go")
    parser.add_argument(
        "--minimise", type=float, default=60, help="seconds to make a failing program smaller; 0: don't"
    )
    args = parser.parse_args(argv)
    began, done, captured, failed = time.monotonic(), 0, 0, []
    starts = range(args.seed, args.seed + args.n, BATCH)

    def check(first: int) -> list[tuple[str, Outcome]]:
        return list(batch(args.kind, first, min(BATCH, args.seed + args.n - first)))

    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for found in pool.map(check, starts):
            cold = [outcome for way, outcome in found if way == "cold"]
            done += len(cold)
            captured += sum(bool(outcome.graphs) for outcome in cold)
            faults = [each for each in found if each[1].fault]
            failed += faults
            rate = f"{done / (time.monotonic() - began):.1f}/s"
            print(f"{done} programs, {captured} with operations captured, {len(failed)} faults, {rate}", flush=True)
            for way, outcome in faults:
                hooked = ", hooked" if is_hooked(outcome.seed) else ""
                print(f"  seed {outcome.seed}, {way}{hooked}: {outcome.fault[:300]}", flush=True)
    args.save.mkdir(parents=True, exist_ok=True)
    for way, outcome in failed:
        print(save(args.kind, way, outcome, args.save, args.minimise), flush=True)
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
