"""Builtin functions on numbers and orders: conversions, arithmetic, `sum`, `min`, `max`, `sorted`, `range`."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import torch

from aotdyn.trace import model
from aotdyn.trace.control import Break, NotConstant
from aotdyn.trace.handlers import handles
from aotdyn.trace.values import Array, Builtin, Const, Object, Scalar, Sequence, Tensor, Value, force

from .common import fold, native, new_list, number, payload, specialize, type_name
from .sets import in_any_order, unordered_items


@handles(abs)
def _abs(t: Any, value: Value) -> Value:
    return _by_protocol(t, "__abs__", operator.abs, value)


@handles(divmod)
def _divmod(t: Any, a: Value, b: Value) -> Value:
    left, right = force(a), force(b)
    if isinstance(left, Tensor) or isinstance(right, Tensor):
        names = f"'{type_name(left)}' and '{type_name(right)}'"
        return t.raise_(TypeError, f"unsupported operand type(s) for divmod(): {names}")
    if isinstance(left, Scalar) or isinstance(right, Scalar):
        return Sequence(tuple, [model.binary(t, "//", a, b), model.binary(t, "%", a, b)])
    if any(isinstance(each, Object) and each.payload is None for each in (left, right)):
        return model.dispatch_binary(t, divmod, "__divmod__", "__rdivmod__", left, right)
    return fold(t, divmod, payload(a), payload(b))


@handles(pow)
def _pow(t: Any, base: Value, exp: Value, mod: Value | None = None) -> Value:
    if mod is None or (isinstance(force(mod), Const) and force(mod).value is None):  # type: ignore[attr-defined]
        return model.binary(t, "**", base, exp)
    if isinstance(force(base), Object) and payload(base) is force(base):
        return model.call_method(t, base, "__pow__", exp, mod)
    return fold(t, pow, base, exp, mod)


@handles(round)
def _round(t: Any, value: Value, *digits: Value, **kwargs: Value) -> Value:
    value = force(value)
    extra = [*digits, *kwargs.values()]
    if isinstance(value, Object) and value.payload is None:
        return model.call_method(t, value, "__round__", *extra)
    if isinstance(value, Scalar) and value.cls is int and not extra:
        return value
    if isinstance(value, Tensor):
        raise Break("round() of a tensor gives a Python number")
    return fold(t, round, payload(value), *extra)


def _by_protocol(t: Any, method: str, function: Callable[..., Any], value: Value) -> Value:
    """A numeric function of one operand: folded, recorded in the graph, or the class's own method."""
    value = force(value)
    if isinstance(value, (Tensor, Scalar)):
        return t.graph_call(function, [value], {})
    if isinstance(value, Array) or (isinstance(value, Object) and value.payload is None):
        if model.class_lookup(t, value.cls, method) is None:
            return t.raise_(TypeError, f"bad operand type for {method.strip('_')}(): '{type_name(value)}'")
        return model.call_method(t, value, method)
    return fold(t, function, payload(value))


@handles(sum)
def _sum(t: Any, iterable: Value, start: Value | None = None) -> Value:
    total: Value = Const(0) if start is None else start
    for cls, text in ((str, "strings [use ''.join(seq) instead]"), (bytes, "bytes [use b''.join(seq) instead]")):
        if issubclass(force(total).cls, cls):
            return t.raise_(TypeError, f"sum() can't sum {text}")
    for item in in_any_order(t, iterable):
        total = model.binary(t, "+", total, item)
    return total


def _extreme(name: str, symbol: str, sym_function: Callable[..., Any]) -> Callable[..., Value]:
    def handler(t: Any, *args: Value, key: Value | None = None, default: Value | None = None) -> Value:
        if not args:
            return t.raise_(TypeError, f"{name} expected at least 1 argument, got 0")
        if len(args) > 1 and default is not None:
            return t.raise_(TypeError, f"Cannot specify a default for {name}() with multiple positional arguments")
        items = list(args) if len(args) > 1 else list(in_any_order(t, args[0]))
        if not items:
            return default if default is not None else t.raise_(ValueError, f"{name}() arg is an empty sequence")
        key = _given(key)
        if key is None and _symbolic(items):
            return functools.reduce(lambda a, b: t.graph_call(sym_function, [a, b], {}), map(force, items))
        best = items[0]
        best_key = best if key is None else model.call(t, key, [best], {})
        for item in items[1:]:
            item_key = item if key is None else model.call(t, key, [item], {})
            if model.truth(t, model.compare(t, symbol, item_key, best_key)):
                best, best_key = item, item_key
        return best

    return handler


def _given(key: Value | None) -> Value | None:
    """A key function, None where there is none."""
    key = None if key is None else force(key)
    return None if isinstance(key, Const) and key.value is None else key


def _symbolic(items: list[Value]) -> bool:
    """Whether all are integers and one is a symbol: then the extreme is a symbol too."""
    forced = [force(item) for item in items]
    if not any(isinstance(item, Scalar) for item in forced):
        return False
    return all(item.cls is int and isinstance(item, (Const, Scalar)) for item in forced)


handles(max)(_extreme("max", ">", torch.sym_max))
handles(min)(_extreme("min", "<", torch.sym_min))


class Ordered:
    """A key whose `<` is the traced program's, for Python's own sort."""

    __slots__ = ("t", "value")

    def __init__(self, t: Any, value: Value) -> None:
        self.t, self.value = t, value

    def __lt__(self, other: Ordered) -> bool:
        return model.truth(self.t, model.compare(self.t, "<", self.value, other.value))


def sort_values(t: Any, items: list[Value], key: Value | None, reverse: bool) -> list[Value]:
    """`items` in the order of `sorted`, which is stable and asks for `<` alone."""
    key = _given(key)
    keys = items if key is None else [model.call(t, key, [item], {}) for item in items]
    order = list(range(len(items)))
    try:
        natives = [_sort_constant(value) for value in keys]
    except NotConstant:
        natives = [Ordered(t, value) for value in keys]
    try:
        order.sort(key=natives.__getitem__, reverse=reverse)
    except TypeError as error:
        t.raise_(TypeError, *error.args)
    return [items[i] for i in order]


def _sort_constant(value: Value) -> Any:
    """A constant that Python may compare in our place: no class of the user's."""
    known = model.as_constant(value)
    if type(known) not in (int, float, bool, str, bytes, tuple, list):
        raise NotConstant
    return known


@handles(sorted)
def _sorted(t: Any, iterable: Value, *, key: Value | None = None, reverse: Value | None = None) -> Value:
    known = unordered_items(t, iterable) if _given(key) is None else None
    items = model.unpack(t, iterable) if known is None else known
    return new_list(sort_values(t, items, key, reverse is not None and model.truth(t, reverse)))


@handles(range)
def _range(t: Any, *bounds: Value) -> Value:
    if not 1 <= len(bounds) <= 3:
        kind = "at least 1 argument, got 0" if not bounds else f"at most 3 arguments, got {len(bounds)}"
        return t.raise_(TypeError, f"range expected {kind}")
    numbers = [number(t, bound) for bound in bounds]
    return t.raise_(ValueError, "range() arg 3 must not be zero") if numbers[2:] == [0] else Const(range(*numbers))


@handles(bool)
def _bool(t: Any, value: Value | None = None) -> Value:
    return Const(False) if value is None else Const(model.truth(t, value))


@handles(int)
def _int(t: Any, value: Value | None = None, base: Value | None = None) -> Value:
    if value is None:
        return Const(0)
    value = force(value)
    if base is not None:
        return fold(t, int, payload(value), base)
    if isinstance(value, Scalar):
        return _scalar(t, int, value)
    return _convert(t, int, value, "__int__", "__index__", "__trunc__")


@handles(float)
def _float(t: Any, value: Value | None = None) -> Value:
    if value is None:
        return Const(0.0)
    value = force(value)
    if isinstance(value, Scalar):
        return _scalar(t, float, value)
    return _convert(t, float, value, "__float__", "__index__")


@handles(complex)
def _complex(t: Any, *args: Value, **kwargs: Value) -> Value:
    if len(args) == 1 and isinstance(force(args[0]), Object):
        return _convert(t, complex, force(args[0]), "__complex__", "__float__", "__index__")
    return fold(t, complex, *args, **kwargs)


def _scalar(t: Any, cls: type, value: Scalar) -> Value:
    """A symbol as an int or a float: itself, recorded, or (a bool) decided."""
    if value.cls is cls:
        return value
    if value.cls is bool:
        return Const(cls(specialize(t, value)))
    return t.graph_call(torch.sym_int if cls is int else torch.sym_float, [value], {})


def _convert(t: Any, cls: type, value: Value, *methods: str) -> Value:
    """A conversion by the first special method that the class has."""
    if isinstance(value, Tensor):
        return tensor_number(t, value, cls)
    if isinstance(value, Object):
        for method in methods:
            found = model.class_lookup(t, value.cls, method)
            if found is not None and (value.payload is None or not _is_c(found[0])):
                return force(model.call(t, model.class_value(t, cls), [model.call_method(t, value, method)], {}))
        if value.payload is None:
            word = "a real number" if cls is float else "a string, a bytes-like object or a real number"
            start = f"{cls.__name__}() argument must be" if cls is not complex else "complex() first argument must be"
            return t.raise_(TypeError, f"{start} {word}, not '{type_name(value)}'")
    return fold(t, cls, payload(value))


def _is_c(raw: Any) -> bool:
    return type(raw).__name__ in ("wrapper_descriptor", "method_descriptor")


def tensor_number(t: Any, value: Tensor, cls: type) -> Value:
    """`int(tensor)` and the like: left to the tensors' own handler where one is declared, else a break."""
    from aotdyn.trace.handlers import HANDLERS
    from aotdyn.trace.torch_.tensors import known_number

    known = known_number(value)
    if known is not None:
        return fold(t, cls, Const(known))
    handler = HANDLERS.get(torch.Tensor.item)
    if getattr(t.options, "capture_scalar_outputs", False) and handler is not None:
        return model.call(t, model.class_value(t, cls), [model.call(t, Builtin(torch.Tensor.item), [value], {})], {})
    raise Break(
        f"{cls.__name__}() of a tensor depends on its data",
        "keep the value a tensor, or set capture_scalar_outputs",
    )


@handles(bytes)
def _bytes(t: Any, *args: Value, **kwargs: Value) -> Value:
    if len(args) == 1 and isinstance(force(args[0]), Object) and model.class_lookup(t, force(args[0]).cls, "__bytes__"):
        return model.call_method(t, args[0], "__bytes__")
    return fold(t, bytes, *args, **kwargs)


@handles(bytearray)
def _bytearray(t: Any, *args: Value, **kwargs: Value) -> Value:
    raise Break("bytearray() runs in Python")


def _folding(function: Callable[..., Any]) -> Callable[..., Value]:
    def handler(t: Any, value: Value) -> Value:
        known = force(value)
        if isinstance(known, Object) and known.payload is None:
            known = Const(number(t, known))
        return fold(t, function, payload(known))

    return handler


for _function in (chr, ord, bin, hex, oct):
    handles(_function)(_folding(_function))

__all__ = ["native", "sort_values"]
