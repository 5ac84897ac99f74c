"""Containers: keys, subscripts, lengths, membership, and the entries of dicts from outside."""

from __future__ import annotations

import collections
import enum
import types
from typing import TYPE_CHECKING, Any, NoReturn

import torch

from aotdyn.guards import constants
from aotdyn.guards.sources import Item, Key, Pure, RawItem, Source

from ..control import Break, NotConstant, Raised
from ..values import (
    Address,
    Builtin,
    Class,
    Const,
    Function,
    Identity,
    InstanceDict,
    Iterator,
    Lazy,
    Mapping,
    Method,
    Module,
    Namespace,
    Object,
    Opaque,
    Scalar,
    Sequence,
    SetValue,
    Tensor,
    UnreadList,
    Value,
    force,
)
from . import addresses
from .attributes import instance_lookup
from .calls import call, special_method
from .constants import as_constant, constant

if TYPE_CHECKING:
    from ..tracer import Tracer

_UNHASHABLE = (slice, list, dict, set, collections.OrderedDict, collections.defaultdict, collections.deque)


def native_key(t: Tracer, v: Value) -> Any:
    """A hashable Python object that is equal to another's exactly where the values' objects are equal as dict keys."""
    v = force(v)
    if isinstance(v, Address):
        return addresses.key(t, v)
    if isinstance(v, Const) and v.cls is not slice:
        addresses.not_one(t, v.value)
        return v.value
    if isinstance(v, Sequence) and issubclass(v.cls, tuple):
        return tuple(native_key(t, each) for each in v.items)
    if isinstance(v, SetValue) and v.cls is frozenset:
        return frozenset(v.items)
    if isinstance(v, (Class, Builtin, Module)):
        return v.obj
    if isinstance(v, Function):
        t.key_by_identity(v)
        return v.obj if v.obj is not None else Identity(v)
    if isinstance(v, Tensor):
        return Identity(v)
    if v.cls in _UNHASHABLE or isinstance(v, SetValue):
        t.raise_(TypeError, f"unhashable type: {v.cls.__name__!r}")
    if isinstance(v, Object):
        if v.payload is not None and isinstance(v.payload, Const) and v.cls.__hash__ is type(v.payload.value).__hash__:
            return v.payload.value
        if (
            v.cls.__hash__ is object.__hash__ and v.cls.__eq__ is object.__eq__
        ) or v.cls.__hash__ is torch.nn.Module.__hash__:
            t.key_by_identity(v)
            return v.obj if v.obj is not None else Identity(v)
        raise Break(f"a {v.cls.__qualname__} with its own __hash__ as a key")
    if isinstance(v, Opaque):
        if v.source is None:
            raise Break("an object of unknown kind as a key")
        if type(v.obj).__hash__ is object.__hash__:
            t.key_by_identity(v)
            return v.obj
    if isinstance(v, Method):
        raise Break("a bound method as a key")
    if isinstance(v, Scalar):
        return as_constant_or_break(v, "a number as a key")
    raise Break(f"a {v.cls.__qualname__} as a key")


def _is_constant_key(key: Any) -> bool:
    if type(key) is tuple:
        return all(_is_constant_key(each) for each in key)
    if isinstance(key, enum.Enum):
        return constants.is_constant(key)
    return type(key) in (str, int, bool, float, bytes, type(None), torch.dtype, torch.device)


def _item_source(m: Mapping, key: Any) -> Any:
    assert m.source is not None
    return (Item if type(m.obj) in (dict, collections.OrderedDict) else RawItem)(m.source, key)


def load_entries(t: Tracer, m: Mapping) -> dict[Any, tuple[Value, Value]]:
    """All entries of a dict, in order; of one from outside they are read and their keys guarded."""
    if m.entries is None:
        assert m.source is not None
        entries: dict[Any, tuple[Value, Value]] = {}
        ordered = collections.OrderedDict if issubclass(m.cls, collections.OrderedDict) else dict
        keys = list(ordered.__iter__(m.obj))
        for i, key in enumerate(keys):
            value = dict.__getitem__(m.obj, key)
            if _is_constant_key(key):
                addresses.not_one(t, key)
                source = _item_source(m, key)
                entries[key] = (
                    Const(key) if not isinstance(key, tuple) else constant(key),
                    m.peeked.get(key) or t.wrap(value, source),
                )
            else:
                key_value = t.wrap(key, Key(m.source, i))
                native = native_key(t, key_value)
                entries[native] = (key_value, t.wrap_entry(value, m.source, i))
        if all(_is_constant_key(key) for key in keys):
            t.guard("KEYS", m.source, keys)
        else:
            t.guard("LEN", m.source, len(keys))
        m.entries = entries
    return m.entries


def lookup(t: Tracer, m: Mapping, key: Value) -> Value | None:
    """The value under one key, None if absent; a single guard where the dict comes from outside."""
    native = native_key(t, key)
    if m.entries is None:
        source = None if _is_constant_key(native) else _identity_source(t, key)
        if native in m.peeked:
            return m.peeked[native]
        if source is not None:
            return _lookup_object(t, m, native, source)
        if not _is_constant_key(native):
            load_entries(t, m)
        else:
            found: Value | None = None
            if dict.__contains__(m.obj, native):
                found = t.wrap_found(dict.__getitem__(m.obj, native), _item_source(m, native))
            else:
                t.guard("LACKS", m.source, native)
            m.peeked[native] = found
            return found
    entry = m.entries.get(native)  # type: ignore[union-attr]
    return None if entry is None else entry[1]


def _identity_source(t: Tracer, key: Value) -> Source | None:
    """How a prologue reaches a key that is compared by identity; None for other keys."""
    key = force(key)
    if isinstance(key, Class) and type(key.obj).__hash__ is type.__hash__ and type(key.obj).__eq__ is type.__eq__:
        return t.class_source(key.obj)
    return key.source if isinstance(key, (Function, Module)) else None


def _lookup_object(t: Tracer, m: Mapping, native: Any, key: Source) -> Value | None:
    """`lookup` of a class, function or module in a dict from outside."""
    assert m.source is not None
    present = dict.__contains__(m.obj, native)
    t.guard("CONST", Pure("dict.contains", m.source, key), present)
    found = t.wrap(dict.__getitem__(m.obj, native), Pure("dict.get", m.source, key)) if present else None
    m.peeked[native] = found
    return found


def store_entry(t: Tracer, m: Mapping, key: Value, value: Value | None) -> None:
    """Set (or, with None, delete) one entry."""
    entries = load_entries(t, m)
    native = native_key(t, key)
    t.mutated(m)
    if value is None:
        del entries[native]
    else:
        entries[native] = (entries[native][0] if native in entries else key, value)


def payload(v: Value) -> Value:
    """The builtin part of a value: of an instance of a builtin's subclass its payload, else the value itself."""
    v = force(v)
    return force(v.payload) if isinstance(v, Object) and isinstance(v.payload, Value) else v


def length(t: Tracer, v: Value) -> int:
    """`len(v)`."""
    v = force(v)
    if isinstance(v, (Sequence, SetValue)):
        return len(v.items)
    if isinstance(v, Mapping):
        return len(load_entries(t, v))
    if isinstance(v, Const):
        try:
            return len(v.value)
        except TypeError as error:
            t.raise_(TypeError, *error.args)
    if isinstance(v, Tensor):
        if v.fake.dim() == 0:
            t.raise_(TypeError, "len() of a 0-d tensor")
        return int(v.fake.shape[0])
    if isinstance(v, InstanceDict):
        return len(t.instance_names(v.owner))
    method = special_method(t, v, "__len__")
    if method is None:
        t.raise_(TypeError, f"object of type {v.cls.__name__!r} has no len()")
    return as_constant_or_break(call(t, method, [], {}), "the result of __len__")


def as_constant_or_break(v: Value, what: str) -> Any:
    """A constant, or a break that names what isn't one."""
    try:
        return as_constant(v)
    except NotConstant:
        raise Break(f"{what} is not known while tracing") from None


def get_item(t: Tracer, v: Value, key: Value) -> Value:
    """`v[key]`."""
    v = force(v)
    if isinstance(v, Tensor):
        from ..torch_.tensors import tensor_getitem

        return tensor_getitem(t, v, key)
    if isinstance(v, Sequence):
        return _sequence_item(t, v, key)
    if isinstance(v, Mapping):
        return _mapping_item(t, v, key)
    if isinstance(v, Const):
        index = _index(t, key, "the index of a constant")
        try:
            return constant(v.value[index])
        except (IndexError, TypeError, KeyError) as error:
            t.raise_(type(error), *error.args)
    if isinstance(v, InstanceDict):
        found = instance_lookup(t, v.owner, as_constant_or_break(key, "the name in a __dict__"))
        if found is None:
            t.raise_(KeyError, as_constant(key))
        return found
    if isinstance(v, Namespace):
        found = t.name_in(v, as_constant_or_break(key, "the name in a namespace"))
        if found is None:
            t.raise_(KeyError, as_constant(key))
        return found
    if isinstance(v, Class):
        return _class_item(t, v, key)
    if isinstance(v, (Object, Opaque)) and v.cls.__module__ == "typing":
        from ..builtins.generics import special_item

        return special_item(t, v, key)
    method = special_method(t, v, "__getitem__")
    if method is None:
        t.raise_(TypeError, f"{v.cls.__name__!r} object is not subscriptable")
    return call(t, method, [key], {})


def _class_item(t: Tracer, v: Class, key: Value) -> Value:
    meta = special_method(t, v, "__getitem__")
    if meta is not None and not issubclass(v.obj, enum.Enum):
        return call(t, meta, [key], {})
    if issubclass(v.obj, enum.Enum):
        name = as_constant_or_break(key, "the name of an enum member")
        if name not in v.obj.__members__:
            t.raise_(KeyError, name)
        return Const(v.obj.__members__[name])
    from ..builtins.generics import class_item

    return class_item(t, v, key)


def _index(t: Tracer, v: Value, what: str) -> Any:
    v = force(v)
    if isinstance(v, Object) and v.cls is slice:
        return slice(*[_index(t, v.attrs[name], what) for name in ("start", "stop", "step")])  # type: ignore[arg-type]
    if isinstance(v, Tensor):
        from ..torch_.tensors import known_number

        known = known_number(v)
        if type(known) is int:
            return known
        raise Break("a tensor as the index of a list or tuple", "Its value is needed while tracing: use a Python int.")
    if isinstance(v, Object):
        method = special_method(t, v, "__index__")
        if method is not None:
            return as_constant_or_break(call(t, method, [], {}), "the result of __index__")
    return as_constant_or_break(v, what)


def _sequence_item(t: Tracer, v: Sequence, key: Value) -> Value:
    index = _index(t, key, "the index of a list or tuple")
    if isinstance(index, slice):
        cls = list if v.cls is list else torch.Size if v.cls is torch.Size else tuple
        if v.cls is collections.deque:
            t.raise_(TypeError, "sequence index must be integer, not 'slice'")
        return Sequence(cls, v.items[index])
    if not isinstance(index, int):
        t.raise_(TypeError, f"{v.cls.__name__} indices must be integers or slices, not {type(index).__name__}")
    if not -len(v.items) <= index < len(v.items):
        t.raise_(IndexError, f"{'list' if v.cls is list else 'tuple'} index out of range")
    return v.items[index]


def _mapping_item(t: Tracer, v: Mapping, key: Value) -> Value:
    found = lookup(t, v, key)
    if found is not None:
        return found
    if v.cls is collections.defaultdict:
        factory = v.default_factory
        if factory is not None and not (isinstance(force(factory), Const)):
            value = call(t, factory, [], {})
            store_entry(t, v, key, value)
            return value
    raise_key_error(t, key)


def raise_key_error(t: Tracer, key: Value) -> NoReturn:
    """KeyError with the key itself as its argument."""
    t.raise_(KeyError, key)


def set_item(t: Tracer, v: Value, key: Value, value: Value) -> None:
    """`v[key] = value`."""
    v = force(v)
    if isinstance(v, Tensor):
        from ..torch_.tensors import tensor_setitem

        tensor_setitem(t, v, key, value)
    elif isinstance(v, Sequence) and issubclass(v.cls, (list, collections.deque)):
        index = _index(t, key, "the index of a list")
        if isinstance(index, slice):
            from .iteration import unpack

            items = unpack(t, value)
            t.mutated(v)
            try:
                v.items[index] = items
            except ValueError as error:
                t.raise_(ValueError, *error.args)
            return
        if not isinstance(index, int):
            t.raise_(TypeError, f"list indices must be integers or slices, not {type(index).__name__}")
        if not -len(v.items) <= index < len(v.items):
            t.raise_(IndexError, "list assignment index out of range")
        t.mutated(v)
        v.items[index] = value
    elif isinstance(v, Mapping):
        store_entry(t, v, key, value)
    elif isinstance(v, InstanceDict):
        t.mutated(v.owner)
        v.owner.attrs[as_constant_or_break(key, "the name in a __dict__")] = value
    elif isinstance(v, Namespace):
        t.store_global(v, as_constant_or_break(key, "the name in a namespace"), value)
    else:
        method = special_method(t, v, "__setitem__")
        if method is None:
            t.raise_(TypeError, f"{v.cls.__name__!r} object does not support item assignment")
        call(t, method, [key, value], {})


def del_item(t: Tracer, v: Value, key: Value) -> None:
    """`del v[key]`."""
    v = force(v)
    if isinstance(v, Sequence) and issubclass(v.cls, (list, collections.deque)):
        index = _index(t, key, "the index of a list")
        t.mutated(v)
        try:
            del v.items[index]
        except IndexError:
            t.raise_(IndexError, "list assignment index out of range")
    elif isinstance(v, Mapping):
        if lookup(t, v, key) is None:
            raise_key_error(t, key)
        store_entry(t, v, key, None)
    elif isinstance(v, InstanceDict):
        name = as_constant_or_break(key, "the name in a __dict__")
        if instance_lookup(t, v.owner, name) is None:
            t.raise_(KeyError, name)
        t.mutated(v.owner)
        v.owner.attrs[name] = None
    elif isinstance(v, Namespace):
        name = as_constant_or_break(key, "the name in a namespace")
        if t.name_in(v, name) is None:
            raise_key_error(t, key)
        t.store_global(v, name, None)
    else:
        method = special_method(t, v, "__delitem__")
        if method is None:
            t.raise_(TypeError, f"{v.cls.__name__!r} object doesn't support item deletion")
        call(t, method, [key], {})


def contains(t: Tracer, container: Value, x: Value) -> Value:
    """`x in container`."""
    from .operators import equal_or_same, truth

    container = force(container)
    if isinstance(container, UnreadList) and container.unread and container.source is not None:
        for i, each in enumerate(container.obj):  # what stands behind the first that is equal may change
            if equal_or_same(t, t.wrap(each, Item(container.source, i)), x):
                return Const(True)
    if isinstance(container, Sequence):
        return Const(any(equal_or_same(t, each, x) for each in container.items))
    if isinstance(container, Mapping):
        return Const(lookup(t, container, x) is not None)
    if isinstance(container, SetValue):
        return Const(native_key(t, x) in container.items)
    if isinstance(container, Const):
        try:
            return Const(as_constant_or_break(x, "the left side of `in`") in container.value)
        except TypeError as error:
            t.raise_(TypeError, *error.args)
    if isinstance(container, InstanceDict):
        return Const(instance_lookup(t, container.owner, as_constant_or_break(x, "the name in a __dict__")) is not None)
    if isinstance(container, Namespace):
        return Const(t.name_in(container, as_constant_or_break(x, "the name in a namespace")) is not None)
    if isinstance(container, Class) and issubclass(container.obj, enum.Enum):
        member = force(x)
        return Const(isinstance(member, Const) and isinstance(member.value, container.obj))
    method = special_method(t, container, "__contains__")
    if method is not None:
        return Const(truth(t, call(t, method, [x], {})))
    from .iteration import unpack

    if isinstance(container, (Iterator, Object)):
        return Const(any(equal_or_same(t, each, x) for each in unpack(t, container)))
    t.raise_(TypeError, f"argument of type {container.cls.__name__!r} is not iterable")


__all__ = [
    "Lazy", "Raised", "as_constant_or_break", "contains", "del_item", "get_item", "length", "load_entries", "lookup",
    "native_key", "payload", "set_item", "store_entry", "types",
]  # fmt: skip
