"""A failure of aotdyn's own costs a call its graph, the user one warning, and the program little more."""

from __future__ import annotations

import pytest
import torch

import aotdyn
from aotdyn import config
from aotdyn.runtime import cold


def test_a_fault_is_told_once_and_tried_again_ever_more_rarely(own_cache, monkeypatch, caplog):
    tried, trace = [], cold.trace

    def fails(entry, args):
        tried.append(entry)
        if entry.spec.qualname.endswith("faulty") and len(tried) < 6:
            raise ZeroDivisionError("ours")
        return trace(entry, args)

    def faulty(x):
        return x * 2 + 1

    monkeypatch.setattr(cold, "trace", fails)
    compiled = aotdyn.compile(faulty, backend="eager")
    with config.overrides(strict=False):
        for i in range(100):
            assert compiled(torch.full((2,), float(i))).tolist() == [i * 2 + 1] * 2
    assert len(tried) == 6
    assert [text for text in caplog.messages if "ours" in text] == [
        "aotdyn: test_a_fault_is_told_once_and_tried_again_ever_more_rarely.<locals>.faulty isn't compiled:"
        " ZeroDivisionError: ours"
    ]
    assert aotdyn.stats()["graph_calls"] > 0


@pytest.mark.usefixtures("own_cache")
def test_a_fault_raises_where_it_is_to(monkeypatch):
    def fails(*_):
        raise ZeroDivisionError("ours")

    monkeypatch.setattr(cold, "trace", fails)
    with pytest.raises(ZeroDivisionError, match="ours"):
        aotdyn.compile(lambda x: x + 1, backend="eager")(torch.ones(2))
