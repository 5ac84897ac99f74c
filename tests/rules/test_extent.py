"""Extent: `compile(f)` leaves `f` alone; what it reaches by a break is stubbed in place, and acts for it only."""

from __future__ import annotations

import copy
import threading

import torch

import aotdyn
from aotdyn.report import events
from aotdyn.runtime import cold

X = torch.arange(4.0)


class Slotted:
    """What `copy` takes apart in C."""

    __slots__ = ("number",)

    def __init__(self, number):
        self.number = number

    def __eq__(self, other):
        return self.number == other.number


def copies(x, items):
    """Breaks within the standard library."""
    return (x + 1).sum(), copy.deepcopy(items)


def graphs() -> int:
    return events.snapshot()["graph_calls"]


def heavy(x):
    return (x.sin() + 1).sum()


def key(v):
    return float(heavy(torch.full((2,), float(v))))


def sorts(x, items):
    return x + 1, sorted(items, key=key)


def maps_a_lambda(x, items):
    return x + 1, list(map(lambda v: key(v), items))  # noqa: C417


class Lazily:
    @property
    def value(self):
        print("computed")
        return heavy(X)


def reads_property(x, obj):
    return x + obj.value


def left_alone(x):
    i = 0
    while i < 3000:
        i += 1
    return heavy(x) + i


def test_a_key_function(capsys):
    compiled = aotdyn.compile(sorts, backend="eager")
    for _ in range(2):
        before = graphs()
        y, order = compiled(X, [3, 1, 2])
        assert torch.equal(y, X + 1)
        assert order == sorted([3, 1, 2], key=lambda v: float(heavy(torch.full((2,), float(v)))))
        assert graphs() >= before + 4


def test_functions_act_in_their_extent_alone():
    aotdyn.compile(sorts, backend="eager")(X, [3, 1, 2])
    before = graphs()
    key(1), heavy(X), sorts(X, [2, 1])
    assert graphs() == before


def test_a_lambda_that_calls():
    compiled = aotdyn.compile(maps_a_lambda, backend="eager")
    assert compiled(X, [1, 2])[1] == maps_a_lambda(X, [1, 2])[1]
    before = graphs()
    compiled(X, [1, 2])
    assert graphs() >= before + 3


def test_a_property(capsys):
    compiled = aotdyn.compile(reads_property, backend="eager")
    compiled(X, Lazily())
    before = graphs()
    assert torch.equal(compiled(X, Lazily()), reads_property(X, Lazily()))
    assert graphs() > before


def test_a_frame_left_alone(monkeypatch):
    monkeypatch.setenv("AOTDYN_MAX_INSTRUCTIONS", "4000")
    compiled = aotdyn.compile(left_alone, backend="eager")
    assert torch.equal(compiled(X), left_alone(X))


def test_backends_are_kept_apart():
    seen: dict[str, int] = {}

    def backend(name):
        def compile(graph, inputs):
            seen[name] = seen.get(name, 0) + 1
            return graph.forward

        return compile

    first = aotdyn.compile(sorts, backend=backend("first"))
    second = aotdyn.compile(sorts, backend=backend("second"))
    first(X, [2, 1]), second(X, [2, 1])
    assert seen["first"] == seen["second"] > 1


def test_another_thread_is_outside():
    done = []

    def inside(x):
        thread = threading.Thread(target=lambda: done.append(heavy(x)))
        thread.start()
        thread.join()
        return x + key(1)

    compiled = aotdyn.compile(inside, backend="eager")
    assert torch.equal(compiled(X), inside(X))
    assert len(done) == 2


def test_f_is_left_alone():
    def function(x):
        return x + 1

    code = function.__code__
    compiled = aotdyn.compile(function, backend="eager")
    compiled(X)
    assert compiled is not function
    assert function.__code__ is code


def test_a_warm_process_reaches_them_too():
    aotdyn.compile(sorts, backend="eager")(X, [3, 1, 2])
    cold.forget()
    compiled = aotdyn.compile(sorts, backend="eager")
    before, traced = graphs(), events.snapshot()["traced"]
    compiled(X, [3, 1, 2])
    assert graphs() >= before + 4
    assert events.snapshot()["traced"] == traced


def test_a_break_in_the_library_is_its_callers():
    compiled = aotdyn.compile(copies, backend="eager")
    for number in range(4):
        before, traced = graphs(), events.snapshot()["traced"]
        items = {"a": [number, Slotted(1)]}  # another object at each call, and other contents
        total, copied = compiled(X, items)
        assert (total, copied) == (10.0, items)
        assert copied["a"][1] is not items["a"][1]
        assert graphs() > before
        # Its call, and what goes on behind it: nothing of the library's is compiled.
        assert events.snapshot()["traced"] - traced == (2 if number == 0 else 0)
