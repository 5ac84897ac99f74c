"""Backends that are called: the user's own, and those that torch knows by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from aotdyn import collecting, interrupted
from aotdyn.backends import aliasing, context
from aotdyn.backends.stored import Compiled
from aotdyn.errors import BackendError
from aotdyn.graph import effects
from aotdyn.graph.program import Program

if TYPE_CHECKING:
    from aotdyn.backends.registry import Backend


def compiled(
    module: fx.GraphModule,
    program: Program,
    inputs: Sequence[torch.Tensor],
    backend: Backend,
    options: Mapping[str, Any] | None,
) -> Compiled:
    """What a backend makes of a graph, for each way in which inputs that it may write to overlap.

    Raises:
        BackendError: the backend raised, or gave something that can't be called.
    """
    keywords = {"options": dict(options)} if options else {}

    def compile_one(module: fx.GraphModule, inputs: list[torch.Tensor]) -> Compiled:
        assert backend.function is not None
        collecting.resume()
        try:
            compiled = backend.function(module, inputs, **keywords)
        except Exception as error:
            interrupted.hand_on(error)
            told = f"backend {backend.name!r} raised {type(error).__name__}: {error}"
            hint = "the backend `eager` tells whether the program runs without it"
            raise BackendError(told, backend=backend.name, hint=hint) from error
        if not callable(compiled):
            what = type(compiled).__qualname__
            told = f"backend {backend.name!r} returned a {what}, not a callable"
            raise BackendError(told, backend=backend.name, hint="return the function that runs the graph")
        return compiled

    compiled = context.with_sizes(program, list(inputs), compile_one, module)
    if not may_write(program) or not all(measurable(tensor) for tensor in inputs):
        return compiled
    return aliasing.PerAliasing(
        program.inputs,
        range(len(inputs)),
        inputs,
        compiled,
        lambda inputs: context.with_sizes(program, inputs, compile_one),
    )


def may_write(program: Program) -> bool:
    """Whether a program may write to its inputs, as far as its steps' names tell: too often rather than too seldom."""
    return any(
        not effects.pure_call(step.target, step.kwargs)
        or (not isinstance(step.target, str) and any(item is True for item in step.args))  # `inplace` by position
        for step in program.steps
    )


def measurable(tensor: torch.Tensor) -> bool:
    """Whether a tensor is a plain one, with an address."""
    return type(tensor) in (torch.Tensor, torch.nn.Parameter) and tensor.layout is torch.strided
