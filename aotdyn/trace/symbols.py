"""Python's operators: their symbols, the names of their special methods, and the functions of `operator`."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

ARITHMETIC = {
    "+": "add", "-": "sub", "*": "mul", "/": "truediv", "//": "floordiv", "%": "mod", "**": "pow", "@": "matmul",
    "<<": "lshift", ">>": "rshift", "&": "and", "|": "or", "^": "xor",
}  # fmt: skip
"""Binary operators: `__add__`, reflected `__radd__`, in place `__iadd__`."""
COMPARISONS = {"<": "lt", "<=": "le", "==": "eq", "!=": "ne", ">": "gt", ">=": "ge"}
REFLECTED = {"<": ">", "<=": ">=", "==": "==", "!=": "!=", ">": "<", ">=": "<="}
"""Comparisons the other way round."""
SIGNS = {"-": "neg", "+": "pos", "~": "invert"}


def _function(name: str) -> Callable[..., Any]:
    return getattr(operator, f"__{name}__")


FUNCTIONS = {symbol: _function(name) for symbol, name in (ARITHMETIC | COMPARISONS).items()}
"""What a binary operator or comparison computes."""
IN_PLACE = {symbol: _function(f"i{name}") for symbol, name in ARITHMETIC.items()}
"""What `a symbol= b` computes."""
UNARY = {symbol: _function(name) for symbol, name in SIGNS.items()}
