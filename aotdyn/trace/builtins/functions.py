"""Builtin functions that look at objects: types, attributes, text, iteration, `super`."""

from __future__ import annotations

import builtins
import sys
import types
from typing import Any

from aotdyn.guards.sources import Pure
from aotdyn.trace import flows, model
from aotdyn.trace.control import Break, Raised, graph_break
from aotdyn.trace.handlers import handles
from aotdyn.trace.model.calls import special_method
from aotdyn.trace.model.groups import exceptions_of
from aotdyn.trace.values import (
    Address,
    Builtin,
    Class,
    Const,
    Function,
    Generator,
    Group,
    InstanceDict,
    Mapping,
    Method,
    Namespace,
    Object,
    Scalar,
    Sequence,
    SetValue,
    Super,
    Tensor,
    Value,
    force,
)

from .common import catches, native, new_tuple, none, specialize, text, type_name
from .sets import in_any_order


@handles(len)
def _len(t: Any, value: Value) -> Value:
    value = force(value)
    if isinstance(value, Tensor) and value.fake.dim():
        return model.get_item(t, model.get_attr(t, value, "shape"), Const(0))
    length = model.length(t, value)
    return length if isinstance(length, Value) else Const(length)


@handles(isinstance)
def _isinstance(t: Any, value: Value, classinfo: Value) -> Value:
    _check(t, classinfo, "isinstance() arg 2 must be a type, a tuple of types, or a union")
    return Const(model.is_instance(t, value, classinfo))


def _check(t: Any, classinfo: Value, message: str) -> None:
    """TypeError for what is no class, tuple or union."""
    value = force(classinfo)
    if isinstance(value, (Scalar, Tensor, Function, Mapping)) or (
        isinstance(value, Const) and not isinstance(value.value, types.UnionType)
    ):
        t.raise_(TypeError, message)


@handles(issubclass)
def _issubclass(t: Any, cls: Value, classinfo: Value) -> Value:
    cls = force(cls)
    if not isinstance(cls, Class):
        return t.raise_(TypeError, "issubclass() arg 1 must be a class")
    _check(t, classinfo, "issubclass() arg 2 must be a class, a tuple of classes, or a union")
    return Const(model.is_subclass(t, cls.obj, classinfo))


@handles(hasattr)
def _hasattr(t: Any, value: Value, name: Value) -> Value:
    return Const(model.has_attr(t, value, text(t, name, "hasattr(): attribute name must be string")))


@handles(sys.exc_info)
def _exc_info(t: Any) -> Value:
    """Nothing, where no exception is being handled, here or by a caller outside of the trace."""
    from aotdyn.trace.opcodes.exceptions import handled

    if handled(t) is not None or sys.exc_info()[1] is not None:
        raise Break("sys.exc_info() while an exception is handled", "A traceback is Python's to make.")
    t.guard("CONST", Pure("sys.exc_info"), True)
    return new_tuple([none(), none(), none()])


@handles(getattr)
def _getattr(t: Any, value: Value, name: Value, *default: Value) -> Value:
    attribute = text(t, name, "getattr(): attribute name must be string")
    try:
        return model.get_attr(t, value, attribute)
    except Raised as error:
        if not default or not catches(error, AttributeError):
            raise
        return default[0]


@handles(setattr)
def _setattr(t: Any, value: Value, name: Value, new: Value) -> Value:
    model.set_attr(t, value, text(t, name, f"attribute name must be string, not '{type_name(name)}'"), new)
    return none()


@handles(delattr)
def _delattr(t: Any, value: Value, name: Value) -> Value:
    model.del_attr(t, value, text(t, name, f"attribute name must be string, not '{type_name(name)}'"))
    return none()


@handles(type)
def _type(t: Any, value: Value, *more: Value, **kwargs: Value) -> Value:
    if more or kwargs:
        raise Break("type() makes a class")
    return model.class_value(t, model.type_of(t, value))


@handles(callable)
def _callable(t: Any, value: Value) -> Value:
    value = force(value)
    if isinstance(value, (Function, Method, Builtin, Class)):
        return Const(True)
    if isinstance(value, Const):
        return Const(callable(value.value))
    return Const(model.class_lookup(t, model.type_of(t, value), "__call__") is not None)


@handles(hash)
def _hash(t: Any, value: Value) -> Value:
    value = force(value)
    if isinstance(value, Object) and isinstance(value.cls.__hash__, types.FunctionType):
        return model.call_method(t, value, "__hash__")
    if isinstance(value, (Mapping, InstanceDict, Namespace)) or (isinstance(value, Sequence) and value.cls is list):
        return t.raise_(TypeError, f"unhashable type: '{type_name(value)}'")
    if isinstance(value, SetValue) and value.cls is set:
        return t.raise_(TypeError, "unhashable type: 'set'")
    known = native(t, value)
    if not _hashes_alike(known):
        raise Break("hash() of an object whose hash differs from process to process")
    return Const(hash(known))


def _hashes_alike(value: Any) -> bool:
    """Whether the hash is the same in every process: no str, bytes or address in it."""
    if isinstance(value, tuple):
        return all(_hashes_alike(item) for item in value)
    return type(value) in (int, bool, float, complex) and value == value


@handles(repr, list.__repr__, tuple.__repr__, dict.__repr__)
def _repr(t: Any, value: Value) -> Value:
    return flows.text(force(value), "r") or Const(repr_text(t, value))


@handles(ascii)
def _ascii(t: Any, value: Value) -> Value:
    return Const(repr_text(t, value).encode("ascii", "backslashreplace").decode())


def repr_text(t: Any, value: Value) -> str:
    """`repr(value)` where it is known and the same in every process."""
    value = force(value)
    if isinstance(value, Scalar):
        return repr(specialize(t, value))
    if isinstance(value, Class):
        return repr(value.obj) if type(value.obj).__repr__ is type.__repr__ else graph_break("repr() by a metaclass")
    if isinstance(value, Object):
        return _object_repr(t, value)
    if isinstance(value, (Sequence, Mapping)) and value.cls in (list, tuple, dict):
        return _container_repr(t, value)
    if hasattr(value, "shown"):
        return value.shown(t)
    _check_repr(value)
    return repr(native(t, value))


def _container_repr(t: Any, value: Sequence | Mapping) -> str:
    """`repr` of a list, tuple or dict, of what it holds; of one that is inside itself, three dots."""
    opening, closing = ("[", "]") if value.cls is list else ("(", ")") if value.cls is tuple else ("{", "}")
    if value in t.shown:
        return f"{opening}...{closing}"
    t.shown.append(value)
    try:
        if isinstance(value, Mapping):
            parts = [f"{repr_text(t, k)}: {repr_text(t, v)}" for k, v in model.load_entries(t, value).values()]
        else:
            parts = [repr_text(t, item) for item in value.items]
    finally:
        t.shown.pop()
    comma = "," if value.cls is tuple and len(parts) == 1 else ""
    return f"{opening}{', '.join(parts)}{comma}{closing}"


def _check_repr(value: Value) -> None:
    """Break where a repr shows an address or a set's order."""
    value = force(value)
    if isinstance(value, (Builtin, Function, Method)) or (isinstance(value, SetValue) and len(value.items) > 1):
        raise Break(f"repr() of a {value.cls.__name__} differs from process to process")
    if isinstance(value, Sequence):
        for item in value.items:
            _check_repr(item)
    elif isinstance(value, Mapping):
        for pair in (value.entries or {}).values():
            _check_repr(pair[0])
            _check_repr(pair[1])


def _object_repr(t: Any, value: Object) -> str:
    method = value.cls.__repr__
    if isinstance(method, types.FunctionType):
        return native(t, model.call_method(t, value, "__repr__"))
    if (
        issubclass(value.cls, BaseException)
        and method is BaseException.__repr__
        and isinstance(arguments := force(value.payload or none()), Sequence)
    ):
        args = arguments.items
        inner = ", ".join(repr_text(t, item) for item in args)
        return f"{value.cls.__name__}({inner})"
    held = force(value.payload) if value.payload is not None else none()
    if value.payload is not None and method is held.cls.__repr__ and held.cls in _SHOW_NO_CLASS:
        return repr_text(t, held)
    raise Break(f"repr() of a {value.cls.__qualname__} object")


_SHOW_NO_CLASS = (int, float, complex, str, bytes, list, tuple, dict)
"""Builtins whose `repr` doesn't name the class."""


def _plain_text(method: Any, arguments: Value | None) -> bool:
    """Whether an exception's `__str__` shows its arguments alone."""
    owner = getattr(method, "__objclass__", None)
    if owner in (OSError, ImportError):
        return isinstance(arguments, Sequence) and len(arguments.items) < 2
    return owner in (BaseException, AttributeError, NameError, KeyError)


def str_text(t: Any, value: Value) -> str:
    """`str(value)` where it is known and the same in every process."""
    value = force(value)
    if isinstance(value, Object):
        method = value.cls.__str__
        if isinstance(method, types.FunctionType):
            return native(t, model.call_method(t, value, "__str__"))
        inner = force(value.payload) if value.payload is not None else None
        if method is KeyError.__str__ and isinstance(inner, Sequence) and len(inner.items) == 1:
            return repr_text(t, inner.items[0])
        if _plain_text(method, inner) and isinstance(inner, Sequence):
            args = inner.items
            return str_text(t, args[0]) if len(args) == 1 else "" if not args else repr_text(t, inner)
        if method is BaseExceptionGroup.__str__ and isinstance(value, Group):
            count = len(exceptions_of(value))
            return f"{native(t, value.message)} ({count} sub-exception{'s' if count > 1 else ''})"
        if method is str.__str__ and isinstance(inner, Const):
            return inner.value
        if method is not object.__str__:
            raise Break(f"str() of a {value.cls.__qualname__} object")
        return _object_repr(t, value)
    if isinstance(value, Const):
        return str(value.value)
    return value.told(t) if hasattr(value, "told") else repr_text(t, value)


@handles(str)
def _str(t: Any, value: Value | None = None, *decoding: Value, **kwargs: Value) -> Value:
    if value is None:
        return Const("")
    value = force(value)
    flowing = None if decoding or kwargs else flows.text(value)
    if flowing is not None:
        return flowing
    if decoding or kwargs:
        return Const(
            str(native(t, value), *(native(t, v) for v in decoding), **{k: native(t, v) for k, v in kwargs.items()})
        )
    return value if isinstance(value, Const) and type(value.value) is str else Const(str_text(t, value))


@handles(object.__str__)
def _object_str(t: Any, value: Value) -> Value:
    return Const(repr_text(t, value))


@handles(format)
def _format(t: Any, value: Value, spec: Value | None = None) -> Value:
    return model.format_value(t, value, "" if spec is None else text(t, spec, "format() argument 2 must be str"))


@handles(iter)
def _iter(t: Any, value: Value, *sentinel: Value) -> Value:
    if not sentinel:
        return model.iterate(t, value)
    from .iterators import CallableIterator

    return CallableIterator(value, sentinel[0])


@handles(next)
def _next(t: Any, iterator: Value, *default: Value) -> Value:
    iterator = force(iterator)
    if isinstance(iterator, (Sequence, Mapping, SetValue, Const, Scalar, Tensor, Function, Class)):
        return t.raise_(TypeError, f"'{type_name(iterator)}' object is not an iterator")
    own = special_method(t, iterator, "__next__") if isinstance(iterator, (Generator, Object)) else None
    if own is not None and not default:
        return model.call(t, own, [], {})  # its StopIteration may have a value
    item = model.advance(t, iterator)
    if item is not None:
        return item
    return default[0] if default else t.raise_(StopIteration)


@handles(all)
def _all(t: Any, iterable: Value) -> Value:
    return Const(all(model.truth(t, item) for item in in_any_order(t, iterable)))


@handles(any)
def _any(t: Any, iterable: Value) -> Value:
    return Const(any(model.truth(t, item) for item in in_any_order(t, iterable)))


@handles(slice)
def _slice(t: Any, *bounds: Value) -> Value:
    start, stop, step = (none(), *bounds, none()) if len(bounds) == 1 else (*bounds, none(), none())[:3]
    return model.build_slice(t, [start, stop, step])


@handles(super)
def _super(t: Any, *args: Value) -> Value:
    if len(args) == 1:
        raise Break("super() with one argument")
    cls, instance = args if args else _frame_super(t)
    cls = force(cls)
    if not isinstance(cls, Class):
        return t.raise_(TypeError, f"super() argument 1 must be a type, not {type_name(cls)}")
    instance = force(instance)
    owner = instance.obj if isinstance(instance, Class) else None
    if not (owner is not None and issubclass(owner, cls.obj)) and not issubclass(model.type_of(t, instance), cls.obj):
        return t.raise_(TypeError, "super(type, obj): obj must be an instance or subtype of type")
    return Super(cls.obj, instance)


def _frame_super(t: Any) -> tuple[Value, Value]:
    """What `super()` finds in its caller's frame: the `__class__` cell and the first argument."""
    frame = t.frame
    if not frame.code.co_argcount:
        return t.raise_(RuntimeError, "super(): no arguments")
    name = frame.code.co_varnames[0]
    instance = frame.locals.get(name)
    if name in frame.cells:
        instance = t.cell_content(frame.cells[name])
    if instance is None:
        return t.raise_(RuntimeError, "super(): arg[0] deleted")
    cell = frame.cells.get("__class__")
    if cell is None:
        return t.raise_(RuntimeError, "super(): __class__ cell not found")
    owner = t.cell_content(cell)
    if owner is None:
        return t.raise_(RuntimeError, "super(): empty __class__ cell")
    return owner, instance


@handles(globals)
def _globals(t: Any) -> Value:
    return t.frame.globals


@handles(vars)
def _vars(t: Any, *value: Value) -> Value:
    if not value:
        raise Break("vars() of the frame")
    return model.get_attr(t, value[0], "__dict__")


@handles(id)
def _id(t: Any, value: Value) -> Value:
    """The address of an object: what it is nobody knows before the epilogue, but other objects have other ones."""
    value = force(value)
    if not isinstance(value, Const):
        t.key_by_identity(value)
    return Address(value)


def _breaks(*functions: Any) -> None:
    for function in functions:
        name = getattr(function, "__name__", repr(function))

        def handler(t: Any, *args: Value, _name: str = name, **kwargs: Value) -> Value:
            raise Break(f"{_name}() runs in Python")

        handles(function)(handler)


_breaks(input, open, exec, eval, compile, dir, locals, breakpoint, __import__)
_breaks(memoryview, staticmethod, classmethod, builtins.aiter, builtins.anext)

__all__ = ["repr_text", "str_text"]
