"""Classes that programs of builtins use, and what two runs of one gave, compared."""

# ruff: noqa: UP008
# (the long ways of writing are what is tested)

from __future__ import annotations

import collections
import dataclasses
import enum
import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from aotdyn import api

X = torch.arange(6.0).reshape(2, 3)


def assert_same(a: Any, b: Any) -> None:
    """Equal in type, structure and value; tensors exactly."""
    if isinstance(a, type(itertools.count())) or hasattr(a, "__next__"):
        assert type(a) is type(b)
        a, b = list(a), list(b)
    assert type(a) is type(b), (a, b)
    if isinstance(a, torch.Tensor):
        torch.testing.assert_close(a, b, rtol=0, atol=0)
    elif isinstance(a, (list, tuple, collections.deque)):
        assert len(a) == len(b), (a, b)
        for x, y in zip(a, b, strict=True):
            assert_same(x, y)
    elif isinstance(a, dict):
        assert list(a) == list(b)
        for key in a:
            assert_same(a[key], b[key])
    else:
        assert a == b or (a != a and b != b), (a, b)


def raises(f: Callable[[], Any]) -> tuple[type, str]:
    """The class and message of what `f` raises (traced into, too)."""
    try:
        f()
    except Exception as error:
        return type(error), str(error)
    return type(None), ""


class Color(enum.Enum):
    RED = 1
    BLUE = 2


class Perm(enum.Flag):
    R = 1
    W = 2


class Point(NamedTuple):
    x: Any
    y: Any


@dataclasses.dataclass(frozen=True)
class Frozen:
    a: Any
    b: int = 2


@dataclasses.dataclass
class Plain:
    a: Any
    items: list = dataclasses.field(default_factory=list)


class Number:
    def __init__(self, value: int) -> None:
        self.value = value

    def __int__(self) -> int:
        return self.value

    def __float__(self) -> float:
        return float(self.value)

    def __index__(self) -> int:
        return self.value

    def __abs__(self) -> Number:
        return Number(abs(self.value))

    def __round__(self, digits: int = 0) -> int:
        return self.value + digits

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Number) and self.value == other.value

    def __lt__(self, other: Number) -> bool:
        return self.value < other.value

    def __hash__(self) -> int:
        return self.value

    def __str__(self) -> str:
        return f"N{self.value}"

    def __repr__(self) -> str:
        return f"Number({self.value})"

    def __len__(self) -> int:
        return self.value

    def __call__(self) -> int:
        self.value += 1
        return self.value


class Base:
    def __init__(self, scale: float) -> None:
        self.scale = scale

    def run(self, x: Any) -> Any:
        return x * self.scale

    @classmethod
    def make(cls, x: float) -> Base:
        return cls(x)


class Child(Base):
    def __init__(self, scale: float) -> None:
        super().__init__(scale + 1)

    def run(self, x: Any) -> Any:
        return super().run(x) + super(Child, self).run(x)

    @classmethod
    def make(cls, x: float) -> Base:
        return super().make(x * 2)

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)


class MyList(list):
    def total(self) -> Any:
        return sum(self)

    def append(self, item: Any) -> None:
        super().append(item * 2)


class MyDict(dict):
    def __missing__(self, key: Any) -> Any:
        return key * 2


def assert_compiles_whole(program: Callable[[torch.Tensor], Any]) -> None:
    """A program is one graph, and gives what it gives plainly, at its first call and at the next."""
    compiled = api.compile(program, backend="eager", fullgraph=True)
    for _ in range(2):
        assert_same(program(X.clone()), compiled(X.clone()))
