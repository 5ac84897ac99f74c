"""Loading: which kind of value stands for an object from outside, and the guard that its kind rests on."""

from __future__ import annotations

import collections
import enum
import functools
import types
from collections.abc import Callable
from typing import Any

import numpy
import torch

from aotdyn.guards import ahead, constants, naming
from aotdyn.guards.pure import PURE
from aotdyn.guards.reads import LATER, enabled
from aotdyn.guards.sources import Attr, Item, Pure, RawItem, Source, TypeOf

from .control import Break
from .flows import Flow, flows
from .model.calls import plain_tuple
from .model.constants import is_constant_object
from .values import (
    Builtin,
    Class,
    Const,
    Function,
    Group,
    Mapping,
    Method,
    Module,
    Object,
    Opaque,
    Sequence,
    SetValue,
    UnreadList,
    Value,
)

C_FUNCTIONS = (
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.MethodWrapperType,
    types.ClassMethodDescriptorType,
    torch._ops.HigherOrderOperator,
    torch._ops.OpOverload,
    torch._ops.OpOverloadPacket,
    *naming.NUMPY_FUNCTIONS,
)
_HEAPTYPE = 1 << 9


def load(t: Any, obj: Any, source: Source) -> Value:
    """The value of `obj`, found at `source`; notes the guard on its type (or on its value, for a constant)."""
    if is_constant_object(obj):
        if flows(t, obj, source):
            t.guard("TYPE", source, type(obj))
            return Flow(obj, source)
        if isinstance(obj, numpy.generic):
            found = _scalar(t, obj, source)
            if found is not None:
                return found
        if t.sizes.varies(obj, source):
            return t.sizes.number(obj, source)
        _guard_constant(t, obj, source)
        return Const(obj, source)
    known = t.by_identity.get(id(obj))
    if known is not None:
        if known.source is not source:
            t.guard("SAME", source, known.source)
        return known
    value = _load(t, obj, source)
    if not isinstance(value, Const):
        t.by_identity[id(obj)] = value
        t.keep_alive.append(obj)
    return value


def _guard_constant(t: Any, obj: Any, source: Source) -> None:
    """The exact constant; a member of an enumeration that no path names is known by its class, name and value."""
    if not issubclass(type(obj), enum.Enum) or constants.is_constant(obj):
        t.guard("CONST", source, obj)
    elif constants.is_constant(obj._value_):
        t.guard("TYPE", source, type(obj))
        _tie_class(t, type(obj), TypeOf(source))
        t.guard("CONST", Attr(source, "_name_"), obj._name_)
        t.guard("CONST", Attr(source, "_value_"), obj._value_)
    else:
        t.guard("SAME", source, t.local(obj, repr(obj)[:80]).source)


def _load(t: Any, obj: Any, source: Source) -> Value:
    cls = type(obj)
    loader = LOADERS.get(cls)
    if loader is not None:
        return loader(t, obj, source)
    if issubclass(cls, torch.Tensor):
        return t.tensor_input(obj, source)
    if issubclass(cls, C_FUNCTIONS) or naming.is_cython(obj):
        return _c_function(t, obj, source)
    if issubclass(cls, type):
        return _class(t, obj, source)
    if cls is types.ModuleType or issubclass(cls, (torch._ops._Ops, torch._ops._OpNamespace)):
        return _module(t, obj, source)
    if issubclass(cls, tuple) and plain_tuple(cls):
        t.guard("TYPE", source, cls)
        return Sequence(cls, [t.wrap(each, Item(source, i)) for i, each in enumerate(obj)], source, obj)
    if (cls.__flags__ & _HEAPTYPE or issubclass(cls, BaseException)) and not isinstance(
        obj, (torch.Generator, torch.jit.ScriptModule, torch.jit.ScriptFunction)
    ):
        return _object(t, obj, source)
    t.guard("TYPE", source, cls)
    return Opaque(obj, source)


def _scalar(t: Any, obj: numpy.generic, source: Source) -> Value | None:
    from .numpy_.arrays import load_scalar

    return load_scalar(t, obj, source)


def _array(t: Any, obj: Any, source: Source) -> Value:
    from .numpy_.arrays import load_array

    t.guard("TYPE", source, numpy.ndarray)
    return load_array(t, obj, source) or Opaque(obj, source)


def _sequence(t: Any, obj: Any, source: Source) -> Value:
    cls = type(obj)
    t.guard("TYPE", source, cls)

    def items() -> list[Value]:
        t.guard("LEN", source, len(obj))
        return [t.wrap(each, Item(source, i)) for i, each in enumerate(obj)]

    return UnreadList(items, source, obj) if cls is list else Sequence(cls, items(), source, obj)


def _mapping(t: Any, obj: Any, source: Source) -> Value:
    if t.is_namespace(obj):
        return t.namespace(obj, source)
    if id(obj) in t.owners:
        return _instance_dict(t, obj, source)
    t.guard("TYPE", source, type(obj))
    value = Mapping(type(obj), None, source, obj)
    if type(obj) is collections.defaultdict:
        value.default_factory = t.wrap(obj.default_factory, Attr(source, "default_factory"))
    return value


def _instance_dict(t: Any, obj: Any, source: Source) -> Value:
    """The `__dict__` of an object that the tracer has read attributes of: what is written to either shows in both."""
    owner = t.owners[id(obj)]
    if not isinstance(owner, Object | Function) or owner.source is None:
        raise Break(f"the attributes of a {owner.cls.__qualname__} as a dict")
    own = Attr(owner.source, "__dict__")
    if source is not own:
        t.guard("SAME", source, own)
    return t.instance_dict(owner)


def _set(t: Any, obj: Any, source: Source) -> Value:
    t.guard("TYPE", source, type(obj))
    if obj and all(isinstance(each, (type, types.FunctionType, *C_FUNCTIONS)) and naming.path_of(each) for each in obj):
        t.guard("CONST", Pure("set.names", source), PURE["set.names"].function(obj))
        items = {each: t.class_value(each) if isinstance(each, type) else t.durable(each) for each in obj}
        return SetValue(type(obj), items, source, obj)
    if not all(is_constant_object(each) for each in obj):
        return Opaque(obj, source)
    try:
        ordered = sorted(obj)
    except TypeError:
        return Opaque(obj, source)
    t.guard("CONST", Pure("tuple", Pure("sorted", source)), tuple(ordered))
    return SetValue(type(obj), {each: Const(each) for each in obj}, source, obj)


def _breaks_a_step(t: Any, obj: Any) -> bool:
    """Whether it is what an optimizer's step names to break TorchDynamo's graph.

    It does nothing here (`torch_.compiler`), and a guard on it would import torch._dynamo where nobody else does.
    """
    named = obj.__name__ == "torch._dynamo" or getattr(obj, "__module__", "") == "torch._dynamo.decorators"
    return named and t.frame is not None and of_the_optimizer(t)


def of_the_optimizer(t: Any) -> bool:
    """Whether the frame is of torch's optimizers, which break graphs to keep AOTAutograd from training with a step.

    The breaks stand where grad mode is switched; a graph here holds the switches themselves.
    """
    return bool(t.frame.globals.obj.get("__name__") == "torch.optim.optimizer")


def _function(t: Any, obj: types.FunctionType, source: Source) -> Value:
    from aotdyn.rewrite.originals import original

    if enabled(obj) is not obj or (obj in LATER and source.key != "enabled"):
        return load(t, enabled(obj), Pure("enabled", source))
    code = original(obj.__code__)
    if not _breaks_a_step(t, obj):
        t.guard("FUNCTION", source, obj)
    return Function(
        code,
        t.namespace(obj.__globals__, source),
        name=obj.__name__,
        qualname=obj.__qualname__,
        defaults=tuple(
            t.wrap(each, Item(Attr(source, "__defaults__"), i)) for i, each in enumerate(obj.__defaults__ or ())
        ),
        kwdefaults={
            name: t.wrap(each, Item(Attr(source, "__kwdefaults__"), name))
            for name, each in (obj.__kwdefaults__ or {}).items()
        },
        closure=tuple(
            t.cell(each, Item(Attr(source, "__closure__"), i)) for i, each in enumerate(obj.__closure__ or ())
        ),
        source=source,
        obj=obj,
        owner=source,
    )


def _method(t: Any, obj: types.MethodType, source: Source) -> Value:
    t.guard("TYPE", source, types.MethodType)
    return Method(
        t.wrap(obj.__func__, Attr(source, "__func__")), t.wrap(obj.__self__, Attr(source, "__self__")), source
    )


def _c_function(t: Any, obj: Any, source: Source) -> Value:
    receiver = getattr(obj, "__self__", None)
    module = isinstance(receiver, types.ModuleType) and not isinstance(obj, types.MethodWrapperType)
    bound = receiver is not None and not module and not isinstance(receiver, type) and naming.path_of(obj) is None
    if bound and isinstance(obj, (types.BuiltinFunctionType, types.MethodWrapperType)):
        raw = getattr(type(receiver), obj.__name__, None)
        if isinstance(raw, C_FUNCTIONS):
            t.guard("TYPE", source, type(obj))
            t.guard("CONST", Attr(source, "__name__"), obj.__name__)
            return Method(Builtin(raw), t.wrap(receiver, Attr(source, "__self__")), source)
    t.guard("OBJECT", source, obj)
    return Builtin(obj, source)


def _class(t: Any, obj: type, source: Source) -> Value:
    known = t.class_values.get(obj)
    if known is not None and known.source is not None:
        t.guard("SAME", source, known.source)
        return known
    t.guard("OBJECT", source, obj)
    value = known or Class(obj)
    value.source = source
    t.class_values[obj] = value
    _tie_class(t, obj, source)
    return value


def _tie_class(t: Any, cls: type, source: Source) -> None:
    """Note a way to reach a class; two ways to one that no path names (its name may be another's) are tied."""
    known = t.class_sources.setdefault(cls, source)
    if known != source and naming.path_of(cls) is None:
        t.guard("SAME", source, known)


def _module(t: Any, obj: types.ModuleType, source: Source) -> Value:
    if not _breaks_a_step(t, obj):
        t.guard("OBJECT", source, obj)
    return Module(obj, t.namespace(vars(obj), source, "__dict__"), source)


def _cell(t: Any, obj: types.CellType, source: Source) -> Value:
    return t.cell(obj, source)


def _iterator(t: Any, obj: Any, source: Source) -> Value:
    from .builtins.outside import load_iterator

    return load_iterator(t, obj, source)


def _memoised(t: Any, obj: Any, source: Source) -> Value:
    t.guard("TYPE", source, functools._lru_cache_wrapper)
    return Opaque(obj, source)


def _proxy(t: Any, obj: Any, source: Source) -> Value:
    from .builtins.proxies import load_proxy

    return load_proxy(t, obj, source)


def _generator(t: Any, obj: Any, source: Source) -> Value:
    from .opcodes.generators import load_generator

    return load_generator(t, obj, source)


def _partial(t: Any, obj: functools.partial, source: Source) -> Value:
    from .builtins.partials import load_partial

    t.guard("TYPE", source, functools.partial)
    return load_partial(t, obj, source)


def _object(t: Any, obj: Any, source: Source) -> Value:
    cls = type(obj)
    t.guard("TYPE", source, cls)
    _tie_class(t, cls, TypeOf(source))
    if issubclass(cls, BaseExceptionGroup):
        parts = (t.wrap(getattr(obj, name), Attr(source, name)) for name in ("message", "exceptions", "args"))
        message, exceptions, args = parts
        return Group(cls, message, exceptions, args, source, obj)
    value = Object(cls, source, obj)
    if issubclass(cls, dict):
        base = collections.OrderedDict if issubclass(cls, collections.OrderedDict) else dict
        value.payload = Mapping(base, None, source, obj)
    elif issubclass(cls, (list, tuple)):
        kind = list if issubclass(cls, list) else tuple
        t.guard("LEN", source, kind.__len__(obj))
        items = [t.wrap(each, RawItem(source, i)) for i, each in enumerate(kind.__iter__(obj))]  # type: ignore[arg-type]
        value.payload = Sequence(kind, items, source, obj)
    elif issubclass(cls, (set, frozenset)):
        return Opaque(obj, source)
    elif issubclass(cls, (int, float, str, bytes, complex)):
        if not issubclass(cls, (int, float, str)):
            return Opaque(obj, source)
        plain: Any = int(obj) if issubclass(cls, int) else float(obj) if issubclass(cls, float) else str.__str__(obj)
        t.guard("CONST", Pure(type(plain).__name__, source), plain)
        value.payload = Const(plain)
    elif issubclass(cls, BaseException):
        value.payload = t.wrap(obj.args, Attr(source, "args"))
    return value


LOADERS: dict[type, Callable[[Any, Any, Source], Value]] = {
    list: _sequence,
    tuple: _sequence,
    torch.Size: _sequence,
    collections.deque: _sequence,
    dict: _mapping,
    collections.OrderedDict: _mapping,
    collections.defaultdict: _mapping,
    set: _set,
    frozenset: _set,
    types.FunctionType: _function,
    types.MethodType: _method,
    types.CellType: _cell,
    types.GeneratorType: _generator,
    types.MappingProxyType: _proxy,
    functools.partial: _partial,
    functools._lru_cache_wrapper: _memoised,
    **dict.fromkeys(ahead.TYPES, _iterator),
    numpy.ndarray: _array,
}
