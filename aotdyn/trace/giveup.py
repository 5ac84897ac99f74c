"""Which frames a break gives up, and which operation Python then runs.

A chain of frames, each of which called the next by a CALL of its own, can be
given up at the innermost: every one resumes behind its call. Elsewhere, and
where a callee is better off with Python, the chain is cut at a caller's
operation, which then runs the callee whole.
"""

from __future__ import annotations

import inspect
import sys
from typing import TYPE_CHECKING, Any

import torch

from aotdyn.runtime.worth import MET, meets_tensors

from .torch_.leaf import is_leaf
from .values import NULL, Builtin, Lazy, Mapping, Method, Object, Sequence, Tensor, Value

if TYPE_CHECKING:
    from types import CodeType

    from .frame import Frame

_GENERATOR = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


def last_frame(t: Any, innermost: Frame) -> Frame:
    """The innermost frame that a break resumes: Python runs its current operation.

    It lies outside of every frame that wasn't called by a CALL, and, under the
    hook, of every stub (Python's call of one is compiled by itself, once for
    all of its callers) and of every constructor. Frames that captured nothing
    and were on the way to one, or were handed no tensor (a helper that reads
    files), aren't resumed either; nor are those of the standard library below
    the last of the program's: what they keep (`copy.deepcopy` the addresses of
    objects) is of no use to a continuation. `torch.cond` and its kin go another
    way where they are traced than the one that Python goes: they are left whole.
    """
    chain = chain_of(innermost)
    last = next((i for i, inner in enumerate(chain[1:]) if not _resumes(inner)), len(chain) - 1)
    last = next((i for i, inner in enumerate(chain[1 : last + 1]) if _of_an_operator(inner)), last)
    while last and _of_the_library(chain[last]):
        last -= 1
    if not t.hooked:
        return chain[last]
    whole = next((i for i, inner in enumerate(chain[1 : last + 1]) if inner.stub or constructs(inner.code)), None)
    captured = t.operations if whole is None else chain[whole + 1].entered
    last = last if whole is None else whole
    while last and captured == chain[last].entered and (whole is not None or not _handed_tensors(chain[last])):
        last -= 1
    return chain[last]


def constructs(code: CodeType) -> bool:
    """Whether code is a constructor's: it runs once an object, and what it computes is rarely worth a graph."""
    return code.co_name == "__init__"


def called_from(innermost: Frame, last: Frame) -> Frame | None:
    """The frame that `last`'s current operation entered; None where `last` is the innermost."""
    frame: Frame | None = innermost
    found = None
    while frame is not None and frame is not last:
        found, frame = frame, frame.caller
    return found


def chain_of(innermost: Frame) -> list[Frame]:
    """A frame and its callers, outermost first."""
    chain = []
    frame: Frame | None = innermost
    while frame is not None:
        chain.append(frame)
        frame = frame.caller
    return chain[::-1]


def is_tensor_operation(frame: Frame) -> bool:
    """Whether the current operation of a frame is one of torch's on tensors: what Python runs in place of a graph."""
    stack = frame.saved
    if "CALL" not in frame.instruction.opname and frame.instruction.opname != "KW_NAMES":
        return any(issubclass(value.cls, torch.Tensor) for value in stack[-2:])
    count = next((each.arg for each in frame.decoded.instructions[frame.index :] if each.opname == "CALL"), 0)
    if frame.instruction.opname == "CALL_FUNCTION_EX":
        count = frame.instruction.arg & 1
    callee, receiver = stack[-count - 2 :][:2] if len(stack) >= count + 2 else (NULL, NULL)
    if callee is NULL:
        callee = receiver
    elif issubclass(receiver.cls, torch.Tensor):
        return True
    function = callee.value if isinstance(callee, Lazy) and callee.value is not None else callee
    if isinstance(function, Method):
        return issubclass(function.self_value.cls, torch.Tensor)
    named = getattr(function, "obj", None)
    module: str = getattr(named, "__module__", None) or getattr(type(named), "__module__", None) or ""
    return isinstance(function, Builtin) and (module.startswith("torch") or is_leaf(named))


def _resumes(frame: Frame) -> bool:
    return frame.by_call and not frame.code.co_flags & _GENERATOR


def _of_the_library(frame: Frame) -> bool:
    """Whether a frame runs code of Python's standard library."""
    name = frame.globals.obj.get("__name__")
    return isinstance(name, str) and name != "__main__" and name.partition(".")[0] in sys.stdlib_module_names


def _of_an_operator(frame: Frame) -> bool:
    """Whether a frame is in front of one of torch's operators that take functions."""
    return str(frame.globals.obj.get("__name__")).startswith("torch._higher_order_ops.")


def _handed_tensors(frame: Frame) -> bool:
    return any(_is_tensors(each) for each in frame.given)


def _is_tensors(value: Value, depth: int = 2) -> bool:
    """Whether a parameter is, or shallowly holds, a tensor or a module. Looks only: no guard is noted."""
    if isinstance(value, Lazy):
        return meets_tensors((value.obj,)) if value.value is None else _is_tensors(value.value, depth)
    if isinstance(value, Tensor) or (issubclass(value.cls, MET) and value.source is not None):
        return True  # a module made while tracing is known by what it holds
    inner: list[Any] = []
    if isinstance(value, Sequence):
        inner = list(value.items)
    elif isinstance(value, Mapping):
        inner = [each for _, each in (value.entries or {}).values()]
    elif isinstance(value, Object):
        inner = list(value.attrs.values())
    if depth and any(each is not None and _is_tensors(each, depth - 1) for each in inner):
        return True
    return meets_tensors((getattr(value, "obj", None),))
