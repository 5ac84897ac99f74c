"""A variant's prologue and epilogue as one Python function: guards, graph, effects, result.

The function takes the dispatcher's arguments as `a0..an`. Whatever else it
names is a cell of its pool (`k0`, `k1`, ...: its globals, which binding fills
by the recipes of `Lowered.pool`), so nothing that the user's module shadows
can change it. `v<i>` is the object at source i, `r<i>` register i of the
epilogue. Where a guard fails, or a read of the walk raises, the call goes to
`knext`, outside of the `try`, so that what runs there has no exception around
it. Every node carries the user's first line.
"""

from __future__ import annotations

import ast
import types
from dataclasses import dataclass, field
from typing import Any

from aotdyn.guards import sources as src
from aotdyn.guards.fast import Test
from aotdyn.guards.kinds import KINDS
from aotdyn.guards.sources import Source, decode_sources
from aotdyn.rewrite.lower_epilogue import Epilogue
from aotdyn.runtime.variant import GuardData, Recipe, Variant

RELATIONS = ("SAME", "DISTINCT", "SHAPE", "TENSOR")
"""Kinds that are checked when all sources have been read."""


@dataclass
class Lowered:
    """The generated function, and how each cell `k<i>` of its pool is filled."""

    tree: ast.FunctionDef
    pool: list[Recipe]
    filename: str
    sources: list[Source] = field(default_factory=list)

    def text(self) -> str:
        """The function as a user reads it, with what the cells and temporaries stand for above it."""
        used = sorted({node.id for node in ast.walk(self.tree) if isinstance(node, ast.Name)})
        lines = [f"# k{i}: {cell.op} {', '.join(map(str, cell.args))}".rstrip() for i, cell in enumerate(self.pool)]
        lines += [f"# v{i}: {source}" for i, source in enumerate(self.sources) if f"v{i}" in used]
        return "\n".join([*lines, ast.unparse(self.tree)])


def lower(variant: Variant, name: str, filename: str, firstline: int) -> Lowered:
    """The function of a variant, named `name`, at a line of the user's file.

    Raises:
        ValueError, LookupError: the variant's data is not what the schema says.
    """
    walk = Walk(variant)
    walk.prologue()
    tail = Epilogue(variant, walk).body()
    miss = ast.Return(ast.Call(load("knext"), [load(arg) for arg in walk.args], []))
    walk.flush()
    fatal = ast.Tuple([walk.builtin("RecursionError"), walk.builtin("MemoryError")], ast.Load())
    handlers = [
        ast.ExceptHandler(fatal, None, [ast.Raise()]),
        ast.ExceptHandler(walk.builtin("Exception"), None, [ast.Break()]),
    ]
    guarded = ast.Try(walk.statements, handlers, [], [])
    body: list[ast.stmt] = [ast.While(ast.Constant(True), [guarded, *tail], []), miss]
    tree = ast.FunctionDef(name, positional(walk.args), body, [], None, None)
    line = max(firstline, 1)
    for node in ast.walk(tree):
        node.lineno = node.end_lineno = line  # type: ignore[attr-defined]
        node.col_offset = node.end_col_offset = 0  # type: ignore[attr-defined]
    return Lowered(tree, walk.recipes, filename, walk.sources)


def compile_lowered(lowered: Lowered) -> types.CodeType:
    """The code object of the generated function."""
    module = compile(ast.Module([lowered.tree], []), lowered.filename, "exec", dont_inherit=True, optimize=2)
    return next(const for const in module.co_consts if isinstance(const, types.CodeType))


class Walk:
    """The prologue under construction: reads every source once, each behind the guards on its base."""

    def __init__(self, variant: Variant) -> None:
        self.variant = variant
        self.sources = decode_sources(variant.sources)
        self.indices = {source: i for i, source in enumerate(self.sources)}
        self.args = [f"a{i}" for i in range(variant.spec.arity)]
        self.recipes: list[Recipe] = []
        self.statements: list[ast.stmt] = []
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
        variant = self.variant
        # Dispatch keys show the batch every foreign tracer but modes.
        modes = ("object", "torch._C", "_len_torch_dispatch_stack")
        foreign = self.pool(*modes) if self._tensors else self.pool("foreign")
        tracer = ast.Call(self.pool("object", "sys", "gettrace"), [], [])
        self.test(ast.Compare(tracer, [ast.Is()], [ast.Constant(None)]))
        self.test(ast.UnaryOp(ast.Not(), ast.Call(foreign, [], [])))
        for i, guard in enumerate(variant.guards):
            if guard.kind == "GLOBAL":
                self.check(i)
        for i, guard in enumerate(variant.guards):
            if guard.source >= 0:
                self.visit(self.sources[guard.source])
            if guard.kind not in RELATIONS:
                self.check(i)
        for source in variant.inputs:
            self.visit(self.sources[source])
        for step in variant.epilogue:
            if step.op == "source" or (step.op == "globals" and step.args[0] >= 0):
                self.visit(self.sources[step.args[0]])
        for i, guard in enumerate(variant.guards):
            if guard.kind in ("SAME", "DISTINCT", "TENSOR"):
                self.check(i)
        self.batch()
        for i, guard in enumerate(variant.guards):
            if guard.kind == "SHAPE":
                self.check(i)

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
        if not isinstance(source, src.Arg):
            self.emit(store(f"v{self.index(source)}", source.expr(self)))

    def check(self, i: int) -> None:
        """Adds the test of guard i, unless it has been added."""
        guard: GuardData = self.variant.guards[i]
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
            self.statements.append(ast.If(ast.UnaryOp(ast.Not(), held), [ast.Break()], []))


def _peers(guards: list[GuardData]) -> dict[int, tuple[int, ...]]:
    """For each row with a TYPE guard on a class found by a public path, all rows of that class.

    They are compared with one cell, and binding sees to it that they have one class.
    """
    rows: dict[str, dict[int, None]] = {}
    for guard in guards:
        if guard.kind == "TYPE" and "<" not in guard.expected[1]:
            rows.setdefault(repr(list(guard.expected)), {})[guard.source] = None
    return {row: tuple(group) for group in rows.values() for row in group}


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


def positional(names: list[str]) -> ast.arguments:
    """A parameter list of positional-only names."""
    return ast.arguments([ast.arg(name, None) for name in names], [], None, [], [], None, [])
