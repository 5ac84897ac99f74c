"""`fullgraph=True` refuses what isn't one graph, whether it is traced now or came from the store."""

from __future__ import annotations

import pytest
import torch

import aotdyn
from aotdyn import errors
from aotdyn.report import events
from aotdyn.runtime import cold


def breaks(x):
    y = x + 1
    aotdyn.graph_break()
    return y * 2


def long(x):
    i = 0
    while i < 2000:
        i += 1
    return x + i


def test_a_stored_break(capsys):
    aotdyn.compile(breaks, backend="eager")(torch.ones(2))
    cold.forget()
    before = events.snapshot()["traced"]
    with pytest.raises(errors.GraphBreakError, match=r"test_fullgraph\.py:\d+: graph break in breaks.*fullgraph"):
        aotdyn.compile(breaks, backend="eager", fullgraph=True)(torch.ones(2))
    assert events.snapshot()["traced"] == before


def test_a_new_break():
    for _ in range(2):
        with pytest.raises(errors.GraphBreakError, match="graph break in breaks"):
            aotdyn.compile(breaks, backend="eager", fullgraph=True)(torch.ones(2))


def test_a_frame_left_alone(monkeypatch):
    monkeypatch.setenv("AOTDYN_MAX_INSTRUCTIONS", "2000")
    assert aotdyn.compile(long, backend="eager")(torch.ones(1)).item() == 2001
    for _ in range(2):
        with pytest.raises(errors.GraphBreakError, match="long is left to Python"):
            aotdyn.compile(long, backend="eager", fullgraph=True)(torch.ones(1))
