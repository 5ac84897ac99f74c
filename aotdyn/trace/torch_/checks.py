"""Branches on data one of whose sides only raises: `assert x.min().item() > 0`, `if x.isnan().any(): raise ...`.

The trace goes on with the other side, and the graph computes whether that was
right. Behind the graph, before any effect, the epilogue looks (`check`): where
it wasn't, all gives way to the body, which decides and raises natively. So
there is only a check where that can be: the graph has changed nothing before,
nor does it behind (`t.raises_into_handler`), and no handler of the user's waits
for the exception, which would then be a usual way to go.
"""

from __future__ import annotations

import operator
from typing import Any

import torch

from aotdyn.graph import effects
from aotdyn.guards.tensors import plain_class

from ..decode import Decoded
from ..flows import Data, Flow, of_data
from ..symbols import COMPARISONS, FUNCTIONS
from ..values import Const, Tensor, Value, force
from . import calls
from .tensors import known_number

ENDS = frozenset(("RAISE_VARARGS", "RERAISE"))
FAR = 200
"""Instructions that are looked at for the end of a side."""
EXACT = 2**53
"""Up to here a float holds every int."""
OPERATORS = {symbol: FUNCTIONS[symbol] for symbol in ("+", "-", "*", *COMPARISONS)}


def branch(t: Any, frame: Any, ins: Any, value: Value) -> bool:
    """The truth of what a conditional jump of `frame` tests: decided by a check where one of its sides only raises."""
    from .. import model

    value = force(value)
    if _of_data(value):
        jumps, falls = (only_raises(frame.decoded, frame.index, start) for start in (ins.target, frame.index + 1))
        on_true = "IF_TRUE" in ins.opname
        if jumps != falls and holds(t, value, on_true != jumps):
            return on_true != jumps
    return model.truth(t, value)


def holds(t: Any, value: Value, expected: bool) -> bool:
    """Record a check that the truth of a value of data is as expected; False where there can't be one."""
    value = force(value)
    if not _of_data(value) or t.impure or t.in_try() or t.builder.scope.outer or effects.batching_level():
        return False
    condition = _condition(t, value)
    if condition is None:
        return False
    if not expected:
        condition = _tensor(t, "logical_not", condition)
    t.checks.append(condition)
    t.raises_into_handler = True
    return True


def only_raises(decoded: Decoded, branch: int, start: int) -> bool:
    """Whether all that is reached from an instruction ends in a raise that nothing in the frame handles."""
    handler = decoded.handlers[branch]
    waiting, seen = [start], set()
    while waiting:
        index = waiting.pop()
        if index in seen:
            continue
        seen.add(index)
        ins = decoded.instructions[index]
        if len(seen) > FAR or decoded.handlers[index] is not handler or 0 <= ins.target <= index:
            return False
        if ins.opname in ENDS:
            continue
        if ins.opname.startswith(("RETURN", "YIELD", "SEND")):
            return False
        if ins.target >= 0:
            waiting.append(ins.target)
        if ins.opname != "JUMP_FORWARD":
            waiting.append(index + 1)
    return True


def _of_data(value: Value) -> bool:
    """Whether the truth of a value depends on one number of data, or on a few."""
    if isinstance(value, Tensor):
        fake = value.fake
        plain = plain_class(value.cls) and fake.layout is torch.strided and fake.device.type != "meta"
        one = all(isinstance(size, int) and size == 1 for size in fake.shape)
        return plain and one and known_number(value) is None
    return isinstance(value, Flow) and of_data(value)


def _condition(t: Any, value: Value) -> Tensor | None:
    """The truth of a value of data as a tensor; None where it can't be one."""
    number = _number(t, value)
    if number is None:
        return None
    if number.fake.dtype is not torch.bool:
        number = _tensor(t, operator.ne, number, Const(0))
    return number


def _number(t: Any, value: Value) -> Tensor | None:
    """A number of data, or what is computed of such, in a tensor whose dtype holds Python's; None where none does."""
    if isinstance(value, Data):
        value.current()
        found = value.tensor
        for index in value.path:
            found = _tensor(t, operator.getitem, found, Const(index))
        return _as_python(t, found)
    if isinstance(value, Tensor):
        return _as_python(t, value)
    assert isinstance(value, Flow)
    operands = [_number(t, each) if isinstance(each, Flow) and of_data(each) else each for each in value.operands]
    if None in operands or any(isinstance(each, Flow) for each in operands):
        return None
    dtypes = {each.fake.dtype for each in operands if isinstance(each, Tensor)}
    if len(dtypes) != 1 or value.symbol not in OPERATORS:
        return None
    dtype = dtypes.pop()
    if dtype is not torch.float64 and value.symbol not in COMPARISONS:
        return None  # Python's ints don't overflow
    sides = [each if isinstance(each, Tensor) else _constant(each, dtype) for each in operands]
    known = [each for each in sides if each is not None]
    return _tensor(t, OPERATORS[value.symbol], *known) if len(known) == len(sides) else None


def _tensor(t: Any, target: Any, *args: Value) -> Tensor:
    """The result of an operator that gives a tensor."""
    found = force(calls.record(t, target, args, {}))
    assert isinstance(found, Tensor)
    return found


def _as_python(t: Any, found: Tensor) -> Tensor | None:
    """A tensor of one number with a dtype in which torch computes with it as Python does."""
    dtype = _EXACTLY.get(found.fake.dtype)
    return None if dtype is None else _tensor(t, "to", _tensor(t, "detach", found), Const(dtype))


_EXACTLY = {
    torch.bool: torch.bool,
    **dict.fromkeys((torch.float16, torch.bfloat16, torch.float32, torch.float64), torch.float64),
    **dict.fromkeys((torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64), torch.int64),
}


def _constant(value: Value | None, dtype: torch.dtype) -> Const | None:
    """A number beside one of `dtype`, as one of its kind; None where that isn't exact."""
    known: Any = getattr(value, "value", None)
    if type(known) not in (bool, int, float) or not abs(known) <= EXACT:
        return None
    if dtype is torch.float64:
        return Const(float(known))
    return Const(int(known)) if known == int(known) and dtype is torch.int64 else None
