"""`functools.partial` objects: an Object whose attributes are `func`, `args` (a tuple) and `keywords` (a dict)."""

from __future__ import annotations

import functools
from typing import Any

from aotdyn.guards.sources import Attr, Source
from aotdyn.trace import model
from aotdyn.trace.control import Break
from aotdyn.trace.handlers import handles
from aotdyn.trace.values import Const, Mapping, Object, Sequence, Value, force

from .common import new_tuple, type_name


@handles(functools.partial)
def _partial(t: Any, *args: Value, **keywords: Value) -> Value:
    if not args:
        return t.raise_(TypeError, "type 'partial' takes at least one argument")
    function, bound = force(args[0]), list(args[1:])
    if isinstance(function, (Const, Sequence, Mapping)):
        return t.raise_(TypeError, "the first argument must be callable")
    if isinstance(function, Object) and function.cls is functools.partial and not _extended(function):
        inner, inner_args, inner_keywords = parts(function)
        function, bound, keywords = inner, [*inner_args, *bound], {**inner_keywords, **keywords}
    return make(function, bound, keywords)


def make(function: Value, args: list[Value], keywords: dict[str, Value]) -> Object:
    """A partial object that tracing makes."""
    made = Object(functools.partial)
    made.attrs["func"] = function
    made.attrs["args"] = new_tuple(args)
    made.attrs["keywords"] = Mapping(dict, {name: (Const(name), value) for name, value in keywords.items()})
    return made


def _extended(partial: Object) -> bool:
    """Whether attributes were set on it: then nesting it doesn't flatten (`partial_new`)."""
    return bool(set(partial.attrs) - {"func", "args", "keywords"}) or bool(getattr(partial.obj, "__dict__", None))


def load_partial(t: Any, obj: functools.partial[Any], source: Source) -> Object:
    """A partial object from outside; its parts are looked at when it is called."""
    made = Object(functools.partial, source, obj)
    for name in ("func", "args", "keywords"):
        made.attrs[name] = t.wrap(getattr(obj, name), Attr(source, name))
    return made


def parts(partial: Object) -> tuple[Value, list[Value], dict[str, Value]]:
    """Function, arguments and keywords of a partial object."""
    function, args, keywords = (partial.attrs.get(name) for name in ("func", "args", "keywords"))
    if function is None or args is None or keywords is None:
        raise Break("a partial object whose parts aren't known")
    bound, named = force(args), force(keywords)
    if not isinstance(bound, Sequence) or not isinstance(named, Mapping):
        raise Break(f"a partial object of {type_name(bound)} and {type_name(named)}")
    if named.entries is None:
        raise Break("keywords of a partial object that aren't loaded")
    return force(function), bound.items, {_name(key): value for key, value in named.entries.values()}


def _name(key: Value) -> str:
    known = force(key)
    if not isinstance(known, Const) or not isinstance(known.value, str):
        raise Break("a partial object with keywords that aren't text")
    return known.value


def call_partial(t: Any, partial: Object, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """`partial(*args, **kwargs)`."""
    keywords = force(partial.attrs["keywords"])  # type: ignore[arg-type]
    if isinstance(keywords, Mapping) and keywords.entries is None:
        model.load_entries(t, keywords)
    function, bound, named = parts(partial)
    return model.call(t, function, [*bound, *args], {**named, **kwargs})


@handles(functools.partial.__call__)
def _call(t: Any, self: Value, *args: Value, **kwargs: Value) -> Value:
    value = force(self)
    if not isinstance(value, Object):
        raise Break(f"call of a {type_name(value)}")
    return call_partial(t, value, list(args), kwargs)


__all__ = ["call_partial", "load_partial", "make", "parts"]
