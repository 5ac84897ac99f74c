"""Facts of the sizes that a compiler relied on beyond the graph's guards: conditions on the compiled code.

They are relations over sizes and strides of the inputs, kept with a kernel as
data. Inputs that don't meet them get code of their own.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import torch

from aotdyn.guards import shapes

if TYPE_CHECKING:
    from torch._subclasses.fake_tensor import FakeTensorMode

Place = tuple[int, str, int]
"""Number of an input, `size` or `stride`, dimension."""


class Condition(msgspec.Struct, frozen=True, array_like=True):
    """A relation, and what its names stand for."""

    expr: str
    names: dict[str, Place]

    def holds(self, inputs: Sequence[torch.Tensor]) -> bool:
        """Whether inputs meet it."""
        return bool(_evaluate(self.expr, self.names, inputs))


class Size(msgspec.Struct, frozen=True, array_like=True):
    """A number that sizes and strides give, and what the names in it stand for."""

    expr: str
    names: dict[str, Place]

    def check(self) -> None:
        """Raise ValueError for what isn't made of sizes."""
        _check(self.expr, self.names)

    def value(self, inputs: Sequence[torch.Tensor]) -> int:
        """The number for these inputs."""
        return _evaluate(self.expr, self.names, inputs)


def _evaluate(expr: str, names: dict[str, Place], inputs: Sequence[torch.Tensor]) -> Any:
    found = {name: getattr(inputs[number], what)(dim) for name, (number, what, dim) in names.items()}
    return shapes.evaluate(expr, found)


class Inexpressible(Exception):
    """A fact that isn't one of the inputs' sizes and strides alone."""


def conditions(mode: FakeTensorMode, fakes: Sequence[Any], known: frozenset[str]) -> list[Condition]:
    """The facts that a fake mode has gathered but those `known`, as text; Inexpressible where one can't be checked."""
    import sympy

    places = _places(fakes)
    env = mode.shape_env
    assert env is not None
    found = [guard.expr for guard in env.guards if str(guard.expr) not in known]
    for symbol, value in replacements(env):
        if f"{symbol} is {value}" not in known:
            found.append(sympy.Eq(symbol, value, evaluate=False))
    return [Condition(*_text(expression, places)) for expression in found]


def sizes(values: Sequence[torch.SymInt], fakes: Sequence[Any]) -> list[Size]:
    """Numbers of a trace as sizes of its fake inputs; Inexpressible where one isn't made of these."""
    places = _places(fakes)
    return [Size(*_text(value.node.expr, places)) for value in values]


def _text(expression: Any, places: dict[Any, Place]) -> tuple[str, dict[str, Place]]:
    from aotdyn.graph import relations

    names: dict[Any, str] = {}
    try:
        text = relations.text(expression, functools.partial(relations.name_of, names))
        return text, {name: places[symbol] for symbol, name in names.items()}
    except (relations.Inexpressible, KeyError) as error:
        raise Inexpressible(str(expression)) from error


def replacements(env: Any) -> list[tuple[Any, Any]]:
    """Symbols of sizes that are others'; not numbers of data that got a new name when the graph was traced again."""
    return [
        (symbol, value) for symbol, value in env.replacements.items() if env.unbacked_renamings.get(symbol) != value
    ]


def _places(fakes: Sequence[Any]) -> dict[Any, Place]:
    places: dict[Any, Place] = {}
    for number, fake in enumerate(fakes):
        for what, values in (("size", fake.shape), ("stride", fake.stride())):
            for dim, value in enumerate(values):
                if isinstance(value, torch.SymInt) and value.node.expr.is_symbol:
                    places.setdefault(value.node.expr, (number, what, dim))
    return places


def conditional(
    compiled: Callable[..., Any], conditions: Sequence[Condition], otherwise: Callable[[], Callable[..., Any]]
) -> Callable[..., Any]:
    """`compiled` for inputs that meet all conditions, what `otherwise` makes (once) for others."""
    if not conditions:
        return compiled
    other: list[Callable[..., Any]] = []

    def call(*inputs: torch.Tensor) -> Any:
        if all(condition.holds(inputs) for condition in conditions):
            return compiled(*inputs)
        if not other:
            other.append(otherwise())
        return other[0](*inputs)

    return call


def encode(conditions: Sequence[Condition]) -> bytes:
    """Conditions as data."""
    return msgspec.msgpack.encode(list(conditions))


def decode(data: bytes) -> list[Condition]:
    """Conditions from data; ValueError where it isn't."""
    found = msgspec.msgpack.decode(data, type=list[Condition])
    for condition in found:
        _check(condition.expr, condition.names)
    return found


def _check(expr: str, names: dict[str, Place]) -> None:
    shapes.parse(expr)
    if any(what not in ("size", "stride") for _, what, _ in names.values()):
        raise ValueError("a condition on something else than sizes")
