"""The `operator` module: functions of the model's operators, and the getters that it makes."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from aotdyn.trace import model, symbols
from aotdyn.trace.control import Break
from aotdyn.trace.handlers import HANDLERS, handles
from aotdyn.trace.values import Builtin, Const, Method, Opaque, Value, force

from .common import each, new_tuple, none, number, same_or_equal, text


def _binary(symbol: str) -> Callable[..., Value]:
    return lambda t, a, b: model.binary(t, symbol, a, b)


def _inplace(symbol: str) -> Callable[..., Value]:
    return lambda t, a, b: model.inplace(t, symbol, a, b)


def _compare(symbol: str) -> Callable[..., Value]:
    return lambda t, a, b: model.compare(t, symbol, a, b)


def _unary(symbol: str) -> Callable[..., Value]:
    return lambda t, a: model.unary(t, symbol, a)


for _symbol, _function in symbols.FUNCTIONS.items():
    handles(_function)(_binary(_symbol) if _symbol in symbols.ARITHMETIC else _compare(_symbol))
for _symbol, _function in symbols.IN_PLACE.items():
    handles(_function)(_inplace(_symbol))
for _symbol, _function in symbols.UNARY.items():
    handles(_function)(_unary(_symbol))


@handles(operator.abs)
def _abs(t: Any, a: Value) -> Value:
    return HANDLERS[abs](t, a)


@handles(operator.truth)
def _truth(t: Any, a: Value) -> Value:
    return Const(model.truth(t, a))


@handles(operator.not_)
def _not(t: Any, a: Value) -> Value:
    return Const(not model.truth(t, a))


@handles(operator.is_)
def _is(t: Any, a: Value, b: Value) -> Value:
    return Const(model.is_same(t, a, b))


@handles(operator.is_not)
def _is_not(t: Any, a: Value, b: Value) -> Value:
    return Const(not model.is_same(t, a, b))


@handles(operator.contains)
def _contains(t: Any, a: Value, b: Value) -> Value:
    return model.contains(t, a, b)


@handles(operator.concat)
def _concat(t: Any, a: Value, b: Value) -> Value:
    return model.binary(t, "+", a, b)


@handles(operator.iconcat)
def _iconcat(t: Any, a: Value, b: Value) -> Value:
    return model.inplace(t, "+", a, b)


@handles(operator.getitem)
def _getitem(t: Any, a: Value, key: Value) -> Value:
    return model.get_item(t, a, key)


@handles(operator.setitem)
def _setitem(t: Any, a: Value, key: Value, item: Value) -> Value:
    model.set_item(t, a, key, item)
    return none()


@handles(operator.delitem)
def _delitem(t: Any, a: Value, key: Value) -> Value:
    model.del_item(t, a, key)
    return none()


@handles(operator.index)
def _index(t: Any, a: Value) -> Value:
    return Const(number(t, a))


@handles(operator.countOf)
def _count_of(t: Any, a: Value, item: Value) -> Value:
    return Const(sum(same_or_equal(t, element, item) for element in each(t, a)))


@handles(operator.indexOf)
def _index_of(t: Any, a: Value, item: Value) -> Value:
    for position, element in enumerate(each(t, a)):
        if same_or_equal(t, element, item):
            return Const(position)
    return t.raise_(ValueError, "sequence.index(x): x not in sequence")


@handles(operator.call)
def _call(t: Any, function: Value, *args: Value, **kwargs: Value) -> Value:
    return model.call(t, function, list(args), kwargs)


class Getter(Method):
    """An `itemgetter`, `attrgetter` or `methodcaller` that tracing made: a method that is called with itself first."""

    __slots__ = ("cls", "init_args", "init_kwargs")

    def __init__(self, cls: type, args: tuple[Value, ...], kwargs: dict[str, Value]) -> None:
        super().__init__(Builtin(cls.__call__), self)
        self.cls = cls  # type: ignore[assignment]
        self.init_args = args
        self.init_kwargs = kwargs

    def rebuild(self, e: Any) -> int:
        """The register of an equal getter."""
        args = [e.value(arg) for arg in self.init_args]
        kwargs = {name: e.value(value) for name, value in self.init_kwargs.items()}
        return e.call(e.import_("operator", self.cls.__name__), args, kwargs)


GETTERS = (operator.itemgetter, operator.attrgetter, operator.methodcaller)


def _maker(cls: Any) -> Callable[..., Value]:
    def handler(t: Any, *args: Value, **kwargs: Value) -> Value:
        if not args:
            return t.raise_(TypeError, f"{cls.__name__} expected at least 1 argument, got 0")
        if cls is operator.attrgetter:
            for arg in args:
                text(t, arg, "attribute name must be a string")
        return Getter(cls, args, kwargs)

    return handler


for _cls in GETTERS:
    handles(_cls)(_maker(_cls))


def _arguments(getter: Value) -> tuple[list[Value], dict[str, Value]]:
    getter = force(getter)
    if isinstance(getter, Getter):
        return list(getter.init_args), getter.init_kwargs
    if isinstance(getter, Opaque):
        raise Break(f"an {getter.cls.__name__} from outside of the compiled code")
    raise Break("a getter of an unknown kind")


def _several(results: list[Value]) -> Value:
    return results[0] if len(results) == 1 else new_tuple(results)


@handles(operator.itemgetter.__call__)
def _get_items(t: Any, self: Value, target: Value) -> Value:
    return _several([model.get_item(t, target, key) for key in _arguments(self)[0]])


@handles(operator.attrgetter.__call__)
def _get_attrs(t: Any, self: Value, target: Value) -> Value:
    return _several([_dotted(t, target, text(t, name, "")) for name in _arguments(self)[0]])


def _dotted(t: Any, value: Value, path: str) -> Value:
    for name in path.split("."):
        value = model.get_attr(t, value, name)
    return value


@handles(operator.methodcaller.__call__)
def _call_method(t: Any, self: Value, target: Value) -> Value:
    args, kwargs = _arguments(self)
    method = model.get_attr(t, target, text(t, args[0], "method name must be a string"))
    return model.call(t, method, args[1:], kwargs)
