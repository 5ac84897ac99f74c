"""What `compile(f)` made follows what is set on `f` later, as a wrapper that calls `f` would."""

from __future__ import annotations

import torch

import aotdyn

X = torch.arange(3.0)


def test_defaults_and_code():
    def function(x, k=1, *, scale=2):
        return (x + k) * scale

    compiled = aotdyn.compile(function, backend="eager")
    assert torch.equal(compiled(X), (X + 1) * 2)
    function.__defaults__ = (10,)
    for _ in range(2):
        assert torch.equal(compiled(X), (X + 10) * 2)
        assert torch.equal(compiled(X, 3), (X + 3) * 2)
    function.__kwdefaults__ = {"scale": 5}
    for _ in range(2):
        assert torch.equal(compiled(X), (X + 10) * 5)
        assert torch.equal(compiled(X, scale=1), X + 10)
    function.__code__ = (lambda x, k=1, *, scale=0: x * 100 + k - scale).__code__
    for _ in range(2):
        assert torch.equal(compiled(X), X * 100 + 10 - 5)
        assert torch.equal(function(X), compiled(X))


def test_many_kinds_of_arguments():
    def function(a, b=2, *rest, c=3, **more):
        return a + b + sum(rest) + c + sum(more.values())

    compiled = aotdyn.compile(function, backend="eager")
    assert torch.equal(compiled(X, 1, 5, c=4, d=6), function(X, 1, 5, c=4, d=6))
    function.__defaults__ = (20,)
    assert torch.equal(compiled(X, 7, 5, 6, c=4, d=6), function(X, 7, 5, 6, c=4, d=6))
    assert torch.equal(compiled(X), function(X))
