"""Relations that torch found between symbolic sizes, as the text of shape guards.

A relation is a sympy expression over symbols; its text is arithmetic over
names, as `guards.shapes` evaluates it and as a user would write it: terms that
are subtracted stand on the other side of a comparison.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any


class Inexpressible(Exception):
    """A relation with a function or a symbol that a shape guard can't hold."""


def text(expression: Any, name: Callable[[Any], str]) -> str:
    """`expression` as Python; `name` gives the name of a symbol. Raises Inexpressible."""
    return ast.unparse(_node(expression, name))


def _node(e: Any, name: Callable[[Any], str]) -> ast.expr:
    if e.is_Symbol:
        return ast.Name(name(e), ast.Load())
    if e.is_Integer:
        return _number(int(e))
    if e.is_Float:
        return _number(float(e))
    if e.is_Boolean and type(e).__name__ in ("BooleanTrue", "BooleanFalse"):
        return ast.Constant(bool(e))
    if e.is_Relational:
        return _comparison(e, name)
    make = _FORMS.get(type(e).__name__)
    if make is None:
        raise Inexpressible(f"{type(e).__name__} in a relation of sizes")
    return make(e, name)


def name_of(names: dict[Any, str], symbol: Any) -> str:
    """The name of a symbol, given when it is first met."""
    return names.setdefault(symbol, f"n{len(names)}")


def _number(value: float) -> ast.expr:
    return ast.UnaryOp(ast.USub(), ast.Constant(-value)) if value < 0 else ast.Constant(value)


def _comparison(e: Any, name: Callable[[Any], str]) -> ast.expr:
    left, right = e.args
    if left.is_integer and right.is_integer:
        left, right = _sides(left - right)
    return ast.Compare(_node(left, name), [_COMPARE[type(e).__name__]()], [_node(right, name)])


def _sides(difference: Any) -> tuple[Any, Any]:
    """Two sums of positive terms whose difference it is."""
    import sympy

    terms = sympy.Add.make_args(sympy.expand(difference))
    negative = [term for term in terms if term.could_extract_minus_sign()]
    positive = [term for term in terms if not term.could_extract_minus_sign()]
    return sympy.Add(*positive), sympy.Add(*(-term for term in negative))


def _sum(e: Any, name: Callable[[Any], str]) -> ast.expr:
    """A sum, with `-` before what is subtracted."""
    first, *rest = _ordered(e)
    made = _node(first, name)
    for each in rest:
        negative = each.could_extract_minus_sign()
        made = ast.BinOp(made, ast.Sub() if negative else ast.Add(), _node(-each if negative else each, name))
    return made


def _folded(operator: Callable[[], ast.operator]) -> Callable[[Any, Callable[[Any], str]], ast.expr]:
    def make(e: Any, name: Callable[[Any], str]) -> ast.expr:
        first, *rest = [_node(arg, name) for arg in _ordered(e)]
        for each in rest:
            first = ast.BinOp(first, operator(), each)
        return first

    return make


def _ordered(e: Any) -> list[Any]:
    """Arguments, of a sum with symbols before numbers."""
    args = list(e.args)
    return args[1:] + args[:1] if e.is_Add and args[0].is_number else args


def _binary(operator: Callable[[], ast.operator]) -> Callable[[Any, Callable[[Any], str]], ast.expr]:
    return lambda e, name: ast.BinOp(_node(e.args[0], name), operator(), _node(e.args[1], name))


def _call(function: str) -> Callable[[Any, Callable[[Any], str]], ast.expr]:
    return lambda e, name: ast.Call(ast.Name(function, ast.Load()), [_node(arg, name) for arg in e.args], [])


def _logic(operator: Callable[[], ast.boolop]) -> Callable[[Any, Callable[[Any], str]], ast.expr]:
    return lambda e, name: ast.BoolOp(operator(), [_node(arg, name) for arg in e.args])


def _power(e: Any, name: Callable[[Any], str]) -> ast.expr:
    base, exponent = e.args
    if not (exponent.is_Integer and exponent > 0):
        raise Inexpressible("a power that isn't a natural number")
    return ast.BinOp(_node(base, name), ast.Pow(), _node(exponent, name))


def _indexing(e: Any, name: Callable[[Any], str]) -> ast.expr:
    base, divisor, modulus = (_node(arg, name) for arg in e.args)
    return ast.BinOp(ast.BinOp(base, ast.FloorDiv(), divisor), ast.Mod(), modulus)


def _piecewise(e: Any, name: Callable[[Any], str]) -> ast.expr:
    *cases, (last, condition) = e.args
    if condition != True:  # noqa: E712 - a sympy truth value
        raise Inexpressible("a choice that isn't complete")
    result = _node(last, name)
    for value, condition in reversed(cases):
        result = ast.IfExp(_node(condition, name), _node(value, name), result)
    return result


_COMPARE: dict[str, Callable[[], ast.cmpop]] = {
    "Equality": ast.Eq, "Unequality": ast.NotEq, "StrictLessThan": ast.Lt, "LessThan": ast.LtE,
    "StrictGreaterThan": ast.Gt, "GreaterThan": ast.GtE,
}  # fmt: skip

_FORMS: dict[str, Callable[[Any, Callable[[Any], str]], ast.expr]] = {
    "Add": _sum, "Mul": _folded(ast.Mult), "Pow": _power, "PowByNatural": _power,
    "FloorDiv": _binary(ast.FloorDiv), "CleanDiv": _binary(ast.FloorDiv), "IntTrueDiv": _binary(ast.Div),
    "FloatTrueDiv": _binary(ast.Div), "Mod": _binary(ast.Mod), "PythonMod": _binary(ast.Mod),
    "Max": _call("max"), "Min": _call("min"), "Abs": _call("abs"), "ToFloat": _call("float"),
    "TruncToInt": _call("int"), "FloorToInt": _call("floor"), "CeilToInt": _call("ceil"),
    "ModularIndexing": _indexing, "Piecewise": _piecewise, "And": _logic(ast.And), "Or": _logic(ast.Or),
    "Not": lambda e, name: ast.UnaryOp(ast.Not(), _node(e.args[0], name)),
}  # fmt: skip
