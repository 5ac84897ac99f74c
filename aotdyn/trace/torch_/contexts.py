"""Contexts of torch that a graph needs nothing of: names for the profiler."""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd import profiler

from aotdyn.guards.sources import Pure

from .. import model
from ..control import Break
from ..handlers import handles
from ..values import Const, Value, force


@handles(profiler.record_function.__enter__)
def _enter_record(t: Any, record: Value) -> Value:
    """Nothing, while no profiler records."""
    if model.truth(t, t.wrap(torch.autograd._profiler_enabled(), Pure("torch.autograd._profiler_enabled"))):
        raise Break("a profiler records")
    return record


@handles(profiler.record_function.__exit__)
def _exit_record(t: Any, record: Value, *exception: Value) -> Value:
    """What was entered while tracing has begun no record."""
    begun = force(model.get_attr(t, record, "record"))
    if not (isinstance(begun, Const) and begun.value is None):
        raise Break("a profiler's record that was begun outside")
    return Const(None)
