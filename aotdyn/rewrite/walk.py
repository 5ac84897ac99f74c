"""The prologue of a variant: guards and inputs in one walk, as `ast`.

`a0..an` are the dispatcher's arguments, `v<i>` the object at source i, `k<i>`
a cell of the pool. Every source is read once, behind the guards on what it is
read through.
"""

from __future__ import annotations

import ast
from typing import Any

from aotdyn.guards import sources as src
from aotdyn.guards.constants import decode
from aotdyn.guards.fast import Test
from aotdyn.guards.kinds import KINDS
from aotdyn.guards.sources import Source, decode_sources
from aotdyn.runtime.variant import GuardData, Recipe, Variant

IDENTITIES = ("SAME", "DISTINCT", "APART")
"""Kinds that compare objects by identity."""
RELATIONS = (*IDENTITIES, "SHAPE", "TENSOR")
"""Kinds that are checked when all sources have been read."""


class Walk:
    """The prologue under construction: reads every source once, each behind the guards on its base."""

    def __init__(self, variant: Variant) -> None:
        self.variant = variant
        self.sources = decode_sources(variant.sources)
        self.indices = {source: i for i, source in enumerate(self.sources)}
        self.args = [f"a{i}" for i in range(variant.spec.arity)]
        self.recipes: list[Recipe] = []
        self.statements: list[ast.stmt] = []
        self.late: list[ast.stmt] = []
        "reads that come behind all guards"
        self._tests: list[ast.expr] = []
        self._cells: dict[str, int] = {}
        self._read: set[Source] = set()
        self._sizes: dict[tuple[int, str, int], str] = {}
        self._checked: set[tuple[int, str, str]] = set()
        self._types: dict[Source, list[str]] = {}
        self._by_source: dict[int, list[int]] = {}
        self._peers = _peers(variant.guards)
        self._stand_in = self._stand_ins()
        for i, guard in enumerate(variant.guards):
            if guard.source >= 0 and guard.kind not in RELATIONS:
                self._by_source.setdefault(self.row(guard.source), []).append(i)
        self._tensors = {self.row(guard.source): i for i, guard in enumerate(variant.guards) if guard.kind == "TENSOR"}
        self.batched = bool(self._tensors)
        self.shown = self._shown()

    def _stand_ins(self) -> dict[Source, Source]:
        """For each source the first that reads the same object for sure: what is read of one class is read once."""
        same: dict[Source, Source] = {}
        first: dict[Source, Source] = {}
        for source in self.sources:
            bases = tuple(same[base] for base in source.bases)
            if isinstance(source, src.TypeOf):
                bases = (self.sources[self._peers.get(self.index(bases[0]), (self.index(bases[0]),))[0]],)
            form = type(source)._make(bases, source.key)
            same[source] = first.setdefault(form, source)
        return same

    # What Source.expr and the fast forms of guards ask for.

    def arg(self, index: int) -> ast.expr:
        return load(self.args[index])

    def row(self, index: int) -> int:
        """The row that stands in for a row."""
        return self.index(self._stand_in[self.sources[index]])

    def value(self, source: Source) -> ast.expr:
        source = self._stand_in[source]
        self.visit(source)
        return self.arg(source.index) if isinstance(source, src.Arg) else load(f"v{self.index(source)}")

    def pool(self, op: str, *args: Any) -> ast.expr:
        key = repr((op, args))
        cell = self._cells.get(key)
        if cell is None:
            cell = self._cells[key] = len(self.recipes)
            self.recipes.append(Recipe(op, args))
        return load(f"k{cell}")

    def builtin(self, name: str) -> ast.expr:
        return self.pool("object", "builtins", name)

    def index(self, source: Source) -> int:
        return self.indices[source]

    def source(self, index: int) -> Source:
        return self.sources[index]

    def known_type(self, source: Source) -> list[str] | None:
        return self._types.get(self._stand_in[source])

    def class_of(self, source: Source) -> ast.expr:
        peers = self._peers.get(self.index(source), (self.index(source),))
        return self.pool("live_type", *peers)

    def size(self, source: int, what: str, dim: int) -> ast.expr:
        if what == "int":
            return self.value(self.sources[source])
        key = (source, what, dim)
        if key not in self._sizes:
            method = self.pool("object", "torch._C", "TensorBase.size" if what == "size" else "TensorBase.stride")
            read = ast.Call(method, [self.value(self.sources[source]), ast.Constant(dim)], [])
            self._sizes[key] = f"d{len(self._sizes)}"
            self.emit(store(self._sizes[key], read))
        return load(self._sizes[key])

    # Building.

    def prologue(self) -> None:
        """All guards and all reads; `statements` ends up with the walk."""
        from aotdyn.rewrite.quick import quick

        self.head()
        short = quick(self, self.needed())
        if short is None:
            self.body()
        else:
            self.flush()
            before, self.statements = self.statements, []
            self.body()
            self.flush()
            self.statements.append(short.arm(self))
            full = ast.If(ast.Compare(load("q"), [ast.Is()], [ast.Constant(None)]), self.statements, [])
            self.statements = [*before, ast.While(ast.Constant(True), short.statements, []), full]
        self.tail()

    def head(self) -> None:
        """What has no source: foreign tracers, global state."""
        # Dispatch keys show the batch every foreign tracer but modes.
        modes = ("object", "torch._C", "_len_torch_dispatch_stack")
        foreign = self.pool(*modes) if self._tensors else self.pool("foreign")
        tracer = ast.Call(self.pool("object", "sys", "gettrace"), [], [])
        self.test(ast.Compare(tracer, [ast.Is()], [ast.Constant(None)]))
        self.test(ast.UnaryOp(ast.Not(), ast.Call(foreign, [], [])))
        for i, guard in enumerate(self.variant.guards):
            if guard.kind == "GLOBAL":
                self.check(i)

    def body(self) -> None:
        """All sources, and the guards on each of them alone or on two as objects."""
        variant = self.variant
        for i, guard in enumerate(variant.guards):
            if guard.source >= 0:
                self.visit(self.sources[guard.source])
            if guard.kind not in RELATIONS:
                self.check(i)
        for source in self.needed():
            self.visit(source)
        for i, guard in enumerate(variant.guards):
            if guard.kind in IDENTITIES:
                self.check(i)

    def _shown(self) -> set[int]:
        """Guards that only say that something is there which is read anyhow."""
        read = {(source.bases[0], source.key) for source in self.needed() if isinstance(source, src.Item)}
        asked = ((i, guard) for i, guard in enumerate(self.variant.guards) if guard.kind == "HAS")
        return {i for i, guard in asked if (self.sources[guard.source], decode(guard.expected)) in read}

    def tail(self) -> None:
        """What is checked of tensors and sizes, whichever walk read them."""
        for i, guard in enumerate(self.variant.guards):
            if guard.kind == "TENSOR":
                self.check(i)
        self.batch()
        for i, guard in enumerate(self.variant.guards):
            if guard.kind == "SHAPE":
                self.check(i)

    def needed(self) -> list[Source]:
        """The sources that tail, graph and epilogue use."""
        variant = self.variant
        rows = [guard.source for guard in variant.guards if guard.kind == "TENSOR"]
        for guard in variant.guards:
            if guard.kind == "SHAPE":
                rows += [where[0] for where in guard.expected["names"].values()]
        rows += variant.inputs
        for step in variant.epilogue:
            if step.op == "source" or (step.op == "globals" and step.args[0] >= 0):
                rows.append(step.args[0])
        rows += variant.draws
        return [early for row in rows for early in _early(self.sources[row])]

    def visit(self, source: Source) -> None:
        """Reads a source, unless it has been read: first its bases and all guards on them, then the object."""
        source = self._stand_in[source]
        if source in self._read:
            return
        for base in source.bases:
            self.visit(base)
            base = self._stand_in[base]
            index = self.index(base)
            for i in self._by_source.get(index, ()):
                self.check(i)
            if index in self._tensors:
                self.exact_class(base, index)
        self._read.add(source)
        if source.late:
            self.late.append(store(f"v{self.index(source)}", source.expr(self)))
        elif not isinstance(source, src.Arg):
            self.emit(store(f"v{self.index(source)}", source.expr(self)))

    def check(self, i: int) -> None:
        """Adds the test of guard i, unless it has been added."""
        guard: GuardData = self.variant.guards[i]
        if i in self.shown:
            return
        source = self._stand_in[self.sources[guard.source]] if guard.source >= 0 else None
        fact = (-1 if source is None else self.index(source), guard.kind, repr(guard.expected))
        if fact in self._checked:
            return
        self._checked.add(fact)
        make: Test = KINDS[guard.kind].test
        self.test(make(self, source, guard.expected))
        if guard.kind == "TYPE" and source is not None:
            self._types[source] = list(guard.expected)

    def exact_class(self, base: Source, index: int) -> None:
        """Before anything is read through a tensor its class is checked alone; the batch comes last."""
        if self.known_type(base) is None:
            self._types[base] = list(self.variant.guards[self._tensors[index]].expected["class"])
            cls = self.class_of(base)
            self.test(ast.Compare(ast.Call(self.builtin("type"), [self.value(base)], []), [ast.Is()], [cls]))

    def batch(self) -> None:
        """One check of all tensors, each given once."""
        first: dict[int, int] = {}
        for guard in self.variant.guards:
            if guard.kind == "SAME":
                one, other = (_root(first, self.row(i)) for i in (guard.source, guard.expected))
                if one != other:
                    first[max(one, other)] = min(one, other)
        groups = {_root(first, source): i for source, i in reversed(self._tensors.items())}
        guards = sorted(groups.values())
        if guards:
            tensors = [self.value(self.sources[self.variant.guards[i].source]) for i in guards]
            self.test(ast.Call(self.pool("tensors", *guards), tensors, []))

    def test(self, expression: ast.expr | None) -> None:
        """Adds a condition; those that no read stands between share one `if`."""
        if expression is not None:
            self._tests.append(expression)

    def emit(self, statement: ast.stmt) -> None:
        """Adds a statement behind the conditions so far."""
        self.flush()
        self.statements.append(statement)

    def flush(self) -> None:
        """Writes the conditions collected so far as one `if not ...: break`."""
        if self._tests:
            tests, self._tests = self._tests, []
            held = ast.BoolOp(ast.And(), tests) if len(tests) > 1 else tests[0]
            self.statements.append(ast.If(ast.UnaryOp(ast.Not(), held), self.failed(), []))

    def failed(self) -> list[ast.stmt]:
        """What is done where a condition doesn't hold."""
        return [ast.Break()]


def _peers(guards: list[GuardData]) -> dict[int, tuple[int, ...]]:
    """For each row with a TYPE guard on a class found by its path, all rows of that class.

    They are compared with one cell, and binding sees to it that they have one class.
    """
    rows: dict[str, dict[int, None]] = {}
    for guard in guards:
        if guard.kind == "TYPE" and guard.expected[2:] != ["made"]:
            rows.setdefault(repr(list(guard.expected)), {})[guard.source] = None
    return {row: tuple(group) for group in rows.values() for row in group}


def _early(source: Source) -> list[Source]:
    """The source, or what of it can be read among the guards."""
    return [each for base in source.bases for each in _early(base)] if source.late else [source]


def _root(first: dict[int, int], source: int) -> int:
    """The source that stands for all that are the same object as `source`."""
    while source in first:
        source = first[source]
    return source


def load(name: str) -> ast.Name:
    """A read of a name."""
    return ast.Name(name, ast.Load())


def store(name: str, value: ast.expr) -> ast.Assign:
    """`name = value`."""
    return ast.Assign([ast.Name(name, ast.Store())], value)
