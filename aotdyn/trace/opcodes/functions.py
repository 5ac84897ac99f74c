"""Functions and classes made while tracing."""

from __future__ import annotations

import builtins
import types
from typing import TYPE_CHECKING, Any

from aotdyn.rewrite.originals import original

from ..control import graph_break
from ..handlers import handles
from ..values import Builtin, Cell, Function, Mapping, Sequence, Value, force
from .containers import build_map
from .table import opcode

if TYPE_CHECKING:
    from aotdyn.guards.sources import Source

    from ..decode import Instruction
    from ..frame import Frame


class CodeValue(Value):
    """A code object among the constants of another: constants `path` of the code at `owner` (see `Function`)."""

    __slots__ = ("code", "owner", "path")
    cls = types.CodeType

    def __init__(self, code: types.CodeType, owner: Source | None, path: tuple[int, ...]) -> None:
        super().__init__()
        self.code, self.owner, self.path = code, owner, path


def constant_code(frame: Frame, ins: Instruction) -> CodeValue | None:
    """The value of a constant that is a code object, None for other constants."""
    code = frame.code.co_consts[ins.arg]  # not the argval, which an equal code object of another file may share
    if not isinstance(code, types.CodeType):
        return None
    return CodeValue(code, frame.owner, (*frame.path, ins.arg))


@opcode("MAKE_FUNCTION")
def MAKE_FUNCTION(t: Any, frame: Frame, ins: Instruction) -> None:
    made = frame.pop()
    assert isinstance(made, CodeValue)
    closure = _items(frame.pop()) if ins.arg & 8 else []
    annotations = _annotations(t, frame.pop()) if ins.arg & 4 else None
    kwdefaults = _named(frame.pop()) if ins.arg & 2 else {}
    defaults = _items(frame.pop()) if ins.arg & 1 else []
    frame.push(
        Function(
            original(made.code),
            frame.globals,
            name=made.code.co_name,
            qualname=made.code.co_qualname,
            defaults=tuple(defaults),
            kwdefaults=kwdefaults,
            closure=tuple(cell for cell in closure if isinstance(cell, Cell)),
            annotations=annotations,
            owner=made.owner,
            path=made.path,
        )
    )


def _items(value: Value) -> list[Value]:
    value = force(value)
    assert isinstance(value, Sequence)
    return value.items


def _named(value: Value) -> dict[str, Value]:
    """Keyword defaults: a dict that the compiler built, with names for keys."""
    assert isinstance(value, Mapping)
    assert value.entries is not None
    return {key.value: default for key, default in value.entries.values()}  # type: ignore[attr-defined]


def _annotations(t: Any, flat: Value) -> Mapping:
    """`__annotations__` from the compiler's tuple of names and values in turn."""
    items = _items(flat)
    return build_map(t, items[::2], items[1::2])


@opcode("LOAD_BUILD_CLASS")
def LOAD_BUILD_CLASS(t: Any, frame: Frame, ins: Instruction) -> None:
    frame.push(Builtin(builtins.__build_class__))


@handles(builtins.__build_class__)
def build_class(t: Any, *args: Value, **kwargs: Value) -> Value:
    """A class statement: Python makes the class, and the trace goes on behind it."""
    graph_break("A class is defined.", "Define the class outside of the compiled function.")
