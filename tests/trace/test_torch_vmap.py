"""`torch.vmap` in a graph, run eagerly and compiled."""

from __future__ import annotations

import pytest
import torch

import aotdyn
from aotdyn.graph import effects

from .torch_programs import X


def over_rows(x):
    return torch.vmap(lambda row: (row @ x.T).relu() + row.sum())(x)


def nested_vmap(x):
    return torch.func.vmap(torch.vmap(torch.dot), in_dims=(0, None))(x.expand(2, 3, 4), x)


def vmap_of_structures(x):
    def combine(pair, more):
        a, b = pair
        return {"sum": a + b + more["c"], "product": a * b}

    return torch.vmap(combine, in_dims=((0, 1), {"c": None}), out_dims=1)((x, x.T), {"c": x[0, 0]})


@pytest.mark.parametrize("backend", ["eager", "inductor"])
@pytest.mark.parametrize("f", [over_rows, nested_vmap, vmap_of_structures], ids=lambda f: f.__name__)
def test_vmap(f, backend):
    expected, compiled = f(X), aotdyn.compile(f, backend=backend, fullgraph=True)
    for _ in range(2):
        torch.testing.assert_close(compiled(X), expected)


def test_a_break_inside_vmap_comes_before_it():
    def f(x):
        def one(row):
            aotdyn.graph_break()
            return row * 2

        return torch.vmap(one)(x + 1) - 1

    compiled = aotdyn.compile(f, backend="eager")
    for _ in range(2):
        torch.testing.assert_close(compiled(X), f(X))
        assert effects.batching_level() == 0
    with pytest.raises(RuntimeError, match=r"shape|size"):
        aotdyn.compile(lambda x: torch.vmap(lambda row: row @ torch.ones(9))(x), backend="eager")(X)
    assert effects.batching_level() == 0
