"""Facts of the process that tracing reads: results that functools keeps, the order of sets."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from typing import Any

import pytest
import torch

import aotdyn

X = torch.arange(6.0).reshape(2, 3)
CALLS: list[Any] = []
FACTOR = [2.0]


@pytest.fixture(autouse=True)
def _no_calls() -> None:
    CALLS.clear()


@functools.lru_cache(maxsize=8)
def kept(n, scale=1):
    CALLS.append((n, scale))
    return n * scale * FACTOR[0]


class Model(torch.nn.Module):
    @functools.cache  # noqa: B019
    def width(self, n):
        CALLS.append(n)
        return [n] * 2

    def forward(self, x):
        widths = self.width(3)
        return x * sum(widths), widths


def uses_kept(x):
    return x * kept(3) + kept(2, scale=3) + kept(3)


def test_cached_functions_answer_from_their_cache():
    kept.cache_clear()
    compiled = aotdyn.compile(uses_kept, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(X), X * 6 + 12 + 6)
    assert CALLS == [(3, 1), (2, 3)]
    FACTOR[0] = 5.0
    try:
        torch.testing.assert_close(compiled(X), X * 6 + 12 + 6)  # as plain Python: the cache doesn't look again
        kept.cache_clear()
        torch.testing.assert_close(compiled(X), X * 15 + 30 + 15)
    finally:
        FACTOR[0] = 2.0
        kept.cache_clear()
    assert CALLS == [(3, 1), (2, 3)] * 2


def test_what_a_cache_keeps_is_the_same_object():
    model = Model()
    compiled = aotdyn.compile(model, backend="eager", fullgraph=True)
    (first, one), (second, two) = compiled(X), compiled(X)
    torch.testing.assert_close(first, second)
    assert one is two is model.width(3)
    assert CALLS == [3]


@functools.lru_cache(maxsize=32)
def parted(shape, parts):
    rows, columns = shape
    return [rows * parts, columns // parts], {0: rows}


@functools.lru_cache(maxsize=32)
def scaled(n):
    return n * FACTOR[0]


def test_cached_functions_of_sizes_that_vary_are_traced_into():
    def f(x):
        shape, _ = parted(tuple(x.shape), 3)
        return x.reshape(shape) + 1

    compiled = aotdyn.compile(f, backend="eager", fullgraph=True)
    before = aotdyn.stats()["traced"]
    for rows in (2, 5, 7, 9):
        x = torch.arange(rows * 6.0).reshape(rows, 6)
        torch.testing.assert_close(compiled(x), f(x))
    assert aotdyn.stats()["traced"] == before + 2


def changes_it(x):
    shape, _ = parted(tuple(x.shape), 3)
    shape[0] += 0
    return x.reshape(shape)


def returns_it(x):
    return x + 1, parted(tuple(x.shape), 3)


def reads_what_changes(x):
    return x * scaled(x.shape[0])


@pytest.mark.parametrize("f", [changes_it, returns_it, reads_what_changes], ids=lambda f: f.__name__)
def test_what_a_cache_keeps_for_sizes_is_its_own(f):
    compiled = aotdyn.compile(f, backend="eager")
    for rows in (2, 5, 7):
        x = torch.arange(rows * 6.0).reshape(rows, 6)
        expected, found = f(x), compiled(x)
        torch.testing.assert_close(found, expected)
        if f is returns_it:
            assert found[1] is expected[1]
    assert aotdyn.stats()["graph_calls"]


def test_cached_functions_of_tensors_run_in_python():
    @functools.lru_cache(maxsize=2)
    def twice(x):
        return x * 2

    compiled = aotdyn.compile(lambda x: twice(x) + 1, backend="eager")
    torch.testing.assert_close(compiled(X), X * 2 + 1)


NAMES = ["full", "sliding", "chunked", "linear", "full"]


def built(x):
    return list(set(NAMES)), x + 1


def displayed(x):
    a, b = "left", "right"
    found = {a, b}
    found.add("middle")
    return list(found), list({name[:3] for name in NAMES}), x + 1


def of_numbers(x):
    return list(set([100, 3, 64, 1 << 40, -7])), list(set(range(20, 3, -1))), x + 1  # noqa: C405


OUTSIDE = {"x", "y", "zebra"}


def from_outside(x):
    return list(OUTSIDE), x + 1


@pytest.mark.parametrize("f", [built, displayed, of_numbers, from_outside], ids=lambda f: f.__name__)
def test_sets_give_their_own_order(f):
    expected, found = f(X), aotdyn.compile(f, backend="eager", fullgraph=True)(X)
    assert expected[:-1] == found[:-1]


PROGRAM = """
import sys, torch, aotdyn
def f(x):
    for name in set(["a", "b", "c"]):
        x = x * 2 + ord(name)
    return x
x = torch.ones(2)
assert torch.equal(f(x), aotdyn.compile(f, backend="eager", fullgraph=True)(x)), "another order"
"""


def test_a_stored_order_holds_for_processes_of_that_order_alone(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    for seed in ("1", "2", "3"):
        subprocess.run([sys.executable, str(path)], check=True, env={**os.environ, "PYTHONHASHSEED": seed})


def test_classes_as_keys_of_a_table_that_grows():
    table = {int: 2.0, str: 3.0, Model: 4.0}

    def f(x):
        return x * table[Model] + table.get(list, 1.0) + (float in table)

    compiled = aotdyn.compile(f, backend="eager")
    torch.testing.assert_close(compiled(X), f(X))
    recompiles = len(aotdyn.stats()["recompiles"])
    table[bytes] = 5.0  # nobody asked for it
    torch.testing.assert_close(compiled(X), f(X))
    assert len(aotdyn.stats()["recompiles"]) == recompiles
    table[list] = 7.0
    torch.testing.assert_close(compiled(X), f(X))
    del table[Model]
    with pytest.raises(KeyError):
        compiled(X)


def picks(x, index):
    try:
        noise = torch.rand(3)
        return torch.gather(x + noise, 1, index), "picked"
    except (RuntimeError, IndexError):
        return torch.rand(2), "refused"


@pytest.mark.parametrize("column", [2, 9])
def test_random_numbers_are_drawn_once_where_a_handler_runs(column):
    index = torch.full((2, 1), column)
    results = []
    for f in (picks, aotdyn.compile(picks, backend="eager", fullgraph=True)):
        torch.manual_seed(0)
        results.append((f(X, index), torch.rand(1)))
    (first, told), drawn = results[0]
    (second, told_too), drawn_too = results[1]
    torch.testing.assert_close((first, drawn), (second, drawn_too), rtol=0, atol=0)
    assert told == told_too == ("picked" if column == 2 else "refused")


def test_a_fresh_tensor_may_require_a_gradient():
    def f(x, grad):
        with torch.set_grad_enabled(grad):
            zeros = torch.zeros_like(x).requires_grad_()
            return zeros, zeros + x

    compiled = aotdyn.compile(f, backend="eager")
    for grad in (False, True):
        plain, found = f(X, grad), compiled(X, grad)
        assert [each.requires_grad for each in plain] == [each.requires_grad for each in found]
        assert [each.is_leaf for each in plain] == [each.is_leaf for each in found]
        if grad:
            found[1].sum().backward()
            torch.testing.assert_close(found[0].grad, torch.ones_like(X))


TWO = """
import aotdyn, torch
def f(x):
    for name in set(["full", "sliding"]):
        x = x * 2 + len(name)
    return x
x = torch.ones(2)
assert torch.equal(f(x), aotdyn.compile(f, backend="eager", fullgraph=True)(x))
print(list(set(["full", "sliding"])), aotdyn.stats()["traced"])
"""


def test_both_orders_of_two_strings_are_kept(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(TWO)
    told = []
    for seed in map(str, range(1, 5)):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        told.append(subprocess.check_output([sys.executable, str(path)], env=environment, text=True).strip())
    assert len({each.rpartition(" ")[0] for each in told}) == 2
    assert [each.rpartition(" ")[2] for each in told] == ["1", "0", "0", "0"]


def test_membership_of_a_list_that_grows():
    known, looked = [int, Model, str], [1, 2]

    def f(x):
        return (x + 1 if Model in known else x - 1) * (2 if 3 in looked else 3)

    compiled = aotdyn.compile(f, backend="eager")
    torch.testing.assert_close(compiled(X), f(X))
    recompiles = len(aotdyn.stats()["recompiles"])
    known.append(bytes)  # behind what was found
    known[2] = float
    torch.testing.assert_close(compiled(X), f(X))
    assert len(aotdyn.stats()["recompiles"]) == recompiles
    looked.append(3)  # what isn't there was looked for in all of it
    torch.testing.assert_close(compiled(X), f(X))
    known[0] = Model  # found, but elsewhere
    known[1] = int
    torch.testing.assert_close(compiled(X), f(X))
    del known[:]
    torch.testing.assert_close(compiled(X), f(X))
    assert len(aotdyn.stats()["recompiles"]) > recompiles


def test_membership_of_a_list_that_the_call_writes_to():
    shared = [1, 2]

    def f(x):
        shared.append(3)
        first = 3 in shared
        shared.remove(3)
        return x + (1 if first else 2) + (4 if 2 in shared else 8)

    compiled = aotdyn.compile(f, backend="eager")
    for _ in range(2):
        torch.testing.assert_close(compiled(X), X + 5)
        assert shared == [1, 2]
