"""What a training program does besides computing: registering hooks and copying states. Python does it.

It is written in Python, so that it would be traced into otherwise. But a handle
has a number that is counted up, and an optimizer's state is gathered by the
addresses of its parameters: what such a trace rests on never comes again.
"""

from __future__ import annotations

from types import FunctionType
from typing import Any

import torch
from torch.nn.modules import module as modules
from torch.utils.hooks import RemovableHandle

from aotdyn.guards.reads import enabled

from ..builtins.left_to_python import leave


def _registering(space: Any) -> list[Any]:
    """The functions of a class or module that register hooks."""
    return [
        enabled(each)
        for name, each in vars(space).items()
        if isinstance(each, FunctionType) and name.startswith("register_") and name.endswith("_hook")
    ]


HOOK = "a hook is registered or taken away"
leave(HOOK, RemovableHandle, RemovableHandle.remove)
leave(HOOK, *(each for space in (torch.nn.Module, modules, torch.optim.Optimizer) for each in _registering(space)))
leave(
    "a state dict is made or loaded",
    *(enabled(each.state_dict) for each in (torch.nn.Module, torch.optim.Optimizer)),
    *(enabled(each.load_state_dict) for each in (torch.nn.Module, torch.optim.Optimizer)),
)
