"""A profile of a program has the program's operators, and not what aotdyn runs to trace them."""

from __future__ import annotations

import torch
from torch.profiler import ProfilerActivity, profile

import aotdyn

X = torch.ones(4)


def f(x):
    y = (x * 2).sin()
    print(end="")
    return y.sum()


def profiled(function) -> dict[str, int]:
    with profile(activities=[ProfilerActivity.CPU]) as found:
        function(X)
    return {event.key: event.count for event in found.key_averages()}


def test_the_first_call_looks_like_any(own_cache):
    plain = profiled(f)
    assert plain["aten::sin"] == 1
    compiled = aotdyn.compile(f, backend="eager")
    assert [profiled(compiled) for _ in range(2)] == [plain, plain]
    assert profiled(lambda x: x.cos())["aten::cos"] == 1  # the thread is as it was
