"""Classes that are made at run time share names: a variant holds each for itself."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.utils import parametrizations

import aotdyn
from aotdyn.report import events
from aotdyn.runtime import cold


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = parametrizations.weight_norm(nn.Conv1d(2, 2, 1))
        self.second = parametrizations.weight_norm(nn.Conv1d(2, 2, 1))

    def forward(self, x):
        return self.second(self.first(x))


def test_parametrized_modules():
    torch.manual_seed(0)
    x = torch.randn(1, 2, 3)
    net, other = Net(), Net()
    assert type(net.first) is not type(net.second)
    compiled = aotdyn.compile(net, backend="eager")
    before = events.snapshot()["traced"]
    for way in ("cold", "warm"):
        calls = events.snapshot()["graph_calls"]
        assert torch.equal(compiled(x), net(x))
        assert torch.equal(aotdyn.compile(other, backend="eager")(x), other(x)), way
        assert events.snapshot()["graph_calls"] == calls + 2
        cold.forget()
    assert events.snapshot()["traced"] == before + 1
