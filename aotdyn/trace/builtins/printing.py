"""`print`: the epilogue does it, behind the graph, in the order in which the program did.

What is printed is text that is known, a number that nobody looks at, or a
tensor that stays as it is until then. In a loop Python prints: who watches
wants to see how far it is. Where `sys.stdout` is an object of a Python class,
or was replaced meanwhile, Python prints, too.
"""

from __future__ import annotations

import sys
from typing import Any

import torch

from aotdyn.graph import effects
from aotdyn.guards.pure import PURE
from aotdyn.guards.sources import Attr, Known, Module, Pure
from aotdyn.trace import model
from aotdyn.trace.control import Break, LookedAt
from aotdyn.trace.flows import Flow
from aotdyn.trace.handlers import handles
from aotdyn.trace.values import Const, Lazy, Tensor, Value, force

from .common import none, type_name
from .functions import str_text

STREAMS = ("stdout", "stderr")


class Printed:
    """A print that waits for the epilogue; `mark` names the operation, by which the next attempt knows it."""

    __slots__ = ("mark", "stream", "tensors", "values")

    def __init__(self, mark: Any, stream: str, values: tuple[Value, ...]) -> None:
        self.mark, self.stream, self.values = mark, stream, values
        self.tensors = [(each, each.fake._version) for each in values if isinstance(each, Tensor)]

    def emit(self, t: Any, e: Any) -> None:
        """The epilogue's call; LookedAt where it would print something else by then."""
        replaced = self.stream in t.namespace(vars(sys)).names
        if replaced or any(tensor.fake._version != version for tensor, version in self.tensors):
            raise LookedAt(frozenset((self.mark,)))
        e.helper("print_to", *(e.value(each) for each in self.values))


@handles(print)
def _print(
    t: Any,
    *args: Value,
    sep: Value | None = None,
    end: Value | None = None,
    file: Value | None = None,
    flush: Value | None = None,
) -> Value:
    mark: Any = ("print", _place(t))
    if mark in t.looked_at:
        raise Break("print() in a loop, or of what is changed before the graph has run", "Python prints.")
    if any(isinstance(each, Printed) and each.mark == mark for each in t.postponed):
        raise LookedAt(frozenset((mark,)))
    stream = _stream(t, file)
    options = [_option(t, "sep", sep), _option(t, "end", end)]
    flushes = Const(flush is not None and model.truth(t, flush))
    values = (Const(stream), *options, flushes, *(_shown(t, arg) for arg in args))
    t.postpone(Printed(mark, stream, values))
    return none()


def _place(t: Any) -> tuple[Any, ...]:
    """Which operation of the program this is: the code and instruction of each frame."""
    found, frame = [], t.frame
    while frame is not None:
        found.append((frame.code, frame.index))
        frame = frame.caller
    return tuple(found)


def _stream(t: Any, file: Value | None) -> str:
    """The name in `sys` of the stream that is printed to; Break for another, or one that runs Python code."""
    given = file.obj if isinstance(file, Lazy) else file
    if isinstance(given, Const):
        given = given.value
    name = "stdout" if given is None else next((each for each in STREAMS if getattr(sys, each) is given), None)
    if name is None or name in t.namespace(vars(sys)).names:
        raise Break("print() to a stream that isn't the process's", "Python prints.")
    if given is None and isinstance(file, Lazy):
        force(file)
    elif given is not None:
        t.guard("SAME", file.source, Attr(Module("sys"), name))  # type: ignore[union-attr]
    plain = PURE["print.plain"].function(name)
    t.guard("CONST", Pure("print.plain", Known(name)), plain)
    if not plain:
        raise Break(f"print() to sys.{name}, an object that Python code writes to", "Python prints.")
    return name


def _option(t: Any, name: str, value: Value | None) -> Value:
    """`sep` or `end`."""
    known = force(value or none())
    if not isinstance(known, Const) or not isinstance(known.value, str | None):
        return t.raise_(TypeError, f"{name} must be None or a string, not {type_name(known)}")
    return known


def _shown(t: Any, value: Value) -> Value:
    """What the epilogue is to print for an argument."""
    value = force(value)
    if isinstance(value, Tensor):
        return _shown_tensor(t, value)
    if isinstance(value, Flow):
        return value
    text = str_text(t, value)
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Break("print() of text that can't be encoded") from None
    return Const(text)


def _shown_tensor(t: Any, value: Tensor) -> Value:
    """A tensor, where its text will be the same behind the graph."""
    fake = value.fake
    settled = not t.state.changes() and not effects.batching_level() and not fake.is_inference()
    options = torch._tensor_str.PRINT_OPTS
    changed = any(getattr(each, "obj", None) in (options, torch._tensor_str) for each in t.changed)
    if not settled or changed or (fake.requires_grad and not fake.is_leaf):
        raise Break("print() of a tensor whose text shows more than its data", "Python prints.")
    return value
