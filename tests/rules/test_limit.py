"""The recompile limit counts per code and receiver: many layers of a class are fine, many variants of one are not."""

from __future__ import annotations

import torch
from torch import nn

import aotdyn
from aotdyn.report import events

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
    before = events.snapshot()["traced"]
    for _ in range(12):
        assert torch.equal(compiled(layer, X), call(plain, X))
    assert events.snapshot()["traced"] - before <= 6
