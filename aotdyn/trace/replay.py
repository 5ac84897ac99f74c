"""What tracing changed in objects from outside, written back by the epilogue."""

from __future__ import annotations

from typing import Any

from aotdyn.guards import constants, naming
from aotdyn.guards.sources import Item

from .builtins.outside import OutsideIterator
from .control import Unbuildable
from .values import (
    Cell,
    Class,
    Function,
    Generator,
    Mapping,
    Namespace,
    Object,
    Sequence,
    SetValue,
    Tensor,
    UnreadList,
    Value,
)


def replay(t: Any, e: Any, own: frozenset[Value] = frozenset()) -> None:
    """Write what tracing changed in objects from outside, in the order in which they were first changed.

    Building one may reach a value that is changed itself; all are written once.
    Of the frame's `own` cells, those that nothing refers to are left out.
    """
    for cls in t.taken_apart:
        e.helper("slot_names", e.value(cls))
    waiting = list(t.changed)
    while (value := next((each for each in waiting if each not in own or e.has(each)), None)) is not None:
        waiting.remove(value)
        e.settle(value)
    for value, lines in t.thrown.items():
        if value.source is not None:
            e.helper("thrown", e.value(value), e.const(lines))
    for effect in t.postponed:
        if not isinstance(effect, tuple):
            effect.emit(t, e)
            continue
        name, *args = effect
        e.helper(name, *(e.code_of(*arg) if isinstance(arg, tuple) else e.value(arg) for arg in args))
    for function, args in t.state.changes():
        e.call(e.import_(*naming.path_of(function)), [e.const(arg) for arg in args])  # type: ignore[misc]


def write_back(e: Any, value: Value) -> None:
    """Write one value's changes."""
    register = e.value(value)
    if isinstance(value, UnreadList) and value.unread:
        appended = e.add("list", [e.value(each) for each in value.appended])
        e.call(e.add("getattr", register, "extend"), [appended])
    elif isinstance(value, Sequence):
        if value.cls is not list and not issubclass(value.cls, list) and value.cls.__name__ != "deque":
            raise Unbuildable(value, f"a changed {value.cls.__name__}")
        name = "replace_list" if issubclass(value.cls, list) else "replace_deque"
        e.helper(name, register, e.add("list", [e.value(each) for each in value.items]))
    elif isinstance(value, Mapping):
        _replay_mapping(e, register, value)
    elif isinstance(value, SetValue):
        e.helper("replace_set", register, e.add("set", [e.value(each) for each in value.items.values()]))
    elif isinstance(value, Generator):
        if not value.closed:
            raise Unbuildable(value, "a generator from outside can't be put where the trace took it")
        e.helper("used_up", register)
    elif isinstance(value, OutsideIterator):
        value.replay(e, register)
    elif isinstance(value, (Object, Function)):
        e.attributes(register, value)
    elif isinstance(value, Cell):
        if value.content is None:
            e.helper("set_cell", register)
        else:
            e.helper("set_cell", register, e.value(value.content))
    elif isinstance(value, Namespace):
        for name, content in value.names.items():
            if name in value.names.deleted:
                e.helper("delete_name", register, e.const(name))
            if content is not None:
                e.do("setitem", register, e.const(name), e.value(content))
    elif isinstance(value, Class):
        for name, content in value.attrs.items():
            if name in value.attrs.deleted:
                e.helper("delete_class_attribute", register, e.const(name))
            if content is not None:
                e.do("setattr", register, name, e.value(content))
    elif isinstance(value, Tensor):
        for name, content in value.attrs.items():
            if content is not None:
                e.do("setattr", register, name, e.value(content))
    else:
        raise Unbuildable(value, f"a change of a {value.cls.__name__}")


def _replay_mapping(e: Any, register: int, value: Mapping) -> None:
    """Delete and set what changed where the old keys that are left stand first and in order; else write the dict anew.

    Iterators over a dict know places in its table, which a dict written anew
    doesn't keep.
    """
    if value.entries is None:
        return  # an update with nothing: no entry was looked at
    entries = value.entries
    old = list(dict.keys(value.obj))
    left = [key for key in old if key in entries]
    gone = [key for key in old if key not in entries]
    if type(value.obj) is not dict or list(entries)[: len(left)] != left or not all(map(constants.is_constant, gone)):
        e.fill_mapping(register, value)
        return
    for key in gone:
        e.call(e.add("getattr", register, "__delitem__"), [e.const(key)])
    for key, (key_value, content) in entries.items():
        if key not in value.obj or content.source != Item(value.source, key):  # type: ignore[arg-type]
            e.do("setitem", register, e.value(key_value), e.value(content))
