"""Fast forms of guards: expressions of the generated prologue, true where the guard holds.

Names of builtins are never written into an expression (the pool supplies
them), and what is compared by `is` was verified when the cell was filled.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any, Protocol

from aotdyn.guards import constants, globalstate, shapes
from aotdyn.guards.sources import Scope, Source, constant_expr


class GuardScope(Scope, Protocol):
    """What a prologue offers to a guard's fast form beyond what sources need."""

    batched: bool
    "whether tensors are checked in a batch, which sees inference mode as well"

    def source(self, index: int) -> Source:
        """The source of a row."""

    def known_type(self, source: Source) -> list[str] | None:
        """[module, qualname] of a TYPE guard on the source, checked before this one; None where there is none."""

    def class_of(self, source: Source) -> ast.expr:
        """The class of the object, as it was when bound."""

    def size(self, source: int, what: str, dim: int) -> ast.expr:
        """A size or stride of a tensor, or the number itself (`what`: size, stride, int), read once."""


Test = Callable[[GuardScope, Any, Any], ast.expr | None]
"""`test(scope, source, expected)`: None where the prologue checks the guard in another way (in a batch)."""


def live(scope: GuardScope, source: Source, expected: Any) -> ast.expr:
    """Identity with the object found when bound."""
    return _compare(scope.value(source), ast.Is(), scope.pool("live", scope.index(source)))


def type_(scope: GuardScope, source: Source, expected: Any) -> ast.expr:
    return _compare(_call(scope, "type", scope.value(source)), ast.Is(), scope.class_of(source))


def const(scope: GuardScope, source: Source, expected: Any) -> ast.expr:
    value = scope.value(source)
    if expected is None or isinstance(expected, bool):
        return _compare(value, ast.Is(), ast.Constant(expected))
    if type(expected) in (int, str) or (type(expected) is float and expected != 0.0):
        # The very object where it was found again; else equal and of that exact type, which makes `==` pure.
        same = live(scope, source, expected)
        exact = _compare(_call(scope, "type", value), ast.Is(), _builtin(scope, type(expected).__name__))
        equal = _compare(value, ast.Eq(), ast.Constant(expected))
        if type(expected) is str or type(expected) is float:
            return ast.BoolOp(ast.Or(), [same, ast.BoolOp(ast.And(), [exact, equal])])
        return ast.BoolOp(ast.And(), [exact, equal]) if not -5 <= expected <= 256 else same
    if isinstance(expected, list) and expected[0] in _SINGLETONS:
        return _compare(value, ast.Is(), scope.pool("const", expected))
    same_constant = scope.pool("object", "aotdyn.guards.constants", "same")
    equal = ast.Call(same_constant, [value, scope.pool("const", expected)], [])
    return ast.BoolOp(ast.Or(), [live(scope, source, expected), equal])


_SINGLETONS = ("dtype", "layout", "memory_format", "enum", "path", "...", "NotImplemented")
"""Tags of constants of which there is one object a process."""


def tensor(scope: GuardScope, source: Source, expected: Any) -> ast.expr | None:
    """In the batch; only what the batch doesn't see is tested here."""
    if expected.get("offset") is None:
        return None
    offset = ast.Call(scope.pool("object", "torch._C", "TensorBase.storage_offset"), [scope.value(source)], [])
    return _compare(offset, ast.Eq(), ast.Constant(expected["offset"]))


def function(scope: GuardScope, source: Source, expected: Any) -> ast.expr:
    code = ast.Attribute(scope.value(source), "__code__", ast.Load())
    same = _compare(code, ast.Is(), scope.pool("live_code", scope.index(source)))
    if expected[3] is None:
        return same
    globals = ast.Attribute(scope.value(source), "__globals__", ast.Load())
    return ast.BoolOp(ast.And(), [same, _compare(globals, ast.Is(), scope.pool("globals", expected[3]))])


def length(scope: GuardScope, source: Source, expected: Any) -> ast.expr:
    if _exact(scope, source) is not None:
        found = _call(scope, "len", scope.value(source))
    else:
        found = ast.Call(scope.pool("raw_len", scope.index(source)), [scope.value(source)], [])
    return _compare(found, ast.Eq(), ast.Constant(expected))


def keys(scope: GuardScope, source: Source, expected: Any) -> ast.expr:
    value = scope.value(source)
    if not expected and scope.known_type(source) in (["builtins", "dict"], ["collections", "OrderedDict"]):
        return ast.UnaryOp(ast.Not(), value)
    if _exact(scope, source) == "dict":
        found: ast.expr = _call(scope, "tuple", value)
    else:
        found = ast.Call(scope.pool("keys_getter", scope.index(source)), [value], [])
    wanted = ["tuple", list(expected)]
    if all(isinstance(key, str) for key in expected):
        return _compare(found, ast.Eq(), scope.pool("const", wanted))
    same_constant = scope.pool("object", "aotdyn.guards.constants", "same")
    return ast.Call(same_constant, [found, scope.pool("const", wanted)], [])


def has(scope: GuardScope, source: Source, expected: Any) -> ast.expr:
    return _contains(scope, source, expected, ast.In())


def lacks(scope: GuardScope, source: Source, expected: Any) -> ast.expr:
    return _contains(scope, source, expected, ast.NotIn())


def _contains(scope: GuardScope, source: Source, expected: Any, operator: ast.cmpop) -> ast.expr:
    value, key = scope.value(source), constant_expr(scope, constants.decode(expected))
    if _exact(scope, source) is not None:
        return _compare(key, operator, value)
    found = ast.Call(scope.pool("contains", scope.index(source)), [value, key], [])
    return found if isinstance(operator, ast.In) else ast.UnaryOp(ast.Not(), found)


def noattr(scope: GuardScope, source: Source, expected: Any) -> ast.expr:
    test = scope.pool("object", "aotdyn.guards.reads", "lacks_attribute")
    return ast.Call(test, [scope.value(source), ast.Constant(expected)], [])


def same(scope: GuardScope, source: Source, expected: Any) -> ast.expr:
    return _compare(scope.value(source), ast.Is(), scope.value(scope.source(expected)))


def distinct(scope: GuardScope, source: Source, expected: Any) -> ast.expr:
    return _compare(scope.value(source), ast.IsNot(), scope.value(scope.source(expected)))


def apart(scope: GuardScope, source: Source, expected: Any) -> ast.expr:
    addresses = [_call(scope, "id", scope.value(scope.source(row))) for row in expected]
    return _compare(_call(scope, "len", ast.Set(addresses)), ast.Eq(), ast.Constant(len(expected)))


def mro(scope: GuardScope, source: Source, expected: Any) -> ast.expr:
    found = ast.Attribute(scope.value(source), "__mro__", ast.Load())
    return _compare(found, ast.Is(), scope.pool("live_mro", scope.index(source)))


def truth(scope: GuardScope, source: Source, expected: Any) -> ast.expr:
    value = scope.value(source)
    return _call(scope, "bool", value) if expected else ast.UnaryOp(ast.Not(), value)


class _Names(ast.NodeTransformer):
    """Puts what names stand for into a relation."""

    def __init__(self, scope: GuardScope, names: dict[str, list[Any]]) -> None:
        self.scope = scope
        self.names = names

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id in self.names:
            return self.scope.size(*self.names[node.id])
        if node.id in shapes.FUNCTIONS:
            return self.scope.pool("relation", node.id)
        raise ValueError(f"unknown name {node.id} in a relation")


def shape(scope: GuardScope, source: Source | None, expected: Any) -> ast.expr:
    return _Names(scope, expected["names"]).visit(shapes.parse(expected["expr"]))


def global_state(scope: GuardScope, source: Source | None, expected: dict[str, Any]) -> ast.expr:
    tests: list[ast.expr] = []
    if any(globalstate.FACTS[name].covered for name in expected):
        tests.append(ast.Call(scope.pool("state"), [], []))
    no_modes = expected.get("function_modes") == ["tuple", []]
    for name, data in expected.items():
        if globalstate.FACTS[name].covered:
            continue
        if name == "default_device" and no_modes and data == "cpu":
            continue  # a default device is a function mode
        if name == "dispatch_modes" and data == 0:
            continue  # a hit checks that anyway
        if name == "inference_mode" and scope.batched:
            continue
        if name == "function_modes" and no_modes:
            depth = ast.Call(scope.pool("object", "torch._C", "_len_torch_function_stack"), [], [])
            tests.append(ast.UnaryOp(ast.Not(), depth))
            continue
        if name == "saved_tensor_hooks" and data is False:
            top = scope.pool("object", "torch._C._autograd", "_top_saved_tensors_default_hooks")
            tests.append(_compare(ast.Call(top, [ast.Constant(True)], []), ast.Is(), ast.Constant(None)))
            continue
        found = ast.Call(scope.pool("fact", name), [], [])
        if isinstance(data, bool):
            tests.append(found if data else ast.UnaryOp(ast.Not(), found))
        else:
            tests.append(_compare(found, ast.Eq(), constant_expr(scope, constants.decode(data))))
    return ast.BoolOp(ast.And(), tests) if len(tests) > 1 else (tests or [ast.Constant(True)])[0]


EXACT = ("dict", "list", "tuple", "set", "frozenset", "str", "bytes")


def _exact(scope: GuardScope, source: Source) -> str | None:
    """Name of the builtin that the object is known to be an exact instance of."""
    known = scope.known_type(source)
    return known[1] if known is not None and known[0] == "builtins" and known[1] in EXACT else None


def _builtin(scope: Scope, name: str) -> ast.expr:
    return scope.pool("object", "builtins", name)


def _call(scope: Scope, name: str, *args: ast.expr) -> ast.expr:
    return ast.Call(_builtin(scope, name), list(args), [])


def _compare(left: ast.expr, operator: ast.cmpop, right: ast.expr) -> ast.expr:
    return ast.Compare(left, [operator], [right])
