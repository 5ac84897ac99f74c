"""Relations of sizes, as text: arithmetic and comparisons over named integers, nothing else.

The text is parsed and each node checked against a list before it is compiled,
so that a stored relation can't do more than compute.
"""

from __future__ import annotations

import ast
import functools
import math
import types
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aotdyn.guards.sources import Env

ALLOWED = (
    ast.Expression,
    ast.BoolOp,
    ast.boolop,
    ast.Compare,
    ast.cmpop,
    ast.BinOp,
    ast.operator,
    ast.UnaryOp,
    ast.unaryop,
    ast.IfExp,
    ast.Load,
)

FUNCTIONS = {"min": min, "max": max, "abs": abs, "int": int, "float": float, "floor": math.floor, "ceil": math.ceil}
"""What a relation may call."""


def parse(text: str) -> ast.expr:
    """The relation as an expression; ValueError where it is more than arithmetic."""
    try:
        tree = ast.parse(text, mode="eval").body
    except SyntaxError as error:
        raise ValueError(f"not a relation: {text!r}") from error
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant):
            fine = type(node.value) in (int, float, bool)
        elif isinstance(node, ast.Call):
            fine = isinstance(node.func, ast.Name) and node.func.id in FUNCTIONS and not node.keywords
        elif isinstance(node, ast.Name):
            fine = id(node) not in called or node.id in FUNCTIONS
        else:
            fine = isinstance(node, ALLOWED)
        if not fine:
            raise ValueError(f"{type(node).__name__} in relation {text!r}")
    return tree


@functools.lru_cache(maxsize=1024)
def _compiled(text: str) -> types.CodeType:
    return compile(ast.fix_missing_locations(ast.Expression(parse(text))), "<shape guard>", "eval")


def evaluate(text: str, names: dict[str, Any]) -> Any:
    """The value of the relation with names bound to numbers."""
    return eval(_compiled(text), {"__builtins__": {}, **FUNCTIONS}, names)


def substituted(text: str, names: dict[str, str]) -> str:
    """The relation with other words for its names."""
    tree = parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in names:
            node.id = names[node.id]
    return ast.unparse(tree)


def in_words(expected: Any, sources: Sequence[str]) -> str:
    """A relation as a user would write it; `sources` are the texts of the sources."""
    names = expected["names"]
    return substituted(expected["expr"], {name: place(sources[i], *rest) for name, (i, *rest) in names.items()})


def place(text: str, what: str, dim: int) -> str:
    """How a user writes the number that a name of a relation stands for."""
    return text + {"size": f".shape[{dim}]", "stride": f".stride({dim})", "int": ""}[what]


def read(env: Env, source: int, what: str, dim: int) -> Any:
    """The number that a name of a relation stands for."""
    obj = env.read(env.sources[source])
    if what == "size":
        return obj.size(dim)
    if what == "stride":
        return obj.stride(dim)
    if what == "int" and type(obj) in (int, float, bool):
        return obj
    raise ValueError(f"{what} of {type(obj).__qualname__}")
