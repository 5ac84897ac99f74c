"""Which backends there are, what they are given, and what their failures become."""

from __future__ import annotations

import operator
import subprocess
import sys

import pytest
import torch

from aotdyn import config
from aotdyn.backends import aliasing, called, inductor, registry
from aotdyn.errors import BackendError
from aotdyn.graph import data
from aotdyn.graph.program import Input, Program, Ref, Step
from aotdyn.report import events


def program(*dynamic: int) -> Program:
    steps = [Step(torch.sin, (Ref(0),), {}), Step(operator.add, (Ref(1), Ref(0)), {})]
    return Program([Input("x", dynamic)], steps, (Ref(2),))


@pytest.fixture
def x() -> torch.Tensor:
    return torch.randn(3, 4)


def test_names_and_callables_resolve():
    def mine(gm, inputs):
        return gm

    assert registry.resolve("eager") == registry.Backend("eager")
    assert registry.resolve(mine).function is mine
    assert registry.resolve(registry.resolve("inductor")) == registry.Backend("inductor")
    with pytest.raises(registry.UnknownBackend, match=r"no backend is named 'nosuch'[\s\S]*eager.*inductor"):
        registry.resolve("nosuch")
    with pytest.raises(registry.UnknownBackend):
        registry.resolve(3)  # type: ignore[arg-type]


def test_the_default_needs_a_compiler(monkeypatch):
    for compiler, name in (("/usr/bin/g++", "inductor"), ("", "eager")):
        monkeypatch.setattr(config, "cxx_compiler", lambda: compiler)
        assert registry.default_backend() == registry.resolve(None).name == name


def test_eager_runs_the_graph(x):
    assert torch.equal(registry.compile(program(), [x], "eager")(x)[0], x.sin() + x)


def test_a_callable_gets_the_stored_graph_and_real_tensors(x):
    seen = []

    def mine(gm, inputs, options=None):
        seen.append((gm, inputs, options))
        return gm.forward

    stored = data.decode_program(data.encode(program()))
    run = registry.compile(stored, [x], mine, {"level": 3})
    assert torch.equal(run(x)[0], x.sin() + x)
    ((gm, inputs, options),) = seen
    assert isinstance(gm, torch.fx.GraphModule)
    assert inputs[0] is x
    assert options == {"level": 3}


def test_a_callable_backend_loads_no_compiler():
    code = """
import sys, torch
from aotdyn.backends import registry
from aotdyn.graph.program import *
p = Program([Input("x", (0,))], [Step(torch.sin, (Ref(0),), {})], (Ref(1),))
print(len(registry.compile(p, [torch.ones(3)], lambda gm, inputs: gm)(torch.ones(5))[0]))
print([m for m in ("torch._dynamo", "torch._inductor", "sympy") if m in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.splitlines() == ["5", "[]"]


@pytest.mark.parametrize("what", [ZeroDivisionError("odd"), None])
def test_a_users_backend_that_fails_is_an_error(x, what):
    def broken(gm, inputs):
        if what:
            raise what
        return 3

    with pytest.raises(BackendError, match="broken") as failure:
        registry.compile(program(), [x], broken)
    assert failure.value.__cause__ is what


def test_inductors_own_failure_falls_back(x, monkeypatch, caplog):
    def broken(*args):
        raise ZeroDivisionError("odd")

    monkeypatch.setattr(inductor, "compile", broken)
    events.reset()
    assert torch.equal(registry.compile(program(), [x], "inductor")(x)[0], x.sin() + x)
    assert events.snapshot()["backend_failures"] == 1
    assert [record.levelname for record in caplog.records] == ["WARNING"]


@pytest.mark.parametrize("dynamic", [(), (0,)])
def test_torchs_backends_train_and_follow_sizes(x, dynamic):
    one, other = x.requires_grad_(), torch.randn(7 if dynamic else 3, 4, requires_grad=True)
    state = torch.get_rng_state()
    run = registry.compile(program(*dynamic), [one], "aot_eager")
    assert torch.equal(torch.get_rng_state(), state)
    for tensor in (one, other):
        out = run(tensor)[0]
        assert torch.allclose(out, tensor.sin() + tensor)
        (grad,) = torch.autograd.grad(out.sum(), tensor)
        assert torch.allclose(grad, tensor.cos() + 1)


def test_torchs_backends_meet_sizes_of_data():
    found = Program([Input("x", ())], [Step(torch.nonzero, (Ref(0),), {})], (Ref(1),))
    x = torch.tensor([1, 0, 3])
    run = registry.compile(found, [x], "aot_eager")
    for each in (x, torch.zeros(3, dtype=torch.int64)):
        assert torch.equal(run(each)[0], each.nonzero())


def test_a_backend_that_relies_on_sizes_compiles_for_each(x):
    calls = []

    def fixed(gm, inputs):
        mode = torch._guards.detect_fake_mode(inputs)
        calls.append(bool(mode.from_tensor(inputs[0]).shape[0] == len(inputs[0])))  # a fact of the size
        return gm.forward

    run = registry.compile(program(0), [x], fixed)
    for size in (3, 5, 5, 3):
        tensor = torch.randn(size, 4)
        assert torch.equal(run(tensor)[0], tensor.sin() + tensor)
    assert len(calls) == 3


def test_overlapping_inputs_of_a_graph_that_writes_are_compiled_for_themselves():
    """`a.add_(1); return b * 2`, where a compiler may read `b` before or after the write."""
    writes = Program(
        [Input("a"), Input("b")], [Step("add_", (Ref(0), 1), {}), Step(operator.mul, (Ref(1), 2), {})], (Ref(3),)
    )
    calls = []

    def mine(gm, inputs):
        calls.append(inputs)
        return gm.forward

    def given(apart: bool) -> list[torch.Tensor]:
        base = torch.arange(10.0)
        return [base[:8].clone() if apart else base[:8], base[1:9]]

    run = registry.compile(writes, given(True), mine)
    for apart in (True, False, True, False):
        expected = given(apart)
        expected[0].add_(1)
        assert torch.equal(run(*given(apart))[0], expected[1] * 2)
    assert len(calls) == 2
    reads = program()
    registry.compile(reads, [torch.ones(3)], mine)
    assert not called.may_write(reads)
    assert called.may_write(writes)


def test_addresses_tell_which_written_inputs_meet_others():
    base = torch.arange(12.0)
    rows = [base[:4], base[4:8], base[3:5], base[:0], base.view(3, 4)[:, 1]]
    assert aliasing.pattern(rows[:2], (0, 1)) == ()
    assert aliasing.pattern(rows, (0,)) == ((0, 2), (0, 4))
    assert aliasing.pattern(rows[1:], (0,)) == ((0, 1), (0, 3))
    assert aliasing.pattern(rows, (3,)) == ()
    assert [aliasing.extent(row) for row in rows] == [16, 16, 8, 0, 36]
