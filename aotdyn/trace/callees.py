"""Functions of the program that Python will call where a trace ends: data for `runtime.reached`."""

from __future__ import annotations

import types
from typing import Any

from aotdyn.guards import sources as S
from aotdyn.guards.sources import Source

from .values import Function, Lazy, Method, Value


def seen(t: Any) -> list[Source]:
    """Functions that the trace came upon: a frame left alone calls them."""
    found = [value.source for value in t.by_identity.values() if isinstance(value, Function)]
    return [source for source in found if source is not None]


def operands(frame: Any) -> list[Source]:
    """Functions on the stack of a frame that breaks: its operation calls them, or hands them to what does."""
    return [source for value in frame.stack for source in _of(value)]


def _of(value: Value) -> list[Source]:
    if isinstance(value, Lazy) and value.value is None:
        functions = isinstance(value.obj, types.FunctionType | types.MethodType)
        return [value.source] if functions and value.source is not None else []
    known = value.value if isinstance(value, Lazy) else value
    if isinstance(known, Method):
        return _of(known.function)
    if not isinstance(known, Function):
        return []
    if known.source is not None:
        return [known.source]
    # Made by the frame, so another object at each call: what it calls by a global name is found instead.
    globals = known.globals
    if globals.source is None:
        return []
    return [
        S.Item(globals.source, name)
        for name in known.code.co_names
        if isinstance(globals.obj.get(name), types.FunctionType)
    ]
