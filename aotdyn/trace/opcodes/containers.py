"""Displays, comprehensions and slices: the opcodes that build containers and add to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import model
from ..control import Break, Raised
from ..values import Const, Generator, Iterator, Mapping, Object, Sequence, SetValue, Tensor, Value, force
from .table import opcode

if TYPE_CHECKING:
    from ..decode import Instruction
    from ..frame import Frame


@opcode("BUILD_TUPLE")
def BUILD_TUPLE(t: Any, frame: Frame, ins: Instruction) -> None:
    frame.push(Sequence(tuple, frame.popn(ins.arg)))


@opcode("BUILD_LIST")
def BUILD_LIST(t: Any, frame: Frame, ins: Instruction) -> None:
    frame.push(Sequence(list, frame.popn(ins.arg)))


@opcode("LIST_TO_TUPLE")
def LIST_TO_TUPLE(t: Any, frame: Frame, ins: Instruction) -> None:
    frame.push(Sequence(tuple, list(_sequence(frame.pop()).items)))


@opcode("BUILD_SET")
def BUILD_SET(t: Any, frame: Frame, ins: Instruction) -> None:
    found = SetValue(set, {})
    _add(t, found, frame.popn(ins.arg))
    found.grown = len(found.items)
    frame.push(found)


@opcode("BUILD_MAP")
def BUILD_MAP(t: Any, frame: Frame, ins: Instruction) -> None:
    flat = frame.popn(2 * ins.arg)
    frame.push(build_map(t, flat[::2], flat[1::2]))


@opcode("BUILD_CONST_KEY_MAP")
def BUILD_CONST_KEY_MAP(t: Any, frame: Frame, ins: Instruction) -> None:
    keys = _sequence(frame.pop()).items
    frame.push(build_map(t, keys, frame.popn(ins.arg)))


@opcode("BUILD_SLICE")
def BUILD_SLICE(t: Any, frame: Frame, ins: Instruction) -> None:
    frame.push(model.build_slice(t, frame.popn(ins.arg)))


@opcode("LIST_APPEND")
def LIST_APPEND(t: Any, frame: Frame, ins: Instruction) -> None:
    item, target = frame.pop(), _sequence(frame.stack[-ins.arg])
    t.mutated(target)
    target.items.append(item)


@opcode("LIST_EXTEND")
def LIST_EXTEND(t: Any, frame: Frame, ins: Instruction) -> None:
    more, target = frame.pop(), _sequence(frame.stack[-ins.arg])
    if not iterable(t, more):
        t.raise_(TypeError, f"Value after * must be an iterable, not {model.type_of(t, more).__name__}")
    items = model.unpack(t, more)
    t.mutated(target)
    target.items.extend(items)


@opcode("SET_ADD")
def SET_ADD(t: Any, frame: Frame, ins: Instruction) -> None:
    item = frame.pop()
    target = _set(frame.stack[-ins.arg])
    before = len(target.items)
    _add(t, target, [item])
    target.grown += len(target.items) - before


@opcode("SET_UPDATE")
def SET_UPDATE(t: Any, frame: Frame, ins: Instruction) -> None:
    more = frame.pop()
    from ..builtins.sets import elements

    _add(t, _set(frame.stack[-ins.arg]), list(elements(t, more).values()))


@opcode("MAP_ADD")
def MAP_ADD(t: Any, frame: Frame, ins: Instruction) -> None:
    key, value = frame.popn(2)
    model.set_item(t, frame.stack[-ins.arg], key, value)


@opcode("DICT_UPDATE")
def DICT_UPDATE(t: Any, frame: Frame, ins: Instruction) -> None:
    more, target = frame.pop(), frame.stack[-ins.arg]
    if not _is_mapping(t, more):
        t.raise_(TypeError, f"'{model.type_of(t, more).__name__}' object is not a mapping")
    for key, value in _pairs(t, more):
        model.set_item(t, target, key, value)


@opcode("DICT_MERGE")
def DICT_MERGE(t: Any, frame: Frame, ins: Instruction) -> None:
    more, target, function = frame.pop(), frame.stack[-ins.arg], frame.stack[-(ins.arg + 2)]
    if not _is_mapping(t, more):
        what = f"{described(t, function)} argument after ** must be a mapping"
        t.raise_(TypeError, f"{what}, not {model.type_of(t, more).__name__}")
    for key, value in _pairs(t, more):
        if model.truth(t, model.contains(t, target, key)):
            name = _text(t, key)
            t.raise_(TypeError, f"{described(t, function)} got multiple values for keyword argument '{name}'")
        model.set_item(t, target, key, value)


# -- What they share --------------------------------------------------------------------------------------------------


def _sequence(value: Value) -> Sequence:
    """A list or tuple that the compiler knows to be one."""
    value = force(value)
    assert isinstance(value, Sequence)
    return value


def _set(value: Value) -> SetValue:
    assert isinstance(value, SetValue)
    return value


def _add(t: Any, target: SetValue, items: list[Value]) -> None:
    """Add `items`; of two equal ones the first stays, as in CPython."""
    t.mutated(target)
    for item in items:
        target.items.setdefault(model.native_key(t, item), item)


def build_map(t: Any, keys: list[Value], values: list[Value]) -> Mapping:
    """A new dict of `keys` and `values`."""
    found = Mapping(dict, {})
    for key, value in zip(keys, values, strict=True):
        model.set_item(t, found, key, value)
    return found


def iterable(t: Any, value: Value) -> bool:
    """Whether `iter(value)` can succeed, by the rule that CPython's messages follow."""
    if isinstance(force(value), Sequence | Mapping | SetValue | Iterator | Generator | Tensor):
        return True
    cls = model.type_of(t, value)
    return any(model.class_lookup(t, cls, name) is not None for name in ("__iter__", "__getitem__"))


def _is_mapping(t: Any, value: Value) -> bool:
    return isinstance(force(value), Mapping) or model.class_lookup(t, model.type_of(t, value), "keys") is not None


def _pairs(t: Any, mapping: Value) -> list[tuple[Value, Value]]:
    """The pairs that `dict.update` sees: a dict subclass that keeps dict's `__iter__` is read as a dict."""
    mapping = force(mapping)
    if isinstance(mapping, Object) and isinstance(mapping.payload, Mapping) and mapping.cls.__iter__ is dict.__iter__:  # type: ignore[attr-defined]
        mapping = force(mapping.payload)
    if isinstance(mapping, Mapping):
        return list(model.load_entries(t, mapping).values())
    keys = model.unpack(t, model.call_method(t, mapping, "keys"))
    return [(key, model.get_item(t, mapping, key)) for key in keys]


def _text(t: Any, value: Value) -> str:
    text = force(model.call(t, model.class_value(t, str), [value], {}))
    return str(text.value) if isinstance(text, Const) else ""


def described(t: Any, function: Value) -> str:
    """How CPython names a callee in its messages (`_PyObject_FunctionStr`)."""
    try:
        name = model.as_constant(model.get_attr(t, function, "__qualname__"))
        module = model.as_constant(model.get_attr(t, function, "__module__"))
    except Raised as raised:
        raise Break("A call fails, and the callee's name for the message isn't known.") from raised
    return f"{name}()" if module in (None, "builtins") else f"{module}.{name}()"
