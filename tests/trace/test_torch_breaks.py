"""Breaks in programs of torch, and modes (of gradients, autocast) around them, and around graphs."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import aotdyn
from aotdyn.graph import effects

from .results import same
from .torch_programs import X, differ


def reads_data(x):
    y = x + 1
    n = y.sum().item()
    return x * n


def branches(x):
    y = x * 2
    if y.sum() > 0:
        return y + 1
    return y - 1


def selects(x):
    y = x[x > 0]
    return y * 2


def number_of_changed_data(x):
    y = x * 2
    n = y[0, 0].item()
    y.add_(1)
    return n, y


def number_as_key(x):
    y = x * 2
    return {y.numel(): 1, y.sum().item(): 2}, y + 1


def list_as_loop(x):
    total = x * 0
    for n in (x > 0).sum(1).tolist():
        for _ in range(n):
            total += 1
    return total


def seeds(x):
    y = x + torch.rand(3, 4)
    torch.manual_seed(3)
    return y + torch.rand(3, 4)


def breaks_under_no_grad(w):
    with torch.no_grad():
        y = w * 2
        aotdyn.graph_break()
        z = w * y.sum().item()
    return z.requires_grad, (w * 2).requires_grad


def index_in_try(x):
    try:
        return x[torch.tensor([7])]
    except IndexError:
        return x


def divides_in_try(x):
    n = x.to(torch.int64)
    try:
        return n // (n - n)
    except RuntimeError as error:
        return str(error)


def index_in_try_behind_a_change(x):
    x.add_(1)
    try:
        return x[torch.tensor([7])]
    except IndexError:
        return x


@pytest.mark.parametrize("f", [index_in_try, divides_in_try], ids=lambda f: f.__name__)
def test_graph_that_raises_gives_way_to_the_programs_handler(f):
    differ(f, X.clone(), fullgraph=False)


@pytest.mark.parametrize(
    "f",
    [
        reads_data,
        branches,
        selects,
        seeds,
        breaks_under_no_grad,
        index_in_try_behind_a_change,
        number_of_changed_data,
        number_as_key,
        list_as_loop,
    ],
    ids=lambda f: f.__name__,
)
def test_breaks(f):
    with pytest.raises(aotdyn.errors.GraphBreakError):
        aotdyn.compile(f, backend="eager", fullgraph=True)(X.clone())
    differ(f, X.clone().requires_grad_("w" in f.__code__.co_varnames[:1]), fullgraph=False)


def test_guard_on_grad_mode():
    def f(w):
        return (w * 2).requires_grad

    compiled = aotdyn.compile(f, backend="eager", fullgraph=True)
    w = X.clone().requires_grad_()
    assert compiled(w) is True
    with torch.no_grad():
        assert compiled(w) is False
    assert compiled(w) is True


def test_is_compiling():
    def f(x):
        return torch.compiler.is_compiling(), x + 1

    assert aotdyn.compile(f, backend="eager", fullgraph=True)(X)[0] is True
    assert f(X)[0] is False


def leaves_modes_alone(module, inputs):
    """A backend whose graphs don't change modes, as a compiled graph doesn't."""

    def run(*args):
        modes = effects.Modes()
        try:
            return module(*args)
        finally:
            modes.restore()

    return run


def autocast_around_a_break(w):
    with torch.autocast("cpu", dtype=torch.bfloat16), torch.no_grad():
        y = w @ w.T
        aotdyn.graph_break()
        inside = torch.is_autocast_enabled("cpu"), torch.is_grad_enabled()
        z = w @ w.T
    return y, z, inside, (w @ w.T).dtype, torch.is_autocast_enabled("cpu")


def switches_for_good(w):
    torch.set_grad_enabled(False)
    return w * 2


@pytest.mark.parametrize(
    "f", [breaks_under_no_grad, autocast_around_a_break, switches_for_good], ids=lambda f: f.__name__
)
@pytest.mark.parametrize("backend", ["eager", leaves_modes_alone])
def test_modes_hold_behind_the_graph(f, backend):
    w = X.clone().requires_grad_()
    states = []
    for run in (f, aotdyn.compile(f, backend=backend)):
        try:
            states.append((run(w), torch.is_grad_enabled(), effects._nesting()))
        finally:
            torch.set_grad_enabled(True)
    same(*states)


@pytest.mark.parametrize("inside", ["no_grad", "autocast"])
def test_operators_that_may_raise_under_torchs_own_contexts(inside):
    embedding = nn.Embedding(5, 3)

    def f(ids):
        with torch.no_grad() if inside == "no_grad" else torch.autocast("cpu"):
            return embedding(ids) * 2

    same(f(torch.tensor([1, 2])), aotdyn.compile(f, backend="eager", fullgraph=True)(torch.tensor([1, 2])))
