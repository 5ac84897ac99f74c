"""Graphs for the inductor tests: run as a script, `python inductor_programs.py STORE`, to print what happened."""

from __future__ import annotations

import json
import operator
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional as F

from aotdyn.backends import registry
from aotdyn.graph import codegen, data
from aotdyn.graph.program import Input, Program, Ref, Step
from aotdyn.report import events
from aotdyn.store.store import Store

COMPILERS = ("torch._dynamo", "torch._inductor", "sympy")


def everything() -> tuple[Program, list[torch.Tensor]]:
    """Dropout, no_grad, an input and a parameter written to, views of inputs and results, numbers and None."""
    off, on = (Step(torch._C._set_grad_enabled, (mode,), {}) for mode in (False, True))
    steps = [
        off,
        Step(F.dropout, (Ref(0), 0.5, True), {}),  # 4
        Step(torch.matmul, (Ref(4), Ref(1)), {}),  # 5
        Step("add_", (Ref(0), 1), {}),  # 6: the input itself
        Step("add_", (Ref(1), Ref(5)), {}),  # 7
        Step(operator.getitem, (Ref(1), 0), {}),  # 8: a view of the parameter
        Step("view", (Ref(5), -1), {}),  # 9: a view of a result
        Step(torch.max, (Ref(5), 1), {}),  # 10
        Step(operator.getitem, (Ref(10), 1), {}),  # 11
        Step("size", (Ref(5), 0), {}),  # 12
        on,
    ]
    program = Program([Input("x"), Input("w"), Input("y")], steps, tuple(map(Ref, (6, 5, 8, 9, 11, 12, 2))) + (None,))
    # Three inputs: steps begin at 3.
    return program, [torch.randn(8, 8), torch.nn.Parameter(torch.randn(8, 8)), torch.ones(1)]


def growing() -> tuple[Program, list[torch.Tensor]]:
    """A size that varies, used as a number too."""
    steps = [
        Step(torch.cat, ([Ref(0), Ref(0)],), {}),
        Step("size", (Ref(1), 0), {}),
        Step(operator.mul, (Ref(1), Ref(2)), {}),
    ]
    return Program([Input("x", (0,))], steps, (Ref(3), Ref(2))), [torch.randn(6, 3)]


def hidden() -> tuple[Program, list[torch.Tensor]]:
    """Nothing but what batch norm writes to its buffers, which no version tells."""
    steps = [
        Step(F.batch_norm, (Ref(0), Ref(1), Ref(2)), {"training": True}),
        Step(torch.native_batch_norm, (Ref(0), None, None, Ref(1), Ref(2), True, 0.1, 1e-5), {}),
    ]
    return Program([Input("x"), Input("m"), Input("v")], steps, (Ref(0),)), [
        torch.randn(4, 3),
        torch.zeros(3),
        torch.ones(3),
    ]


def copies(inputs: list[torch.Tensor]) -> list[torch.Tensor]:
    return [type(t)(t.detach().clone()) if isinstance(t, torch.nn.Parameter) else _clone(t) for t in inputs]


def _clone(tensor: torch.Tensor) -> torch.Tensor:
    """A copy whose data begins where the original's does in its storage, aligned or not."""
    offset = tensor.storage_offset()
    return tensor.new_empty(offset + tensor.numel())[offset:].view(tensor.shape).copy_(tensor)


def observe(run: Any, inputs: list[torch.Tensor]) -> list[Any]:
    """All that a caller could see of a run."""
    torch.manual_seed(3)
    outputs = run(*inputs)
    seen: list[Any] = [torch.rand(1).item()]
    for value in (*outputs, *inputs):
        if not isinstance(value, torch.Tensor):
            seen.append(value)
            continue
        seen.append([round(item, 3) for item in value.detach().flatten().tolist()])
        seen.append([value.requires_grad, value.grad_fn is None, value._is_view(), str(value.dtype), list(value.shape)])
        seen.append([value is tensor for tensor in inputs])
    return [*seen, [tensor._version > 0 for tensor in inputs]]


def runs(store: Store) -> Iterator[bool]:
    """Whether each graph does under inductor what it does eagerly."""
    torch.manual_seed(1)
    for make in (everything, growing, hidden):
        program, inputs = make()
        run = registry.compile(program, copies(inputs), "inductor", None, store, data.key(program))
        plain = codegen.to_function(program)
        calls = [inputs] if make is not growing else [inputs, [torch.randn(11, 3)], [torch.randn(34)[1:].view(11, 3)]]
        for given in calls:
            yield observe(run, copies(given)) == observe(plain, copies(given))


if __name__ == "__main__":
    agree = list(runs(Store(Path(sys.argv[1]))))
    loaded = [name for name in COMPILERS if name in sys.modules]
    print(json.dumps({"agree": agree, "loaded": loaded, "compiled": events.snapshot()["graphs_compiled"]}))
