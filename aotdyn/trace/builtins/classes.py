"""What classes say of themselves: their own `__dict__`, and named tuples made while tracing."""

from __future__ import annotations

import collections
import types
from typing import Any

from aotdyn.guards import naming
from aotdyn.guards.sources import Known, Pure
from aotdyn.trace import model
from aotdyn.trace.control import Break
from aotdyn.trace.handlers import handles
from aotdyn.trace.values import Class, Sequence, Value, force

from .common import attempt, native, new_list


class ClassDict(Value):
    """`cls.__dict__`: each name that is asked for is guarded."""

    __slots__ = ("owner",)
    cls = types.MappingProxyType

    def __init__(self, owner: Class) -> None:
        super().__init__()
        self.owner = owner

    def find(self, t: Any, key: Value) -> Value | None:
        """What the class itself holds under a name, no descriptor applied; None if absent."""
        name = native(t, key)
        if name in self.owner.attrs:
            return self.owner.attrs[name]
        own = vars(self.owner.obj)
        source = t.class_source(self.owner.obj)
        t.guard("CONST", Pure("class.holds", source, Known(name)), name in own)
        return t.wrap(own[name], Pure("class.own", source, Known(name))) if name in own else None

    def rebuild(self, e: Any) -> int:
        return e.add("getattr", e.value(self.owner), "__dict__")


class MadeNamedTuple(Class):
    """A class that `collections.namedtuple(...)` made in the traced program: a new one in each call."""

    __slots__ = ("args", "kwargs")

    def __init__(self, obj: type, args: tuple[Value, ...], kwargs: dict[str, Value]) -> None:
        super().__init__(obj)
        self.args = args
        self.kwargs = kwargs

    def rebuild(self, e: Any) -> int:
        named = {name: e.value(value) for name, value in self.kwargs.items()}
        return e.call(e.import_("collections", "namedtuple"), [e.value(each) for each in self.args], named)

    def construct(self, t: Any, args: list[Value], kwargs: dict[str, Value]) -> Value:
        """An instance: what the class's `__new__` does."""
        fields, defaults = self.obj._fields, self.obj._field_defaults  # type: ignore[attr-defined]
        given = dict(zip(fields, args, strict=False))
        wrong = len(args) > len(fields) or kwargs.keys() & given.keys() or kwargs.keys() - set(fields)
        given.update(kwargs)
        if wrong or any(name not in given and name not in defaults for name in fields):
            raise Break(f"arguments that don't fit {self.obj.__name__}")
        items = [given[name] if name in given else model.constant(defaults[name]) for name in fields]
        return Sequence(self.obj, items)


@handles(type.__subclasses__)
def _subclasses(t: Any, cls: Value) -> Value:
    """A new list of the classes that are alive, which is guarded."""
    known = force(cls)
    if not isinstance(known, Class) or (known.source is None and naming.path_of(known.obj) is None):
        raise Break("the subclasses of a class that the frame makes")
    source = known.source or t.class_source(known.obj)
    return new_list(model.unpack(t, t.wrap(known.obj.__subclasses__(), Pure("type.__subclasses__", source))))


@handles(collections.namedtuple)
def _namedtuple(t: Any, *args: Value, **kwargs: Value) -> Value:
    """The class names the module that calls, which only its frame tells: it is said here."""
    kwargs.setdefault("module", model.constant(t.frame.globals.obj.get("__name__", "__main__")))
    named = {name: native(t, value) for name, value in kwargs.items()}
    cls = attempt(t, collections.namedtuple, *(native(t, each) for each in args), **named)
    made = t.class_values[cls] = MadeNamedTuple(cls, args, kwargs)
    return made
