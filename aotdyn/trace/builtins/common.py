"""What the handlers share: unwrapping receivers, folding constants, indices, identity-or-equality."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from aotdyn import interrupted
from aotdyn.trace import model
from aotdyn.trace.control import Break, NotConstant, Raised
from aotdyn.trace.values import Const, Object, Scalar, Sequence, Value, force

Kind = TypeVar("Kind", bound=Value)


def none() -> Const:
    """The value of None."""
    return Const(None)


def new_list(items: Iterable[Value] = ()) -> Sequence:
    """A list that tracing makes."""
    return Sequence(list, list(items))


def new_tuple(items: Iterable[Value] = ()) -> Sequence:
    """A tuple that tracing makes."""
    return Sequence(tuple, list(items))


def payload(value: Value) -> Value:
    """The value itself, or the builtin part of an instance of a builtin's subclass (an exception has none)."""
    value = force(value)
    if isinstance(value, Object) and value.payload is not None and not issubclass(value.cls, BaseException):
        return force(value.payload)
    return value


def receiver(value: Value, kind: type[Kind]) -> Kind:
    """The part of `value` that a builtin's method works on; Break where it has none."""
    part = payload(value)
    if not isinstance(part, kind):
        raise Break(f"a builtin method of {kind.__name__} on {type(part).__name__}")
    return part


def change(t: Any, value: Value) -> None:
    """Say that `value`, and the builtin part inside it, are about to change."""
    value = force(value)
    t.mutated(value)
    if isinstance(value, Object) and value.payload is not None:
        t.mutated(force(value.payload))


def type_name(value: Value) -> str:
    """The class's name, as CPython's messages give it."""
    return force(value).cls.__name__


def specialize(t: Any, scalar: Scalar) -> Any:
    """The number that a symbol stands for in this call, guarded; Break where no input decides it."""
    own = getattr(t, "specialize", None)
    if own is not None:
        result = own(scalar)
        return result.value if isinstance(result, Const) else result
    try:
        return scalar.cls(scalar.sym)
    except Exception as error:
        raise Break("a number that depends on data is needed while tracing") from error


def native(t: Any, value: Value) -> Any:
    """The Python object behind a known value (symbols are specialised); Break where it isn't known."""
    value = force(value)
    if isinstance(value, Scalar):
        return specialize(t, value)
    try:
        return model.as_python(value)
    except NotConstant:
        raise Break(f"{type_name(value)} object isn't known while tracing") from None


def compute(t: Any, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Value:
    """The value of a native call; what it raises is raised in the traced program."""
    return model.constant(attempt(t, function, *args, **kwargs))


def attempt(t: Any, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """A native call; what it raises is raised in the traced program."""
    try:
        return function(*args, **kwargs)
    except (MemoryError, RecursionError):
        raise Break("an operation on constants that exhausts memory or the stack") from None
    except Exception as error:
        interrupted.hand_on(error)
        return t.raise_(type(error), *error.args)


def fold(t: Any, function: Callable[..., Any], *args: Value, **kwargs: Value) -> Value:
    """`function` of known values, computed now."""
    return compute(t, function, *(native(t, a) for a in args), **{k: native(t, a) for k, a in kwargs.items()})


def text(t: Any, value: Value, message: str) -> str:
    """A str that is known; TypeError with `message` for another type."""
    found = native(t, payload(value)) if issubclass(force(value).cls, str) else None
    return found if isinstance(found, str) else t.raise_(TypeError, message)


def number(t: Any, value: Value, message: str = "'{}' object cannot be interpreted as an integer") -> int:
    """The integer that `value` is as an index (`__index__`); TypeError with `message` where it has none."""
    value = payload(value)
    if isinstance(value, Const) and isinstance(value.value, int):
        return int(value.value)
    if isinstance(value, Scalar) and value.cls is not float:
        return int(specialize(t, value))
    if isinstance(value, Object) and model.class_lookup(t, value.cls, "__index__") is not None:
        return number(t, model.call_method(t, value, "__index__"))
    if hasattr(value.cls, "__index__") and not isinstance(value, Const):
        raise Break(f"the index is {type_name(value)} data")
    return t.raise_(TypeError, message.format(type_name(value)))


def same_or_equal(t: Any, a: Value, b: Value) -> bool:
    """Equality of container elements: identity first (language reference, 6.10.1)."""
    from aotdyn.trace.model.operators import equal_or_same

    return equal_or_same(t, a, b)


def catches(error: Raised, cls: type[BaseException]) -> bool:
    """Whether the exception of the traced program is a `cls`."""
    return issubclass(force(error.value).cls, cls)


def each(t: Any, iterable: Value) -> Iterable[Value]:
    """The values of an iterable, one by one as they are asked for."""
    iterator = model.iterate(t, iterable)
    while (item := model.advance(t, iterator)) is not None:
        t.unrolled()
        yield item


def advanced(e: Any, iterator: int, count: int) -> int:
    """The register of an iterator from which the epilogue `e` takes `count` items first (one more: it is used up)."""
    return e.helper("advanced", iterator, e.const(count)) if count else iterator
