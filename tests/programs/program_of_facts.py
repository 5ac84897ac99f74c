"""A program that reads facts of many kinds; `test_sources` changes each of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


class Settings:
    def __init__(self) -> None:
        self.scale = 2.0
        self.names = ["x", "y"]


CONSTANT = 3
TABLE = {"a": 1, "b": [1, 2]}
SETTINGS = Settings()
FLAGS: dict[str, int] = {}


def helper(x: torch.Tensor, by: float = 2.0, *, shift: int = 1) -> torch.Tensor:
    return x * by + shift


class Base:
    factor = 2

    @property
    def twice(self) -> int:
        return self.factor * 2


class Thing(Base):
    def __init__(self) -> None:
        self.size = 5


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.drop = torch.nn.Dropout(0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.drop(self.linear(x))


def make_closure(k: int) -> Callable[[torch.Tensor], torch.Tensor]:
    def inner(x: torch.Tensor) -> torch.Tensor:
        return x + k

    return inner


def program(
    x: torch.Tensor, y: torch.Tensor, n: int, items: list[Any], thing: Thing, net: Net, f: Any, out: list[Any]
) -> torch.Tensor:
    """Reads facts of many kinds, and writes to one list, so that aliasing matters too."""
    z = helper(x) + y * n + CONSTANT + TABLE["a"] + len(TABLE["b"])
    z = z * SETTINGS.scale + len(SETTINGS.names) + thing.size + thing.twice
    if hasattr(thing, "extra") or "flag" in FLAGS:
        z = z + 100
    if isinstance(items[0], int):
        z = z + items[0]
    out.append(1)
    return net(f(z)) + items[1].sum()
