"""Sources: how an object is reached from the frame.

A source is immutable and hash-consed: two equal sources are one object, so
that `is` compares them. It knows how to read its object (`read`), how a
prologue reads it (`expr`), how it is stored (`SourceData`) and how the user
would write it (`str`).
"""

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Callable, Iterable
from typing import Any

from aotdyn.guards import constants
from aotdyn.guards.base import Env, Scope, Source
from aotdyn.guards.reads import class_attribute, dict_key, raw_getter
from aotdyn.runtime.variant import SourceData


class Arg(Source):
    """The `index`-th argument of the dispatcher; `name` is what the user calls it."""

    __slots__ = ()
    kind = "arg"

    def __new__(cls, index: int, name: str = "") -> Arg:
        return cls._make((), (index, name))

    @property
    def index(self) -> int:
        return self.key[0]

    @property
    def name(self) -> str:
        return self.key[1]

    def _read(self, env: Env) -> Any:
        return env.args[self.index]

    def expr(self, scope: Scope) -> ast.expr:
        return scope.arg(self.index)

    def _encode_key(self) -> Any:
        return list(self.key)

    @classmethod
    def _decode(cls, bases: tuple[Source, ...], data: Any) -> Source:
        return cls(*data)

    def __str__(self) -> str:
        return self.name or f"argument {self.index}"


class Globals(Source):
    """The globals dict of a module by name; of the entry's own frame for ""."""

    __slots__ = ()
    kind = "globals"

    def __new__(cls, module: str = "") -> Globals:
        return cls._make((), module)

    def _read(self, env: Env) -> Any:
        return vars(sys.modules[self.key]) if self.key else env.globals

    def expr(self, scope: Scope) -> ast.expr:
        return scope.pool("globals", self.key)

    def __str__(self) -> str:
        return f"vars({self.key})" if self.key else "globals()"


class Module(Source):
    """`sys.modules[name]`. One of ours, which holds a polyfill that the trace went into, is imported if need be."""

    __slots__ = ()
    kind = "module"

    def __new__(cls, name: str) -> Module:
        return cls._make((), name)

    def _read(self, env: Env) -> Any:
        if self.key not in sys.modules and self.key.startswith("aotdyn."):
            return importlib.import_module(self.key)
        return sys.modules[self.key]

    def expr(self, scope: Scope) -> ast.expr:
        return _subscript(scope.pool("modules"), ast.Constant(self.key))

    def __str__(self) -> str:
        return self.key


class Attr(Source):
    """`base.name` by plain getattr; the tracer has seen that no Python code runs."""

    __slots__ = ()
    kind = "attr"

    def __new__(cls, base: Source, name: str) -> Attr:
        return cls._make((base,), name)

    def _read(self, env: Env) -> Any:
        return getattr(env.read(self.bases[0]), self.key)

    def expr(self, scope: Scope) -> ast.expr:
        return ast.Attribute(scope.value(self.bases[0]), self.key, ast.Load())

    def __str__(self) -> str:
        return f"{self.base}.{self.key}"


class _ByConstant(Source):
    """A step whose key is a constant."""

    __slots__ = ()

    def _encode_key(self) -> Any:
        return constants.encode(self.key)

    @classmethod
    def _decode(cls, bases: tuple[Source, ...], data: Any) -> Source:
        return cls._make(bases, constants.decode(data))


class _Keyed(_ByConstant):
    """A step by a constant key."""

    __slots__ = ()

    def __new__(cls, base: Source, key: Any) -> Any:
        return cls._make((base,), key)

    def __str__(self) -> str:
        return _item_text(self.bases[0], self.key)


class Item(_Keyed):
    """`base[key]` of an exact dict, list or tuple (or another builtin container); `key` is a constant."""

    __slots__ = ()
    kind = "item"

    def _read(self, env: Env) -> Any:
        return env.read(self.bases[0])[self.key]

    def expr(self, scope: Scope) -> ast.expr:
        return _subscript(scope.value(self.bases[0]), constant_expr(scope, self.key))


class RawItem(_Keyed):
    """Item of a subclass of dict, list or tuple by the builtin's own `__getitem__`."""

    __slots__ = ()
    kind = "rawitem"

    def _read(self, env: Env) -> Any:
        base = env.read(self.bases[0])
        return raw_getter(base)(base, self.key)

    def expr(self, scope: Scope) -> ast.expr:
        getter = scope.pool("raw_getter", scope.index(self.bases[0]))
        return ast.Call(getter, [scope.value(self.bases[0]), constant_expr(scope, self.key)], [])


class Cell(Source):
    """`base.cell_contents`."""

    __slots__ = ()
    kind = "cell"

    def __new__(cls, base: Source) -> Cell:
        return cls._make((base,))

    def _read(self, env: Env) -> Any:
        return env.read(self.bases[0]).cell_contents

    def expr(self, scope: Scope) -> ast.expr:
        return ast.Attribute(scope.value(self.bases[0]), "cell_contents", ast.Load())

    def __str__(self) -> str:
        return str(self.base) if isinstance(self.base, Arg) else f"{self.base}.cell_contents"


class TypeOf(Source):
    """`type(base)`."""

    __slots__ = ()
    kind = "type"

    def __new__(cls, base: Source) -> TypeOf:
        return cls._make((base,))

    def _read(self, env: Env) -> Any:
        return type(env.read(self.bases[0]))

    def expr(self, scope: Scope) -> ast.expr:
        return ast.Call(scope.pool("object", "builtins", "type"), [scope.value(self.bases[0])], [])

    def __str__(self) -> str:
        return f"type({self.base})"


class ClassAttr(Source):
    """What the MRO of the class at `base` holds under `name`, no descriptor bound (`_PyType_Lookup`)."""

    __slots__ = ()
    kind = "classattr"

    def __new__(cls, base: Source, name: str) -> ClassAttr:
        return cls._make((base,), name)

    def _read(self, env: Env) -> Any:
        return class_attribute(env.read(self.bases[0]), self.key)

    def expr(self, scope: Scope) -> ast.expr:
        lookup = scope.pool("helper", "class_attribute")
        return ast.Call(lookup, [scope.value(self.bases[0]), ast.Constant(self.key)], [])

    def __str__(self) -> str:
        return f"{self.base}.{self.key}"


class Key(Source):
    """The `i`-th key of the dict at `base`."""

    __slots__ = ()
    kind = "key"

    def __new__(cls, base: Source, i: int) -> Key:
        return cls._make((base,), i)

    def _read(self, env: Env) -> Any:
        return dict_key(env.read(self.bases[0]), self.key)

    def expr(self, scope: Scope) -> ast.expr:
        return ast.Call(scope.pool("helper", "dict_key"), [scope.value(self.bases[0]), ast.Constant(self.key)], [])

    def __str__(self) -> str:
        return f"list({self.base})[{self.key}]"


class Pure(Source):
    """Call of the pure accessor `function` (a name in `guards.pure.PURE`) on the objects at `bases`."""

    __slots__ = ()
    kind = "pure"

    def __new__(cls, function: str, *bases: Source) -> Pure:
        accessor(function)
        return cls._make(bases, function)

    def _read(self, env: Env) -> Any:
        return accessor(self.key)(*(env.read(base) for base in self.bases))

    def expr(self, scope: Scope) -> ast.expr:
        return ast.Call(scope.pool("pure", self.key), [scope.value(base) for base in self.bases], [])

    @classmethod
    def _decode(cls, bases: tuple[Source, ...], data: Any) -> Source:
        return cls(data, *bases)

    def __str__(self) -> str:
        return f"{self.key}({', '.join(map(str, self.bases))})"


def accessor(name: str) -> Callable[..., Any]:
    """The pure accessor of this name. The table loads with the first source or recipe that names one.

    Raises:
        LookupError: there is none.
    """
    from aotdyn.guards.pure import PURE

    if name not in PURE:
        raise LookupError(f"{name} is no pure accessor")
    return PURE[name].function


class Local(Source):
    """An object of this process alone, `variant.locals[i]`; `note` says what it is."""

    __slots__ = ()
    kind = "local"

    def __new__(cls, i: int, note: str = "") -> Local:
        return cls._make((), (i, note))

    def _read(self, env: Env) -> Any:
        return env.locals[self.key[0]]

    def expr(self, scope: Scope) -> ast.expr:
        return scope.pool("local", self.key[0])

    def _encode_key(self) -> Any:
        return list(self.key)

    @classmethod
    def _decode(cls, bases: tuple[Source, ...], data: Any) -> Source:
        return cls(*data)

    def __str__(self) -> str:
        return self.key[1] or f"local object {self.key[0]}"


class Known(Source):
    """A constant, as an argument of a pure accessor."""

    __slots__ = ()
    kind = "known"

    def __new__(cls, value: Any) -> Known:
        return cls._make((), value)

    def _read(self, env: Env) -> Any:
        return self.key

    def expr(self, scope: Scope) -> ast.expr:
        return constant_expr(scope, self.key)

    def _encode_key(self) -> Any:
        return constants.encode(self.key)

    @classmethod
    def _decode(cls, bases: tuple[Source, ...], data: Any) -> Source:
        return cls(constants.decode(data))

    def __str__(self) -> str:
        return repr(self.key)


class Drawn(Source):
    """The `number`-th thing that a call does with random generators, once, behind the guards.

    It is the value of `base.name(*others, *args, **named, **by_name)`, of `base(...)` where there is no name: a number,
    array or tensor that is drawn, a generator that is made, its state. To look at it while nothing is drawn gives
    `sample`, something like it; of an array `("array", shape, dtype)`, and so of a tensor.
    """

    __slots__ = ()
    kind = "drawn"

    def __new__(
        cls,
        base: Source,
        number: int,
        name: str,
        args: tuple[Any, ...],
        sample: Any = None,
        named: tuple[tuple[str, Any], ...] = (),
        others: tuple[Source, ...] = (),
        by_name: tuple[tuple[str, Source], ...] = (),
    ) -> Drawn:
        names = tuple(key for key, _ in by_name)
        bases = (base, *others, *(other for _, other in by_name))
        return cls._make(bases, (number, name, args, sample, named, names))

    @property
    def late(self) -> bool:
        return True

    def _read(self, env: Env) -> Any:
        sample = self.key[3]
        if not isinstance(sample, tuple):
            return sample
        if sample[0] == "array":
            import numpy

            return numpy.zeros(sample[1], sample[2])
        import torch

        with torch._C.DisableTorchFunction():
            return torch.zeros(sample[1], dtype=sample[2], device="cpu")

    def expr(self, scope: Scope) -> ast.expr:
        _, name, args, _, named, _ = self.key
        called = scope.value(self.bases[0])
        if name:
            called = ast.Attribute(called, name, ast.Load())
        others, by_name = self._others()
        given = [scope.value(other) for other in others] + [constant_expr(scope, arg) for arg in args]
        words = [ast.keyword(key, constant_expr(scope, arg)) for key, arg in named]
        return ast.Call(called, given, words + [ast.keyword(key, scope.value(other)) for key, other in by_name])

    def _others(self) -> tuple[tuple[Source, ...], list[tuple[str, Source]]]:
        """The sources that are arguments: by position, by name."""
        names = self.key[5]
        end = len(self.bases) - len(names)
        return self.bases[1:end], list(zip(names, self.bases[end:], strict=True))

    def _encode_key(self) -> Any:
        return constants.encode(self.key)

    @classmethod
    def _decode(cls, bases: tuple[Source, ...], data: Any) -> Source:
        return cls._make(bases, constants.decode(data))

    def __str__(self) -> str:
        _, name, args, _, named, _ = self.key
        others, by_name = self._others()
        given = [*map(str, others), *map(repr, args), *(f"{key}={arg!r}" for key, arg in named)]
        given += [f"{key}={other}" for key, other in by_name]
        return f"{self.base}{name and '.'}{name}({', '.join(given)})"


KINDS: dict[str, type[Source]] = {
    kind.kind: kind
    for kind in (Arg, Globals, Module, Attr, Item, RawItem, Cell, TypeOf, ClassAttr, Key, Pure, Local, Known, Drawn)
}

SEVERAL = (Pure, Drawn)
"""Kinds of source that may have several bases: what is stored of them holds all."""


class SourceTable:
    """A variant's sources in topological order, made row by row while tracing.

    `add` gives a source's index; bases are added before it. `rows` is the data to store.
    """

    def __init__(self) -> None:
        self.rows: list[SourceData] = []
        self.sources: list[Source] = []
        self._index: dict[Source, int] = {}

    def __contains__(self, source: Source) -> bool:
        return source in self._index

    def add(self, source: Source) -> int:
        """Index of `source`, with a new row (and rows for its bases) where it has none."""
        index = self._index.get(source)
        if index is not None:
            return index
        bases = [self.add(base) for base in source.bases]
        key = source._encode_key()
        if isinstance(source, SEVERAL):
            row = SourceData(source.kind, bases[0] if bases else -1, [key, bases])
        else:
            row = SourceData(source.kind, bases[0] if bases else -1, key)
        self.rows.append(row)
        self.sources.append(source)
        index = self._index[source] = len(self.rows) - 1
        return index


def encode_sources(sources: Iterable[Source]) -> list[SourceData]:
    """Rows of a table that holds `sources` and all their bases, bases first (SourceTable gives the indices)."""
    table = SourceTable()
    for source in sources:
        table.add(source)
    return table.rows


def decode_sources(rows: Iterable[SourceData]) -> list[Source]:
    """The sources of a table's rows, in order; LookupError where a named constant is missing."""
    sources: list[Source] = []
    for row in rows:
        kind, key, base = KINDS[row.kind], row.key, row.base
        if kind in SEVERAL:
            key, several = key
            bases = tuple([sources[each] for each in several])
        else:
            bases = (sources[base],) if base >= 0 else ()
        sources.append(kind._decode(bases, key))
    return sources


def constant_expr(scope: Scope, value: Any) -> ast.expr:
    """A literal for simple constants, a pool cell for others."""
    if value is None or type(value) in (bool, int, str):
        return ast.Constant(value)
    return scope.pool("const", constants.encode(value))


def _subscript(value: ast.expr, key: ast.expr) -> ast.expr:
    return ast.Subscript(value, key, ast.Load())


def words(source: Source, env: Env) -> str:
    """A source as the user would write it; a cell by the name that it has in the function, where that can be read."""
    names: dict[str, str] = {}
    waiting = [source]
    while waiting:
        each = waiting.pop()
        name = _cell_name(each, env)
        if name is not None:
            names[str(each)] = name
        else:
            waiting.extend(each.bases)
    text = str(source)
    for written, name in names.items():
        text = text.replace(written, name)
    return text


def _cell_name(source: Source, env: Env) -> str | None:
    """The variable that a cell of a function's closure is; None for what isn't one."""
    item = source.base if isinstance(source, Cell) else None
    closure = item.base if isinstance(item, Item) else None
    if not isinstance(closure, Attr) or closure.key != "__closure__" or not isinstance(item, Item):
        return None
    try:
        return env.read(closure.bases[0]).__code__.co_freevars[item.key]
    except (AttributeError, LookupError, TypeError):
        return None


_MODULE_DICTS = ("_modules", "_parameters", "_buffers")


def _item_text(base: Source, key: Any) -> str:
    if isinstance(base, Globals) and isinstance(key, str):
        return f"{base.key}.{key}" if base.key else key
    if isinstance(key, str):
        owner = _attribute_owner(base)
        if owner is not None:
            return f"{owner}.{key}" if key.isidentifier() else f"{owner}[{key}]"
    return f"{base}[{key!r}]"


def _attribute_owner(base: Source) -> Source | None:
    """The object whose attributes the dict at `base` holds, if it is such a dict: `x.__dict__`, `x._modules`."""
    if isinstance(base, Attr) and (base.key == "__dict__" or base.key in _MODULE_DICTS):
        return base.base
    if isinstance(base, Item) and base.key in _MODULE_DICTS:
        inner = base.bases[0]
        if isinstance(inner, Attr) and inner.key == "__dict__":
            return inner.base
    return None


__all__ = [
    "KINDS",
    "Arg",
    "Attr",
    "Cell",
    "ClassAttr",
    "Drawn",
    "Env",
    "Globals",
    "Item",
    "Key",
    "Known",
    "Local",
    "Module",
    "Pure",
    "RawItem",
    "Scope",
    "Source",
    "SourceTable",
    "TypeOf",
    "class_attribute",
    "constant_expr",
    "decode_sources",
    "dict_key",
    "encode_sources",
    "raw_getter",
    "words",
]
