"""A warm process imports no tracer and no compiler, and traces nothing."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

PROGRAM = """
import sys
import time
import torch
import aotdyn

before = set(sys.modules)

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(4, 4) for _ in range(3))

    def forward(self, x, n):
        for layer in self.layers:
            x = layer(x).relu()
        time.sleep(0)
        return x * n

torch.manual_seed(0)
net = Net().eval()
compiled = aotdyn.compile(net, backend={backend!r})
with torch.no_grad():
    for rows in (2, 3, 5):
        assert torch.allclose(compiled(torch.ones(rows, 4), 2), net(torch.ones(rows, 4), 2))

HEAVY = ("torch._dynamo", "torch._inductor", "torch.fx.experimental.symbolic_shapes", "sympy", "libcst", "bytecode",
         "rich", "aotdyn.trace")
new = set(sys.modules) - before
print(sorted(name for name in new if any(name == heavy or name.startswith(heavy + ".") for heavy in HEAVY)))
print(*sorted(name for name in new if name.startswith("aotdyn.")))
print(aotdyn.stats()["traced"], aotdyn.stats()["graphs_compiled"])
"""

COLD = """
    backends.called backends.context backends.fresh backends.jobs backends.failures backends.making backends.packages
    graph.build graph.scopes guards.fast guards.kinds report.notice report.progress runtime.explain runtime.limit
    runtime.moved runtime.thrift runtime.worth store.bundle store.claims store.inventory store.remote store.usage
"""
"""Modules of ours for what a warm start doesn't do: compile, explain, count, collect. Each costs 0.1 to 1.5 ms."""

MANY = 76
"""Modules of ours that a start may import where every frame and graph is found, but one break goes on in a function."""


def run(folder: Path, backend: str) -> list[str]:
    program = folder / "app.py"
    program.write_text(textwrap.dedent(PROGRAM).replace("{backend!r}", repr(backend)))
    variables = {**os.environ, "AOTDYN_CACHE_DIR": str(folder / "cache"), "AOTDYN_STRICT": "1"}
    done = subprocess.run([sys.executable, program], env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("backend", ["eager"])
def test_imports_nothing_heavy(tmp_path, backend):
    cold = run(tmp_path, backend)
    assert "torch._dynamo" in cold[-3] or "aotdyn.trace" in cold[-3]
    *_, heavy, ours, counts = run(tmp_path, backend)
    assert heavy == "[]"
    assert {f"aotdyn.{name}" for name in COLD.split()}.isdisjoint(ours.split())
    assert len(ours.split()) <= MANY, ours
    assert counts == "0 0"
