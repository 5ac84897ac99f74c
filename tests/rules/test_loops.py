"""A long loop from whose body nothing is captured leaves the frame to Python, from the loop on."""

from __future__ import annotations

import time

import pytest
import torch

import aotdyn
from aotdyn.report import events

X = torch.ones(2)


def sums(x, n):
    y = x + 1
    total = 0
    for i in range(n):
        total += i * i
    return y * 2 + total


def counts(x, n):
    y = x * 2
    i = 0
    while i < n:
        i += 1
    return y + i


def reads_a_file(x, lines):
    found = []
    for line in iter(lines):
        found.append(line.strip())
    return x + len(found), found


def prints(x, n):
    for i in range(n):
        print(i)
    return x + n


def captures(x, n):
    for _ in range(n):
        x = x + 1
    return x


@pytest.mark.parametrize("function", [sums, counts, prints, captures], ids=lambda f: f.__name__)
def test_results(function, capsys):
    compiled = aotdyn.compile(function, backend="eager")
    for n in (3, 1500, 1500):
        assert torch.equal(compiled(X, n), function(X, n))


def test_an_iterator_from_outside():
    compiled = aotdyn.compile(reads_a_file, backend="eager")
    for _ in range(2):
        found = compiled(X, iter(["a\n"] * 2000))
        assert found[1] == ["a"] * 2000
        assert found[0].tolist() == [2001, 2001]


def logs_and_computes(x, names):
    for name in names:
        print(name)
    return x * 2 + 1


def test_a_short_loop_doesnt_keep_what_follows_from_its_graph(capsys):
    compiled = aotdyn.compile(logs_and_computes, backend="eager")
    for names in (("a", "b", "c"), ("d",), ()):
        before = events.snapshot()["graph_calls"]
        assert torch.equal(compiled(X, names), X * 2 + 1)
        assert events.snapshot()["graph_calls"] > before
    assert capsys.readouterr().out == "a\nb\nc\nd\n"


def test_the_time_of_a_long_loop():
    compiled = aotdyn.compile(sums, backend="eager")
    compiled(X, 300_000)
    before, start = events.snapshot()["graph_calls"], time.perf_counter()
    compiled(X, 300_000)
    taken = time.perf_counter() - start
    assert events.snapshot()["graph_calls"] > before
    start = time.perf_counter()
    sums(X, 300_000)
    assert taken < 5 * (time.perf_counter() - start) + 0.1
