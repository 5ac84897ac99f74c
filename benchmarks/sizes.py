"""How many variants twenty random sizes cost: aotdyn beside torch.compile, on programs of random arithmetic of sizes.

python benchmarks/sizes.py [programs [seed]]
"""

from __future__ import annotations

import collections
import contextlib
import math
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Callable
from typing import Any

import torch

NUMBERS = ("({} + {})", "({} - {})", "{} * {}", "max({}, {})", "min({}, {})", "sum([{}, {}])", "({} if {} > 6 else 3)")
BY_CONSTANT = ("{} // {c}", "{} % {c}", "divmod({}, {c})[0]", "math.ceil({} / {c})", "int({} / {c})", "-(-{} // {c})")
TENSORS = (
    "x * {}",
    "x.new_ones(abs({}) + 1)",
    "x.reshape(-1)[: abs({})]",
    "x.view(m, n).sum(0) + {}",
    "torch.arange(abs({}) % 7 + 2)",
    "torch.cat([x, x])[n - 1 :] * {}",
    "torch.full((n, 2), {})",
)
CONDITIONS = ("{} % 4 == 0", "{} > {}", "{} == {}", "{} < 12", "n == m")


def expression(draw: random.Random, depth: int) -> str:
    """Arithmetic over the sizes `n` and `m`."""
    if depth == 0:
        return draw.choice(("n", "m", "x.shape[0]", "x.numel()", "2", "5"))
    template = draw.choice(NUMBERS + BY_CONSTANT)
    holes = template.count("{}")
    return template.format(*(expression(draw, depth - 1) for _ in range(holes)), c=draw.choice((2, 3, 4, 8)))


def source(draw: random.Random) -> str:
    """A function of a tensor of two sizes: tensors and numbers made of them, and in half of all cases a branch."""
    condition = draw.choice(CONDITIONS)
    condition = condition.format(*(expression(draw, 1) for _ in range(condition.count("{}"))))
    lines = ["def f(x):", "    n, m = x.shape", f"    k = {expression(draw, 2)}"]
    if draw.random() < 0.5:
        lines += [f"    if {condition}:", "        x = x + k"]
    tensors = [draw.choice(TENSORS).format(expression(draw, 1)) for _ in range(2)]
    return "\n".join([*lines, f"    return {tensors[0]}, {tensors[1]}, k, {expression(draw, 2)}"])


def made(text: str) -> Callable[..., Any]:
    """The function of a source, as if it stood in a file of its own."""
    namespace: dict[str, Any] = {"torch": torch, "math": math, "__name__": f"sizes_{abs(hash(text))}"}
    exec(text, namespace)
    return namespace["f"]


class Counter:
    """A backend that runs graphs as they are, and counts them and their calls."""

    def __init__(self) -> None:
        self.graphs = self.calls = 0

    def __call__(self, module: Any, inputs: Any) -> Any:
        def call(*args: Any) -> Any:
            self.calls += 1
            return module.forward(*args)

        self.graphs += 1
        return call


def same(one: Any, other: Any) -> bool:
    """Equality of tensors and numbers, by type and value."""
    if isinstance(one, torch.Tensor):
        return one.dtype == other.dtype and torch.equal(one, other)
    return type(one) is type(other) and one == other


def run(compiled: Callable[..., Any], plain: Callable[..., Any], calls: list[torch.Tensor]) -> int:
    """How many calls gave another result than plain Python."""
    return sum(not all(map(same, compiled(x), plain(x))) for x in calls)


def by_aotdyn(plain: Callable[..., Any], calls: list[torch.Tensor]) -> tuple[int, Counter]:
    import aotdyn

    counter = Counter()
    return run(aotdyn.compile(plain, backend=counter), plain, calls), counter


def by_dynamo(plain: Callable[..., Any], calls: list[torch.Tensor]) -> tuple[int, Counter]:
    counter = Counter()
    torch._dynamo.reset()
    return run(torch.compile(plain, backend=counter), plain, calls), counter


def main(programs: int = 24, seed: int = 0) -> None:
    draw = random.Random(seed)
    folder = tempfile.mkdtemp(prefix="aotdyn-sizes-")
    os.chmod(folder, 0o700)
    os.environ["AOTDYN_CACHE_DIR"] = folder
    totals: collections.Counter[str] = collections.Counter()
    print("graphs, and calls of 20 that they served")
    print(f"{'program':>7}  {'aotdyn':>8}  {'dynamo':>8}  wrong: aotdyn, dynamo")
    try:
        for number in range(programs):
            text = source(draw)
            calls = [torch.arange(float(n * m)).reshape(n, m) for n, m in pairs(draw)]
            (wrong, we), (theirs_wrong, they) = by_aotdyn(made(text), calls), by_dynamo(made(text), calls)
            counts = f"{we.graphs:2} ({we.calls:3})  {they.graphs:3} ({they.calls:3})"
            print(f"{number:7}  {counts}  {wrong:13}, {theirs_wrong}", flush=True)
            more = we.graphs > they.graphs and we.calls <= they.calls
            totals.update(aotdyn=we.graphs, dynamo=they.graphs, wrong=wrong, theirs=theirs_wrong, more=more)
            if wrong or more:
                print(text)
    finally:
        shutil.rmtree(folder)
    print(f"{'all':>7}  {totals['aotdyn']:8}  {totals['dynamo']:8}  {totals['wrong']:13}, {totals['theirs']}")
    print(f"programs for which aotdyn made more and served no more: {totals['more']} of {programs}")


def pairs(draw: random.Random) -> list[tuple[int, int]]:
    """Twenty pairs of sizes; few of them 1."""
    return [(draw.randint(1, 20), draw.randint(1, 20)) for _ in range(20)]


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main(*map(int, sys.argv[1:]))
