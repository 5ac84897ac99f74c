"""Exception groups: how they are made, matched and split (CPython's Objects/exceptions.c and PEP 654)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..control import Break
from ..values import Class, Const, Function, Group, Object, Sequence, Value, force
from .attributes import type_of
from .calls import call, call_method
from .operators import truth

if TYPE_CHECKING:
    from ..tracer import Tracer

Matcher = Callable[[Object], bool]
Parts = tuple[Value | None, Value | None]
_NEW = "BaseExceptionGroup.__new__()"


def make(t: Tracer, cls: type, args: list[Value]) -> Group:
    """`BaseExceptionGroup.__new__(cls, *args)`."""
    if len(args) != 2:
        t.raise_(TypeError, f"{_NEW} takes exactly 2 arguments ({len(args)} given)")
    message, given = args
    if not issubclass(type_of(t, message), str):
        t.raise_(TypeError, f"{_NEW} argument 1 must be str, not {type_of(t, message).__name__}")
    exceptions = _exceptions(t, given)
    held = force(given) if force(given).cls is tuple else Sequence(tuple, list(exceptions))
    beyond = any(not issubclass(each.cls, Exception) for each in exceptions)
    if cls is BaseExceptionGroup and not beyond:
        cls = ExceptionGroup
    if beyond and issubclass(cls, Exception):
        where = "an ExceptionGroup" if cls is ExceptionGroup else f"'{cls.__name__}'"
        t.raise_(TypeError, f"Cannot nest BaseExceptions in {where}")
    return Group(cls, message, held, Sequence(tuple, list(args)))


def _exceptions(t: Tracer, given: Value) -> list[Object]:
    """The exceptions of a sequence."""
    known = force(given)
    if not isinstance(known, Sequence):
        if isinstance(known, Object) and known.payload is not None:
            raise Break(f"an exception group made of a {known.cls.__qualname__}")
        t.raise_(TypeError, "second argument (exceptions) must be a sequence")
    if not known.items:
        t.raise_(ValueError, "second argument (exceptions) must be a non-empty sequence")
    found: list[Object] = []
    for i, each in enumerate(known.items):
        exception = force(each)
        if not isinstance(exception, Object) or not issubclass(exception.cls, BaseException):
            t.raise_(ValueError, f"Item {i} of second argument (exceptions) is not an exception")
        found.append(exception)
    return found


def by_class(classes: list[type]) -> Matcher:
    """What matches exceptions of some classes."""
    return lambda exception: any(each in exception.cls.__mro__ for each in classes)


def matcher(t: Tracer, condition: Value) -> Matcher:
    """What the argument of `split` and `subgroup` means (`get_matcher_type`)."""
    known = force(condition)
    if isinstance(known, Function):
        return lambda exception: truth(t, call(t, known, [exception], {}))
    exact = isinstance(known, Sequence) and known.cls is tuple
    classes = [force(each) for each in known.items] if exact else [known]  # type: ignore[attr-defined]
    if not all(isinstance(each, Class) and issubclass(each.obj, BaseException) for each in classes):
        t.raise_(TypeError, "expected a function, exception type or tuple of exception types")
    return by_class([each.obj for each in classes if isinstance(each, Class)])


def split(t: Tracer, exception: Object, matches: Matcher, rest: bool = True) -> Parts:
    """What of an exception matches, and what doesn't (`exceptiongroup_split_recursive`); None for nothing."""
    if matches(exception):
        return exception, None
    if not isinstance(exception, Group):
        return None, exception if rest else None
    found: tuple[list[Value], list[Value]] = ([], [])
    for each in exceptions_of(exception):
        for parts, part in zip(found, split(t, each, matches, rest)):
            if part is not None:
                parts.append(part)
    return _subset(t, exception, found[0]), _subset(t, exception, found[1]) if rest else None


def exceptions_of(group: Group) -> list[Object]:
    """The exceptions that a group holds."""
    known = force(group.exceptions)
    assert isinstance(known, Sequence)
    return [force(each) for each in known.items]  # type: ignore[misc]


def derive(t: Tracer, group: Group, parts: Value) -> Value:
    """`BaseExceptionGroup.derive`."""
    return make(t, BaseExceptionGroup, [group.message, parts])


def _subset(t: Tracer, group: Group, parts: list[Value]) -> Value | None:
    """A group of some of the exceptions of another, with what the other says of itself (`exceptiongroup_subset`)."""
    if not parts:
        return None
    if group.obj is not None:
        raise Break("an exception group from outside is split", "Its traceback is Python's to hand on.")
    made = force(call_method(t, group, "derive", Sequence(list, parts)))
    if not isinstance(made, Group):
        t.raise_(TypeError, "derive must return an instance of BaseExceptionGroup")
    if made.obj is not None:
        raise Break("an exception group is derived by an object from outside")
    t.mutated(made)
    t.thrown[made] = t.thrown.get(group, ())
    for name in ("__context__", "__cause__"):
        made.attrs[name] = group.attrs.get(name) or Const(None)
    made.attrs["__suppress_context__"] = Const(True)  # as PyException_SetCause does
    notes = group.attrs.get("__notes__")
    if notes is not None and isinstance(force(notes), Sequence):
        made.attrs["__notes__"] = Sequence(list, list(force(notes).items))  # type: ignore[attr-defined]
    return made


def star_match(t: Tracer, exception: Value, wanted: Value, classes: list[type]) -> Parts:
    """What an `except*` clause of `wanted`, some `classes`, takes of an exception, and what it leaves."""
    found = force(exception)
    if isinstance(found, Const):
        return None, None
    assert isinstance(found, Object)
    if by_class(classes)(found):
        return (found if isinstance(found, Group) else _wrapped(t, Sequence(tuple, [found]))), None
    if not isinstance(found, Group):
        return None, found
    pair = force(call_method(t, found, "split", wanted))
    if not isinstance(pair, Sequence) or pair.cls is not tuple or len(pair.items) != 2:
        raise Break("an exception group's own `split` gives no pair")
    taken, left = map(_given, pair.items)
    return taken, left


def _wrapped(t: Tracer, exceptions: Sequence) -> Group:
    """`_PyExc_CreateExceptionGroup("", exceptions)`."""
    return make(t, BaseExceptionGroup, [Const(""), exceptions])


def to_raise(t: Tracer, original: Value, raised: list[Value]) -> Value | None:
    """What is raised behind the clauses of an `except*`, of what came out of each (`_PyExc_PrepReraiseStar`)."""
    group = force(original)
    if not raised:
        return None
    if not isinstance(group, Group):
        return _given(raised[0])  # it was wrapped: one clause ran at most
    new: list[Value] = []
    kept: list[Group] = []
    for each in raised:
        exception = _given(each)
        if exception is None:
            continue
        if isinstance(exception, Group) and _tells_the_same(t, exception, group):
            kept.append(exception)
        else:
            new.append(exception)
    leaves = {leaf for each in kept for leaf in _leaves(each)}
    projected = split(t, group, lambda each: not isinstance(each, Group) and each in leaves, rest=False)[0]
    if not new:
        return projected
    if projected is not None:
        new.append(projected)
    return new[0] if len(new) == 1 else _wrapped(t, Sequence(list, new))


def _given(value: Value) -> Value | None:
    value = force(value)
    return None if isinstance(value, Const) else value


def _tells_the_same(t: Tracer, exception: Group, original: Group) -> bool:
    """Whether both have the same traceback, cause and context (`is_same_exception_metadata`)."""
    if exception is original:
        return True
    if exception.obj is not None or original.obj is not None:
        raise Break("the traceback of an exception from outside is compared")

    def told(one: Group, name: str) -> Value | None:
        found = one.attrs.get(name)
        return None if found is None else _given(found)

    same = all(told(exception, name) is told(original, name) for name in ("__context__", "__cause__"))
    return same and t.thrown.get(exception, ()) is t.thrown.get(original, ())


def _leaves(exception: Object) -> list[Object]:
    if not isinstance(exception, Group):
        return [exception]
    return [leaf for each in exceptions_of(exception) for leaf in _leaves(each)]


__all__ = ["derive", "make", "matcher", "split", "star_match", "to_raise"]
