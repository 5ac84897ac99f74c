"""What is guarded: no variant comes from numbers that nobody reads, or that only flow back to where they came from."""

from __future__ import annotations

import torch
from torch import nn

import aotdyn
from aotdyn.report import events
from aotdyn.runtime import cold

X = torch.ones(2)


def traced() -> int:
    return events.snapshot()["traced"]


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.steps = 0
        self.average = 0.0

    def forward(self, x):
        self.steps += 1
        self.average = 0.5 * self.average + self.steps / 4
        return x + 1


def test_a_counter_makes_two_variants():
    plain, module = Counting(), Counting()
    compiled = aotdyn.compile(module, backend="eager")
    before = traced()
    for _ in range(6):
        plain(X), compiled(X)
        assert (module.steps, module.average) == (plain.steps, plain.average)
    assert traced() == before + 2
    cold.forget()
    compiled(X)
    assert module.steps == 7
    assert traced() == before + 2


def looked_at(x, state):
    state["n"] += 1
    state["m"] -= 2.5
    return x * state["n"] if state["n"] % 2 else x


def test_a_counter_that_is_read():
    compiled = aotdyn.compile(looked_at, backend="eager")
    plain, state = {"n": 0, "m": 1.0}, {"n": 0, "m": 1.0}
    for _ in range(6):
        assert torch.equal(compiled(X, state), looked_at(X, plain))
        assert state == plain


def kept_type(x, state):
    state[0] = state[0] + 1
    return x + 1


def test_types_are_kept():
    compiled = aotdyn.compile(kept_type, backend="eager")
    for number in (1, 2, 3.0, True, 5, 2.5, 10**30):
        plain, state = [number], [number]
        kept_type(X, plain), compiled(X, state)
        assert repr(state) == repr(plain)


def across_a_break(x, state):
    state[0] += 1
    aotdyn.graph_break()
    state[0] *= 2
    return x + 1


def test_across_a_break(capsys):
    compiled = aotdyn.compile(across_a_break, backend="eager")
    plain, state = [0], [0]
    for _ in range(5):
        across_a_break(X, plain), compiled(X, state)
        assert state == plain


def passes_on(x, index, items):
    return x + 1, index, items


def test_what_nobody_reads():
    compiled = aotdyn.compile(passes_on, backend="eager")
    before = traced()
    for i in range(4):
        items = [1] * i
        _, index, same = compiled(X, i, items)
        assert index == i
        assert same is items
    assert traced() == before + 1


def asks_for_the_type(x):
    print(type(x).__name__)
    return isinstance(x, int), x


def test_a_type_that_was_asked_for_is_guarded(capsys):
    compiled = aotdyn.compile(asks_for_the_type, backend="eager")
    before = traced()
    for value in (1, 2, 3, X, 2.5, True, None, "text", [1]):
        assert compiled(value)[0] is isinstance(value, int)
        assert capsys.readouterr().out == f"{type(value).__name__}\n"
        if type(value) is int:
            assert traced() - before <= 2


def logs(x, history):
    history.append(x.sum())
    history.append(1)
    return x + 1


def logs_and_reads(x, history):
    history.append(2)
    history.append(len(history))
    return x + len(history)


def test_a_list_that_is_only_appended_to():
    compiled = aotdyn.compile(logs, backend="eager")
    before = traced()
    history: list = []
    for _ in range(5):
        compiled(X, history)
    assert history == [2.0, 1] * 5
    assert traced() == before + 1


def test_a_list_that_is_read_as_well():
    compiled = aotdyn.compile(logs_and_reads, backend="eager")
    plain, history = [], []
    for _ in range(4):
        assert torch.equal(compiled(X, history), logs_and_reads(X, plain))
        assert history == plain
