"""Whether compiled models compute what they do plainly, cold and in a second process, and what that second one loads.

    python benchmarks/kernels.py [--kinds inference,training] [--beside] FILE NAME...

FILE is a Python file with `build(name)`, which gives a model and its inputs as a dict; empty: `gpt` and `sequential`
of `models.py`. Kernels are kept where AOTDYN_CACHE_DIR says, so a second run of this compiles nothing.

A first process may compile; a second one is warm. In each a model takes two steps plainly and two compiled, from equal
weights and random streams. Compared are the outputs, the random stream behind them and, in training (steps of
`train()`, dropout included), loss, gradients and buffers. Equal means of the same types and sizes, and each number
within 1e-4 + 1e-3 of the plain one; a gradient's within 1e-4 + 1e-3 of the largest of its tensor, since they are sums
in which much cancels. A line has

- `cold`, `warm`: the largest difference in the first and in the second process, as part of the plain value + 0.1; or
  what was wrong;
- `traced`, `kernels`, `breaks`: of the first process (with a filled cache: none); `failed`: graphs that inductor
  refused; `each time`: graphs that have no stored kernel;
- of the warm process: what was traced and compiled, and which compiler's modules it imported beyond plain PyTorch's;
- seconds of each process's first compiled step.

With `--beside` a line more: peak memory and seconds to the first result of warm processes, plain, aotdyn and
torch.compile.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent

COMPILERS = ("torch._dynamo", "torch._inductor", "torch._functorch.aot_autograd", "torch._functorch._aot_autograd")

NEAR, PART = 1e-4, 1e-3
"How far numbers may be apart: so much, and so much of the plain one."


def difference(plain: Any, other: Any, where: str, whole: bool = False) -> float:
    """The largest difference of two structures' tensors, as `_apart` tells it; ValueError where they aren't equal."""
    import torch

    if type(plain) is not type(other):
        raise ValueError(f"{where} is {type(other).__qualname__}, plainly {type(plain).__qualname__}")
    if isinstance(plain, torch.Tensor):
        return _apart(plain, other, where, whole)
    if isinstance(plain, dict):
        if list(plain) != list(other):
            raise ValueError(f"{where} has {list(other)}, plainly {list(plain)}")
        pairs = [(f"{where}[{key!r}]", plain[key], other[key], whole or key == "gradients") for key in plain]
    elif isinstance(plain, (list, tuple)):
        if len(plain) != len(other):
            raise ValueError(f"{where} has {len(other)} items, plainly {len(plain)}")
        pairs = [(f"{where}[{number}]", *both, whole) for number, both in enumerate(zip(plain, other, strict=True))]
    else:
        return 0.0
    return max((difference(one, two, name, part) for name, one, two, part in pairs), default=0.0)


def _apart(plain: Any, other: Any, where: str, whole: bool) -> float:
    """The largest difference of two tensors' numbers, as part of the plain one + 0.1: 1e-3 is as far as equal goes.

    With `whole` it is a part of the plain tensor's largest number.
    """
    import torch

    for fact in ("shape", "dtype", "requires_grad"):
        if getattr(plain, fact) != getattr(other, fact):
            raise ValueError(f"{where}.{fact} is {getattr(other, fact)}, plainly {getattr(plain, fact)}")
    one, two = plain.detach(), other.detach()
    if not one.numel():
        return 0.0
    if not torch.equal(torch.isfinite(one), torch.isfinite(two)):
        raise ValueError(f"{where} is infinite or nan elsewhere than plainly")
    one, two = (torch.nan_to_num(each.double(), 0.0, 0.0, 0.0) for each in (one, two))
    size = one.abs().max() if whole else one.abs()
    apart = ((one - two).abs() / (size + NEAR / PART)).max().item()
    if apart > PART:
        raise ValueError(f"{where} is off by {apart:.2g}")
    return apart


def seen(step: Any, run: Any, model: Any, inputs: dict[str, Any], kind: str) -> dict[str, Any]:
    """What a step gives and leaves."""
    import torch
    from steps import seed

    model.zero_grad(set_to_none=True)
    seed()
    result = step(run, inputs)
    found = {"result": result, "random": torch.rand(())}
    if kind == "training":
        found["gradients"] = {name: each.grad for name, each in model.named_parameters()}
        found["buffers"] = {name: each.clone() for name, each in model.named_buffers()}
    return found


def child(file: str, name: str, kinds: list[str]) -> dict[str, Any]:
    """One process: plain and compiled steps of a model, compared, by kind."""
    sys.path.insert(0, str(HERE.parent))
    from steps import builder

    build = builder(file)
    return {kind: compare(build, name, kind) for kind in kinds}


def compare(build: Any, name: str, kind: str) -> dict[str, Any]:
    """Two steps of a model each way: how far they are apart, and what the compiled ones took."""
    from steps import STEPS, made

    plain, inputs = made(build, name, kind)
    ours, again = made(build, name, kind)
    step = STEPS[kind]
    expected = [seen(step, plain, plain, inputs, kind) for _ in range(2)]
    before = set(sys.modules)

    import aotdyn

    known = counted(aotdyn.stats())
    run = aotdyn.compile(ours, backend="inductor")
    start = time.perf_counter()
    found = [seen(step, run, ours, again, kind)]
    seconds = time.perf_counter() - start
    found.append(seen(step, run, ours, again, kind))
    loaded = sorted(each for each in set(sys.modules) - before if each in COMPILERS)
    try:
        apart: float | str = difference(expected, found, "steps")
    except ValueError as error:
        apart = str(error)
    counts = {field: number - known[field] for field, number in counted(aotdyn.stats()).items()}
    return {"apart": apart, "seconds": seconds, "loaded": loaded, **counts}


def counted(stats: dict[str, Any]) -> dict[str, int]:
    """What is counted of a process."""
    fields = ("traced", "graphs_compiled", "graphs_compiled_each_time", "backend_failures", "graph_breaks")
    counts = {field: stats.get(field, 0) for field in fields}
    return {field: count if isinstance(count, int) else len(count) for field, count in counts.items()}


def beside(file: str, name: str, kind: str, way: str) -> dict[str, Any]:
    """One process that does one thing: the first step of a model, plainly or compiled."""
    sys.path.insert(0, str(HERE.parent))
    from steps import STEPS, builder, made

    model, inputs = made(builder(file), name, kind)
    start = time.perf_counter()
    run: Any = model
    if way == "aotdyn":
        import aotdyn

        run = aotdyn.compile(model, backend="inductor")
    elif way == "torch.compile":
        import torch

        run = torch.compile(model)
    STEPS[kind](run, inputs)
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


def process(*arguments: str, **variables: str) -> dict[str, Any]:
    """What one process tells."""
    environment = {**os.environ, "AOTDYN_CHOOSE": "always", **variables}
    command = [sys.executable, str(HERE / "kernels.py"), "--child", *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    said = done.stdout.strip().splitlines()
    warnings = [line for line in done.stderr.splitlines() if "aotdyn" in line]
    if done.returncode or not said:
        return {"failed": (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1][:300]}
    return {"warnings": warnings, **json.loads(said[-1])}


def equal(value: float | str) -> str:
    """How a comparison is printed."""
    return value if isinstance(value, str) else f"{value:.1e}"


def line(cold: dict[str, Any], warm: dict[str, Any]) -> str:
    """The rest of a line."""
    good = not any(isinstance(each["apart"], str) for each in (cold, warm))
    failures = cold["backend_failures"] + warm["backend_failures"]
    each_time = max(cold["graphs_compiled_each_time"], warm["graphs_compiled_each_time"])
    clean = good and not (failures or each_time or warm["graphs_compiled"] or warm["traced"] or warm["loaded"])
    return (
        f"{'ok ' if clean else 'BAD'} cold {equal(cold['apart'])} warm {equal(warm['apart'])}   "
        f"traced {cold['traced']} kernels {cold['graphs_compiled']} breaks {cold['graph_breaks']} failed {failures} "
        f"each time {each_time}   warm: traced {warm['traced']} compiled {warm['graphs_compiled']} "
        f"compiler {','.join(warm['loaded']) or 'none'}   {cold['seconds']:.1f} s, {warm['seconds']:.2f} s"
    )


def lines(file: str, name: str, kinds: str) -> list[str]:
    """A model's lines; behind them, indented, what was warned of."""
    runs = [process(file, name, kinds) for _ in range(2)]
    failed = next((f"{name:24} FAILED {each['failed']}" for each in runs if "failed" in each), "")
    noted = [f"    {each[:300]}" for each in dict.fromkeys(text for run in runs for text in run.get("warnings", ()))]
    if failed:
        return [failed, *noted]
    return [*(f"{name:24} {kind:9} {line(*(run[kind] for run in runs))}" for kind in kinds.split(",")), *noted]


def compared(file: str, name: str, kind: str) -> str:
    """Memory and seconds of three warm processes."""
    parts = []
    with tempfile.TemporaryDirectory() as folder:
        caches = {"TORCHINDUCTOR_CACHE_DIR": os.environ.get("TORCHINDUCTOR_CACHE_DIR", folder)}
        for way in ("plain", "aotdyn", "torch.compile"):
            runs = 1 if way == "plain" else 2
            told = [process("--way", way, file, name, kind, **caches) for _ in range(runs)][-1]
            parts.append(told.get("failed") or f"{way} {told['memory']:.0f} MiB {told['seconds']:.2f} s")
    return "   ".join(parts)


def main() -> None:
    """Print a line for each model and kind."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", default="inference,training")
    parser.add_argument("--beside", action="store_true", help="print memory and seconds beside torch.compile's, too")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--way", default="", help=argparse.SUPPRESS)
    parser.add_argument("models", nargs="+", metavar="FILE NAME")
    args = parser.parse_args()
    file, *names = args.models
    if args.child:
        name, kind = names
        told = beside(file, name, kind, args.way) if args.way else child(file, name, kind.split(","))
        print(json.dumps(told, default=str))
        return
    for name in names or ["gpt", "sequential"]:
        for text in lines(file, name, args.kinds):
            print(text, flush=True)
        for kind in args.kinds.split(",") if args.beside else ():
            print(f"{name:24} {kind:9} {compared(file, name, kind)}", flush=True)


if __name__ == "__main__":
    main()
