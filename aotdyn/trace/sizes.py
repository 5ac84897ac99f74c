"""Sizes that vary: which ones a trace makes symbolic, and what its guards say of them when it ends.

Sizes are constants until they are known to move: an earlier variant failed on
them alone (`known`), the user marked them, or `dynamic=True`. A symbol is made
by the graph's ShapeEnv, which gathers the facts that the program and torch's
operators relied on; they become SHAPE guards. A symbol that the program made a
constant is guarded as one.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from aotdyn.errors import UserError
from aotdyn.graph import build, relations
from aotdyn.graph.build import quiet, version
from aotdyn.guards import tensors
from aotdyn.guards.pure import PURE
from aotdyn.guards.sources import Arg, Pure, Source, SourceTable
from aotdyn.runtime.beforehand import forwards
from aotdyn.runtime.variant import GuardData, Inlined

from .control import LeaveAlone, LookedAt
from .values import Const, Lazy, Scalar, Tensor, Value

SIZED = "torch.empty"
LARGE = 2**24
"""Few sizes are as large, and most addresses are larger."""


@dataclass(frozen=True)
class Policy:
    """Which sizes are symbolic from the start. `known`: dimensions that moved, by source; of an int the empty set."""

    known: Mapping[Source, frozenset[int]] = field(default_factory=dict)
    all: bool = False
    numbers: frozenset[Source] = frozenset()
    "numbers that changed, whatever holds them: see `flows`"
    expected: Callable[[str, str, str], Mapping[str, Mapping[int, Any]]] = lambda module, qualname, digest: {}
    "by function: its arguments' dimensions that vary, with their ranges (none of an int); known before the trace"


STATIC = Policy()


@dataclass
class Input:
    """A tensor of the graph as it was when the trace met it.

    `asked` are dimensions that the user marked, `ranges` those that the user gave.
    """

    source: Source
    real: torch.Tensor
    shape: tuple[Any, ...]
    stride: tuple[Any, ...]
    asked: frozenset[int] = frozenset()
    ranges: dict[int, tuple[int, int]] = field(default_factory=dict)


class Sizes:
    """The sizes of one trace."""

    def __init__(self, t: Any, policy: Policy) -> None:
        self.t = t
        self.policy = policy
        self.inputs: list[Input] = []
        self.numbers: dict[Source, Any] = {}
        "ints that became symbols, by source"
        self._nodes: dict[tuple[int, int], tuple[Any, Any]] = {}
        self._own: dict[Any, tuple[int, str, int]] = {}
        "our symbols for strides that torch expresses by sizes"
        self._pinned: set[Any] = set()
        "symbols that a guard can't express: constants for it"
        self.told: dict[Source, dict[int, Any]] = {
            mark[1]: dict(mark[2]) for mark in t.looked_at if isinstance(mark, tuple) and mark[0] == "told"
        }
        "what is known of inputs as arguments of functions: dimensions and ranges"
        self.handed: dict[tuple[Any, str], Source] = {}
        "arguments of inlined functions that come from outside, by row of `inlined` and name"

    # Made while tracing

    def dims(self, real: torch.Tensor, source: Source) -> tuple[int, ...]:
        """The dimensions of an input to make symbolic. Sizes 0 and 1 stay constants, as everywhere in torch."""
        if real.layout is not torch.strided or real.is_nested:
            return ()
        chosen = set(self.policy.known.get(source, ()))
        if not isinstance(real, torch.nn.Parameter):
            chosen |= marks(real, "_dynamo_dynamic_indices") | marks(real, "_dynamo_weak_dynamic_indices")
            if self.policy.all:
                chosen |= set(range(real.dim()))
            chosen |= {dim % real.dim() for dim in self._within_range(real, source)}
        chosen -= marks(real, "_dynamo_static_indices")
        chosen -= set(self.unbacked(real))
        return tuple(sorted(dim for dim in chosen if dim < real.dim() and real.size(dim) > 1))

    def unbacked(self, real: torch.Tensor) -> tuple[int, ...]:
        """Dimensions that the user wants one graph for, whatever their size is: nothing may be decided by them."""
        if real.layout is not torch.strided or real.is_nested or isinstance(real, torch.nn.Parameter):
            return ()
        asked = marks(real, "_dynamo_unbacked_indices") | marks(real, "_dynamo_strict_unbacked_indices")
        return tuple(sorted(asked - marks(real, "_dynamo_static_indices")))

    def hand(self, function: Inlined, bound: Mapping[str, Value]) -> None:
        """A function is entered with these arguments: what is known of them holds for the inputs that they are."""
        told = self.policy.expected(function.module, function.qualname, function.digest)
        kept = forwards(function.module, function.qualname)
        if not told and not kept:
            return
        for name, value in bound.items():
            if value.source is None or not isinstance(value, (Lazy, Tensor, Scalar)):
                continue
            if kept and issubclass(value.cls, (torch.Tensor, int)) and not issubclass(value.cls, torch.nn.Parameter):
                self.handed[function, name] = value.source
            if name in told:
                self._tell(value, value.source, told[name])

    def _tell(self, value: Value, source: Source, dims: Mapping[int, Any]) -> None:
        """Make dimensions of an input symbols; where they have been constants in this attempt, in the next."""
        known = self.told.get(source)
        if known is not None and dims.keys() <= known.keys():
            return
        self.told[source] = {**dims, **(known or {})}
        loaded = value.value if isinstance(value, Lazy) else value
        if isinstance(loaded, Const) or (isinstance(loaded, Tensor) and self._misses(loaded, dims)):
            mark: Any = ("told", source, tuple(self.told[source].items()))
            raise LookedAt(frozenset({mark}))

    def _misses(self, tensor: Tensor, dims: Iterable[int]) -> bool:
        """Whether a dimension is a constant of this attempt that the next would make a symbol."""
        sizes = tensor.fake.shape
        return any(-len(sizes) <= dim < len(sizes) and type(sizes[dim]) is int and sizes[dim] > 1 for dim in dims)

    def _within_range(self, real: torch.Tensor, source: Source) -> Iterator[int]:
        """Dimensions that are known beforehand to vary, where the size at hand is in the range that was given."""
        for dim, (least, most) in self.told.get(source, {}).items():
            if -real.dim() <= dim < real.dim() and (least or 0) <= real.size(dim) <= (most or real.size(dim)):
                yield dim

    def met(self, source: Source, real: torch.Tensor, fake: Any) -> None:
        """An input was made: its place is the next; ranges that the user gave become facts."""
        asked = frozenset(marks(real, "_dynamo_dynamic_indices"))
        made = Input(source, real, tuple(fake.shape), _strides(fake), asked)
        self.inputs.append(made)
        unbacked = self.unbacked(real)
        for dim, least, most in self._ranges_of(real, source):
            size = made.shape[dim]
            if not isinstance(size, torch.SymInt) or (least, most) == (None, None):
                continue
            where = f"{source}.shape[{dim}]"
            made.ranges[dim] = (0 if least is None else least, sys.maxsize if most is None else most)
            with quiet():
                if dim in unbacked:
                    _check_range(real.size(dim), least, most, where)
                    build.bound(self.t.builder.fake_mode, size, *made.ranges[dim])
                else:
                    _within(size, least, most, where)

    def _ranges_of(self, real: torch.Tensor, source: Source) -> Iterator[tuple[int, int | None, int | None]]:
        """Dimensions with the ranges that the user gave for them, by a mark or in the table."""
        for each in getattr(real, "_dynamo_dynamic_range", None) or ():
            yield each.dim, each.min, each.max
        for dim, (least, most) in (getattr(real, "_dynamo_unbacked_bounds", None) or {}).items():
            yield dim % real.dim(), least, most
        for dim in self._within_range(real, source):
            yield dim % real.dim(), *self.told[source][dim]

    def varies(self, obj: Any, source: Source) -> bool:
        """Whether an int becomes a symbol: it was seen to move, and isn't below 2."""
        if type(obj) is not int or not 1 < obj < 2**62 or self.t.options.specialize_int:
            return False
        moved = source in self.policy.known or source in self.told or (self.policy.all and isinstance(source, Arg))
        return moved or self.is_address(obj, source)

    def is_address(self, obj: Any, source: Source) -> bool:
        """Whether an int is taken for what another process has another of: a large one that a break has left.

        Python gave it: the address of a tensor's data, an `id`, a time in nanoseconds.
        """
        return type(obj) is int and obj >= LARGE and self.t.spec.offset > 0 and isinstance(source, Arg)

    def number(self, obj: int, source: Source) -> Scalar:
        """An int as a symbol: it comes as the size of an empty tensor.

        LeaveAlone where an attempt has made a constant of what another process has another of.
        """
        if ("address", source) in self.t.looked_at:
            raise LeaveAlone(f"{source} is a number of this process alone, and its value decides")
        node, fake = self.carried(SIZED, obj, source, (0,))
        self.numbers[source] = obj
        return Scalar(*self._read(len(self.inputs) - 1, 0, node, fake), source)

    def carried(self, maker: str, obj: Any, source: Source, dynamic: tuple[int, ...] = ()) -> tuple[Any, Any]:
        """Node and fake of an input of the graph that carries a number: the tensor that a pure function makes of it."""
        return self.brought(Pure(maker, source), PURE[maker].function(obj), dynamic)

    def brought(self, carrier: Source, made: torch.Tensor, dynamic: tuple[int, ...] = ()) -> tuple[Any, Any]:
        """Node and fake of an input that the prologue makes, like `made`: nothing of it has to be guarded."""
        t = self.t
        t.wrap(made, carrier)
        t.keep_alive.append(made)
        node, fake = t.builder.placeholder(f"l_{len(t.inputs)}", made, dynamic)
        t.inputs.append(carrier)
        t.input_versions.append((fake, version(fake)))
        self.inputs.append(Input(carrier, made, tuple(fake.shape), _strides(fake)))
        return node, fake

    def of_symbol(self, size: torch.SymInt) -> Value | None:
        """The value of a size that is an input's: read there, once; None for any other."""
        site = self.t.builder.symbols.get(size.node.expr)
        if site is None or site[1] != "size":
            return None
        number, _, dim = site
        node = self.t.builder.placeholders[number]
        return Scalar(*self._read(number, dim, node, node.meta["val"]))

    def _read(self, number: int, dim: int, node: Any, fake: Any) -> tuple[Any, Any]:
        from .torch_ import calls

        found = self._nodes.get((number, dim))
        if found is None:
            found = self._nodes[number, dim] = calls.run(self.t, "size", [calls.Operand(node, fake), dim], {})
        return found

    # Guards

    def metadata(self, source: Source, real: torch.Tensor) -> dict[str, Any]:
        """What a TENSOR guard expects: sizes and strides that still vary are null."""
        facts = tensors.metadata(real)
        for each in self.inputs:
            if each.source is source:
                shape, facts["shape"] = facts["shape"], []
                facts["shape"] = [None if self._free(size) else known for size, known in zip(each.shape, shape)]
                if facts["stride"] is not None:
                    facts["stride"] = [
                        None if self._free(step) else known for step, known in zip(each.stride, facts["stride"])
                    ]
        return facts

    def settle(self) -> None:
        """Before guards are written: what no guard can express becomes constant, and constants are told."""
        for expression in self._facts():
            try:
                relations.text(expression, lambda symbol: str(self._site(symbol)))
            except relations.Inexpressible:
                self._pinned |= expression.free_symbols & self.t.builder.symbols.keys()
        for each, node in zip(self.inputs, self.t.builder.placeholders, strict=True):
            if "dynamic" in node.meta:
                for kind in node.meta.keys() & {"dynamic", "unbacked"}:
                    node.meta[kind] = tuple(dim for dim in node.meta[kind] if self._free(each.shape[dim]))
                ranges = [(dim, *those) for dim, those in sorted(each.ranges.items()) if self._free(each.shape[dim])]
                if ranges:
                    node.meta["ranges"] = tuple(ranges)
            self._check_asked(each)
            number = each.source.base
            if number in self.numbers and isinstance(each.source, Pure):
                if self._free(each.shape[0]):
                    self.t.guard("TYPE", number, int)
                elif self.is_address(self.numbers[number], number):
                    mark: Any = ("address", number)
                    raise LookedAt(frozenset({mark}))
                else:
                    self.t.guard("CONST", number, self.numbers[number])

    def _check_asked(self, each: Input) -> None:
        """UserError where a dimension that the user marked isn't one."""
        for dim in sorted(each.asked):
            if isinstance(each.shape[dim], torch.SymInt) and not self._free(each.shape[dim]):
                place = self._settled(each.shape[dim].node._expr)
                where = f" in line {place[1]} of {place[0]}" if place else ""
                raise UserError(
                    None,
                    f"{each.source}.shape[{dim}] was marked as dynamic, but the code of {self.t.spec.qualname} makes"
                    f" it the constant {each.real.size(dim)}{where}; maybe_mark_dynamic would let it",
                )

    def _settled(self, symbol: Any) -> tuple[str, int] | None:
        """The line that made a constant of a symbol."""
        env = self.t.builder.shape_env
        facts = [guard for guard in env.guards if symbol in guard.expr.free_symbols]
        equal = [guard for guard in facts if type(guard.expr).__name__ == "Equality"]
        return self.t.builder.asked.get(id((equal or facts)[-1])) if facts else None

    def guards(self, table: SourceTable) -> Iterator[tuple[GuardData, tuple[str, int] | None]]:
        """SHAPE guards, each fact once, with the line that asked."""
        seen: set[str] = set()
        for expression in self._facts():
            names: dict[Any, str] = {}
            written = relations.text(expression, functools.partial(relations.name_of, names))
            where = {name: self._place(symbol, table) for symbol, name in names.items()}
            mark = f"{written} {where}"
            if where and mark not in seen:
                seen.add(mark)
                expected: dict[str, Any] = {"expr": written, "names": where}
                if all(map(self.t.builder.shape_env.is_unbacked_symint, expression.free_symbols)):
                    expected["assumed"] = True
                yield GuardData(-1, "SHAPE", expected), self._asked(expression)

    def _asked(self, expression: Any) -> tuple[str, int] | None:
        """The line that asked for a fact; of a range, the last that narrowed it; None where sizes alone say it."""
        env, places = self.t.builder.shape_env, self.t.builder.asked
        for guard in env.guards:
            if expression in (guard.expr, self._fixed(guard.expr)):
                return places.get(id(guard))
        if expression.is_Relational and expression.args[1] == 2:
            return None
        for guard in reversed(env.guards):
            if guard.expr.is_Relational and expression.free_symbols == guard.expr.free_symbols:
                return places.get(id(guard))
        return None

    def moving(self, table: SourceTable) -> list[tuple[int, list[int]]]:
        """What to make symbolic the next time, as rows of the variant."""
        found = dict(self.policy.known)
        return [(table.add(source), sorted(dims)) for source, dims in found.items()]

    def _facts(self) -> Iterator[Any]:
        """What holds of the symbols: their ranges, strides made of sizes, equal symbols, what was asked of them."""
        import sympy

        env = self.t.builder.shape_env
        if env is None or not self.t.builder.symbols:
            return
        with quiet():
            yield from self._ranges(env)
            for number, each in enumerate(self.inputs):
                for dim, step in enumerate(each.stride):
                    if self._free(step) and self.t.builder.symbols.get(step.node.expr) != (number, "stride", dim):
                        own = self._symbol(number, "stride", dim)
                        yield sympy.Eq(own, self._fixed(step.node.expr), evaluate=False)
            for symbol, expression in env.replacements.items():
                value = self._fixed(expression)
                if self._constant(symbol) is None and symbol in self.t.builder.symbols:
                    yield sympy.Eq(symbol, value, evaluate=False)
            for guard in env.guards:
                expression = self._fixed(guard.expr)
                if not self._implied(env, expression):
                    yield expression

    def _ranges(self, env: Any) -> Iterator[Any]:
        import sympy
        from torch.utils._sympy.numbers import int_oo

        for symbol, (_, what, _) in self.t.builder.symbols.items():
            if what == "offset" or self._constant(symbol) is not None:
                continue
            bounds = env.var_to_range[symbol]
            if bounds.lower not in (-int_oo, -sympy.oo):
                yield sympy.Ge(symbol, bounds.lower, evaluate=False)
            if bounds.upper not in (int_oo, sympy.oo):
                yield sympy.Le(symbol, bounds.upper, evaluate=False)

    def _implied(self, env: Any, expression: Any) -> bool:
        """Whether the ranges alone say so."""
        from torch.utils._sympy.value_ranges import bound_sympy

        if expression.is_Boolean and not expression.free_symbols:
            return bool(expression)
        if not expression.free_symbols <= env.var_to_range.keys():
            return False
        bounds = bound_sympy(expression, env.var_to_range)
        return bounds.is_singleton() and bool(bounds.lower)

    def _fixed(self, expression: Any) -> Any:
        """The expression with constants for symbols that are."""
        known = {symbol: self._constant(symbol) for symbol in expression.free_symbols}
        return expression.xreplace({symbol: value for symbol, value in known.items() if value is not None})

    def _constant(self, symbol: Any) -> Any:
        """The number that a symbol of an input has become, None while it varies."""
        import sympy

        if symbol in self._pinned:
            number, what, dim = self.t.builder.symbols[symbol]
            real = self.inputs[number].real
            return sympy.Integer(real.storage_offset() if what == "offset" else getattr(real, what)(dim))
        env = self.t.builder.shape_env
        value = env.replace(symbol)
        return value if value.is_number else None

    def _free(self, size: Any) -> bool:
        """Whether a size or stride of an input varies in this variant."""
        if not isinstance(size, torch.SymInt):
            return False
        return bool(self._fixed(self.t.builder.shape_env.replace(size.node.expr)).free_symbols)

    def _symbol(self, number: int, what: str, dim: int) -> Any:
        """A symbol that stands for a stride which torch expresses by sizes."""
        import sympy

        symbol = sympy.Symbol(f"{what}_{number}_{dim}", integer=True)
        self._own[symbol] = (number, what, dim)
        return symbol

    def _site(self, symbol: Any) -> tuple[int, str, int]:
        found = self.t.builder.symbols.get(symbol) or self._own.get(symbol)
        if found is None or found[1] == "offset":
            raise relations.Inexpressible(f"{symbol} is no size of an input")
        return found

    def _place(self, symbol: Any, table: SourceTable) -> list[Any]:
        number, what, dim = self._site(symbol)
        source = self.inputs[number].source
        if isinstance(source, Pure) and source.key == SIZED:
            return [table.add(source.bases[0]), "int", 0]
        return [table.add(source), what, dim]


def marks(tensor: torch.Tensor, attribute: str) -> set[int]:
    """Dimensions that `mark_dynamic` and its kin noted on a tensor."""
    return {dim % tensor.dim() for dim in getattr(tensor, attribute, None) or () if tensor.dim()}


def _strides(fake: torch.Tensor) -> tuple[Any, ...]:
    return tuple(fake.stride()) if fake.layout is torch.strided else ()


def _within(size: torch.SymInt, least: int | None, most: int | None, where: str) -> None:
    """Make a range a fact of the size; UserError where the size at hand is outside."""
    _check_range(size, least, most, where)


def _check_range(size: Any, least: int | None, most: int | None, where: str) -> None:
    if (least is not None and not size >= least) or (most is not None and not size <= most):
        raise UserError(None, f"{where} was marked to lie in [{least}, {most}] and doesn't")
