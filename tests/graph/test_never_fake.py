"""Operators whose C++ reads data of fake tensors, which have none, break the graph."""

from __future__ import annotations

import torch

import aotdyn


def sobol(state: torch.Tensor) -> torch.Tensor:
    return torch._sobol_engine_initialize_state_(state.clone(), 2) + 1


def test_sobol_breaks(own_cache: None) -> None:
    state = torch.zeros(2, 30, dtype=torch.long)
    assert torch.equal(aotdyn.compile(sobol, backend="eager")(state), sobol(state))
