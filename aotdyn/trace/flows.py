"""Numbers that only flow back to where they came from: `self.n += 1` without a variant for each value of `n`.

A number whose guard failed once comes into the next trace as a Flow: its type
is guarded, its value isn't. Arithmetic with it makes Flows, which the epilogue
computes from what it finds. Whoever looks at the value of one ends the
attempt; the next takes that number as any other.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy
import torch

from aotdyn.graph import effects
from aotdyn.guards.constants import NUMBERS
from aotdyn.guards.sources import Known, Pure

from .control import LookedAt
from .symbols import FUNCTIONS
from .values import Const, Sequence

if TYPE_CHECKING:
    from aotdyn.guards.sources import Source

    from .values import Tensor, Value

TOTAL = ("+", "-", "*")
"""Operators that take every number."""
MOST = 1024
"""Numbers of a tensor that may flow, each by itself."""
DIVIDING = ("/", "//", "%")
"""Operators that take every number but 0 on their right."""


class Flow(Const):
    """An int or float whose value nobody looks at: one from outside, or `left symbol right`."""

    __slots__ = ("operands", "real", "symbol")

    def __init__(self, real: Any, source: Source | None, symbol: str = "", operands: tuple[Const, ...] = ()) -> None:
        self.real = real
        self.symbol = symbol
        self.operands = operands
        self.source = source
        self.born = 0

    @property
    def cls(self) -> type:  # type: ignore[override]
        return type(self.real)

    @property
    def value(self) -> Any:  # type: ignore[override]
        raise LookedAt(frozenset(self.roots()))

    def roots(self) -> Iterator[Source]:
        """Where the numbers that it is made of come from."""
        if self.source is not None:
            yield self.source
        for operand in self.operands:
            if isinstance(operand, Flow):
                yield from operand.roots()

    def __repr__(self) -> str:
        return f"Flow({self.source or self.symbol})"


class Data(Flow):
    """A number that a tensor holds, at `path` of its `tolist()`; `mark` names the operation that asked for it.

    The epilogue reads it, behind the graph: the tensor must be as it was.
    """

    __slots__ = ("mark", "path", "tensor", "version")

    def __init__(self, tensor: Tensor, path: tuple[int, ...], mark: Any) -> None:
        super().__init__(_like(tensor), None)
        self.tensor, self.path, self.mark = tensor, path, mark
        self.version = tensor.fake._version

    def roots(self) -> Iterator[Any]:
        """The operation that asked for it."""
        yield self.mark

    def current(self) -> None:
        """Ends the attempt where the tensor has been written to since."""
        if self.tensor.fake._version != self.version:
            raise LookedAt(frozenset((self.mark,)))

    def __repr__(self) -> str:
        return f"Data({self.tensor}, {self.path})"


class Drawn(Flow):
    """A random number: `drawn` is where the prologue, behind all guards, draws it; `mark` names the operation."""

    __slots__ = ("_floated", "drawn", "mark")

    def __init__(self, real: Any, drawn: Source, mark: Any) -> None:
        super().__init__(real, None)
        self.drawn, self.mark = drawn, mark
        self._floated: Drawn | None = None

    def floated(self) -> Drawn:
        """`float(self)`."""
        if self._floated is None:
            self._floated = Drawn(float(self.real), Pure("float", self.drawn), self.mark)
        return self._floated

    def roots(self) -> Iterator[Any]:
        """The operation that drew it."""
        yield self.mark

    def __repr__(self) -> str:
        return f"Drawn({self.drawn})"


class Text(Flow):
    """Text with numbers in it that nobody looks at: parts are known text, or `(number, conversion, spec)`."""

    __slots__ = ("parts",)

    def __init__(self, parts: tuple[Any, ...]) -> None:
        numbers = tuple(part[0] for part in parts if not isinstance(part, str))
        super().__init__("", None, "text", numbers)
        self.parts = parts

    def __repr__(self) -> str:
        return f"Text({self.parts})"


def text(v: Value, conversion: str = "", spec: str = "") -> Text | None:
    """`format(v, spec)` of a Flow, after a conversion `s`, `r` or `a`; None for other values, and what may raise."""
    if not isinstance(v, Flow):
        return None
    if isinstance(v, Text):
        return v if not spec and conversion in ("", "s") else None
    try:
        converted = f"{v.real!r}" if conversion else v.real
        format(converted, spec)
    except ValueError:
        return None
    return None if spec.endswith("c") else Text(((v, conversion, spec),))


def joined(parts: list[Value]) -> Text | None:
    """Text of several parts, one of which flows; None where a part is something else, or none flows."""
    found: list[Any] = []
    for part in parts:
        if isinstance(part, Text):
            found.extend(part.parts)
        elif isinstance(part, Flow) or not isinstance(part, Const) or type(part.value) is not str:
            return None
        else:
            found.append(part.value)
    return Text(tuple(found)) if any(not isinstance(part, str) for part in found) else None


def of_data(value: Const) -> bool:
    """Whether a number is one of data, or computed of such."""
    return isinstance(value, Data) or (isinstance(value, Flow) and any(map(of_data, value.operands)))


def _like(tensor: Tensor) -> Any:
    """Some number of the class that the tensor's numbers have."""
    dtype = tensor.fake.dtype
    return 1j if dtype.is_complex else 1.0 if dtype.is_floating_point else True if dtype is torch.bool else 1


def data(t: Any, tensor: Tensor) -> Value | None:
    """`tensor.tolist()` as numbers that nobody looks at; None where somebody did, or where they can't be told apart."""
    fake, mark = tensor.fake, ("data", t.position)
    tensor = tensor.attrs.get("data") or tensor  # type: ignore[assignment]
    plain = fake.layout is torch.strided and fake.device.type != "meta" and not fake.is_inference()
    sizes = [size if isinstance(size, int) else None for size in fake.shape]
    if mark in t.looked_at or not plain or None in sizes or fake.numel() > MOST or effects.batching_level():
        return None

    def made(path: tuple[int, ...]) -> Value:
        if len(path) == len(sizes):
            return Data(tensor, path, mark)
        return Sequence(list, [made((*path, i)) for i in range(sizes[len(path)] or 0)])

    return made(())


def flows(t: Any, obj: Any, source: Source) -> bool:
    """Whether a number from outside is taken as a Flow."""
    varies = source in t.sizes.policy.numbers or t.sizes.is_address(obj, source)
    return type(obj) in NUMBERS and varies and source not in t.looked_at


def arithmetic(t: Any, symbol: str, a: Value, b: Value) -> Flow | None:
    """`a symbol b` where one of them is a Flow and the other a number; None where it isn't such, or could raise."""
    if not isinstance(a, Const) or not isinstance(b, Const) or not (isinstance(a, Flow) or isinstance(b, Flow)):
        return None
    if a.cls not in NUMBERS or b.cls not in NUMBERS:
        return None
    left, right = _real(a), _real(b)
    if symbol in TOTAL or (symbol in DIVIDING and right != 0 and (not isinstance(b, Flow) or b.source is not None)):
        if symbol in DIVIDING and isinstance(b, Flow):
            truth(t, b)
        try:
            with numpy.errstate(all="raise"):
                return Flow(FUNCTIONS[symbol](left, right), None, symbol, (a, b))
        except ArithmeticError:
            return None
    return None


def negated(a: Value) -> Flow | None:
    """`-a` of a Flow; None for anything else."""
    if isinstance(a, Flow) and a.cls in NUMBERS:
        return Flow(-a.real, None, "*", (a, Const(-1)))
    return None


def compared(t: Any, symbol: str, function: Any, a: Const, b: Const) -> Const | None:
    """A rich comparison of a Flow from outside and a known number: what holds is guarded, not the number.

    Of numbers of data, what comes of it flows as well. None for others.
    """
    if of_data(a) or of_data(b):
        numbers = all(each.cls in (bool, int, float) for each in (a, b))
        return Flow(True, None, symbol, (a, b)) if numbers else None
    flow, known = (a, b) if isinstance(a, Flow) else (b, a)
    if not isinstance(flow, Flow) or flow.source is None or isinstance(known, Flow) or known.cls not in NUMBERS:
        return None
    result = function(_real(a), _real(b))
    sides: list[Any] = [each.source if isinstance(each, Flow) else Known(each.value) for each in (a, b)]
    t.guard("CONST", Pure(f"operator.{function.__name__}", *sides), result)
    return Const(result)


def truth(t: Any, flow: Flow) -> bool:
    """Whether a Flow isn't 0, which is guarded; LookedAt for one that was computed."""
    if flow.source is None:
        return bool(flow.value)
    t.guard("CONST", Pure("bool", flow.source), bool(flow.real))
    return bool(flow.real)


def _real(v: Const) -> Any:
    return v.real if isinstance(v, Flow) else v.value
