"""Methods of exception groups, and notes."""

from __future__ import annotations

from typing import Any

from aotdyn.trace import model
from aotdyn.trace.control import Break
from aotdyn.trace.handlers import handles
from aotdyn.trace.model import groups
from aotdyn.trace.values import Group, Sequence, Value, force

from .common import new_list, new_tuple, none, type_name


def _group(value: Value) -> Group:
    known = force(value)
    if not isinstance(known, Group):
        raise Break(f"a method of exception groups on a {type_name(known)}")
    return known


@handles(BaseExceptionGroup.split)
def _split(t: Any, self: Value, condition: Value) -> Value:
    return new_tuple(part or none() for part in groups.split(t, _group(self), groups.matcher(t, condition)))


@handles(BaseExceptionGroup.subgroup)
def _subgroup(t: Any, self: Value, condition: Value) -> Value:
    return groups.split(t, _group(self), groups.matcher(t, condition), rest=False)[0] or none()


@handles(BaseExceptionGroup.derive)
def _derive(t: Any, self: Value, exceptions: Value) -> Value:
    return groups.derive(t, _group(self), exceptions)


@handles(BaseException.add_note)
def _add_note(t: Any, self: Value, note: Value) -> Value:
    """The note comes last in the list `__notes__`, which the first one makes."""
    if not issubclass(model.type_of(t, note), str):
        return t.raise_(TypeError, f"note must be a str, not '{type_name(note)}'")
    if not model.has_attr(t, self, "__notes__"):
        model.set_attr(t, self, "__notes__", new_list())
    notes = force(model.get_attr(t, self, "__notes__"))
    if not isinstance(notes, Sequence) or notes.cls is not list:
        raise Break("`__notes__` isn't a list")
    t.mutated(notes)
    notes.items.append(note)
    return none()
