"""`types.MappingProxyType`: a view of a mapping that can't be written to, made by the program or found outside."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

from aotdyn.guards import pure
from aotdyn.guards.sources import Pure, Source
from aotdyn.trace import model
from aotdyn.trace.control import Break
from aotdyn.trace.handlers import handles
from aotdyn.trace.values import Builtin, Const, Sequence, Value, force

from .classes import ClassDict
from .common import type_name
from .functions import repr_text, str_text


class MappingProxy(Value):
    """A view of the mapping `target`."""

    __slots__ = ("obj", "target")
    cls = types.MappingProxyType

    def __init__(self, target: Value, source: Source | None = None, obj: Any = None) -> None:
        super().__init__(source)
        self.target = target
        self.obj = obj

    def rebuild(self, e: Any) -> int:
        return e.call(e.import_("types", "MappingProxyType"), [e.value(self.target)])

    def told(self, t: Any) -> str:
        """Its `str`."""
        return str_text(t, self.target)

    def shown(self, t: Any) -> str:
        """Its `repr`."""
        return f"mappingproxy({repr_text(t, self.target)})"


def load_proxy(t: Any, obj: Any, source: Source) -> Value:
    """A proxy from outside: what it is a view of is reached as the garbage collector reaches it."""
    t.guard("TYPE", source, types.MappingProxyType)
    return MappingProxy(t.wrap(pure.viewed(obj), Pure("mappingproxy.mapping", source)), source, obj)


def target(value: Value) -> Value:
    """What a proxy is a view of; any other value as it is."""
    value = force(value)
    while isinstance(value, MappingProxy):
        value = force(value.target)
    return value


@handles(types.MappingProxyType)
def _made(t: Any, mapping: Value) -> Value:
    known = force(mapping)
    if isinstance(known, (Sequence, Const)) or model.class_lookup(t, known.cls, "__getitem__") is None:
        return t.raise_(TypeError, f"mappingproxy() argument must be a mapping, not {type_name(known)}")
    return MappingProxy(known)


def _forwarded(operation: Callable[..., Value]) -> Callable[..., Value]:
    """A method of proxies: that of the mapping behind it."""

    def handler(t: Any, self: Value, *args: Value) -> Value:
        known = force(self)
        if not isinstance(known, MappingProxy):
            raise Break(f"a method of mappingproxy on a {type_name(known)}")
        return operation(t, target(known), *args)

    return handler


def _named(name: str) -> Callable[..., Value]:
    return lambda t, mapping, *args: model.call_method(t, mapping, name, *args)


@handles(types.MappingProxyType.__contains__)
def _contains(t: Any, self: Value, key: Value) -> Value:
    known = force(self)
    if isinstance(known, ClassDict):
        return Const(known.find(t, key) is not None)
    return _forwarded(model.contains)(t, known, key)


@handles(types.MappingProxyType.__getitem__)
def _getitem(t: Any, self: Value, key: Value) -> Value:
    known = force(self)
    if isinstance(known, ClassDict):
        found = known.find(t, key)
        return found if found is not None else t.raise_(KeyError, key)
    return _forwarded(model.get_item)(t, known, key)


@handles(types.MappingProxyType.get)
def _get(t: Any, self: Value, key: Value, default: Value | None = None) -> Value:
    known = force(self)
    if isinstance(known, ClassDict):
        return known.find(t, key) or default or Const(None)
    return _forwarded(_named("get"))(t, known, key, *(() if default is None else (default,)))


for _name in ("keys", "values", "items", "copy", "__reversed__"):
    handles(getattr(types.MappingProxyType, _name))(_forwarded(_named(_name)))
handles(types.MappingProxyType.__iter__)(_forwarded(model.iterate))
handles(types.MappingProxyType.__len__)(_forwarded(lambda t, mapping: model.call(t, Builtin(len), [mapping], {})))
handles(types.MappingProxyType.__or__)(
    _forwarded(lambda t, mapping, other: model.binary(t, "|", mapping, target(other)))
)
handles(types.MappingProxyType.__ror__)(
    _forwarded(lambda t, mapping, other: model.binary(t, "|", target(other), mapping)),
)

__all__ = ["MappingProxy", "load_proxy", "target"]
