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
from .common import fold, type_name
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


def _found(t: Any, mapping: ClassDict, key: Value, default: Value | None = None) -> Value:
    return mapping.find(t, key) or default or Const(None)


def _own(t: Any, mapping: ClassDict, key: Value) -> Value:
    return mapping.find(t, key) or t.raise_(KeyError, key)


OF_CLASSES: dict[str, Callable[..., Value]] = {
    "__contains__": lambda t, mapping, key: Const(mapping.find(t, key) is not None),
    "__getitem__": _own,
    "get": _found,
}
"""What is known of `cls.__dict__`."""
OPERATIONS: dict[str, Callable[..., Value]] = {
    "__contains__": model.contains,
    "__getitem__": model.get_item,
    "__iter__": model.iterate,
    "__len__": lambda t, mapping: model.call(t, Builtin(len), [mapping], {}),
    "__or__": lambda t, mapping, other: model.binary(t, "|", mapping, target(other)),
    "__ror__": lambda t, mapping, other: model.binary(t, "|", target(other), mapping),
}
"""What the methods do to the mapping behind a proxy, where they don't call its own of the same name."""


def _method(name: str) -> Callable[..., Value]:
    """The handler of a method of proxies."""
    operation = OPERATIONS.get(name) or (lambda t, mapping, *args: model.call_method(t, mapping, name, *args))

    def handler(t: Any, self: Value, *args: Value) -> Value:
        known = force(self)
        if isinstance(known, ClassDict) and name in OF_CLASSES:
            return OF_CLASSES[name](t, known, *args)
        if isinstance(known, Const):
            return fold(t, getattr(types.MappingProxyType, name), known, *args)
        if not isinstance(known, MappingProxy):
            raise Break(f"{name} of the names of a class")
        return operation(t, target(known), *args)

    return handler


for _name in (*OPERATIONS, "get", "keys", "values", "items", "copy", "__reversed__"):
    handles(getattr(types.MappingProxyType, _name))(_method(_name))

__all__ = ["MappingProxy", "load_proxy", "target"]
