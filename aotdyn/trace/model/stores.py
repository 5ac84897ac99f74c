"""Attribute writes: data descriptors, `__setattr__` and `__delattr__`, then the instance.

Follows the language reference, 3.3.2, and CPython's PyObject_GenericSetAttr.
"""

from __future__ import annotations

import threading
import types
from typing import TYPE_CHECKING

from aotdyn.guards.sources import Attr

from ..control import Break
from ..values import Cell, Class, Const, Function, Module, Object, Tensor, Value, force
from .attributes import _is_data_descriptor, _wrap_raw, class_lookup, instance_lookup, raise_no_attribute

if TYPE_CHECKING:
    from ..tracer import Tracer

IMMUTABLE = 1 << 8
"""Py_TPFLAGS_IMMUTABLETYPE: attributes of the class can't be set."""


_OF_FUNCTIONS = frozenset(
    ("__code__", "__defaults__", "__kwdefaults__", "__annotations__", "__closure__", "__globals__", "__builtins__")
    + ("__dict__", "__class__")
)
"""Attributes of a function by which it is what it is."""


def set_attr(t: Tracer, v: Value, name: str, value: Value) -> None:
    """`v.name = value`."""
    _store_attr(t, force(v), name, value)


def del_attr(t: Tracer, v: Value, name: str) -> None:
    """`del v.name`."""
    _store_attr(t, force(v), name, None)


def _store_attr(t: Tracer, v: Value, name: str, value: Value | None) -> None:
    from .calls import call

    if isinstance(v, Tensor):
        from ..torch_.tensors import set_tensor_attr

        if value is None:
            raise Break("deleting an attribute of a tensor")
        set_tensor_attr(t, v, name, value)
        return
    if isinstance(v, Module):
        if value is None and t.name_in(v.namespace, name) is None:
            t.raise_(AttributeError, f"'module' object has no attribute {name!r}")
        t.store_global(v.namespace, name, value)
        return
    if isinstance(v, Function):
        if name == "__annotations__" and v.obj is None:
            v.annotations = value
            return
        if name in _OF_FUNCTIONS:
            raise Break(f"setting {name} of a function")
        if value is None and v.attrs.get(name) is None:
            raise Break(f"deleting {name} of a function")
        if v.obj is not None:
            t.own_dict(v)
        t.mutated(v)
        given = force(value) if value is not None else None
        if name in ("__name__", "__qualname__") and isinstance(given, Const):
            setattr(v, name.strip("_"), given.value)
        v.attrs[name] = value
        return
    if isinstance(v, Class):
        _store_on_class(t, v, name, value)
        return
    if isinstance(v, Cell) and name == "cell_contents":
        t.set_cell(v, value)
        return
    if not isinstance(v, Object):
        raise Break(f"setting attribute {name!r} of a {v.cls.__qualname__}")
    hook = class_lookup(t, v.cls, "__delattr__" if value is None else "__setattr__")
    if hook is not None and isinstance(hook[0], (types.FunctionType, Function)):
        args = [v, Const(name)] if value is None else [v, Const(name), value]
        call(t, _wrap_raw(t, *hook), args, {})
        return
    if issubclass(v.cls, threading.local) and v.cls is not threading.local:
        raise Break("an attribute of this thread alone")
    generic_set_attr(t, v, name, value)


def _store_on_class(t: Tracer, v: Class, name: str, value: Value | None) -> None:
    """`type.__setattr__` (or `__delattr__`): what the metaclass has no say in."""
    hook = "__delattr__" if value is None else "__setattr__"
    if any(isinstance(each.__dict__.get(hook), types.FunctionType) for each in type.mro(type(v.obj))):
        raise Break(f"setting an attribute of a class with a metaclass's {hook}")
    if v.obj.__flags__ & IMMUTABLE:
        raise Break(f"setting an attribute of {v.obj.__qualname__}, which can't be changed")
    of_kind = class_lookup(t, type(v.obj), name)
    if of_kind is not None and not isinstance(of_kind[0], Value) and _is_data_descriptor(of_kind[0]):
        raise Break(f"setting {name} of a class")
    if value is None and _own(v, name) is None:
        raise Break(f"deleting {name} of a class that hasn't it itself")
    t.mutated(v)
    v.attrs[name] = value
    t.classes[v.obj] = v


def _own(v: Class, name: str) -> object:
    """What a class's own dict holds; None where it has no such name."""
    return v.attrs[name] if name in v.attrs else v.obj.__dict__.get(name)


def generic_set_attr(t: Tracer, v: Value, name: str, value: Value | None) -> None:
    """`object.__setattr__` (or `__delattr__`, with value None)."""
    from .calls import call

    if not isinstance(v, Object):
        raise Break(f"setting attribute {name!r} of a {v.cls.__qualname__}")
    raw = class_lookup(t, v.cls, name)
    if raw is not None and not isinstance(raw[0], Value) and _is_data_descriptor(raw[0]):
        descriptor, source = raw
        if isinstance(descriptor, property):
            part = "fdel" if value is None else "fset"
            function = getattr(descriptor, part)
            if function is None:
                what = "deleter" if value is None else "setter"
                t.raise_(AttributeError, f"property {name!r} of {v.cls.__name__!r} object has no {what}")
            call(
                t,
                _wrap_raw(t, function, Attr(source, part) if source else None),
                [v] if value is None else [v, value],
                {},
            )
            return
        if name == "__class__" or name == "__dict__":
            raise Break(f"setting {name}")
        hook = class_lookup(t, type(descriptor), "__delete__" if value is None else "__set__")
        if hook is not None and isinstance(hook[0], types.FunctionType):
            call(
                t, _wrap_raw(t, *hook), [_wrap_raw(t, *raw), v] if value is None else [_wrap_raw(t, *raw), v, value], {}
            )
            return
        if not isinstance(descriptor, types.MemberDescriptorType) and not issubclass(v.cls, BaseException):
            raise Break(f"setting attribute {name!r} through a {type(descriptor).__name__}")
    if value is None and instance_lookup(t, v, name) is None:
        if raw is not None and isinstance(raw[0], types.MemberDescriptorType) and v.obj is None:
            t.raise_(AttributeError, name)  # `PyMember_SetOne`
        raise_no_attribute(t, v, name)
    if raw is None and not _has_dict(v.cls):
        t.raise_(AttributeError, f"{v.cls.__name__!r} object has no attribute {name!r}")
    if v.obj is not None:
        t.own_dict(v)
    t.mutated(v)
    v.attrs[name] = value
    if name == "__traceback__" and issubclass(v.cls, BaseException):
        _set_traceback(t, v, value)


def _set_traceback(t: Tracer, v: Object, value: Value | None) -> None:
    """`e.__traceback__ = value`: frames that the exception leaves from now on come on top of it."""
    from ..opcodes.exceptions import TracebackValue

    known = force(value) if value is not None else None
    if v.obj is None and (isinstance(known, TracebackValue) or (isinstance(known, Const) and known.value is None)):
        t.thrown[v] = known.lines if isinstance(known, TracebackValue) else ()


def _has_dict(cls: type) -> bool:
    return cls.__dictoffset__ != 0 or cls is threading.local
