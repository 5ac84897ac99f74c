"""A variant's prologue and epilogue as one Python function: guards, graph, effects, result.

The function takes the dispatcher's arguments as `a0..an`. Whatever else it
names is a cell of its pool (`k0`, `k1`, ...: its globals, which binding fills
by the recipes of `Lowered.pool`), so nothing that the user's module shadows
can change it. `v<i>` is the object at source i, `r<i>` register i of the
epilogue. Where a guard fails, or a read of the walk raises, the call goes to
`knext`, outside of the `try`, so that what runs there has no exception around
it. Where the frame's own globals are read, `kframe` shows whether the caller
has them; one that hasn't goes to `kstranger`. Every node carries the user's
first line.
"""

from __future__ import annotations

import ast
import types
from dataclasses import dataclass, field

from aotdyn.guards.sources import Source
from aotdyn.rewrite import names
from aotdyn.rewrite.lower_epilogue import Epilogue
from aotdyn.rewrite.walk import Walk, load
from aotdyn.runtime.variant import Recipe, Variant


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
    # TorchDynamo inlines this function, and folds this call: it then goes on with the body that stands behind the stub.
    dynamo = ast.Call(load(names.DYNAMO), [], [])
    aside = ast.If(dynamo, [ast.Return(ast.Constant(None))], [])
    body: list[ast.stmt] = [aside, *_at_home(walk), ast.While(ast.Constant(True), [guarded, *tail], []), miss]
    tree = ast.FunctionDef(name, positional(walk.args), body, [], None, None)
    line = max(firstline, 1)
    for node in ast.walk(tree):
        node.lineno = node.end_lineno = line  # type: ignore[attr-defined]
        node.col_offset = node.end_col_offset = 0  # type: ignore[attr-defined]
    return Lowered(tree, walk.recipes, filename, walk.sources)


def _at_home(walk: Walk) -> list[ast.stmt]:
    """The check that the frame which asks has the globals that this function was bound for, if it reads them."""
    if Recipe("globals", ("",)) not in walk.recipes:
        return []
    found = ast.Attribute(ast.Call(load("kframe"), [ast.Constant(1)], []), "f_globals", ast.Load())
    stranger = ast.Return(ast.Call(load("kstranger"), [load(arg) for arg in walk.args], []))
    return [ast.If(ast.Compare(found, [ast.IsNot()], [walk.pool("globals", "")]), [stranger], [])]


def compile_lowered(lowered: Lowered) -> types.CodeType:
    """The code object of the generated function."""
    module = compile(ast.Module([lowered.tree], []), lowered.filename, "exec", dont_inherit=True, optimize=2)
    return next(const for const in module.co_consts if isinstance(const, types.CodeType))


def positional(parameters: list[str]) -> ast.arguments:
    """A parameter list of positional-only names."""
    return ast.arguments([ast.arg(name, None) for name in parameters], [], None, [], [], None, [])
