"""Sizes that data decides: a break by default, captured by two options; what goes on behind such a break."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import aotdyn

from .results import same

X = torch.tensor([[0.0, 1.0, 2.0], [0.0, 3.0, 0.0]])
OPTIONS = ("CAPTURE_SCALAR_OUTPUTS", "CAPTURE_DYNAMIC_OUTPUT_SHAPE_OPS")


def nonzero(x):
    places = x.nonzero()
    return places, places.shape[0] + 1, x * places.sum(), torch.nonzero(x > 1, as_tuple=True)


def masked(x):
    kept = x[x > 0.5]
    return kept * 2, kept.sum(), kept.numel(), torch.masked_select(x, x < 1)


def written(x):
    y = x.clone()
    y[y > 1] = -1
    return y


def unique(x):
    values, counts = torch.unique(x, return_counts=True)
    return values, counts, values.shape[0] * 2, torch.unique(x, sorted=True).sum()


def repeated(x):
    times = x.long().flatten()
    return torch.repeat_interleave(x.flatten(), times), x.repeat_interleave(torch.tensor([2, 1]), dim=0)


def listed(x):
    first, second = x[:, 1].long().tolist()
    return x.new_zeros(first + 2, second), [first * 2, second]


def read(x):
    n = x.sum().long().item()
    torch._check(n >= 0)
    torch._check(n <= 20)
    return torch.zeros(n), x.repeat(n, 1), torch.arange(n) + n, n * 2


def sliced(x):
    n = int(x.max())
    torch._check(n >= 0)
    torch._check(n <= 6)
    return x.flatten().narrow(0, 0, n) * 2


def checked_size(x):
    y = x[x > 0.5]
    torch._check(y.shape[0] >= 2)
    return y * 2 if y.shape[0] >= 2 else y - 1


ALL = [nonzero, masked, written, unique, repeated, listed, read, sliced, checked_size]


@pytest.mark.parametrize("function", ALL, ids=lambda function: function.__name__)
def test_captured_by_options(function, monkeypatch):
    for name in OPTIONS:
        monkeypatch.setenv(f"AOTDYN_{name}", "1")
    compiled = aotdyn.compile(function, backend="eager", fullgraph=True)
    before = aotdyn.stats()["traced"]
    for x in (X, X.flip(1) * 2, X.clamp(max=2)):
        same(compiled(x), function(x))
    assert aotdyn.stats()["traced"] - before == 1


@pytest.mark.parametrize("function", ALL, ids=lambda function: function.__name__)
def test_right_without_them(function):
    compiled = aotdyn.compile(function, backend="eager")
    for x in (X, X.flip(1) * 2, X[:, :2]):
        same(compiled(x), function(x))


def test_a_check_that_fails_raises(monkeypatch):
    for name in OPTIONS:
        monkeypatch.setenv(f"AOTDYN_{name}", "1")
    for function, x in ((read, X * 10), (checked_size, X * 0)):
        compiled = aotdyn.compile(function, backend="eager")
        compiled(X)
        with pytest.raises(RuntimeError):
            function(x)
        with pytest.raises(RuntimeError):
            compiled(x)


def feeds_arithmetic(x):
    n = int((x > 0.5).sum())
    half = (n + 1) // 2
    return (x * 2).flatten()[:half] + n, half


def feeds_a_slice(x):
    y = x + 1
    stop = x.argmax().item()
    return y.flatten()[:stop] * 2, x.flatten()[stop:]


def feeds_a_shape(x):
    kept = x[x > 0.5]
    return (kept * 2).reshape(1, -1) + kept.shape[0]


@pytest.mark.parametrize("function", [feeds_arithmetic, feeds_a_slice, feeds_a_shape], ids=lambda f: f.__name__)
def test_goes_on_at_once_behind_the_break(function):
    """One break a call, and what follows is captured: the number's variants are two at most."""
    compiled = aotdyn.compile(function, backend="eager")
    xs = [torch.arange(12.0).roll(k).reshape(3, 4) - k for k in (3, 5, 6, 4, 7)]
    before: Any = aotdyn.stats()
    for x in xs:
        same(compiled(x), function(x))
    after: Any = aotdyn.stats()
    made = after["traced"] - before["traced"]
    for x in xs:
        same(compiled(x), function(x))
    assert aotdyn.stats()["traced"] - before["traced"] == made <= 3
    assert aotdyn.stats()["graph_calls"] - after["graph_calls"] >= 2 * len(xs)


def test_warm(project):
    """A second process traces nothing of them."""
    project.write(
        "app.py",
        """
        import aotdyn, torch

        def f(x):
            kept = x[x > 0.5]
            n = int(x.max())
            torch._check(0 <= n)
            torch._check(n <= 3)
            return kept * 2, torch.zeros(n)

        g = aotdyn.compile(f, backend="eager", fullgraph=True)
        for x in (torch.ones(3), torch.arange(4.0)):
            assert str(g(x)) == str(f(x))
        print(aotdyn.stats()["traced"], aotdyn.stats()["graph_calls"])
        """,
    )
    runs = [project.python("app.py", env={f"AOTDYN_{name}": "1" for name in OPTIONS}) for _ in range(2)]
    assert [run.stdout.split() for run in runs] == [["2", "2"], ["0", "2"]], runs[0].stderr
