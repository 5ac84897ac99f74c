"""What a call costs once all is compiled: plain PyTorch, aotdyn and torch.compile in one process, in turns.

    python benchmarks/steady.py [--kinds inference,training] [--seconds 6] [--ways plain,aotdyn,...] FILE NAME...

FILE is a Python file with `build(name)`, which gives a model and its inputs as a dict; empty: `models.py` here, with
`gpt` and `sequential`. Prints, in inference and in training (a step of `train()`: a forward and the backward of the
outputs' sines, summed), the median of the milliseconds of each way, and the median of each round's ratio of aotdyn to
the two others: of the clock, and in brackets of the processor, whose seconds a busy machine disturbs less. Then where
aotdyn's calls went: by how many kernels, and how many graphs were found to be faster as plain calls. Kernels and what
was found of them are kept where AOTDYN_CACHE_DIR says.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from steps import STEPS, Build, builder, made, seed

import aotdyn

WARMING = 40
"Calls until all is compiled, measured and settled."

COMPILED: dict[str, Callable[[torch.nn.Module], Any]] = {
    "plain": lambda model: model,
    "aotdyn": lambda model: aotdyn.compile(model, backend="inductor"),
    "torch.compile": torch.compile,
}


class Times(NamedTuple):
    """Seconds of each call of a way: of the clock, and of the processor."""

    clock: list[float]
    work: list[float]


def measured(calls: dict[str, Callable[[], None]], seconds: float) -> dict[str, Times]:
    """Times of calls, the ways in turns; each begins a round as often as the others."""
    names = list(calls)
    found = {name: Times([], []) for name in names}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(found[names[0]].clock) < 10:
        for name in names:
            work, start = time.process_time(), time.perf_counter()
            calls[name]()
            found[name].clock.append(time.perf_counter() - start)
            found[name].work.append(time.process_time() - work)
        names.append(names.pop(0))
    return found


def ratio(ours: list[float], others: list[float]) -> float:
    """The median of the rounds' ratios."""
    return statistics.median(one / other for one, other in zip(ours, others, strict=True))


def compare(build: Build, name: str, kind: str, ways: list[str], seconds: float) -> str:
    """A line on the ways' times, each with a model of its own."""
    calls = {}
    for way in ways:
        model, inputs = made(build, name, kind)
        calls[way] = step(kind, model, COMPILED[way](model), inputs)
        seed()
        for _ in range(WARMING):
            calls[way]()
    gc.collect()
    gc.freeze()
    found = measured(calls, seconds)
    texts = [f"{way} {statistics.median(times.clock) * 1e3:.3f} ms" for way, times in found.items()]
    ours = found["aotdyn"]
    for way, times in found.items():
        if way != "aotdyn":
            texts.append(f"to {way} {ratio(ours.clock, times.clock):.3f} ({ratio(ours.work, times.work):.3f})")
    return "  ".join([*texts, f"of {len(ours.clock)}"])


def step(kind: str, model: torch.nn.Module, run: Any, inputs: dict[str, Any]) -> Callable[[], None]:
    """One step as a call; gradients begin anew each time."""
    perform, training = STEPS[kind], kind == "training"

    def call() -> None:
        perform(run, inputs)
        if training:
            model.zero_grad(set_to_none=True)

    return call


def went(known: int) -> str:
    """Which ways graphs go, as far as calls have decided it in this process since so many were `known`."""
    chosen = aotdyn.stats()["chosen"][known:]
    kernels = sum(each["way"] == "kernel" for each in chosen)
    return f"by kernel {kernels}, plainly {len(chosen) - kernels}" if chosen else "as an earlier process found"


def main() -> None:
    """Print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", default="inference,training")
    parser.add_argument("--seconds", type=float, default=6.0, help="of measuring each line")
    parser.add_argument("--ways", default=",".join(COMPILED))
    parser.add_argument("models", nargs="+", metavar="FILE NAME")
    args = parser.parse_args()
    for name in args.models[1:] or ["gpt", "sequential"]:
        for kind in args.kinds.split(","):
            known = len(aotdyn.stats()["chosen"])
            text = compare(builder(args.models[0]), name, kind, args.ways.split(","), args.seconds)
            print(f"steady     {name:22} {kind:9}", text, "", went(known), flush=True)


if __name__ == "__main__":
    main()
