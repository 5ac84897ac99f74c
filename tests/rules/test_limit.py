"""The recompile limit counts per code and receiver: many layers of a class are fine, many variants of one are not."""

from __future__ import annotations

import torch
from torch import nn

import aotdyn
from aotdyn.report import events
from aotdyn.runtime import binding, cold, limit

X = torch.ones(2, 3)


class Layer(nn.Module):
    def __init__(self, index):
        super().__init__()
        self.index = index
        self.seen = 0

    def forward(self, x):
        return x * self.index


class Reading(nn.Module):
    def __init__(self):
        super().__init__()
        self.step = 0

    def forward(self, x):
        self.step += 1
        return x * self.step if self.step < 10_000 else x


def call(layer, x):
    return layer.forward(x) + 1


def graphs() -> int:
    return events.snapshot()["graph_calls"]


def traced() -> int:
    return events.snapshot()["traced"]


def stored() -> int:
    return events.snapshot()["variants_stored"]


def test_twelve_layers():
    layers = [Layer(i) for i in range(12)]
    compiled = aotdyn.compile(call, backend="eager")
    for _ in range(2):
        before = graphs()
        for layer in layers:
            assert torch.equal(compiled(layer, X), call(layer, X))
        assert graphs() == before + 12


def test_one_layer_meets_the_limit(monkeypatch):
    monkeypatch.setenv("AOTDYN_RECOMPILE_LIMIT", "4")
    monkeypatch.setenv("AOTDYN_AUTOMATIC_DYNAMIC_SHAPES", "0")
    layer, plain = Reading(), Reading()
    compiled = aotdyn.compile(call, backend="eager")
    before = traced()
    for _ in range(12):
        assert torch.equal(compiled(layer, X), call(plain, X))
    assert traced() - before == 8  # four of the call, four of `forward`, which goes on by itself


class Told(nn.Module):
    """Keeps something by its step: a number that moves, never repeats, and that Python looks at."""

    def __init__(self, width):
        super().__init__()
        self.step = 0
        self.weight = nn.Parameter(torch.full((width,), 2.0))

    def forward(self, x):
        self.step += 1
        return x * self.weight, {self.step: "step"}


def run(model, steps, x=X):
    """Steps of a model, compiled anew, as a process would find it."""
    cold.forget()
    compiled = aotdyn.compile(model, backend="eager")
    for _ in range(steps):
        step = model.step + 1
        found, name = compiled(x)
        assert torch.equal(found, x * 2)
        assert name == {step: "step"}


def test_a_counter_that_is_looked_at_settles(own_cache, caplog):
    before = traced()
    run(Told(3), 24)
    made, kept = traced() - before, stored()
    assert made == 16
    assert [text.split(" ")[1] for text in caplog.messages] == ["Told.__call__", "Told.forward"]
    assert "`self.step` was 0, 1, 2, 3, 4, 5, 6 and 7, is 8" in caplog.messages[0]
    for start in (0, 5, 100):
        model = Told(3)
        model.step = start
        run(model, 24)
    assert traced() - before == made
    assert stored() == kept
    assert len(caplog.messages) == 8  # each process says so once for each of the two


def test_modules_of_a_class_that_has_met_the_limit_are_served(own_cache):
    def call(model, x):
        return model(x)[0].sin()

    compiled = aotdyn.compile(call, backend="eager", dynamic=False)
    first = Told(3)
    for _ in range(12):
        compiled(first, X)
    for width in range(4, 24):
        x, before = torch.ones(2, width), graphs()
        assert torch.equal(compiled(Told(width), x), (x * 2).sin())
        assert graphs() > before


def test_a_hundred_modules_in_two_modes(own_cache):
    layers = [Layer(i) for i in range(100)]
    compiled = aotdyn.compile(call, backend="eager")
    for mode in (True, False, True):
        before = graphs()
        for layer in layers:
            layer.train(mode)
            assert torch.equal(compiled(layer, X), call(layer, X))
        assert graphs() == before + 100


class Deep(nn.Module):
    def __init__(self, index):
        super().__init__()
        self.index = index
        self.layers = nn.Sequential(*(nn.Linear(3, 3) for _ in range(9)))

    def forward(self, x):
        return self.layers(x * self.index)


def test_variants_of_other_modules_are_not_looked_at_to_the_end(own_cache, monkeypatch):
    """Of each only as many guards as say that it is of another module, or a hundred models would take seconds each."""
    looked, seen = [], []
    holds, count = binding.holds, limit.count

    def counted(variants, *call):
        del looked[:]
        found = count(variants, *call)
        seen.append((len(found.counted), len(looked), sum(len(variant.guards) for variant in variants)))
        return found

    monkeypatch.setattr(binding, "holds", lambda guard, env: looked.append(guard) or holds(guard, env))
    monkeypatch.setattr(limit, "count", counted)
    compiled = aotdyn.compile(call, backend="eager")
    for layer in map(Deep, range(6)):
        assert torch.equal(compiled(layer, X), call(layer, X))
    assert len(seen) == 6
    assert seen[-1][0] == 0
    assert seen[-1][1] * 4 < seen[-1][2]


WRAPPED = """
    import functools, torch

    def decorated(function):
        @functools.wraps(function)
        def wrapper(*args):
            return function(*args) + 1
        return wrapper

    for i in range(12):
        exec(f"@decorated\\ndef f{i}(x): return x.sin() * {i}")

    functions = [globals()[f"f{i}"] for i in range(12)] + [decorated(torch.sin), decorated(torch.cos)]
    for _ in range(2):
        for function in functions:
            print(function(torch.ones(2)).tolist())
"""


def test_a_wrapper_of_fourteen_functions(project):
    """They are so many functions, with one code that hands on to them."""
    project.write("app.py", WRAPPED)
    plain = project.python("app.py")
    for way in ("14 traced", "0 traced"):
        done = project.run("-v", "--backend", "eager", "app.py")
        assert (done.returncode, done.stdout) == (0, plain.stdout), done.stderr
        assert f"28 graph calls, {way}" in done.stderr
        assert "recompile_limit" not in done.stderr


def rows(x):
    return x * x.shape[0]


def test_twelve_shapes(own_cache, caplog):
    before, made = traced(), None
    for way in ("cold", "warm"):
        caplog.clear()
        compiled = aotdyn.compile(rows, backend="eager", dynamic=False)
        sizes = [*range(2, 14), *range(2, 14)] if way == "cold" else [*range(13, 1, -1), *range(2, 14)]
        calls = graphs()
        for n in sizes:
            x = torch.ones(n, 2)
            assert torch.equal(compiled(x), rows(x))
        assert graphs() - calls == 16
        assert len(caplog.messages) == 1
        assert "`x.shape[0]` was 2, 3, 4, 5, 6, 7, 8 and 9, is 10" in caplog.messages[0]
        made = made or traced() - before
        cold.forget()
    assert traced() - before == made == 8


def test_a_continuation_has_a_limit_of_its_own(own_cache, caplog):
    def f(x, n):
        x = x + 1
        aotdyn.graph_break()
        return x, {n: n}

    compiled = aotdyn.compile(f, backend="eager", dynamic=False)
    for n in range(12):
        assert compiled(X, n)[1] == {n: n}
    assert len(caplog.messages) == 1
    assert "`n` was 0, 1, 2, 3, 4, 5, 6 and 7, is 8" in caplog.messages[0]
    before = traced()
    compiled(torch.ones(5, 5), 1)
    assert traced() > before


def unknown(x):
    aotdyn.graph_break()
    return x


def product(x, y):
    return x * 2 - unknown(y) * unknown(x + 1)


def test_words_for_what_lies_on_the_stack(own_cache):
    compiled = aotdyn.compile(product, backend="eager", dynamic=False)
    before = len(events.snapshot()["recompiles"])
    for n in range(2, 4):
        compiled(torch.ones(n), torch.ones(1)), compiled(torch.ones(1), torch.ones(n))
    found = events.snapshot()["recompiles"][before:]
    subjects = {event["subject"] for event in found}
    assert {"`x.shape[0]`", "`unknown(y).shape[0]`"} <= subjects
    assert not any("stack[" in event["reason"] for event in found)
    line = product.__code__.co_firstlineno + 1
    assert any(event["where"] == f"{__file__}:{line}" for event in found)
