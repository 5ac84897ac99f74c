"""Models of a file that the user names, and the steps that benchmarks run them by: a call, or one of training."""

from __future__ import annotations

import importlib.util
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from models import GPT, sequential

Build = Callable[[str], tuple[torch.nn.Module, dict[str, Any]]]
"Gives a model and its inputs by name."

KINDS = ("inference", "training")


def own(name: str) -> tuple[torch.nn.Module, dict[str, Any]]:
    """A model of our own."""
    torch.manual_seed(0)
    if name == "gpt":
        return GPT(width=128).eval(), {"tokens": torch.zeros(2, 16, dtype=torch.long)}
    return sequential(10), {"input": torch.randn(8, 8)}


def builder(file: str) -> Build:
    """`build` of a Python file; empty: `own`, with `gpt` and `sequential`."""
    if not file:
        return own
    spec = importlib.util.spec_from_file_location(Path(file).stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.build


def made(build: Build, name: str, kind: str) -> tuple[torch.nn.Module, dict[str, Any]]:
    """A model and its inputs: in training as `train()` leaves it, with dropout."""
    torch.manual_seed(0)
    model, inputs = build(name)
    return (model.train() if kind == "training" else model.eval()), inputs


def seed() -> None:
    """Begin all random streams anew."""
    torch.manual_seed(0)
    random.seed(0)
    np.random.seed(0)


def tensors(value: Any) -> list[torch.Tensor]:
    """The tensors in an output."""
    if isinstance(value, torch.Tensor):
        return [value]
    items = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return [each for item in items for each in tensors(item)]


def infer(run: Callable[..., Any], inputs: dict[str, Any]) -> Any:
    """One call without gradients; gives what it gives."""
    with torch.no_grad():
        return run(**inputs)


def train(run: Callable[..., Any], inputs: dict[str, Any]) -> Any:
    """One call and the backward of its outputs' sines, summed; gives the outputs and that loss.

    A mean would do worse: that of a layer norm is constant, and its gradient nothing but rounding.
    """
    outputs = run(**inputs)
    parts = [each.sin().sum() for each in tensors(outputs) if each.requires_grad and each.is_floating_point()]
    loss = torch.stack(parts).sum()
    loss.backward()
    return outputs, loss


STEPS = {"inference": infer, "training": train}
