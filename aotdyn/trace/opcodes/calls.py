"""Calls. The stack holds "NULL, callable, arguments" or "method, self, arguments"."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import model
from ..values import NULL, Mapping, Value, force
from .containers import described, iterable
from .table import opcode

if TYPE_CHECKING:
    from ..decode import Instruction
    from ..frame import Frame


def _call(t: Any, frame: Frame, function: Value, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """Call on behalf of the frame's own CALL: the callee's frame may be resumed by a nested continuation."""
    frame.calling = True
    try:
        return model.call(t, function, args, kwargs)
    finally:
        frame.calling = False


@opcode("KW_NAMES")
def KW_NAMES(t: Any, frame: Frame, ins: Instruction) -> None:
    frame.kw_names = ins.argval


@opcode("CALL")
def CALL(t: Any, frame: Frame, ins: Instruction) -> None:
    first, second, *args = frame.popn(ins.arg + 2)
    function, args = (second, args) if first is NULL else (first, [second, *args])
    split = len(args) - len(frame.kw_names)
    kwargs = dict(zip(frame.kw_names, args[split:], strict=True))
    frame.push(_call(t, frame, function, args[:split], kwargs))
    frame.kw_names = ()  # after a break they still say how the call was written


@opcode("CALL_FUNCTION_EX")
def CALL_FUNCTION_EX(t: Any, frame: Frame, ins: Instruction) -> None:
    kwargs = _keywords(t, frame.pop()) if ins.arg & 1 else {}
    _null, function, star = frame.popn(3)
    if not iterable(t, star):
        what = f"{described(t, function)} argument after * must be an iterable"
        t.raise_(TypeError, f"{what}, not {model.type_of(t, star).__name__}")
    frame.push(_call(t, frame, function, model.unpack(t, star), kwargs))


def _keywords(t: Any, mapping: Value) -> dict[str, Value]:
    """Keyword arguments from the dict that DICT_MERGE filled."""
    mapping = force(mapping)
    assert isinstance(mapping, Mapping)
    assert mapping.entries is not None
    found = {}
    for key, value in mapping.entries.values():
        if not issubclass(model.type_of(t, key), str):
            t.raise_(TypeError, "keywords must be strings")
        found[str(model.as_constant(key))] = value
    return found
