"""Contexts of torch that mean nothing to a program, in Python."""

from __future__ import annotations

import contextlib
from typing import Any

import torch.fx.traceback

from aotdyn.trace.handlers import polyfill


@polyfill(torch.fx.traceback.annotate)
def annotate(annotation_dict: dict[str, Any]) -> contextlib.nullcontext[None]:
    """Notes for tracers that make graphs with `make_fx`: there is none."""
    return contextlib.nullcontext()
