"""Sizes told beforehand, what is learnt of them by other callers, and random arithmetic of sizes."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn

import aotdyn
from aotdyn import config
from aotdyn.errors import ConfigError, UserError
from aotdyn.report import events
from aotdyn.runtime import beforehand, cold
from aotdyn.store import show

from .test_dynamic import Compiled, tensor

pytestmark = pytest.mark.usefixtures("own_cache")


def traced() -> int:
    return events.snapshot()["traced"]


# The table in the configuration


def rows(x, n=2):
    return x[:n] * x.shape[0], n + 1


def told(*table: dict[str, Any]) -> Any:
    return config.overrides(shapes=[{"function": f"{__name__}:rows", **row} for row in table])


def test_a_table_tells_what_varies():
    f, before = Compiled(rows), traced()
    with told({"argument": "x", "dimension": 0, "min": 2, "max": 64}, {"argument": "n"}):
        for n in (5, 6, 40):
            f.check(tensor(n, 3), n - 1)
    assert traced() - before == 1
    assert {"x.shape[0] <= 64", "n <= x.shape[0]"} <= {text.replace("x.shape[0] >= n", "n <= x.shape[0]")
                                                      for text in f.relations()}  # fmt: skip
    with told({"argument": "x", "dimension": 0, "max": 64}):
        f.check(tensor(65, 3))  # outside the range: as if nothing had been told


def test_the_table_reaches_functions_that_are_inlined():
    f, before = Compiled(lambda model, x: model(x) + x.shape[1]), traced()
    function = f"{__name__}:{Net.forward.__qualname__}"
    with config.overrides(shapes=[{"function": function, "argument": "x", "dimension": -2}]):
        for n in (5, 6, 7):
            f.check(NET, tensor(n, 4))
    assert traced() - before == 1


def test_the_table_is_read_from_a_project(project):
    project.write("pyproject.toml", """
        [tool.aotdyn]
        backend = "eager"

        [[tool.aotdyn.shapes]]
        function = "__main__:f"
        argument = "x"
        dimension = 0
        """)  # fmt: skip
    project.write("app.py", """
        import torch

        def f(x):
            return x * x.shape[0]

        for n in (5, 6, 7):
            assert torch.equal(f(torch.ones(n)), torch.full((n,), float(n)))
        """)  # fmt: skip
    done = project.run("--stats", "stats.json", "app.py")
    assert done.returncode == 0, done.stderr
    assert '"traced": 1,' in (project.folder / "stats.json").read_text()


@pytest.mark.parametrize(
    "row",
    [
        {"function": "f", "argument": "x", "dimension": 0},
        {"function": "m:f", "argument": "x.y", "dimension": 0},
        {"function": "m:f", "argument": "n", "min": 2},
        {"function": "m:f", "argument": "x", "dimension": 0, "min": 4, "max": 3},
        {"function": "m:f", "argument": "x", "dim": 0},
        {"function": "m:f"},
    ],
)
def test_rows_that_say_nothing_are_refused(row):
    with pytest.raises(ConfigError, match="module:qualname"), config.overrides(shapes=[row]):
        pass


# What other callers learnt


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.mix = nn.Linear(4, 4)

    def forward(self, x, scale=2):
        return self.mix(x).sum(0) * x.shape[0] + scale


NET = Net()


def one(x):
    return NET(x) + 1


def other(model, y, u):
    z = y + 1
    return model(y) - u, z


@torch.no_grad()
def test_what_moves_for_a_module_is_known_to_its_other_callers():
    before = traced()
    first = Compiled(one)
    for n in (5, 6, 7):
        first.check(tensor(n, 4))
    assert traced() - before == 2
    for process in ("the same", "a later one"):
        second, third = Compiled(other), Compiled(NET)
        before = traced()
        for n in (5, 6, 7):
            second.check(NET, tensor(n, 4), 3.0)
            torch.testing.assert_close(third.call(tensor(n, 4)), NET(tensor(n, 4)))
        assert traced() - before == (2 if process == "the same" else 0)
        cold.forget()


@torch.no_grad()
def test_a_later_process_reads_what_was_learnt():
    f = Compiled(one)
    for n in (5, 6):
        f.check(tensor(n, 4))
    cold.forget()
    beforehand.forget()
    g, before = Compiled(other), traced()
    for n in (5, 6, 7):
        g.check(NET, tensor(n, 4), 3.0)
    assert traced() - before == 1


# Marks


def unbacked(*sizes: int, **bounds: Any) -> torch.Tensor:
    x = tensor(*sizes)
    aotdyn.mark_unbacked(x, 0, **bounds)
    return x


def doubled(x):
    n = x.shape[0]
    return x * 2 + n, x.sum(0), torch.cat([x, x]).view(-1)[:n], n + 1


def test_unbacked_sizes_take_one_variant_with_0_and_1():
    f = Compiled(doubled)
    for n in (1, 5, 0, 2, 7):
        f.check(unbacked(n, 3))
    assert len(f.variants) == 1
    cold.forget()
    before = traced()
    f.check(unbacked(4, 3))
    assert traced() == before


def test_bounds_of_an_unbacked_size():
    f = Compiled(doubled)
    f.check(unbacked(4, 3, min=2, max=6))
    assert f.relations() == ["x.shape[0] >= 2", "x.shape[0] <= 6"]
    with pytest.raises(UserError, match=r"x\.shape\[0\] was marked to lie in \[2, 6\]"):
        f.call(unbacked(7, 3, min=2, max=6))


def test_ranges_reach_the_backend():
    seen = []

    def backend(module, inputs):
        mode = torch._guards.detect_fake_mode() or torch._guards.TracingContext.get().fake_mode
        seen.extend(str(bounds) for bounds in mode.shape_env.var_to_range.values())
        return module.forward

    for mark in (aotdyn.mark_dynamic, aotdyn.mark_unbacked):
        x = tensor(8, 3)
        mark(x, 0, min=4, max=512)
        compiled = aotdyn.compile(doubled, backend=backend)
        compiled(x), compiled(tensor(8, 3)), compiled(tensor(9, 3))
        assert "VR[4, 512]" in seen
        seen.clear()


def branching(x):
    y = x + 1
    if x.shape[0] > 3:
        y = y * 2
    return y


def checked(x, y):
    torch._check(x.shape[0] == y.shape[0])
    return x + y


def test_nothing_is_decided_by_an_unbacked_size():
    f = Compiled(branching)
    for n in (1, 5, 0):
        f.check(unbacked(n, 3))
    assert len(f.variants) == 1
    assert f.variants[0].breaks
    f = Compiled(checked)
    for n in (1, 5, 0):
        f.check(unbacked(n, 3), unbacked(n, 3))
    assert len(f.variants) == 1
    with pytest.raises(RuntimeError):
        f.call(unbacked(4, 3), unbacked(5, 3))


def looks(x):
    y = x * 2
    return [y] * x.shape[0]


def test_the_line_that_makes_a_marked_size_constant_is_named():
    x = tensor(8, 2)
    aotdyn.mark_dynamic(x, 0)
    line = looks.__code__.co_firstlineno + 2
    with pytest.raises(UserError, match=rf"constant 8 in line {line} of .*test_sizes.py"):
        Compiled(looks).call(x)


def asks(x):
    if x.shape[0] % 8 == 0:
        return x * 2
    if x.shape[0] > 20:
        return x + 1
    return x


def test_guards_say_which_line_asked():
    f = Compiled(asks)
    for n in (9, 10, 16, 25):
        f.check(tensor(n, 2))
    first = asks.__code__.co_firstlineno
    written = {text for variant in f.variants for text in show.guards(variant)}
    assert f"x.shape[0] % 8 == 0  [{__file__}:{first + 1}]" in written
    assert f"x.shape[0] % 8 != 0  [{__file__}:{first + 1}]" in written
    assert f"x.shape[0] >= 21  [{__file__}:{first + 3}]" in written


# Random arithmetic

LEAVES = st.sampled_from(("n", "m", "x.shape[0]", "x.numel()", "len(x)", "2", "5"))
BINARY = (
    "({} + {})",
    "({} - {})",
    "{} * {}",
    "max({}, {})",
    "min({}, {})",
    "sum([{}, {}])",
    "divmod({}, abs({}) + 1)[1]",
)
UNARY = (
    "{} // 3",
    "{} % 4",
    "abs({})",
    "int({} / 2)",
    "math.floor({} / 3)",
    "math.ceil({} / 4)",
    "-(-{} // 2)",
    "int({})",
)
CONDITIONS = ("{} % 4 == 0", "{} > {}", "{} == {}", "isinstance({}, int) and {} < 9")


def grown(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    two = st.builds(lambda form, a, b: form.format(a, b), st.sampled_from(BINARY), inner, inner)
    return st.one_of(two, st.builds(lambda form, a: form.format(a), st.sampled_from(UNARY), inner))


EXPRESSIONS = st.recursive(LEAVES, grown, max_leaves=4)


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(st.lists(EXPRESSIONS, min_size=3, max_size=3), st.sampled_from(CONDITIONS), st.integers(0, 2**16))
def test_random_arithmetic_of_sizes(expressions, condition, seed):
    a, b, c = expressions
    text = f"""
def f(x):
    n, m = x.shape
    if {condition.format(a, b)}:
        x = x + {c}
    found = {{"kept": {a}, f"{{m % 2}}": {b}}}
    return x.view(-1)[: abs({a})], x * {b}, torch.arange(abs({c}) % 9), found, [{a}, {c}]
"""
    namespace: dict[str, Any] = {"torch": torch, "math": math, "__name__": "sizes_of_tests"}
    exec(text, namespace)
    f, draw = Compiled(namespace["f"]), random.Random(seed)
    for _ in range(20):
        f.check(tensor(draw.randint(1, 20), draw.randint(1, 20)))
    assert any(variant.graph for variant in f.variants)
    assert len(f.variants) <= config.current().recompile_limit


def of_parts(parts):
    total = 0
    for x in parts:
        aotdyn.graph_break()
        total = total + x.sum() * x.shape[0]
    return total


def test_sizes_of_what_a_loop_goes_over_become_symbols():
    f = Compiled(of_parts)
    for n in (3, 4, 5):
        f.check([tensor(n, 2)] * 3)
    before = traced()
    for n in (6, 7, 8):
        f.check([tensor(n, 2)] * 3)
    assert traced() == before
