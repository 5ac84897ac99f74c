"""Raising, catching, `with`.

`t.handled` is the exception that the running code handles, as CPython's
`exc_info`: one for all frames, except that a generator's frame has its own and
looks through to its resumer's where that is empty (see `handled`).
"""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any, NoReturn

from .. import model
from ..control import Raised, graph_break
from ..model import groups
from ..values import Class, Const, Object, SavedException, Sequence, Value, force
from .table import opcode

if TYPE_CHECKING:
    from ..decode import Instruction
    from ..frame import Frame


class Chained(Raised):
    """An exception on its way whose `__context__` is set: it is raised again, or leaves a frame."""


class TracebackValue(Value):
    """What the traceback of an exception was at one time: it can be passed on, and set on an exception again."""

    __slots__ = ("lines",)
    cls = types.TracebackType

    def __init__(self, lines: tuple[tuple[str, int, str], ...]) -> None:
        super().__init__()
        self.lines = lines


# -- The exception being handled --------------------------------------------------------------------------------------


def handled(t: Any) -> Value | None:
    """What `sys.exc_info()` and a bare `raise` see (`_PyErr_GetTopmostException`)."""
    found, frame = t.handled, t.frame
    while found is None and frame is not None:
        if frame.generator is not None:
            found = frame.outer_handled
        frame = frame.caller
    return found


def _link(t: Any, exception: Value, name: str, raised: Object) -> Value | None:
    """`__context__` or `__cause__`; what tracing didn't set is read where it may lead to the exception `raised`."""
    exception = force(exception)
    found = exception.attrs.get(name) if isinstance(exception, Object) else None
    if found is None and isinstance(exception, Object) and exception.obj is not None and raised.obj is not None:
        found = model.get_attr(t, exception, name)
    found = force(found) if found is not None else None
    return None if isinstance(found, Const) else found


def _set(t: Any, exception: Object, name: str, value: Value) -> None:
    t.mutated(exception)
    exception.attrs[name] = value


def chain(t: Any, value: Value) -> None:
    """Set the `__context__` of an exception that is raised now, breaking cycles (`_PyErr_SetObject`)."""
    value, current = force(value), handled(t)
    current = force(current) if current is not None else None
    if current is None or current is value or not isinstance(value, Object):
        return
    seen, link = {current}, current
    while (context := _link(t, link, "__context__", value)) is not None and context not in seen:
        if context is value:
            assert isinstance(link, Object)
            _set(t, link, "__context__", Const(None))
            break
        seen.add(context)
        link = context
    _set(t, value, "__context__", current)


def new_exception(t: Any, cls: type[BaseException], *args: Value) -> Object:
    """An instance of a builtin exception class."""
    return Object(cls, payload=Sequence(tuple, list(args)))


def as_exception(t: Any, value: Value, error: str = "exceptions must derive from BaseException") -> Object:
    """The exception that `raise value` raises: an instance as it is, of a class a new instance."""
    found = force(value)
    if isinstance(found, Class) and issubclass(found.obj, BaseException):
        found = force(model.call(t, found, [], {}))
    if not isinstance(found, Object) or not issubclass(found.cls, BaseException):
        t.raise_(TypeError, error)
    assert isinstance(found, Object)
    return found


# -- Raising ----------------------------------------------------------------------------------------------------------


@opcode("RAISE_VARARGS")
def RAISE_VARARGS(t: Any, frame: Frame, ins: Instruction) -> None:
    values = frame.popn(ins.arg)
    if not values:
        _raise_again(t)
    exception = as_exception(t, values[0])
    if len(values) == 2:
        _set_cause(t, exception, values[1])
    raise Raised(exception)


@opcode("RERAISE")
def RERAISE(t: Any, frame: Frame, ins: Instruction) -> None:
    raise Chained(frame.pop())


def _raise_again(t: Any) -> NoReturn:
    current = handled(t)
    if current is None:
        graph_break("A bare `raise` is run outside of the traced `except` blocks: a caller's exception may be meant.")
    raise Chained(current)


def _set_cause(t: Any, exception: Object, cause: Value) -> None:
    known = force(cause)
    if not (isinstance(known, Const) and known.value is None):
        known = as_exception(t, known, "exception causes must derive from BaseException")
    _set(t, exception, "__cause__", known)
    _set(t, exception, "__suppress_context__", Const(True))


# -- Catching ---------------------------------------------------------------------------------------------------------


@opcode("PUSH_EXC_INFO")
def PUSH_EXC_INFO(t: Any, frame: Frame, ins: Instruction) -> None:
    exception = frame.pop()
    frame.push(SavedException(t.handled))
    frame.push(exception)
    t.handled = exception


@opcode("POP_EXCEPT")
def POP_EXCEPT(t: Any, frame: Frame, ins: Instruction) -> None:
    saved = frame.pop()
    assert isinstance(saved, SavedException)
    t.handled = saved.value


@opcode("CHECK_EXC_MATCH")
def CHECK_EXC_MATCH(t: Any, frame: Frame, ins: Instruction) -> None:
    wanted = frame.pop()
    classes = _classes(t, wanted)
    frame.push(Const(any(each in model.type_of(t, frame.stack[-1]).__mro__ for each in classes)))


def _classes(t: Any, wanted: Value) -> list[type]:
    """The classes behind `except`: one, or a tuple of them (nested tuples aren't classes)."""
    known = force(wanted)
    many = isinstance(known, Sequence) and issubclass(known.cls, tuple)
    found = [force(each) for each in known.items] if many else [known]  # type: ignore[attr-defined]
    if not all(isinstance(each, Class) and issubclass(each.obj, BaseException) for each in found):
        t.raise_(TypeError, "catching classes that do not inherit from BaseException is not allowed")
    return [each.obj for each in found if isinstance(each, Class)]


@opcode("CHECK_EG_MATCH")
def CHECK_EG_MATCH(t: Any, frame: Frame, ins: Instruction) -> None:
    # [exception, classes] becomes [exception, None] or, where something matches, [rest, match].
    wanted = frame.pop()
    classes = _classes(t, wanted)
    if any(issubclass(each, BaseExceptionGroup) for each in classes):
        t.raise_(TypeError, "catching ExceptionGroup with except* is not allowed. Use except instead.")
    match, rest = groups.star_match(t, frame.stack[-1], wanted, classes)
    if match is not None:
        frame.pop()
        frame.push(rest or Const(None))
        t.handled = match
    frame.push(match or Const(None))


@opcode("PREP_RERAISE_STAR")
def PREP_RERAISE_STAR(t: Any, frame: Frame, ins: Instruction) -> None:
    original, raised = frame.popn(2)
    known = force(raised)
    assert isinstance(known, Sequence)
    frame.push(groups.to_raise(t, original, known.items) or Const(None))


# -- with -------------------------------------------------------------------------------------------------------------


def _protocol(t: Any, manager: Value, name: str, more: str = "") -> Value:
    """A method of a context manager, found on its class."""
    cls = model.type_of(t, manager)
    if model.class_lookup(t, cls, name) is None:
        t.raise_(TypeError, f"'{cls.__name__}' object does not support the context manager protocol{more}")
    return model.get_attr(t, manager, name)


@opcode("BEFORE_WITH")
def BEFORE_WITH(t: Any, frame: Frame, ins: Instruction) -> None:
    manager = frame.pop()
    enter = _protocol(t, manager, "__enter__")
    leave = _protocol(t, manager, "__exit__", " (missed __exit__ method)")
    frame.push(leave)
    frame.push(model.call(t, enter, [], {}))


@opcode("WITH_EXCEPT_START")
def WITH_EXCEPT_START(t: Any, frame: Frame, ins: Instruction) -> None:
    # The stack: __exit__, lasti, the saved exception, the exception.
    leave, exception = frame.stack[-4], frame.stack[-1]
    cls = model.class_value(t, model.type_of(t, exception))
    traceback = TracebackValue(t.thrown.get(force(exception), ()))
    traceback.born = t.position
    frame.push(model.call(t, leave, [cls, exception, traceback], {}))
