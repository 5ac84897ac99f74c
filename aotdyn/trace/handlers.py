"""The table of callables that the tracer knows by themselves, and the decorators that fill it.

A handler is declared beside a one-line reason, found by the callable itself
and called as `handler(t, *args, **kwargs)` with values. For a method of a
builtin class the key is its descriptor (`list.append`), and the first argument
the receiver. A polyfill is plain Python that means the same as a C function,
and is traced into.
"""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType
from typing import Any

HANDLERS: dict[Any, Callable[..., Any]] = {}
POLYFILLS: dict[Any, Callable[..., Any]] = {}
BY_CODE: dict[str, tuple[CodeType, Callable[..., Any]]] = {}
"handlers of functions that are made anew for each use: by the qualified name in their code, and that code"
FOLDABLE: set[Any] = set()
"C functions without side effects, to be computed where all arguments are constants"


def handles(*callables: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare the handler of `callables`."""

    def declare(handler: Callable[..., Any]) -> Callable[..., Any]:
        for each in callables:
            HANDLERS[each] = handler
        return handler

    return declare


def handles_inner(outer: Any, name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare the handler of the functions that `outer` makes by its `def` of a name; it is handed their value."""
    code = next(each for each in outer.__code__.co_consts if isinstance(each, CodeType) and each.co_name == name)

    def declare(handler: Callable[..., Any]) -> Callable[..., Any]:
        BY_CODE[code.co_qualname] = (code, handler)
        return handler

    return declare


def polyfill(*callables: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare a Python function that the tracer inlines in place of `callables`."""

    def declare(function: Callable[..., Any]) -> Callable[..., Any]:
        for each in callables:
            POLYFILLS[each] = function
        return function

    return declare


def foldable(*callables: Any) -> None:
    """Declare C functions that depend on their arguments alone and change nothing."""
    FOLDABLE.update(callables)
