"""Programs of torch, run plainly and compiled."""

from __future__ import annotations

import copy

import torch

import aotdyn

from .results import same

X = torch.linspace(-2, 2, 12).reshape(3, 4)


def differ(f, *args, fullgraph=True):
    """Run plainly and compiled, twice, on equal arguments; results, arguments and modes agree."""
    compiled = aotdyn.compile(f, backend="eager", fullgraph=fullgraph)
    for _ in range(2):
        first, second = copy.deepcopy(args), copy.deepcopy(args)
        torch.manual_seed(0)
        plain = f(*first)
        torch.manual_seed(0)
        same(plain, compiled(*second))
        for one, other in zip(first, second, strict=True):
            if isinstance(one, torch.Tensor):
                same(one, other)
        assert (torch.is_grad_enabled(), torch.is_autocast_enabled("cpu")) == (True, False)
