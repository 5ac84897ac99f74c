"""Floats that vary come into the graph: a new value makes no variant, unless something looks at it."""

from __future__ import annotations

import math

import numpy
import pytest
import torch
from torch import nn

import aotdyn
from aotdyn.report import events
from aotdyn.runtime import cold

X = torch.arange(6.0).reshape(2, 3) - 2


def traced() -> int:
    return events.snapshot()["traced"]


def graphs() -> int:
    return events.snapshot()["graph_calls"]


def variants(function, values, backend="eager", **tolerance):
    """How many frames a run over `values` traces; results are compared, and a warm run traces nothing."""
    compiled = aotdyn.compile(function, backend=backend)
    before, calls = traced(), graphs()
    for way in ("cold", "warm"):
        for value in values:
            found, expected = compiled(X, value), function(X, value)
            if tolerance:
                torch.testing.assert_close(found, expected, **tolerance)
            else:
                assert repr(found) == repr(expected), (way, value)
        if way == "cold":
            made = traced() - before
            cold.forget()
    assert traced() - before == made
    assert graphs() - calls >= 2 * len(values)
    return made


MANY = [0.1 * i + 0.05 for i in range(12)]


def scaled(x, scale):
    return x * scale + (scale * 2 - 1) / 4, torch.full((2,), scale), x.add(x, alpha=scale)


def chooses(x, scale):
    if scale > 0.6:
        x = x + 1
    return x * (1 / scale if scale else -scale) + 1


def of_ints(x, scale):
    return x.int() * scale, (x > 0) * scale, torch.tensor(3) * scale, x.double() - scale


def test_one_variant_for_all_values():
    assert variants(scaled, MANY) == 2
    assert variants(of_ints, MANY) == 2
    assert variants(lambda x, scale: (x, f"{scale:.2f}", x + 1), MANY) == 2


def test_a_comparison_is_a_guard_on_what_holds():
    assert variants(chooses, [*MANY, 0.0, -1.5]) == 4


def test_values_that_python_looks_at_make_variants():
    assert variants(lambda x, scale: x * math.exp(scale), MANY[:4]) == 4
    assert variants(lambda x, step: x.sum() + torch.arange(0, 1, step), MANY[:4]) == 4
    assert variants(lambda x, p: nn.functional.dropout(x, p, training=False) + 1, MANY[:4]) == 4


def test_values_that_no_symbol_stands_for():
    assert variants(scaled, [0.5, math.inf, 0.25, -0.0, 1e-300]) == 3
    assert variants(lambda x, scale: x * scale, [0.5, math.nan, 0.25]) == 3


def of_numpy(x, scale):
    return x * scale + (scale * 2 - 1) / 4, scale * x, -scale, x.int() * scale, (x if scale > 0.3 else x + 1)


def test_floats_of_numpy_are_floats_of_another_class():
    assert variants(of_numpy, [numpy.float64(value) for value in MANY]) == 3


class Cooling(nn.Module):
    def __init__(self):
        super().__init__()
        self.temperature = 1.0

    def forward(self, x):
        self.temperature *= 0.9
        return (x / self.temperature).softmax(-1)


def test_an_attribute_that_is_read_and_written():
    plain, module = Cooling(), Cooling()
    compiled = aotdyn.compile(module, backend="eager")
    before = traced()
    for _ in range(10):
        assert torch.equal(compiled(X), plain(X))
        assert module.temperature == plain.temperature
    assert traced() == before + 2


def test_a_schedule_of_learning_rates():
    def step(weight, gradient, group):
        with torch.no_grad():
            weight.add_(gradient, alpha=-group["lr"])
            weight.mul_(1 - group["lr"] * group["decay"])

    compiled = aotdyn.compile(step, backend="eager")
    plain, weight = X.clone(), X.clone()
    before = traced()
    for i in range(10):
        group = {"lr": 0.1 / (i + 1), "decay": 0.01}
        step(plain, X.cos(), group), compiled(weight, X.cos(), group)
        assert torch.equal(plain, weight)
    assert traced() == before + 2


def test_gradients():
    def loss(x, scale):
        w = x.detach().requires_grad_()
        (gradient,) = torch.autograd.grad((w.sin() * scale).sum(), w)
        return gradient

    w, scale = X.clone().requires_grad_(), 0.0
    compiled = aotdyn.compile(lambda x, scale: (x.sin() * scale).sum(), backend="eager")
    for i in range(6):
        scale = 0.3 * i + 0.1
        (found,) = torch.autograd.grad(compiled(w, scale), w)
        assert torch.equal(found, loss(X, scale))


@pytest.mark.parametrize("backend", ["inductor"])
def test_kernels(backend):
    with torch.no_grad():
        assert variants(lambda x, scale: x.tanh() * scale + scale, MANY[:5], backend, rtol=1e-6, atol=1e-6) == 2
