"""Text, bytes, numbers, ranges and regular expressions: what is known is computed in place."""

from __future__ import annotations

import cmath
import json
import math
import re
import string
from collections.abc import Callable
from typing import Any

import torch

from aotdyn.guards.sources import Attr
from aotdyn.trace import model
from aotdyn.trace.control import Break, NotConstant
from aotdyn.trace.handlers import foldable, handles
from aotdyn.trace.values import Const, Object, Opaque, Scalar, SetValue, Tensor, Value, force

from .common import each, fold, native, new_tuple, payload, receiver, type_name
from .iterators import Reversed
from .numbers import tensor_number
from .sets import ordered_items

NOT_FOLDED = frozenset(
    [
        "__class__",
        "__delattr__",
        "__dir__",
        "__enter__",
        "__exit__",
        "__getattribute__",
        "__hash__",
        "__init__",
        "__init_subclass__",
        "__iter__",
        "__new__",
        "__reduce__",
        "__reduce_ex__",
        "__reversed__",
        "__setattr__",
        "__sizeof__",
        "__subclasshook__",
    ]
)
"Methods that make more than a constant, do more than that, or differ from process to process"

FOLDED_TYPES = (str, bytes, int, float, complex, bool, range, slice, torch.dtype, torch.device, re.Match)


def methods(cls: type) -> list[Any]:
    """The C methods of a class whose result depends on constants alone."""
    found = [raw for name, raw in vars(cls).items() if name not in NOT_FOLDED and callable(raw)]
    return [*found, *(getattr(cls, n) for n, raw in vars(cls).items() if isinstance(raw, (classmethod, staticmethod)))]


for _cls in FOLDED_TYPES:
    foldable(*methods(_cls))
foldable(str.maketrans, bytes.maketrans, int.from_bytes, float.fromhex, bytes.fromhex)
foldable(int.__dict__["from_bytes"], float.__dict__["fromhex"], bytes.__dict__["fromhex"])


@handles(str.join, bytes.join)
def _join(t: Any, self: Value, iterable: Value) -> Value:
    separator, part = native(t, payload(self)), payload(iterable)
    items = ordered_items(t, part) if isinstance(part, SetValue) else each(t, iterable)
    known = []
    for position, item in enumerate(items):
        if not issubclass(force(item).cls, type(separator)):
            kind = "str instance" if isinstance(separator, str) else "a bytes-like object"
            found = f"{type_name(item)} found"
            return t.raise_(TypeError, f"sequence item {position}: expected {kind}, {found}")
        known.append(native(t, payload(item)))
    return Const(separator.join(known))


@handles(str.format)
def _format(t: Any, self: Value, *args: Value, **kwargs: Value) -> Value:
    """Fields of known values; a plain `{}` or `{name:spec}` of an object goes through `format`."""
    template = native(t, payload(self))
    try:
        return fold(t, str.format, Const(template), *args, **kwargs)
    except Break:
        return Const(_fields(t, template, args, kwargs))


def _fields(t: Any, template: str, args: tuple[Value, ...], kwargs: dict[str, Value]) -> str:
    parts, automatic = [], 0
    for literal, field, spec, conversion in string.Formatter().parse(template):
        parts.append(literal)
        if field is None:
            continue
        if field == "":
            field, automatic = str(automatic), automatic + 1
        if conversion or (spec and "{" in spec) or not (field.isdigit() or field.isidentifier()):
            raise Break("str.format() with a conversion or nested field of an object")
        value = args[int(field)] if field.isdigit() and int(field) < len(args) else kwargs.get(field)
        if value is None:
            raise Break("str.format() without the argument of a field")
        parts.append(native(t, model.format_value(t, value, spec or "")))
    return "".join(parts)


@handles(str.__iter__, bytes.__iter__, range.__iter__)
def _iter(t: Any, self: Value) -> Value:
    return model.iterate(t, receiver(self, Const))


@handles(range.__reversed__)
def _reversed(t: Any, self: Value) -> Value:
    part = payload(self)
    return Reversed(t, part) if isinstance(part, Const) else model.iterate(t, part)


@handles(str.__hash__, bytes.__hash__)
def _hash(t: Any, self: Value) -> Value:
    raise Break("hash() of text, which differs from process to process")


SYMBOLIC: dict[Any, Callable[..., Any]] = {
    getattr(math, name): getattr(torch, f"_sym_{name}")
    for name in ("sqrt", "cos", "cosh", "sin", "sinh", "tan", "tanh", "asin", "acos", "atan", "log2")
    if hasattr(torch, f"_sym_{name}")
}
"math functions of a symbolic number that the graph can hold"
INTEGRAL = {math.floor: "__floor__", math.ceil: "__ceil__", math.trunc: "__trunc__"}


def _math(function: Callable[..., Any]) -> Callable[..., Value]:
    """A function of `math`: folded, or recorded where its one argument is a symbol."""

    def handler(t: Any, *args: Value, **kwargs: Value) -> Value:
        forced = [force(arg) for arg in args]
        own = forced[0] if len(forced) == 1 and isinstance(forced[0], Object) and forced[0].payload is None else None
        if own is not None and function in INTEGRAL and model.class_lookup(t, own.cls, INTEGRAL[function]):
            return model.call_method(t, own, INTEGRAL[function])
        if len(forced) == 1 and isinstance(forced[0], Scalar) and (function in SYMBOLIC or function in INTEGRAL):
            if function in INTEGRAL and forced[0].cls is int:
                return forced[0]
            return t.graph_call(SYMBOLIC.get(function, function), forced, {})
        return fold(t, function, *(_operand(t, function, arg) for arg in forced), **kwargs)

    return handler


def _operand(t: Any, function: Callable[..., Any], value: Value) -> Value:
    """An argument of a math function: objects are converted as C does, by `__floor__` and kin, then `__float__`."""
    if isinstance(value, Tensor):
        return force(tensor_number(t, value, float))
    if isinstance(value, Object) and value.payload is None:
        name = "__index__" if model.class_lookup(t, value.cls, "__float__") is None else "__float__"
        return force(model.call_method(t, value, name))
    return payload(value)


for _name, _function in vars(math).items():
    if callable(_function) and _name not in ("prod", "__loader__"):
        handles(_function)(_math(_function))


foldable(*(each for name, each in vars(cmath).items() if callable(each) and name != "__loader__"))


@handles(math.prod)
def _prod(t: Any, iterable: Value, *, start: Value | None = None) -> Value:
    product: Value = Const(1) if start is None else start
    for item in each(t, iterable):
        product = model.binary(t, "*", product, item)
    return product


def known_pattern(t: Any, value: Value) -> Any:
    """A compiled pattern; one from outside is guarded by its text and flags."""
    value = force(value)
    if isinstance(value, (Object, Opaque)) and isinstance(value.obj, re.Pattern) and value.source is not None:
        for name in ("pattern", "flags"):
            native(t, t.wrap(getattr(value.obj, name), Attr(value.source, name)))
        return value.obj
    return native(t, value)


def _known(t: Any, value: Value) -> Any:
    value = force(value)
    if isinstance(value, Object) and isinstance(value.payload, Const) and isinstance(value.obj, str):
        return value.obj
    try:
        return model.as_constant(value)
    except NotConstant:
        raise Break(f"a regular expression on a {type_name(value)} that isn't known") from None


def _pattern_method(method: Callable[..., Any]) -> Callable[..., Value]:
    def handler(t: Any, self: Value, *args: Value, **kwargs: Value) -> Value:
        known = [Const(_known(t, arg)) for arg in args]
        return fold(t, method, Const(known_pattern(t, self)), *known, **kwargs)

    return handler


for _name in ("match", "search", "fullmatch", "findall", "split", "sub", "subn"):
    handles(getattr(re.Pattern, _name))(_pattern_method(getattr(re.Pattern, _name)))


@handles(re.Pattern.finditer)
def _finditer(t: Any, self: Value, text: Value, *bounds: Value) -> Value:
    found = known_pattern(t, self).finditer(_known(t, text), *(native(t, bound) for bound in bounds))
    return model.iterate(t, new_tuple(Const(match) for match in found))


@handles(re.finditer)
def _finditer_of(t: Any, pattern: Value, text: Value, flags: Value | None = None) -> Value:
    found = re.finditer(known_pattern(t, pattern), _known(t, text), native(t, flags or Const(0)))
    return model.iterate(t, new_tuple(Const(match) for match in found))


def _on_known(function: Callable[..., Any]) -> Callable[..., Value]:
    """A Python function that computes from known values alone; its errors, which have attributes, are Python's."""

    def handler(t: Any, *args: Value, **kwargs: Value) -> Value:
        given = [native(t, arg) for arg in args]
        named = {name: native(t, arg) for name, arg in kwargs.items()}
        try:
            return model.constant(function(*given, **named))
        except Exception as error:
            raise Break(f"{function.__name__}() raises a {type(error).__name__}") from None

    return handler


for _function in (json.loads, json.dumps):
    handles(_function)(_on_known(_function))


def _re_function(function: Callable[..., Any]) -> Callable[..., Value]:
    def handler(t: Any, pattern: Value, *args: Value, **kwargs: Value) -> Value:
        return fold(t, function, Const(known_pattern(t, pattern)), *(Const(_known(t, arg)) for arg in args), **kwargs)

    return handler


for _function in (re.match, re.search, re.fullmatch, re.findall, re.split, re.sub, re.subn, re.compile, re.escape):
    handles(_function)(_re_function(_function))
