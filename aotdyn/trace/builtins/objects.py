"""`object`, `type`, exceptions and the constructors of builtin bases, as reached by `super()` or by name."""

from __future__ import annotations

import builtins
import copyreg
import enum
import types
from collections.abc import Callable
from typing import Any

from aotdyn.trace import model
from aotdyn.trace.control import Break
from aotdyn.trace.handlers import HANDLERS, handles
from aotdyn.trace.model.attributes import generic_get_attr
from aotdyn.trace.model.calls import instantiate, new_instance
from aotdyn.trace.model.stores import generic_set_attr
from aotdyn.trace.values import Class, Const, Method, Object, Sequence, Value, force

from .common import attempt, change, native, new_list, new_tuple, none, receiver, text, type_name


@handles(list)
def _list(t: Any, iterable: Value | None = None) -> Value:
    return new_list([] if iterable is None else _items(t, iterable))


@handles(tuple)
def _tuple(t: Any, iterable: Value | None = None) -> Value:
    if iterable is not None and force(iterable).cls is tuple:
        return force(iterable)
    return new_tuple([] if iterable is None else _items(t, iterable))


def _items(t: Any, iterable: Value) -> list[Value]:
    return model.unpack(t, iterable)


@handles(list.__init__)
def _list_init(t: Any, self: Value, iterable: Value | None = None) -> Value:
    items = [] if iterable is None else _items(t, iterable)
    change(t, self)
    receiver(self, Sequence).items[:] = items
    return none()


def _new(t: Any, cls: Value, *args: Value, **kwargs: Value) -> Value:
    """`__new__` of a builtin base: what `super().__new__(cls, ...)` makes."""
    made = force(cls)
    if not isinstance(made, Class):
        return t.raise_(TypeError, f"X is not a type object ({type_name(made)})")
    return new_instance(t, made.obj, list(args), kwargs)


_EXCEPTIONS = [e for e in vars(builtins).values() if isinstance(e, type) and issubclass(e, BaseException)]
for _cls in (list, dict, set, frozenset, tuple, int, float, complex, str, bytes, *_EXCEPTIONS):
    HANDLERS.setdefault(_cls.__new__, _new)


@handles(object)
def _object(t: Any) -> Value:
    return Object(object)


_PLAIN_INIT: Any = object.__init__


@handles(object.__new__)
def _object_new(t: Any, cls: Value, *args: Value, **kwargs: Value) -> Value:
    made = force(cls)
    if isinstance(made, Class) and (args or kwargs):
        if made.obj.__new__ is not object.__new__:
            return t.raise_(TypeError, "object.__new__() takes exactly one argument (the type to instantiate)")
        if made.obj.__init__ is _PLAIN_INIT:  # type: ignore[misc]
            return t.raise_(TypeError, f"{made.obj.__name__}() takes no arguments")
    return _new(t, cls)


@handles(object.__init__)
def _object_init(t: Any, self: Value, *args: Value, **kwargs: Value) -> Value:
    cls = force(self).cls
    if args or kwargs:
        if cls.__init__ is not _PLAIN_INIT:  # type: ignore[misc]
            message = "object.__init__() takes exactly one argument (the instance to initialize)"
            return t.raise_(TypeError, message)
        if cls.__new__ is object.__new__:
            return t.raise_(
                TypeError, f"{cls.__name__}.__init__() takes exactly one argument (the instance to initialize)"
            )
    return none()


@handles(object.__getattribute__)
def _object_getattribute(t: Any, self: Value, name: Value) -> Value:
    attribute = text(t, name, f"attribute name must be string, not '{type_name(name)}'")
    value = force(self)
    found = generic_get_attr(t, value, attribute)
    if found is None:
        return t.raise_(AttributeError, f"'{value.cls.__name__}' object has no attribute '{attribute}'")
    return found


@handles(object.__setattr__)
def _object_setattr(t: Any, self: Value, name: Value, value: Value) -> Value:
    attribute = text(t, name, f"attribute name must be string, not '{type_name(name)}'")
    target = force(self)
    generic_set_attr(t, target, attribute, value) if isinstance(target, Object) else model.set_attr(
        t, target, attribute, value
    )
    return none()


@handles(object.__delattr__)
def _object_delattr(t: Any, self: Value, name: Value) -> Value:
    generic_set_attr(t, force(self), text(t, name, f"attribute name must be string, not '{type_name(name)}'"), None)
    return none()


@handles(object.__eq__)
def _object_eq(t: Any, self: Value, other: Value) -> Value:
    return Const(True) if model.is_same(t, self, other) else Const(NotImplemented)


@handles(object.__ne__)
def _object_ne(t: Any, self: Value, other: Value) -> Value:
    """The inverse of `__eq__`, unless that is NotImplemented."""
    result = force(model.call_method(t, self, "__eq__", other))
    if isinstance(result, Const) and result.value is NotImplemented:
        return result
    return Const(not model.truth(t, result))


@handles(*(getattr(object, f"__{name}__") for name in ("lt", "le", "gt", "ge")))
def _object_order(t: Any, self: Value, other: Value) -> Value:
    return Const(NotImplemented)


@handles(object.__format__)
def _object_format(t: Any, self: Value, spec: Value) -> Value:
    if native(t, spec):
        return t.raise_(TypeError, f"unsupported format string passed to {type_name(self)}.__format__")
    return HANDLERS[str](t, self)


@handles(object.__hash__, object.__repr__)
def _address(t: Any, self: Value) -> Value:
    raise Break("the address of an object, by its hash or repr")


@handles(object.__init_subclass__, object.__dict__["__init_subclass__"])
def _init_subclass(t: Any, *args: Value, **kwargs: Value) -> Value:
    return none()


@handles(type.__call__)
def _type_call(t: Any, cls: Value, *args: Value, **kwargs: Value) -> Value:
    made = force(cls)
    if not isinstance(made, Class) or made.obj is type:
        raise Break("type.__call__ that makes a class")
    return instantiate(t, made, list(args), kwargs)


@handles(type.__instancecheck__)
def _instancecheck(t: Any, cls: Value, value: Value) -> Value:
    return Const(issubclass(model.type_of(t, value), _class(t, cls)))


@handles(type.__subclasscheck__)
def _subclasscheck(t: Any, cls: Value, other: Value) -> Value:
    return Const(_class(t, cls) in _class(t, other).__mro__)


def _class(t: Any, value: Value) -> type:
    value = force(value)
    return value.obj if isinstance(value, Class) else t.raise_(TypeError, "issubclass() arg 1 must be a class")


@handles(type.mro)
def _mro(t: Any, cls: Value) -> Value:
    return new_list([model.class_value(t, each) for each in _class(t, cls).__mro__])


@handles(enum.EnumMeta.__call__)
def _enum_call(t: Any, cls: Value, value: Value, *names: Value, **kwargs: Value) -> Value:
    """`Color(2)`: the member of a value."""
    if names or kwargs:
        raise Break("an enumeration is made")
    member = attempt(t, _class(t, cls), native(t, value))
    return Const(member)


@handles(enum.EnumMeta.__len__)
def _enum_len(t: Any, cls: Value) -> Value:
    return Const(len(_class(t, cls)))  # type: ignore[arg-type]


@handles(enum.EnumMeta.__iter__)
def _enum_iter(t: Any, cls: Value) -> Value:
    return model.iterate(t, new_tuple([Const(member) for member in _class(t, cls)]))  # type: ignore[attr-defined]


def _exception_init(t: Any, self: Value, *args: Value, **kwargs: Value) -> Value:
    """`BaseException.__init__`: the arguments become `args`."""
    error = force(self)
    if not isinstance(error, Object) or kwargs:
        raise Break("an exception is initialized in an unusual way")
    change(t, error)
    error.payload = new_tuple(args)
    return none()


def _kept_in_c(cls: type) -> Callable[..., Value]:
    """Construction of an exception that takes its arguments apart in C: with one, it is a plain exception."""

    def handler(t: Any, *args: Value, **kwargs: Value) -> Value:
        if len(args) > 1 or kwargs:
            raise Break(f"a {cls.__name__} with attributes that are kept in C")
        return Object(cls, payload=new_tuple(args))

    return handler


_IN_C = (OSError, SyntaxError, UnicodeError, ImportError)
for _cls in _EXCEPTIONS:
    if issubclass(_cls, _IN_C):
        HANDLERS.setdefault(_cls, _kept_in_c(_cls))
    else:
        HANDLERS.setdefault(_cls.__init__, _exception_init)


@handles(BaseException.with_traceback)
def _with_traceback(t: Any, self: Value, traceback: Value) -> Value:
    known, exception = force(traceback), force(self)
    if not isinstance(known, Const) or known.value is not None or getattr(exception, "obj", None) is not None:
        raise Break("a traceback is set")
    generic_set_attr(t, exception, "__traceback__", known)
    return exception


@handles(BaseException.__str__, KeyError.__str__)
def _exception_str(t: Any, self: Value) -> Value:
    return HANDLERS[str](t, self)


@handles(BaseException.__repr__)
def _exception_repr(t: Any, self: Value) -> Value:
    return HANDLERS[repr](t, self)


@handles(types.FunctionType.__get__, types.MethodDescriptorType.__get__, types.WrapperDescriptorType.__get__)
def _bind(t: Any, self: Value, instance: Value, owner: Value | None = None) -> Value:
    known = force(instance)
    if isinstance(known, Const) and known.value is None:
        return self
    return Method(force(self), known)


@handles(types.MethodType)
def _method(t: Any, function: Value, instance: Value) -> Value:
    return Method(force(function), force(instance))


@handles(types.SimpleNamespace)
def _simple_namespace(t: Any, **kwargs: Value) -> Value:
    made = Object(types.SimpleNamespace)
    made.attrs.update(kwargs)
    return made


@handles(object.__reduce_ex__)
def _object_reduce_ex(t: Any, self: Value, protocol: Value) -> Value:
    """How `copy` takes an instance of a plain Python class apart (protocol 2 and up: `object_reduce_ex`)."""
    value = force(self)
    cls = value.cls
    own = [name for name in REDUCING if getattr(cls, name, None) is not getattr(object, name, None)]
    slots = any("__slots__" in vars(base) for base in cls.__mro__)
    plain = isinstance(value, Object) and value.payload is None and not issubclass(cls, BaseException | enum.Enum)
    if own or slots or not plain or native(t, protocol) < 2:
        raise Break(f"taking a {cls.__qualname__} apart as pickle does")
    owner = t.class_value(cls)
    if owner in t.changed:
        raise Break("taking an instance apart as pickle does, whose class has been changed")
    t.happens()
    t.taken_apart[owner] = None
    state = model.get_attr(t, value, "__dict__")
    if not model.length(t, state):
        state = none()
    make = t.wrap(getattr(copyreg, "__newobj__"), t.path_source(("copyreg", "__newobj__")))  # noqa: B009
    return new_tuple([make, new_tuple([t.class_value(cls)]), state, none(), none()])


REDUCING = ("__reduce__", "__getstate__", "__getnewargs__", "__getnewargs_ex__", "__reduce_cython__")
"""Methods by which a class says how its instances are pickled."""
