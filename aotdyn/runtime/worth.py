"""Whether a call may have tensor operations in it: what the hook asks before it lets the tracer loose.

Most functions of a hooked package never see a tensor. One is looked at again
at each call, so nothing is decided for good.
"""

from __future__ import annotations

import builtins
import functools
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch

LOOKED_AT = 64
"How many objects a look at one call may touch."

_PLAIN = (
    *(str, bytes, int, float, complex, type(None), type),
    *(types.FunctionType, types.BuiltinFunctionType, types.ModuleType),
)
_COMMON = frozenset(map(id, (*_PLAIN, bool)))
"By identity: a metaclass of the program's may have made its classes unhashable."
MET = (torch.Tensor, torch.nn.Module, torch.optim.Optimizer)


def meets(args: tuple[Any, ...], globals: dict[str, Any], code: Callable[[], types.CodeType]) -> bool:
    """Whether a call meets tensors: its arguments, or what its code names of its module."""
    return meets_tensors(args) or names_tensors(globals, code().co_names)


def meets_tensors(args: tuple[Any, ...]) -> bool:
    """Whether tensors or modules are among the arguments, in their containers, or one attribute away.

    A wrong "no" costs a capture, a wrong "yes" a trace; neither changes a result.
    """
    for arg in args:
        if id(type(arg)) not in _COMMON:
            break
    else:
        return False
    level, left = list(args), LOOKED_AT
    for deeper in (True, True, False):
        parts: list[Any] = []
        for obj in level[:left]:
            kind = type(obj)  # isinstance would ask the object for its __class__, and run its code
            if id(kind) in _COMMON:
                continue
            if issubclass(kind, MET):
                return True
            if deeper and not issubclass(kind, _PLAIN):
                parts += _parts(obj)
        left -= len(level)
        if not parts or left <= 0:
            return False
        level = parts
    return False


def names_tensors(globals: dict[str, Any], names: tuple[str, ...]) -> bool:
    """Whether code that uses these names finds tensors or modules among its globals by them."""
    for name in names:
        kind = type(globals.get(name))
        if id(kind) not in _COMMON and issubclass(kind, MET):
            return True
    return False


CALLS = frozenset(("forward", "__call__", "step"))
"Methods that stand for what a module, or an optimizer, does with tensors, whatever their own code names."


CALCULATES = frozenset(("-", "*", "@", "/", "**"))
"Signs that stand for little else than a calculation; `+` and `%` make texts and lists as well."


def names_operations(code: types.CodeType) -> bool:
    """Whether a function's code, or one nested in it, names operators of torch, or calculates.

    A wrong answer changes when a function is traced, never a result.
    """
    import dis

    if names_operators(code):
        return True
    return any(
        ins.opname == "BINARY_OP" and ins.argrepr.rstrip("=") in CALCULATES
        for each in _nested(code)
        for ins in dis.get_instructions(each)
    )


def names_operators(code: types.CodeType) -> bool:
    """The same of names alone."""
    return any(each.co_name in CALLS or not _operators().isdisjoint(each.co_names) for each in _nested(code))


def _nested(code: types.CodeType) -> Iterator[types.CodeType]:
    """A code, and all within."""
    yield code
    for each in code.co_consts:
        if isinstance(each, types.CodeType):
            yield from _nested(each)


@functools.cache
def _operators() -> frozenset[str]:
    """Names of operators that stand for nothing else in ordinary Python, and ask no more than what a tensor is like."""
    functional = vars(torch.nn.functional).items()
    functions = {name for name, found in functional if getattr(found, "__module__", "") == "torch.nn.functional"}
    in_place = {name for name in dir(torch.Tensor) if name.endswith("_")}
    usual = {name for kind in (object, str, int, float, list, dict, set, torch.nn.Module) for name in dir(kind)}
    found = functions.union(in_place, dir(torch._C._VariableFunctions), dir(torch._C._nn)) - usual - {*dir(builtins)}
    found -= {"can_cast", "from_numpy", "numel", "promote_types", "result_type"}
    return frozenset(name for name in found if not name.startswith(("_", "is_", "get_", "set_", "requires_")))


def _parts(obj: Any) -> list[Any]:
    kind = type(obj)
    if any(kind is each for each in (list, tuple, set, frozenset)):
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
