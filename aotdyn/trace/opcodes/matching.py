"""The match statement."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import model
from ..control import Break, NotConstant, Raised
from ..values import Class, Const, Object, Sequence, Value, force
from .table import opcode

if TYPE_CHECKING:
    from ..decode import Instruction
    from ..frame import Frame

# Flags of a type (Include/object.h).
SEQUENCE, MAPPING, MATCH_SELF = 1 << 5, 1 << 6, 1 << 22


@opcode("GET_LEN")
def GET_LEN(t: Any, frame: Frame, ins: Instruction) -> None:
    frame.push(Const(model.length(t, frame.stack[-1])))


@opcode("MATCH_MAPPING")
def MATCH_MAPPING(t: Any, frame: Frame, ins: Instruction) -> None:
    frame.push(Const(bool(model.type_of(t, frame.stack[-1]).__flags__ & MAPPING)))


@opcode("MATCH_SEQUENCE")
def MATCH_SEQUENCE(t: Any, frame: Frame, ins: Instruction) -> None:
    frame.push(Const(bool(model.type_of(t, frame.stack[-1]).__flags__ & SEQUENCE)))


@opcode("MATCH_KEYS")
def MATCH_KEYS(t: Any, frame: Frame, ins: Instruction) -> None:
    subject, keys = frame.stack[-2:]
    found = _values_of(t, subject, force(keys).items)  # type: ignore[attr-defined]
    frame.push(Const(None) if found is None else Sequence(tuple, found))


def _values_of(t: Any, subject: Value, keys: list[Value]) -> list[Value] | None:
    """The values of all `keys`, or None (`match_keys` in ceval.c)."""
    missing, found, seen = Object(object), [], set()
    for key in keys:
        native = model.native_key(t, key)
        if native in seen:
            t.raise_(ValueError, f"mapping pattern checks duplicate key ({model.as_constant(key)!r})")
        seen.add(native)
        value = model.call_method(t, subject, "get", key, missing)
        if force(value) is missing:
            return None
        found.append(value)
    return found


@opcode("MATCH_CLASS")
def MATCH_CLASS(t: Any, frame: Frame, ins: Instruction) -> None:
    subject, cls, names = frame.popn(3)
    found = _match_class(t, subject, cls, ins.arg, _constant(names))
    frame.push(Const(None) if found is None else Sequence(tuple, found))


def _constant(value: Value) -> Any:
    try:
        return model.as_constant(value)
    except NotConstant:
        raise Break("`__match_args__` or the names of a class pattern aren't known.") from None


def _match_class(t: Any, subject: Value, cls: Value, positional: int, names: tuple[str, ...]) -> list[Value] | None:
    """The attributes that a class pattern binds, or None (`match_class` in ceval.c)."""
    known = force(cls)
    if not isinstance(known, Class):
        t.raise_(TypeError, "called match pattern must be a class")
    assert isinstance(known, Class)
    if not model.is_instance(t, subject, known):
        return None
    itself, wanted = _positional(t, known, positional)
    found: list[Value] = [subject] if itself else []
    for at, name in enumerate([*wanted, *names]):
        if name in [*wanted, *names][:at]:
            t.raise_(TypeError, f"{known.obj.__name__}() got multiple sub-patterns for attribute {name!r}")
        value = _attribute(t, subject, name)
        if value is None:
            return None
        found.append(value)
    return found


def _positional(t: Any, cls: Class, count: int) -> tuple[bool, list[str]]:
    """Whether the first positional pattern takes the subject itself, and the attributes of the positional ones."""
    if not count:
        return False, []
    args, itself = _match_args(t, cls)
    allowed = 1 if itself else len(args)
    if count > allowed:
        plural = "" if allowed == 1 else "s"
        message = f"accepts {allowed} positional sub-pattern{plural} ({count} given)"
        t.raise_(TypeError, f"{cls.obj.__name__}() {message}")
    return itself, list(args[:count])


def _match_args(t: Any, cls: Class) -> tuple[tuple[str, ...], bool]:
    """`cls.__match_args__`, and whether `cls` is one of the builtins that match themselves."""
    value = _attribute(t, cls, "__match_args__")
    if value is None:
        return (), bool(cls.obj.__flags__ & MATCH_SELF)
    args = _constant(value)
    if type(args) is not tuple:
        t.raise_(TypeError, f"{cls.obj.__name__}.__match_args__ must be a tuple (got {type(args).__name__})")
    for name in args:
        if type(name) is not str:
            t.raise_(TypeError, f"__match_args__ elements must be strings (got {type(name).__name__})")
    return args, False


def _attribute(t: Any, value: Value, name: str) -> Value | None:
    """An attribute, or None where AttributeError is raised."""
    try:
        return model.get_attr(t, value, name)
    except Raised as raised:
        if issubclass(model.type_of(t, raised.value), AttributeError):
            return None
        raise
