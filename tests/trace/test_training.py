"""Training: what a step of an optimizer is traced for, and what it isn't."""

from __future__ import annotations

import copy
import io

import pytest
import torch
from torch import nn

import aotdyn
from aotdyn import config
from aotdyn.report import events


def model_with_gradients():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    model(torch.ones(2, 3)).sum().backward()
    return model


@pytest.mark.parametrize(
    "make", [torch.optim.SGD, torch.optim.AdamW, torch.optim.RAdam, torch.optim.ASGD], ids=lambda make: make.__name__
)
def test_a_changed_learning_rate_is_not_traced_again(make):
    plain = model_with_gradients()
    model = copy.deepcopy(plain)
    for each, other in zip(model.parameters(), plain.parameters(), strict=True):
        each.grad = other.grad.clone()
    optimizers = make(plain.parameters(), lr=0.1), make(model.parameters(), lr=0.1)
    step = aotdyn.compile(lambda optimizer: optimizer.step(), backend="eager", fullgraph=True)
    traced = []
    for _ in range(6):
        optimizers[0].step()
        step(optimizers[1])
        traced.append(events.snapshot()["traced"])
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                group["lr"] *= 0.7
        for each, other in zip(model.parameters(), plain.parameters(), strict=True):
            torch.testing.assert_close(each, other)
    assert traced[-1] == traced[2], traced


def test_a_fresh_tensor_is_made_to_require_a_gradient_under_no_grad():
    graphs = []

    def backend(gm, inputs):
        graphs.append(gm)
        return gm

    @torch.no_grad()
    def f(x, handed):
        z = torch.zeros_like(x).requires_grad_()
        z += x
        return (z, z * 2) if handed else z[:1] * 2

    compiled = aotdyn.compile(f, backend=backend, fullgraph=True)
    x = torch.randn(3)
    for handed in (False, True):
        for a, b in zip(f(x, handed), compiled(x, handed), strict=True):
            assert torch.equal(a, b)
            assert (a.requires_grad, a.is_leaf) == (b.requires_grad, b.is_leaf)
    assert "require_grad" in graphs[0].code
    assert "require_grad" not in graphs[1].code


class Net(nn.Module):
    """A layer and a norm, whose buffers are state as well."""

    def __init__(self):
        super().__init__()
        self.layer, self.norm = nn.Linear(3, 3), nn.BatchNorm1d(3)

    def forward(self, x):
        return self.norm(self.layer(x)).relu()


def saved_and_loaded(value, **options):
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return torch.load(file, **options)


def test_a_compiled_module_is_copied_saved_and_loaded():
    net, x = Net(), torch.linspace(-1, 1, 12).reshape(4, 3)
    compiled = aotdyn.compile(net, backend="eager")
    compiled(x)
    wanted = compiled.eval()(x)
    other = copy.deepcopy(compiled)
    assert list(other.state_dict()) == list(compiled.state_dict()) == list(net.state_dict())
    assert torch.equal(other(x), wanted)
    with torch.no_grad():
        other.layer.bias.add_(1)
    assert torch.equal(compiled(x), wanted)
    assert not torch.equal(other(x), wanted)
    fresh = Net().eval()
    fresh.load_state_dict(saved_and_loaded(compiled.state_dict()))
    assert torch.equal(fresh(x), wanted)
    for each in (compiled, net):
        calls = events.snapshot()["graph_calls"]
        loaded = saved_and_loaded(each, weights_only=False)
        assert torch.equal(loaded(x), wanted)
        assert (events.snapshot()["graph_calls"] > calls) == (each is compiled)


@pytest.mark.parametrize("foreach", [False, True])
@pytest.mark.parametrize(
    "name", ["SGD", "Adam", "AdamW", "NAdam", "RAdam", "Adamax", "Adagrad", "Adadelta", "RMSprop", "Rprop", "ASGD"]
)
def test_steps_are_those_of_plain_python(name, foreach):
    """What is calculated with numbers of the state (steps taken, rates) is so in double precision, as in Python.

    A step may round otherwise: tensors take a quotient's reciprocal, and a square root by another way.
    """
    plain = model_with_gradients()
    models = plain, copy.deepcopy(plain)
    optimizers = [getattr(torch.optim, name)(model.parameters(), foreach=foreach) for model in models]
    step = aotdyn.compile(lambda optimizer: optimizer.step(), backend="eager", fullgraph=True)
    generator, calls = torch.Generator().manual_seed(1), events.snapshot()["graph_calls"]
    for _ in range(9):
        for each, other in zip(*(model.parameters() for model in models), strict=True):
            each.grad = torch.randn(each.shape, generator=generator)
            other.grad = each.grad.clone()
        optimizers[0].step()
        with config.overrides(recompile_limit=99):
            step(optimizers[1])
    for each, other in zip(*(model.parameters() for model in models), strict=True):
        torch.testing.assert_close(each, other, rtol=4 * torch.finfo(torch.float32).eps, atol=0)
    assert events.snapshot()["graph_calls"] >= calls + 9
