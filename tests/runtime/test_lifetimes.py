"""What compile() made goes when nobody keeps it, and a long program doesn't grow."""

from __future__ import annotations

import builtins
import gc
import weakref

import pytest
import torch

import aotdyn
from aotdyn.rewrite import originals
from aotdyn.runtime import cold

pytestmark = pytest.mark.usefixtures("own_cache")


def _named() -> int:
    return sum(name.startswith("__aotdyn_d_") for name in vars(builtins))


def _kept() -> tuple[int, ...]:
    gc.collect()
    cold.sweep()  # as the next compile() does
    gc.collect()
    return len(cold._entries), len(cold._continuations), len(originals._table), _named()


def _closure(held: torch.Tensor):
    def f(x):
        y = x * held
        if y.sum() < -9:  # a break
            return y
        return y.sin() + 1

    return f


def _module() -> torch.nn.Module:
    class Local(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(2, 2)

        def forward(self, x):
            return self.linear(x).relu()

    return Local()


def test_compiled_closures_and_modules_end() -> None:
    """Entries, names, closures, classes and parameters of a compile() end with what it made; its calls stay counted."""
    x = torch.ones(2)
    aotdyn.compile(_closure(x), backend="eager")(x)
    before, calls = _kept(), aotdyn.stats()["graph_calls"]
    references: list[weakref.ref] = []
    for i in range(6):
        held = torch.full((2,), float(i))
        function, model = _closure(held), _module()
        compiled, optimized = aotdyn.compile(function, backend="eager"), aotdyn.compile(model, backend="eager")
        assert torch.equal(compiled(x), function(x))
        assert torch.equal(optimized(x), model(x))
        references += [weakref.ref(each) for each in (held, function, model, model.linear.weight)]
        del held, function, model, compiled, optimized
    assert _kept() == before
    assert [reference for reference in references if reference() is not None] == []
    assert aotdyn.stats()["graph_calls"] - calls == 18


def test_a_long_program_does_not_grow() -> None:
    """Many calls, shapes and modules through one function: what is kept for it has a bound."""
    f = aotdyn.compile(lambda x, m: m(x).sum(0) * 2, backend="eager")
    first = torch.nn.Linear(3, 3)
    for size in range(2, 8):
        f(torch.ones(size, 3), first)
    references = []
    kept = _kept()
    for i in range(300):
        model = torch.nn.Linear(3, 3)
        x = torch.ones(2 + i % 100, 3)
        assert torch.equal(f(x, model), model(x).sum(0) * 2)
        references.append(weakref.ref(model.weight))
    del model, x
    assert _kept() == kept
    assert sum(reference() is not None for reference in references) <= 2
    served = [modules for entry in cold._entries.values() for modules in entry._served._modules.values()]
    assert max(map(len, served)) < 20  # what is known of modules that are gone is gone, too


def test_an_argument_goes_with_its_last_name():
    """Neither the call that traces nor a later one holds it, and no collection is needed."""
    f = aotdyn.compile(lambda x: x + x, backend="eager")
    gc.collect()
    gc.disable()
    try:
        for _ in range(2):
            x = torch.rand(4)
            seen = weakref.ref(x)
            f(x)
            del x
            assert seen() is None
    finally:
        gc.enable()
