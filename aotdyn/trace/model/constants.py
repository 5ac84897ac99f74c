"""Values that are known whole, and the way between them and Python's objects."""

from __future__ import annotations

import enum
import types
from typing import Any

import numpy
import torch

from aotdyn.guards.constants import NUMPY_SCALARS, is_bound_enum, plain_dtype

from ..control import NotConstant
from ..values import Builtin, Class, Const, Function, Mapping, Module, Scalar, Sequence, SetValue, Value, force

CONSTANT_TYPES = frozenset(
    [type(None), bool, int, float, complex, str, bytes, type(...), type(NotImplemented), slice, range]
    + [torch.dtype, torch.device, torch.layout, torch.memory_format, *NUMPY_SCALARS]
)


def is_constant_object(obj: Any) -> bool:
    """Whether an object is one that a Const stands for."""
    cls = type(obj)
    return (
        cls in CONSTANT_TYPES
        or issubclass(cls, enum.Enum)
        or is_bound_enum(cls)
        or (issubclass(cls, numpy.dtype) and plain_dtype(obj))
    )


def constant(obj: Any) -> Value:
    """The value of an object that Python code computed from constants alone: immutable, or new."""
    if type(obj) is tuple or isinstance(obj, torch.Size) or hasattr(type(obj), "n_sequence_fields"):
        return Sequence(type(obj), [constant(each) for each in obj])
    if type(obj) is list:
        return Sequence(list, [constant(each) for each in obj])
    if type(obj) in (set, frozenset):
        return SetValue(type(obj), {each: constant(each) for each in obj})
    if type(obj) is dict:
        return Mapping(dict, {key: (constant(key), constant(each)) for key, each in obj.items()})
    if isinstance(obj, type):
        return Class(obj)
    if isinstance(obj, (types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType)):
        return Builtin(obj)
    return Const(obj)


def as_constant(value: Value) -> Any:
    """The immutable object that `value` stands for; raises NotConstant. A size that varies becomes a constant."""
    value = force(value)
    if isinstance(value, Scalar):
        return settled(value)
    if isinstance(value, Const):
        return value.value
    if isinstance(value, Sequence) and issubclass(value.cls, tuple):
        items = [as_constant(each) for each in value.items]
        if value.cls is tuple or value.cls is torch.Size:
            return value.cls(items)
        if hasattr(value.cls, "_fields"):
            return tuple.__new__(value.cls, items)
        return value.cls(items)
    if isinstance(value, SetValue) and value.cls is frozenset:
        return frozenset(as_constant(each) for each in value.items.values())
    if isinstance(value, (Class, Builtin)) and not getattr(value, "attrs", None):
        return value.obj
    raise NotConstant(value)


def settled(value: Scalar) -> Any:
    """The number that a symbol stands for in this call, which is guarded; raises NotConstant where data decides."""
    from aotdyn.graph.build import quiet

    try:
        with quiet():
            return value.cls(value.sym)
    except (RuntimeError, TypeError) as error:
        raise NotConstant(value) from error


def is_constant(value: Value) -> bool:
    """Whether `as_constant` succeeds, and makes no size a constant."""
    value = force(value)
    if isinstance(value, Sequence) and issubclass(value.cls, tuple):
        return all(is_constant(each) for each in value.items)
    if isinstance(value, SetValue) and value.cls is frozenset:
        return all(is_constant(each) for each in value.items.values())
    return isinstance(value, Const) or (isinstance(value, (Class, Builtin)) and not getattr(value, "attrs", None))


def as_python(value: Value) -> Any:
    """A Python object equal to `value`, made anew for lists, dicts and sets of constants; raises NotConstant.

    For C functions that only read their arguments.
    """
    value = force(value)
    if isinstance(value, Sequence) and value.cls is list:
        return [as_python(each) for each in value.items]
    if isinstance(value, Sequence) and value.cls is tuple:
        return tuple(as_python(each) for each in value.items)
    if isinstance(value, Mapping) and value.cls is dict and value.entries is not None:
        return {as_python(key): as_python(each) for key, each in value.entries.values()}
    if isinstance(value, SetValue):
        return value.cls(as_python(each) for each in value.items.values())
    if isinstance(value, Function) and value.obj is not None:
        raise NotConstant(value)
    if isinstance(value, Module):
        raise NotConstant(value)
    return as_constant(value)
