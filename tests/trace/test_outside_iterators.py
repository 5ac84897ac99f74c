"""Iterators from outside: what they will give is told ahead, and they stand where plain Python leaves them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn

import aotdyn
from aotdyn.guards import ahead

X = torch.arange(6.0).reshape(2, 3)


def started(iterator: Iterator[Any], taken: int = 1) -> Iterator[Any]:
    """The iterator, after some items were taken."""
    for _ in range(taken):
        next(iterator)
    return iterator


MADE: list[Callable[[], Iterator[Any]]] = [
    lambda: started(iter([1, 2, 3, 4])),
    lambda: started(iter((1, 2, 3))),
    lambda: started(iter(range(10)), 4),
    lambda: started(iter({1: 2, 3: 4, 5: 6})),
    lambda: started(iter({1: 2, 3: 4, 5: 6}.values())),
    lambda: started(reversed([1, 2, 3])),
    lambda: started(reversed((1, 2, 3))),
    lambda: started(iter([1, 2]), 2),
    lambda: iter(()),
]


def two(x: Any, it: Iterator[Any]) -> Any:
    return x + next(it, 7), x * next(it, 9)


def rest(x: Any, it: Iterator[Any]) -> Any:
    for each in it:
        x = x * each + 1
    return x, next(it, None)


@pytest.mark.parametrize("make", MADE, ids=range(len(MADE)))
@pytest.mark.parametrize("f", [two, rest], ids=lambda f: f.__name__)
def test_items_ahead(f: Callable[..., Any], make: Callable[[], Iterator[Any]]) -> None:
    compiled = aotdyn.compile(f, backend="eager", fullgraph=True)
    for _ in range(2):
        plain, traced = make(), make()
        for a, b in zip(f(X, plain), compiled(X, traced), strict=True):
            assert torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b
        assert list(plain) == list(traced)


def pairs(x: Any, it: Iterator[Any]) -> Any:
    for i, each in it:
        x = x * each + i
    return x


@pytest.mark.parametrize(
    "make",
    [
        lambda: started(enumerate([4, 5, 6])),
        lambda: started(zip((1, 2, 3), [4, 5])),
        lambda: enumerate(started(iter((1, 2, 3))), 5),
    ],
    ids=range(3),
)
def test_iterators_over_iterators(make: Callable[[], Iterator[Any]]) -> None:
    plain, traced = make(), make()
    assert torch.equal(pairs(X, plain), aotdyn.compile(pairs, backend="eager", fullgraph=True)(X, traced))
    assert list(plain) == list(traced) == []


def with_its_list(x: Any, items: list[int], it: Iterator[int]) -> Any:
    items.append(5)
    x = x + next(it)
    items.append(6)
    return x * sum(it)


def test_what_an_iterator_goes_over_changes() -> None:
    def run(f: Callable[..., Any]) -> Any:
        items = [1, 2]
        return f(X, items, iter(items)), items

    plain, compiled = run(with_its_list), run(aotdyn.compile(with_its_list, backend="eager"))
    assert torch.equal(plain[0], compiled[0])
    assert plain[1] == compiled[1]


def through_layers(x: Any, layers: Any) -> Any:
    out = []
    for layer in layers:
        x = layer(x)
        aotdyn.graph_break()
        out.append(x)
    return x, out


def test_one_graph_serves_each_turn_of_a_loop_that_breaks() -> None:
    graphs = []

    def backend(gm: Any, inputs: Any) -> Any:
        graphs.append(gm)
        return gm

    compiled = aotdyn.compile(through_layers, backend=backend)
    layers = [nn.Linear(3, 3) for _ in range(20)]
    plain, traced = through_layers(X, layers), compiled(X, layers)
    assert torch.equal(plain[0], traced[0])
    assert all(map(torch.equal, plain[1], traced[1]))
    assert len(graphs) == 2  # the first layer's input requires no gradient


def test_a_strict_zip_and_other_iterators_are_left_to_python() -> None:
    assert not ahead.known(zip([1], [2], strict=True))
    assert not ahead.known(map(str, [1]))
    compiled = aotdyn.compile(two, backend="eager")
    for make in (lambda: map(float, [1, 2]), lambda: (n for n in (1, 2, 3))):
        assert all(map(torch.equal, two(X, make()), compiled(X, make())))
