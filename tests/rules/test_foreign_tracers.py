"""Foreign tracers: where one is at work a stub steps aside, on a hit as well as before a miss, and stores nothing."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import aotdyn
from aotdyn.report import events

X = torch.arange(6.0).reshape(2, 3)
Y = torch.ones(2, 3) * 3


def function(x, y):
    return (x.sin() + 1) * y


def traced() -> int:
    return events.snapshot()["traced"]


@pytest.fixture(params=["hit", "miss"])
def stub(request):
    """The compiled function, called before or not; the test must not trace it."""
    made = aotdyn.compile(function, backend="eager")
    if request.param == "hit":
        made(X, Y)
    before = traced()
    yield made
    assert traced() == before


@pytest.mark.parametrize("mode", ["real", "fake", "symbolic"])
def test_make_fx(stub, mode):
    graph = make_fx(stub, tracing_mode=mode)(X, Y)
    assert torch.equal(graph(Y, X), function(Y, X))


def test_symbolic_trace(stub):
    assert torch.equal(torch.fx.symbolic_trace(stub)(Y, X), function(Y, X))


def test_functorch(stub):
    assert torch.equal(torch.func.vmap(stub)(X, Y), torch.func.vmap(function)(X, Y))
    gradient = torch.func.grad(lambda x: stub(x, Y).sum())(X)
    assert torch.equal(gradient, torch.func.grad(lambda x: function(x, Y).sum())(X))
    tangent = torch.func.jvp(stub, (X, Y), (Y, X))[1]
    assert torch.equal(tangent, torch.func.jvp(function, (X, Y), (Y, X))[1])


def test_export(stub):
    class Calls(nn.Module):
        def forward(self, x, y):
            return stub(x, y) + 1

    for strict in (False, True):
        program = torch.export.export(Calls(), (X, Y), strict=strict)
        assert torch.equal(program.module()(Y, X), function(Y, X) + 1)


def test_torch_compile_takes_the_body(stub):
    graphs = []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph

    outer = torch.compile(lambda x, y: stub(x, y) - 1, backend=backend, fullgraph=True)
    assert torch.equal(outer(X, Y), function(X, Y) - 1)
    assert len(graphs) == 1


def test_fake_tensors(stub):
    with FakeTensorMode() as mode:
        x, y = mode.from_tensor(X), mode.from_tensor(Y)
        assert stub(x, y).shape == X.shape
    assert type(stub(x, y)) is type(x)


def test_modes_see_every_operation(stub):
    class Functions(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(func.__name__)
            return func(*args, **(kwargs or {}))

    class Operators(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    for mode in (Functions, Operators):
        runs = []
        for each in (function, stub):
            seen: list[str] = []
            with mode():
                each(X, Y)
            runs.append(seen)
        assert runs[0] == runs[1]


def test_jit_trace():
    made = aotdyn.compile(function, backend="eager")
    for _ in range(2):
        graph = torch.jit.trace(made, (X, Y), check_trace=False)
        assert torch.equal(graph(Y, X), function(Y, X))
        made(X, Y)


TAGGED = """
import torch
import aotdyn

class Scale(torch.nn.Module):
    def __init__(self, by):
        super().__init__()
        self.by = by

    def forward(self, x):
        return x * self.by

def function(x):
    return Scale(3)(x).sin(), Scale(2)

plainly = torch.nn.Module.__init__
compiled = aotdyn.compile(function, backend="eager", fullgraph=True)
x = torch.ones(3)
for traced in (1, 2):
    for _ in range(2):
        y, scale = compiled(x)
        assert torch.equal(y, function(x)[0]) and torch.equal(scale(x), x * 2)
    assert aotdyn.stats()["traced"] == traced
    torch.compile(lambda x: x + 1, backend="eager")(x)
assert torch.nn.Module.__init__ is not plainly
"""


def test_modules_are_made_in_a_frame_beside_torch_compile(project):
    """TorchDynamo's own `Module.__init__`, which tags what is made, is gone through: one graph, none for the tag."""
    project.write("app.py", TAGGED)
    done = project.python("app.py")
    assert done.returncode == 0, done.stderr
