"""What lies in a stored kernel's directory, and what calls its library: all that a warm start needs of a kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

Compiled = Callable[..., Sequence[Any]]
"""Takes a graph's inputs, gives its outputs as a tuple or list."""

MODEL, CONDITIONS = "model.so", "conditions"

OUTER, EAGER, SHAPES, ORDINARY = "outer.graph", "eager", "shapes", "ordinary"

PLAN = "plan"
"How the kernels of a graph with gradients are joined: see `training`."

FROZEN = "frozen"
"Numbers of the inputs that the kernel holds, and doesn't take."

DEFAULTS = {"fallback_random": True}
"""Inductor options that keep the program the same; the user's own come above them."""

Files = dict[str, bytes | Path]


def runner(library: Path) -> Compiled:
    """What calls a library.

    It may make a result as a view of a temporary: that comes as a tensor of its own, as the graph gives it, or
    autograd would refuse to write to it. What it calls through torch isn't cast again.
    """
    run = torch._C._aoti.AOTIModelContainerRunnerCpu(str(library), 1).run

    def call(*args: torch.Tensor) -> list[torch.Tensor]:
        if torch._C._is_any_autocast_enabled():
            with torch._C._DisableAutocast():
                results = run(list(args))
        else:
            results = run(list(args))
        return [result.detach() if result._is_view() else result for result in results]

    return call
