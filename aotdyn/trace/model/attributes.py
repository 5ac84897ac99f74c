"""Attribute lookup: the MRO, descriptors, instance dicts and slots, `__getattr__`.

Follows the language reference, 3.3.2 ("Customizing attribute access") and
CPython's PyObject_GenericGetAttr: data descriptors of the class, then the
instance, then the rest of the class, then `__getattr__`.
"""

from __future__ import annotations

import enum
import functools
import threading
import types
from typing import TYPE_CHECKING, Any, NoReturn

import numpy
import torch

from aotdyn.guards import constants
from aotdyn.guards.naming import is_cython
from aotdyn.guards.sources import Attr, ClassAttr, Item, Source

from ..control import Break, Raised, Unbuildable
from ..values import (
    Array,
    Builtin,
    Cell,
    Class,
    Const,
    Function,
    Group,
    InstanceDict,
    Lazy,
    Mapping,
    Method,
    Module,
    Namespace,
    Object,
    Opaque,
    Sequence,
    Super,
    Tensor,
    Value,
    force,
)
from .constants import constant, is_constant_object

if TYPE_CHECKING:
    from ..tracer import Tracer

HEAPTYPE = 1 << 9
C_CALLABLES = (
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.BuiltinFunctionType,
    types.ClassMethodDescriptorType,
)
CODE_FACTS = frozenset(
    f"co_{name}" for name in ("argcount", "flags", "freevars", "kwonlyargcount", "name", "posonlyargcount", "varnames")
)
"""What a function's code and its stub's have in common."""
CODE_FACTS = frozenset(
    ("co_argcount", "co_posonlyargcount", "co_kwonlyargcount", "co_flags", "co_name", "co_qualname")
    + ("co_varnames", "co_cellvars", "co_freevars")
)
"""What a code object says of itself that its digest covers."""
_MISSING: Any = object()


def type_of(t: Tracer, v: Value) -> type:
    """The class of a value's object. Of a constant that nobody has looked at the class alone is guarded."""
    if isinstance(v, Lazy) and v.value is None and type(v.obj) in (bool, int, float, complex, str, bytes):
        t.guard("TYPE", v.source, type(v.obj))
        return type(v.obj)
    return force(v).cls


def class_value(t: Tracer, cls: type) -> Class:
    """The value of a class (one for each class)."""
    return t.class_value(cls)


def class_lookup(t: Tracer, cls: type, name: str, after: type | None = None) -> tuple[Any, Source | None] | None:
    """What the MRO of `cls` holds under `name`, no descriptor applied, and how to reach it; None if absent.

    `after` starts behind that class, as `super()` does. Names of built-in
    classes can't change and have no source.
    """
    mro = cls.__mro__
    if after is not None:
        mro = mro[mro.index(after) + 1 :]
    for owner in mro:
        overlay = t.classes.get(owner)
        if overlay is not None and name in overlay.attrs:
            found = overlay.attrs[name]
            if found is None:
                continue
            return found, None
        if name in owner.__dict__:
            raw = owner.__dict__[name]
            if not owner.__flags__ & HEAPTYPE or owner.__module__ == "builtins":
                return raw, None
            if hasattr(t.class_values.get(owner), "construct"):  # made while tracing
                return raw, None
            base = t.class_source(cls if after is None else owner)
            return raw, ClassAttr(base, name)
    return None


def _is_data_descriptor(raw: Any) -> bool:
    kind = type(raw)
    return hasattr(kind, "__set__") or hasattr(kind, "__delete__")


def _wrap_raw(t: Tracer, raw: Any, source: Source | None) -> Value:
    if isinstance(raw, Value):
        return raw
    if source is not None:
        return t.wrap(raw, source)
    if isinstance(raw, C_CALLABLES):
        return Builtin(raw)
    if isinstance(raw, (types.FunctionType, type)):
        return t.durable(raw)
    try:
        hash(raw)
    except TypeError:
        return Opaque(raw)
    return constant(raw)


def bind_raw(t: Tracer, raw: Any, source: Source | None, instance: Value | None, owner: type) -> Value:
    """`raw.__get__(instance, owner)` for what a class's dict holds; `instance` None: read on the class."""
    value = force(raw) if isinstance(raw, Value) else raw
    if isinstance(value, Function) or isinstance(raw, types.FunctionType):
        function = _wrap_raw(t, raw, source)
        return function if instance is None else Method(function, instance)
    if isinstance(raw, Value):
        return raw
    if isinstance(raw, staticmethod):
        return _wrap_raw(t, raw.__func__, Attr(source, "__func__") if source else None)
    if isinstance(raw, classmethod):
        function = _wrap_raw(t, raw.__func__, Attr(source, "__func__") if source else None)
        receiver = instance if isinstance(instance, Class) and owner is not instance.cls else class_value(t, owner)
        return Method(function, receiver)
    if isinstance(raw, property):
        if instance is None:
            return _wrap_raw(t, raw, source)
        if raw.fget is None:
            t.raise_(AttributeError, f"property of {owner.__name__!r} object has no getter")
        from .calls import call

        return call(t, _wrap_raw(t, raw.fget, Attr(source, "fget") if source else None), [instance], {})
    if isinstance(raw, types.ClassMethodDescriptorType):
        return Method(Builtin(raw), class_value(t, owner))
    if isinstance(raw, C_CALLABLES) or is_cython(raw):
        return (
            Builtin(raw)
            if instance is None or isinstance(raw, types.BuiltinFunctionType)
            else Method(Builtin(raw), instance)
        )
    if isinstance(raw, functools._lru_cache_wrapper):
        function = _wrap_raw(t, raw, source)
        return function if instance is None else Method(function, instance)
    if isinstance(raw, functools.cached_property) and instance is not None:
        return _cached_property(t, raw, source, instance)
    if isinstance(raw, functools.partialmethod):
        return _partial_method(t, raw, source, instance, owner)
    kind = type(raw)
    getter = class_lookup(t, kind, "__get__")
    if getter is None:
        return _wrap_raw(t, raw, source)
    if isinstance(getter[0], types.FunctionType):
        from .calls import call

        descriptor = _wrap_raw(t, raw, source)
        function = _wrap_raw(t, *getter)
        return call(t, function, [descriptor, instance or Const(None), class_value(t, owner)], {})
    if instance is None:
        return _wrap_raw(t, raw, source)
    raise Break(f"attribute read through a {kind.__name__} descriptor")


def _partial_method(t: Tracer, raw: Any, source: Source | None, instance: Value | None, owner: type) -> Value:
    """`functools.partialmethod.__get__` of an instance: a partial of what its function binds to."""
    from ..builtins.partials import make

    kinds = (types.FunctionType, classmethod, staticmethod)
    if instance is None or source is None or not isinstance(raw.func, kinds):
        raise Break("a partialmethod that is read on a class, or is over something else than a function")
    function = force(bind_raw(t, raw.func, Attr(source, "func"), instance, owner))
    args, keywords = (force(t.wrap(getattr(raw, name), Attr(source, name))) for name in ("args", "keywords"))
    assert isinstance(args, Sequence)
    assert isinstance(keywords, Mapping)
    from .containers import load_entries

    made = make(function, list(args.items), {str(key): value for key, (_, value) in load_entries(t, keywords).items()})
    if isinstance(function, Method):
        made.attrs["__self__"] = function.self_value
    return made


def _cached_property(t: Tracer, raw: Any, source: Source | None, instance: Value) -> Value:
    """`functools.cached_property.__get__`: compute, then keep in the instance dict under its name."""
    from .calls import call

    value = call(t, _wrap_raw(t, raw.func, Attr(source, "func") if source else None), [instance], {})
    if not isinstance(instance, Object):
        raise Break("cached_property on an object of an unusual kind")
    t.mutated(instance)
    instance.attrs[raw.attrname] = value
    return value


def instance_lookup(t: Tracer, v: Object, name: str) -> Value | None:
    """An attribute in the instance's own dict (or what tracing wrote there); None if absent."""
    if name in v.attrs:
        return v.attrs[name]
    if v.obj is None:
        return None
    own = t.own_dict(v)
    if own is None:
        return None
    if v.source is None:
        return t.local(own[name], name) if name in own else None
    if name in own:
        return t.wrap_found(own[name], Item(Attr(v.source, "__dict__"), name))
    t.guard("LACKS", Attr(v.source, "__dict__"), name)
    return None


def get_attr(t: Tracer, v: Value, name: str) -> Value:
    """`v.name`; raises AttributeError in the traced program.

    One that says nothing yet of what failed is told here (`set_attribute_error_context` in CPython).
    """
    v = force(v)
    try:
        found = _get_attr(t, v, name)
        return found if found is not None else raise_no_attribute(t, v, name)
    except Raised as raised:
        error = raised.value
        if isinstance(error, Object) and issubclass(error.cls, AttributeError) and error.obj is None:
            _say_what_failed(error, v, name)
        raise


def _say_what_failed(error: Object, v: Value, name: str) -> None:
    if "name" not in error.attrs and "obj" not in error.attrs:
        error.attrs["name"], error.attrs["obj"] = Const(name), v


def raise_no_attribute(t: Tracer, v: Value, name: str) -> NoReturn:
    if isinstance(v, Module):
        t.raise_(AttributeError, f"module {v.obj.__name__!r} has no attribute {name!r}")
    if isinstance(v, Class):
        t.raise_(AttributeError, f"type object {v.obj.__name__!r} has no attribute {name!r}")
    t.raise_(AttributeError, f"{v.cls.__name__!r} object has no attribute {name!r}")


def _get_attr(t: Tracer, v: Value, name: str) -> Value | None:
    if isinstance(v, Tensor):
        from ..torch_.tensors import tensor_attr

        if name != "data" and v.attrs.get(name, _MISSING) is not _MISSING:  # each reading of `data` makes a tensor
            return v.attrs[name]
        special = tensor_attr(t, v, name)
        return special if special is not None else _generic(t, v, name)
    if isinstance(v, Array):
        from ..numpy_.attributes import array_attribute

        special = array_attribute(t, v, name)
        return special if special is not None else _generic(t, v, name)
    if isinstance(v, Module):
        return _module_attr(t, v, name)
    if isinstance(v, Class):
        return _class_attr(t, v, name)
    if isinstance(v, Super):
        return _super_attr(t, v, name)
    if isinstance(v, Function):
        return _function_attr(t, v, name)
    if isinstance(v, Method):
        return _method_attr(t, v, name)
    if isinstance(v, Builtin):
        return _builtin_attr(t, v, name)
    if isinstance(v, Const):
        return _const_attr(t, v, name)
    if isinstance(v, Cell):
        if name == "cell_contents":
            return t.cell_content(v)
        return _generic(t, v, name)
    if isinstance(v, Opaque):
        return _opaque_attr(t, v, name)
    return _generic(t, v, name)


def _generic(t: Tracer, v: Value, name: str) -> Value | None:
    """`__getattribute__` of the class, then `__getattr__` where that finds nothing or raises AttributeError itself."""
    try:
        found = _by_getattribute(t, v, name)
    except Raised as raised:
        if not issubclass(raised.value.cls, AttributeError) or class_lookup(t, v.cls, "__getattr__") is None:
            raise
        found = None
    return found if found is not None else _fallback(t, v, name)


def _by_getattribute(t: Tracer, v: Value, name: str) -> Value | None:
    override = class_lookup(t, v.cls, "__getattribute__")
    if override is not None and isinstance(override[0], (types.FunctionType, Function)):
        from .calls import call

        return call(t, _wrap_raw(t, *override), [v, Const(name)], {})
    if isinstance(v, Object) and issubclass(v.cls, threading.local) and v.cls is not threading.local:
        raise Break("an attribute of this thread alone")
    return generic_get_attr(t, v, name)


def generic_get_attr(t: Tracer, v: Value, name: str) -> Value | None:
    """`object.__getattribute__`: None where it raises AttributeError."""
    cls = v.cls
    if name == "__class__":
        return class_value(t, cls)
    raw = class_lookup(t, cls, name)
    if raw is not None and not isinstance(raw[0], Value) and _is_data_descriptor(raw[0]):
        return _data_descriptor(t, v, name, *raw)
    if isinstance(v, Object):
        own = instance_lookup(t, v, name)
        if own is not None:
            return own
    if raw is not None:
        return bind_raw(t, raw[0], raw[1], v, cls)
    return None


def _data_descriptor(t: Tracer, v: Value, name: str, raw: Any, source: Source | None) -> Value | None:
    if isinstance(raw, property):
        return bind_raw(t, raw, source, v, v.cls)
    if isinstance(raw, types.GetSetDescriptorType) and name == "__dict__" and isinstance(v, Object):
        return t.instance_dict(v)
    if isinstance(raw, types.GetSetDescriptorType | types.MemberDescriptorType) or type(raw).__name__ == "_tuplegetter":
        return _slot(t, v, name, raw)
    if isinstance(v, Const) and isinstance(v.value, enum.Enum):
        return constant(getattr(v.value, name))
    getter = class_lookup(t, type(raw), "__get__")
    if getter is None:
        own = instance_lookup(t, v, name) if isinstance(v, Object) else None
        return own if own is not None else _wrap_raw(t, raw, source)
    return bind_raw(t, raw, source, v, v.cls)


def _slot(t: Tracer, v: Value, name: str, raw: Any) -> Value | None:
    """A slot, a C-level attribute or a field of a named tuple."""
    items = v.payload if isinstance(v, Object) and issubclass(v.cls, tuple) else v
    if isinstance(items, Sequence):
        fields = getattr(v.cls, "_fields", None) or list(getattr(v.cls, "__match_args__", ()))
        if name in fields:
            return items.items[list(fields).index(name)]
    if isinstance(v, Object):
        if name in v.attrs:
            return v.attrs[name]
        if issubclass(v.cls, BaseException):
            if name == "args" and isinstance(v.payload, Sequence):
                return v.payload
            if name in ("message", "exceptions") and isinstance(v, Group):
                return getattr(v, name)
            if name == "__traceback__" and v in t.thrown:
                raise Break("the traceback of an exception is read", "Python makes it when it runs the frames.")
            if name in ("__traceback__", "__cause__", "__context__") and v.obj is None:
                return Const(None)
            if name == "__suppress_context__" and v.obj is None:
                return Const(False)
            if v.obj is None and name not in ("__dict__", "__notes__"):
                return _of_exception(v, name, raw)
        if v.obj is not None and v.source is not None:
            try:
                return t.wrap(raw.__get__(v.obj, v.cls), Attr(v.source, name))
            except AttributeError:
                t.guard("NOATTR", v.source, name)
                return None
        if isinstance(raw, types.MemberDescriptorType) and v.obj is None:
            return None
    if isinstance(v, Const):
        return constant(raw.__get__(v.value, v.cls))
    if v.cls is types.CodeType and name in CODE_FACTS:
        return constant(getattr(v.code, name))  # type: ignore[attr-defined]
    raise Break(f"attribute {name!r} of a {v.cls.__name__} is kept in C")


def _of_exception(v: Object, name: str, raw: Any) -> Value:
    """What a class of exceptions written in C has made of the arguments, such as `SystemExit.code`."""
    init = next(vars(cls)["__init__"] for cls in v.cls.__mro__ if "__init__" in vars(cls))
    if isinstance(init, types.FunctionType) or not isinstance(v.payload, Sequence):
        raise Unbuildable(v, f"{name} of a {v.cls.__qualname__} is kept in C")
    stands = {object(): item for item in v.payload.items}
    made = raw.__get__(raw.__objclass__(*stands))
    if isinstance(made, tuple):
        return Sequence(tuple, [stands[each] for each in made])
    return stands[made] if made in stands else Const(made)


def _fallback(t: Tracer, v: Value, name: str) -> Value | None:
    """`__getattr__` of the class."""
    raw = class_lookup(t, v.cls, "__getattr__")
    if raw is None:
        return None
    if isinstance(v, Object) and raw[0] is torch.nn.Module.__getattr__:
        from ..torch_.modules import module_attr

        return module_attr(t, v, name)
    if not isinstance(raw[0], (types.FunctionType, Function)):
        raise Break(f"{v.cls.__name__}.__getattr__ is not a Python function")
    from .calls import call

    return call(t, _wrap_raw(t, *raw), [v, Const(name)], {})


def _module_attr(t: Tracer, v: Module, name: str) -> Value | None:
    if name == "__dict__":
        return v.namespace
    # Some modules fill their dict by getattr, in each process anew.
    lazy = isinstance(v.obj, (torch._ops._Ops, torch._ops._OpNamespace)) or "__getattr__" in v.namespace.obj
    found = t.name_in(v.namespace, name) if not lazy or name in v.namespace.names else None
    if found is not None:
        return found
    try:
        obj = getattr(v.obj, name)  # a module's __getattr__, as lazily loaded packages have it
    except AttributeError:
        return None
    if v.source is None:
        return t.durable(obj)
    return t.wrap(obj, Attr(v.source, name))


def _class_attr(t: Tracer, v: Class, name: str) -> Value | None:
    cls = v.obj
    if issubclass(cls, enum.Enum) and name in cls.__members__:
        member = cls.__members__[name]
        return Const(member, None if constants.is_constant(member) else Attr(t.class_source(cls), name))
    meta = class_lookup(t, type(cls), name)
    if meta is not None and not isinstance(meta[0], Value) and _is_data_descriptor(meta[0]):
        if isinstance(meta[0], property):
            return bind_raw(t, *meta, v, type(cls))
        return _type_slot(t, v, name)
    raw = class_lookup(t, cls, name)
    if raw is not None:
        return bind_raw(t, *raw, None, cls)
    if meta is not None:
        return bind_raw(t, *meta, v, type(cls))
    fallback = class_lookup(t, type(cls), "__getattr__")
    if fallback is not None and isinstance(fallback[0], types.FunctionType) and not issubclass(cls, enum.Enum):
        from .calls import call

        return call(t, _wrap_raw(t, *fallback), [v, Const(name)], {})
    return None


def _type_slot(t: Tracer, v: Class, name: str) -> Value | None:
    cls = v.obj
    if name in ("__mro__", "__bases__"):
        return Sequence(tuple, [class_value(t, each) for each in getattr(cls, name)])
    if name in ("__base__",):
        return class_value(t, cls.__base__) if cls.__base__ else Const(None)
    if name == "__dict__":
        from ..builtins.classes import ClassDict

        return ClassDict(v)
    try:
        obj = getattr(cls, name)
    except AttributeError:
        return None
    if isinstance(obj, (str, int, bool, type(None))):
        return Const(obj)
    return t.wrap(obj, Attr(t.class_source(cls), name))


def _super_attr(t: Tracer, v: Super, name: str) -> Value | None:
    receiver = v.self_value
    if isinstance(receiver, Class) and issubclass(receiver.obj, v.after):
        owner, instance = receiver.obj, None
    else:
        owner, instance = receiver.cls, receiver
    if name == "__class__":
        return class_value(t, super)
    raw = class_lookup(t, owner, name, after=v.after)
    if raw is None:
        return None
    if isinstance(raw[0], classmethod):
        function = _wrap_raw(t, raw[0].__func__, Attr(raw[1], "__func__") if raw[1] else None)
        return Method(function, class_value(t, owner))
    if (
        instance is None
        and isinstance(receiver, Class)
        and isinstance(raw[0], types.FunctionType)
        and issubclass(receiver.obj, type)
    ):
        instance = receiver
    return bind_raw(t, *raw, instance, owner)


def _function_attr(t: Tracer, v: Function, name: str) -> Value | None:
    if name in v.attrs:
        return v.attrs[name]
    if name in ("__name__", "__qualname__"):
        return Const(getattr(v, name.strip("_")))
    if name == "__code__" and v.obj is None:
        from ..opcodes.functions import CodeValue

        return CodeValue(v.code, v.owner, v.path)
    if name == "__code__":
        return Opaque(v.code, Attr(v.source, "__code__") if v.source else None)
    if name == "__globals__":
        return v.globals
    if name == "__closure__":
        return Sequence(tuple, list(v.closure)) if v.closure else Const(None)
    if name == "__defaults__" and v.obj is None:
        return Sequence(tuple, list(v.defaults)) if v.defaults else Const(None)
    if name == "__module__" and v.obj is None:
        return Const(v.globals.obj.get("__name__"))
    if name == "__dict__":
        return t.instance_dict(v)
    if v.obj is not None:
        t.own_dict(v)
        try:
            obj = getattr(v.obj, name)
        except AttributeError:
            if v.source is not None:
                t.guard("NOATTR", v.source, name)
            return None
        if name in ("__doc__", "__module__"):
            return Const(obj)
        if not isinstance(obj, (types.MethodWrapperType, types.BuiltinMethodType)):
            return t.wrap(obj, Attr(v.source, name)) if v.source is not None else t.durable(obj)
    if name == "__doc__":
        return Const(v.code.co_consts[0] if v.code.co_consts and isinstance(v.code.co_consts[0], str) else None)
    if name == "__annotations__" and v.obj is None:
        if v.annotations is None:
            v.annotations = Mapping(dict, {})
        return v.annotations
    raw = class_lookup(t, types.FunctionType, name)
    return bind_raw(t, *raw, v, types.FunctionType) if raw is not None and isinstance(raw[0], C_CALLABLES) else None


def _method_attr(t: Tracer, v: Method, name: str) -> Value | None:
    if name == "__func__":
        return v.function
    if name == "__self__":
        return v.self_value
    if name in ("__call__", "__get__"):
        return v if name == "__call__" else None
    return _get_attr(t, force(v.function), name)


def _builtin_attr(t: Tracer, v: Builtin, name: str) -> Value | None:
    try:
        obj = getattr(v.obj, name)
    except AttributeError:
        return None
    if isinstance(obj, (str, int, type(None))):
        return Const(obj)
    if name == "__call__":
        return v
    if v.source is not None:
        return t.wrap(obj, Attr(v.source, name))
    return t.durable(obj)


def _const_attr(t: Tracer, v: Const, name: str) -> Value | None:
    if isinstance(v.value, (numpy.finfo, numpy.iinfo)) and not name.startswith("_"):
        return constant(getattr(v.value, name))
    if name in ("name", "value") and constants.is_bound_enum(v.cls):
        return constant(getattr(v.value, name))
    raw = class_lookup(t, v.cls, name)
    if raw is None:
        return _fallback(t, v, name) if not isinstance(v.value, enum.Enum) else _enum_attr(t, v, name)
    if isinstance(raw[0], types.FunctionType | staticmethod | classmethod | property) and not isinstance(
        raw[0], types.DynamicClassAttribute
    ):
        return bind_raw(t, *raw, v, v.cls)
    if isinstance(raw[0], C_CALLABLES):
        return bind_raw(t, *raw, v, v.cls)
    obj = getattr(v.value, name)
    if type(obj).__module__ == "builtins" or is_constant_object(obj):
        return constant(obj)
    return t.durable(obj)


def _enum_attr(t: Tracer, v: Const, name: str) -> Value | None:
    """An attribute in a member's own dict."""
    try:
        obj = getattr(v.value, name)
    except AttributeError:
        return None
    if v.source is not None:
        return t.wrap(obj, Attr(v.source, name))
    return constant(obj)


def _opaque_attr(t: Tracer, v: Opaque, name: str) -> Value | None:
    """Attributes of objects of unknown C classes: methods bind; data in C needs Python, unless it's a plain fact."""
    raw = class_lookup(t, v.cls, name)
    if raw is None:
        raise Break(
            f"attribute {name!r} of a {v.cls.__qualname__} object", "The tracer doesn't know this kind of object."
        )
    if isinstance(raw[0], types.GetSetDescriptorType | types.MemberDescriptorType):
        obj = getattr(v.obj, name)
        if isinstance(v.obj, types.CodeType) and name in CODE_FACTS:
            return constant(obj)
        if v.source is None:
            raise Break(f"attribute {name!r} of a {v.cls.__qualname__} object")
        return t.wrap(obj, Attr(v.source, name))
    return bind_raw(t, *raw, v, v.cls)


def has_attr(t: Tracer, v: Value, name: str) -> bool:
    """Whether `getattr(v, name)` finds something."""
    v = force(v)
    try:
        found = _get_attr(t, v, name)
    except Raised as raised:
        if issubclass(raised.value.cls, AttributeError):
            return False
        raise
    if isinstance(found, Lazy) and found.value is None:
        _note_presence(t, v, name, found)
    return found is not None


def _note_presence(t: Tracer, v: Value, name: str, found: Lazy) -> None:
    """Guard that an attribute is there, whose value nobody may look at."""
    if isinstance(v, Object) and v.obj is not None and v.source is not None:
        own = t.own_dict(v) or {}
        if name in own and own[name] is found.obj:
            t.guard("HAS", Attr(v.source, "__dict__"), name)
            return
    force(found)


__all__ = [
    "InstanceDict",
    "Namespace",
    "bind_raw",
    "class_lookup",
    "class_value",
    "generic_get_attr",
    "get_attr",
    "has_attr",
    "instance_lookup",
    "type_of",
]
