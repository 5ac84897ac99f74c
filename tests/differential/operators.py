"""Operators of a library of the tests: registered once, whatever is executed anew."""

import torch


@torch.library.custom_op("aotdyn_corpus::twice", mutates_args=())
def twice(x: torch.Tensor, factor: float = 2.0) -> torch.Tensor:
    return x * factor


@twice.register_fake
def _(x, factor=2.0):
    return torch.empty_like(x)


def _setup(ctx, inputs, output):
    ctx.factor = inputs[1]


def _backward(ctx, g):
    return g * ctx.factor, None


twice.register_autograd(_backward, setup_context=_setup)


@torch.library.custom_op("aotdyn_corpus::add_to", mutates_args=("x",))
def add_to(x: torch.Tensor, n: int) -> None:
    x.add_(n)
