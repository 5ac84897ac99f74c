"""Stubs that nothing is expected of any more: their functions have their own code back, and cost nothing.

Under thrift (docs/design/policy.md) that is so of a function with a verdict,
and of one that has met no tensor in thousands of calls. It stays the same
object; one that its qualified name doesn't lead to keeps its stub.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any

from aotdyn.rewrite import originals
from aotdyn.runtime import home

_retired: list[tuple[weakref.ref[FunctionType], CodeType, CodeType]] = []
"Functions, the stubs that they had, and the code that they have instead."


def retire(dispatcher: str, qualname: str, globals: dict[str, Any]) -> int:
    """Give the functions of a module that ask this dispatcher their own code; how many were found."""
    found = home.named(qualname, dispatcher, globals)
    for function in found:
        stub = function.__code__
        function.__code__ = own = originals.original(stub)
        _retired.append((weakref.ref(function), stub, own))
    return len(found)


def restore() -> None:
    """Give all of them their stubs back, where nobody has changed their code since."""
    for reference, stub, own in _retired:
        function = reference()
        if function is not None and function.__code__ is own:
            function.__code__ = stub
    _retired.clear()


def rest(calls: int, then: Callable[..., Any]) -> tuple[Callable[..., Any], Any]:
    """A dispatcher that leaves so many calls to Python at as little cost as can be, and those behind them to `then`.

    With it comes an iterator, whose `__length_hint__` says how many of them are left.
    """
    is_dynamo_compiling = sys.modules["torch"].compiler.is_dynamo_compiling
    left = iter(range(calls))

    def resting(*args: Any) -> Any:
        if is_dynamo_compiling():
            return None  # TorchDynamo goes through here itself
        for _one in left:
            return None
        return then(*args)

    return resting, left
