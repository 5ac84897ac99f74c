"""Building graphs on fake tensors: what is recorded, what fails and how, what is dropped."""

from __future__ import annotations

import operator
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from aotdyn.graph.build import FakeFailure, GraphBuilder, Operand

STACK = ((__file__, 3, "outer"), (__file__, 5, "inner"))


class Builder(GraphBuilder):
    """A builder whose calls take and give operands."""

    def input(self, real: torch.Tensor, *dims: int) -> Operand:
        return Operand(*self.placeholder(f"x{len(self.placeholders)}", real, dims))

    def f(self, function: Any, *args: Any, **kwargs: Any) -> Operand:
        return Operand(*self.call_function(function, args, kwargs, STACK))

    def m(self, name: str, *args: Any, **kwargs: Any) -> Operand:
        return Operand(*self.call_method(name, args, kwargs, STACK))


def test_an_input_given_twice_is_one_and_keeps_what_it_is():
    b = Builder()
    weight = torch.nn.Parameter(torch.randn(4, 6)[:, ::2].t())
    one, two = b.input(weight), b.input(weight)
    assert one == two
    assert isinstance(one.fake, torch.nn.Parameter)
    assert one.fake.requires_grad
    assert one.fake.stride() == weight.stride()
    base = torch.randn(4)
    view, same = b.input(base), b.input(base[1:])
    assert view.fake.untyped_storage()._cdata == same.fake.untyped_storage()._cdata


def test_results_carry_value_stack_and_effects():
    b = Builder()
    x = b.input(torch.randn(2, 3))
    y = b.f(torch.cat, [x, x], dim=1)
    assert y.fake.shape == (2, 6)
    assert y.node.meta["val"] is y.fake
    assert y.node.meta["stack"] == STACK
    assert "in inner" in y.node.stack_trace
    assert b.m("add_", x, 1).node.meta["mutates"]
    assert b.f(F.dropout, x).node.meta["random"]
    assert not y.node.meta["random"]


@pytest.mark.parametrize(
    ("kind", "call"),
    [
        ("raises", lambda b, x: b.f(torch.mm, x, x)),
        ("data-dependent", lambda b, x: b.m("item", b.f(torch.sum, x))),
        ("data-dependent", lambda b, x: b.f(bool, b.f(torch.sum, x))),
        ("data-dependent", lambda b, x: b.m("tolist", x)),
        ("dynamic-shape", lambda b, x: b.f(torch.nonzero, x)),
        ("unsupported", lambda b, x: b.f(torch.add, x, torch.ones(3))),
    ],
)
def test_a_failure_names_its_kind_and_leaves_no_node(kind, call, caplog):
    b = Builder()
    x = b.input(torch.randn(2, 3))
    with pytest.raises(FakeFailure) as failure:
        call(b, x)
    assert failure.value.kind == kind
    assert failure.value.reason
    assert all(node.op == "placeholder" or node.target is torch.sum for node in b.graph.nodes)
    assert not caplog.records


def test_rollback_forgets_nodes_and_inputs():
    b = Builder()
    real = torch.randn(2)
    x = b.input(torch.randn(2))
    mark = b.snapshot()
    b.f(torch.add, x, b.input(real))
    b.rollback(mark)
    assert [node.op for node in b.graph.nodes] == ["placeholder"]
    y = b.input(real)
    done = b.finish([b.f(torch.sub, x, y).node])
    assert done.kept == [0, 1]


def test_inputs_stand_first_even_if_they_come_late():
    b = Builder()
    ones = b.f(torch.ones, 3)
    x = b.input(torch.randn(3))
    y = b.input(torch.randn(3))
    done = b.finish([b.f(torch.add, b.f(torch.add, ones, x), y).node])
    assert [node.op for node in done.module.graph.nodes][:2] == ["placeholder"] * 2
    done.module.graph.lint()


def test_finish_drops_what_nothing_reads_and_keeps_what_acts():
    b = Builder()
    unused, x, w = b.input(torch.randn(2)), b.input(torch.randn(2)), b.input(torch.randn(2))
    b.f(torch.sin, unused)
    b.f(torch._C._set_grad_enabled, False)
    b.m("mul_", b.f(operator.getitem, w, 0), 2)
    b.f(torch.rand, 2)
    b.f(F.relu, w, True)
    b.f(operator.setitem, w, 0, 1.0)
    b.f(torch.add, x, x, out=w)
    b.f(torch._C._set_grad_enabled, True)
    done = b.finish([b.f(torch.cos, x).node])
    names = [node.name for node in done.module.graph.nodes]
    assert done.kept == [1, 2]
    assert not any("sin" in name for name in names)
    assert len(names) == 2 + 8 + 1 + 1


def test_dynamic_dimensions_are_symbols_of_their_own():
    b = Builder()
    x, y = b.input(torch.randn(5, 3), 0), b.input(torch.randn(5, 1), 0, 1)
    assert [type(size) for size in (*x.fake.shape, *y.fake.shape)] == [torch.SymInt, int, torch.SymInt, int]
    assert sorted(b.symbols.values()) == [(0, "size", 0), (1, "size", 0)]
    assert x.node.meta["dynamic"] == (0,)
    guards = len(b.shape_env.guards)
    b.f(torch.add, x, y)
    assert len(b.shape_env.guards) > guards


def test_the_random_stream_is_left_alone():
    state = torch.get_rng_state()
    b = Builder()
    b.f(torch.rand, 4)
    b.f(F.dropout, b.input(torch.randn(3).detach()))
    torch.set_rng_state(state)
    expected = torch.rand(1)
    torch.set_rng_state(state)
    b.f(torch.randn, 4)
    assert torch.equal(torch.rand(1), expected)
