"""What a start costs up to the first result, and beside it torch.compile: cold, warm, and with caching_precompile.

    python benchmarks/warm_start.py [--processes 5] [--backend inductor] [only ...]

Prints, each as the median of so many processes:
- `gpt`, `training`: seconds from a process's start to the first result of a 6-layer GPT of width 128 (the first
  gradients, in training), less those of plain PyTorch;
- `process`: seconds of a whole process that calls such a GPT once;
- `small`: microseconds of a call of two element-wise operators on 8x8, warm;
- `background`: seconds to the GPT's first result in a cold process, kernels being compiled in the background, beside
  torch.compile(backend="eager"), which compiles none.
Cold processes have empty caches, warm ones those of an earlier process. The names of what to run may be given.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent

GPT = """
import sys, time
sys.path[:0] = [{here!r}, {root!r}]
import torch
from models import GPT
torch.manual_seed(0)
model = GPT(width=128)
tokens = torch.zeros(2, 16, dtype=torch.long)
{compile}
"""
INFERENCE = GPT + "model.eval()\nwith torch.no_grad():\n    model(tokens)\n"
TRAINING = GPT + "model(tokens).sum().backward()\n"
SMALL = """
import sys, time, timeit
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
print(min(times) / 1000 * 1e6)
"""
CLOCK = "print(time.time() - float(sys.argv[1]), flush=True)\n"

OURS = "import aotdyn; model = aotdyn.compile(model, backend={backend!r})"
THEIRS = "model = torch.compile(model, backend={backend!r})"
PRECOMPILE = (
    "import torch._dynamo, torch.compiler; torch._dynamo.config.caching_precompile = True\n"
    "from torch._dynamo.precompile_context import PrecompileContext\n" + THEIRS
)
SAVE = "PrecompileContext.save_to_dynamo_cache()\n"

KINDS = {
    "plain": ("", True),
    "aotdyn cold": (OURS, False),
    "aotdyn warm": (OURS, True),
    "torch.compile cold": (THEIRS, False),
    "torch.compile warm": (THEIRS, True),
    "caching_precompile warm": (PRECOMPILE, True),
}
"A way to compile, and whether an earlier process has filled the caches."


class Bench:
    """Runs programs in processes of their own."""

    def __init__(self, processes: int, backend: str) -> None:
        self.processes = processes
        self.backend = backend

    def once(self, text: str, folder: str, variables: dict[str, str]) -> tuple[float, float]:
        """What a program prints, and the seconds that its process takes."""
        caches = {"AOTDYN_CACHE_DIR": f"{folder}/aotdyn", "TORCHINDUCTOR_CACHE_DIR": f"{folder}/inductor"}
        os.makedirs(caches["AOTDYN_CACHE_DIR"], 0o700, exist_ok=True)
        start = time.time()
        command = [sys.executable, "-c", text, str(start)]
        done = subprocess.run(command, env={**os.environ, **caches, **variables}, capture_output=True, text=True)
        whole = time.time() - start
        if done.returncode:
            raise SystemExit(done.stderr)
        return float(done.stdout.split()[-1]), whole

    def medians(self, program: str, compile: str, warm: bool, end: str, **variables: str) -> tuple[float, float]:
        """Medians of what `once` says."""
        text = program.format(here=str(HERE), root=str(HERE.parent), compile=compile.format(backend=self.backend)) + end
        text += SAVE if compile == PRECOMPILE else ""
        found = []
        with tempfile.TemporaryDirectory() as folder:
            for number in range(self.processes + warm):
                if not warm:
                    shutil.rmtree(folder)
                    os.mkdir(folder, 0o700)
                found.append(self.once(text, folder, variables))
                if warm and not number:
                    found.clear()
        return tuple(map(statistics.median, zip(*found, strict=True)))  # type: ignore[return-value]


def first_results(bench: Bench, name: str, program: str) -> Iterator[str]:
    """Seconds to the first result less plain PyTorch's; then of whole processes."""
    rows = {kind: bench.medians(program, *how, CLOCK) for kind, how in KINDS.items()}
    plain = rows["plain"]
    for kind, (first, whole) in rows.items():
        yield f"{name:10} {kind:24} first result {first:6.2f} s ({first - plain[0]:+6.2f})  process {whole:6.2f} s"


def small(bench: Bench) -> Iterator[str]:
    """Microseconds of a call."""
    for kind in ("plain", "aotdyn warm", "torch.compile warm"):
        value, _ = bench.medians(SMALL, *KINDS[kind], "")
        yield f"{'small':10} {kind:24} {value:6.2f} us a call"


def background(bench: Bench) -> Iterator[str]:
    """Seconds to a cold process's first result."""
    cold = {
        "plain": ("", {}),
        "aotdyn, background": (OURS, {"AOTDYN_COMPILE": "background", "AOTDYN_EXIT_WAIT": "0"}),
        "torch.compile, eager": (THEIRS.replace("{backend!r}", "'eager'"), {}),
    }
    for kind, (compile, variables) in cold.items():
        value, _ = bench.medians(INFERENCE, compile, False, CLOCK, **variables)
        yield f"{'background':10} {kind:24} first result {value:6.2f} s"


def main() -> None:
    """Print what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=5)
    parser.add_argument("--backend", default="inductor")
    parser.add_argument("only", nargs="*", help="gpt (with process), training, small, background; default all")
    args = parser.parse_args()
    bench = Bench(args.processes, args.backend)
    parts = {
        "small": lambda: small(bench),
        "background": lambda: background(bench),
        "gpt": lambda: first_results(bench, "gpt", INFERENCE),
        "training": lambda: first_results(bench, "training", TRAINING),
    }
    for name in args.only or parts:
        for line in parts[name]():
            print(line, flush=True)


if __name__ == "__main__":
    main()
