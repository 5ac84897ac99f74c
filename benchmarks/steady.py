"""What a call costs once all is compiled: plain PyTorch, aotdyn and torch.compile in one process, in turns.

    python benchmarks/steady.py FILE NAME...

FILE is a Python file with `build(name)`, which gives a model and its inputs as a dict; empty: `models.py` here, with
`gpt` and `sequential`. Prints, in inference and in training (a forward and the backward of the outputs' mean), the
median of the milliseconds of each way, and the median of each round's ratio of aotdyn to the two others.
"""

from __future__ import annotations

import importlib.util
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from models import GPT, sequential

import aotdyn

SECONDS = 6.0
"Of measuring, each of inference and training."


def build(name: str) -> tuple[torch.nn.Module, dict[str, Any]]:
    """A model of our own."""
    if name == "gpt":
        return GPT(width=128).eval(), {"tokens": torch.zeros(2, 16, dtype=torch.long)}
    return sequential(10), {"input": torch.randn(8, 8)}


def builder(file: str) -> Callable[[str], tuple[torch.nn.Module, dict[str, Any]]]:
    """`build` of a file."""
    if not file:
        return build
    spec = importlib.util.spec_from_file_location(Path(file).stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.build


def tensors(value: Any) -> list[torch.Tensor]:
    """The tensors in an output."""
    if isinstance(value, torch.Tensor):
        return [value]
    items = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return [each for item in items for each in tensors(item)]


def infer(run: Callable[..., Any], inputs: dict[str, Any]) -> None:
    """One call."""
    with torch.no_grad():
        run(**inputs)


def train(run: Callable[..., Any], inputs: dict[str, Any]) -> None:
    """One call and its backward."""
    outputs = [each for each in tensors(run(**inputs)) if each.requires_grad]
    sum(each.mean() for each in outputs).backward()  # type: ignore[union-attr]


def compare(step: Callable[..., None], ways: dict[str, Callable[..., Any]], inputs: dict[str, Any]) -> str:
    """Times of the ways in turns."""
    for run in ways.values():
        for _ in range(30):  # compiled, measured and settled
            step(run, inputs)
    found: dict[str, list[float]] = {name: [] for name in ways}
    end = time.perf_counter() + SECONDS
    while time.perf_counter() < end or len(found["plain"]) < 10:
        for name, run in ways.items():
            start = time.perf_counter()
            step(run, inputs)
            found[name].append(time.perf_counter() - start)
    ratios = {
        name: statistics.median(one / other for one, other in zip(found["aotdyn"], times, strict=True))
        for name, times in found.items()
    }
    texts = [f"{name} {statistics.median(times) * 1e3:.3f} ms" for name, times in found.items()]
    return f"{'  '.join(texts)}   aotdyn to plain {ratios['plain']:.3f}, to torch.compile {ratios['torch.compile']:.3f}"


def main() -> None:
    """Print a line for each."""
    for name in sys.argv[2:]:
        for kind, step in (("inference", infer), ("training", train)):
            torch.manual_seed(0)
            model, inputs = builder(sys.argv[1])(name)
            ways = {
                "plain": model,
                "aotdyn": aotdyn.compile(model, backend="inductor"),
                "torch.compile": torch.compile(model),
            }
            print(f"steady     {name:22} {kind:9}", compare(step, ways, inputs), flush=True)


if __name__ == "__main__":
    main()
