"""Whether a call may have tensor operations in it: what the hook asks before it lets the tracer loose.

Most functions of a hooked package never see a tensor. One is looked at again
at each call, so nothing is decided for good.
"""

from __future__ import annotations

import types
from typing import Any

import torch

LOOKED_AT = 64
"How many objects a look at one call may touch."

_PLAIN = (
    *(str, bytes, int, float, complex, type(None), type),
    *(types.FunctionType, types.BuiltinFunctionType, types.ModuleType),
)
MET = (torch.Tensor, torch.nn.Module, torch.optim.Optimizer)


def meets_tensors(args: tuple[Any, ...]) -> bool:
    """Whether tensors or modules are among the arguments, in their containers, or one attribute away.

    A wrong "no" costs a capture, a wrong "yes" a trace; neither changes a result.
    """
    queue: list[tuple[Any, int]] = [(arg, 2) for arg in args]
    for _ in range(LOOKED_AT):
        if not queue:
            return False
        obj, depth = queue.pop(0)
        kind = type(obj)  # isinstance would ask the object for its __class__, and run its code
        if issubclass(kind, MET):
            return True
        if depth == 0 or issubclass(kind, _PLAIN):
            continue
        queue.extend((each, depth - 1) for each in _parts(obj))
    return False


def _parts(obj: Any) -> list[Any]:
    kind = type(obj)
    if kind in (list, tuple, set, frozenset):
        return list(obj)[:16]
    if kind is dict:
        return list(obj.values())[:16]
    if kind is types.CellType:
        try:
            return [obj.cell_contents]
        except ValueError:
            return []
    if kind is types.MethodType:
        return [obj.__self__]
    try:
        return list(object.__getattribute__(obj, "__dict__").values())[:32]
    except AttributeError:
        return []
