"""Methods of dict, collections.OrderedDict and collections.defaultdict, and their views."""

from __future__ import annotations

import collections
from collections import OrderedDict, defaultdict
from typing import Any

from aotdyn.trace import model
from aotdyn.trace.control import Break, Raised
from aotdyn.trace.handlers import handles
from aotdyn.trace.model.operators import merged
from aotdyn.trace.values import Class, Const, InstanceDict, Mapping, Namespace, Sequence, Value, force

from .attributes import AttributeView
from .common import change, each, new_tuple, none, payload, receiver, same_or_equal
from .views import DictView

DICTS = (dict, OrderedDict, defaultdict)


def each_dict(name: str) -> list[Any]:
    """The descriptors by which the dict classes define a method themselves."""
    return [cls.__dict__[name] for cls in DICTS if name in cls.__dict__]


def mapping(t: Any, value: Value) -> Mapping:
    """The dict that a method works on, its entries known."""
    found = receiver(value, Mapping)
    if found.entries is None:
        model.load_entries(t, found)
    return found


def _entries(t: Any, value: Value) -> dict[Any, tuple[Value, Value]]:
    entries = mapping(t, value).entries
    assert entries is not None
    return entries


def find(t: Any, self: Value, key: Value) -> Value | None:
    """The value under a key, None if absent: guards that key alone."""
    part = payload(self)
    if isinstance(part, Mapping):
        return model.lookup(t, part, key)
    if isinstance(part, (InstanceDict, Namespace)):
        present = model.truth(t, model.contains(t, part, key))
        return model.get_item(t, part, key) if present else None
    raise Break(f"a dict method on {type(part).__name__}")


def store(t: Any, self: Value, key: Value, item: Value) -> None:
    """`dict.__setitem__`: a key that is there keeps its place and its key object."""
    part = payload(self)
    if isinstance(part, (InstanceDict, Namespace)):
        model.set_item(t, part, key, item)
        return
    entries = _entries(t, self)
    native_key = model.native_key(t, key)
    change(t, self)
    entries[native_key] = (entries[native_key][0] if native_key in entries else key, item)


def _missing_key(t: Any, key: Value) -> Any:
    return t.raise_(KeyError, key)


@handles(dict.get)
def _get(t: Any, self: Value, key: Value, default: Value | None = None) -> Value:
    found = find(t, self, key)
    if found is not None:
        return found
    return none() if default is None else default


@handles(dict.__getitem__)
def _getitem(t: Any, self: Value, key: Value) -> Value:
    found = find(t, self, key)
    return found if found is not None else missing(t, self, key)


def missing(t: Any, self: Value, key: Value) -> Value:
    """What `d[key]` is for an absent key: `__missing__` of a subclass, else KeyError."""
    self = force(self)
    if self.cls not in (dict, OrderedDict) and model.class_lookup(t, self.cls, "__missing__") is not None:
        return model.call_method(t, self, "__missing__", key)
    return _missing_key(t, key)


def default_factory(t: Any, self: Value) -> Value:
    """The factory of a defaultdict."""
    part = receiver(self, Mapping)
    if part.default_factory is not None:
        return part.default_factory
    if part.obj is not None and part.source is not None:
        from aotdyn.guards.sources import Attr

        return t.wrap(part.obj.default_factory, Attr(part.source, "default_factory"))
    return none()


@handles(defaultdict.__missing__)
def _missing(t: Any, self: Value, key: Value) -> Value:
    factory = force(default_factory(t, self))
    if isinstance(factory, Const) and factory.value is None:
        return _missing_key(t, key)
    item = model.call(t, factory, [], {})
    store(t, self, key, item)
    return item


@handles(*each_dict("__setitem__"))
def _setitem(t: Any, self: Value, key: Value, item: Value) -> Value:
    store(t, self, key, item)
    return none()


@handles(*each_dict("__delitem__"))
def _delitem(t: Any, self: Value, key: Value) -> Value:
    if isinstance(payload(self), (InstanceDict, Namespace)):
        model.del_item(t, payload(self), key)
        return none()
    entries, native_key = _entries(t, self), model.native_key(t, key)
    if native_key not in entries:
        return _missing_key(t, key)
    change(t, self)
    del entries[native_key]
    return none()


@handles(dict.__contains__)
def _contains(t: Any, self: Value, key: Value) -> Value:
    return Const(find(t, self, key) is not None)


@handles(dict.__len__)
def _len(t: Any, self: Value) -> Value:
    return Const(len(_entries(t, self)))


@handles(*each_dict("__iter__"))
def _iter(t: Any, self: Value) -> Value:
    return DictView(mapping(t, self), "keys").iterator()


@handles(*each_dict("__reversed__"))
def _reversed(t: Any, self: Value) -> Value:
    return DictView(mapping(t, self), "keys").iterator(backwards=True)


def _view(kind: str) -> Any:
    def handler(t: Any, self: Value) -> Value:
        part = payload(self)
        if isinstance(part, InstanceDict):
            return AttributeView(part, kind)
        if isinstance(part, Namespace):
            raise Break(f"{kind}() of a module's namespace")
        return DictView(mapping(t, self), kind)

    return handler


for _kind in ("keys", "values", "items"):
    handles(*each_dict(_kind))(_view(_kind))


@handles(*each_dict("pop"))
def _pop(t: Any, self: Value, key: Value, default: Value | None = None) -> Value:
    part = payload(self)
    if isinstance(part, (InstanceDict, Namespace)):
        found = find(t, self, key)
        if found is not None:
            model.del_item(t, part, key)
            return found
    else:
        entries, native_key = _entries(t, self), model.native_key(t, key)
        if native_key in entries:
            change(t, self)
            return entries.pop(native_key)[1]
    return default if default is not None else _missing_key(t, key)


@handles(*each_dict("popitem"))
def _popitem(t: Any, self: Value, last: Value | None = None) -> Value:
    part = mapping(t, self)
    entries = _entries(t, self)
    if not entries:
        return t.raise_(
            KeyError, "dictionary is empty" if part.cls is OrderedDict else "popitem(): dictionary is empty"
        )
    at_end = last is None or model.truth(t, last)
    change(t, self)
    return new_tuple(entries.pop(next(reversed(entries)) if at_end else next(iter(entries))))


@handles(OrderedDict.move_to_end)
def _move_to_end(t: Any, self: Value, key: Value, last: Value | None = None) -> Value:
    entries, native_key = _entries(t, self), model.native_key(t, key)
    if native_key not in entries:
        return _missing_key(t, key)
    at_end = last is None or model.truth(t, last)
    change(t, self)
    entry = entries.pop(native_key)
    rest = list(entries.items())
    entries.clear()
    entries.update([*rest, (native_key, entry)] if at_end else [(native_key, entry), *rest])
    return none()


@handles(*each_dict("setdefault"))
def _setdefault(t: Any, self: Value, key: Value, default: Value | None = None) -> Value:
    found = find(t, self, key)
    if found is not None:
        return found
    default = none() if default is None else default
    store(t, self, key, default)
    return default


@handles(*each_dict("clear"))
def _clear(t: Any, self: Value) -> Value:
    entries = _entries(t, self)
    change(t, self)
    entries.clear()
    return none()


@handles(*each_dict("copy"), defaultdict.__copy__)
def _copy(t: Any, self: Value) -> Value:
    part = mapping(t, self)
    result = Mapping(part.cls, dict(_entries(t, self)))
    if part.cls is defaultdict:
        result.default_factory = default_factory(t, self)
    return result


@handles(*each_dict("update"))
def _update(t: Any, self: Value, *others: Value, **kwargs: Value) -> Value:
    if len(others) > 1:
        return t.raise_(TypeError, f"update expected at most 1 argument, got {len(others)}")
    try:
        pairs = _pairs(t, *others)
    except Raised:
        if issubclass(force(self).cls, OrderedDict):
            raise Break("an OrderedDict updated with what isn't pairs") from None
        raise
    for key, item in pairs:
        store(t, self, key, item)
    for name, item in kwargs.items():
        store(t, self, Const(name), item)
    return none()


def _pairs(t: Any, other: Value | None = None) -> list[tuple[Value, Value]]:
    """The pairs that `dict(other)` takes: a dict's, those of an object with `keys`, or of an iterable of pairs."""
    if other is None:
        return []
    other = force(other)
    if isinstance(other, Mapping) and other.cls in DICTS:
        return list(_entries(t, other).values())
    if not isinstance(other, (Sequence, Const)) and model.has_attr(t, other, "keys"):
        keys = model.unpack(t, model.call_method(t, other, "keys"))
        return [(key, model.get_item(t, other, key)) for key in keys]
    result = []
    for position, pair in enumerate(each(t, other)):
        if isinstance(force(pair), Const) and not isinstance(force(pair).value, (str, bytes, range)):  # type: ignore[attr-defined]
            message = f"cannot convert dictionary update sequence element #{position} to a sequence"
            return t.raise_(TypeError, message)
        both = model.unpack(t, pair)
        if len(both) != 2:
            message = f"dictionary update sequence element #{position} has length {len(both)}; 2 is required"
            return t.raise_(ValueError, message)
        result.append((both[0], both[1]))
    return result


def new_dict(t: Any, cls: type, *others: Value, **kwargs: Value) -> Mapping:
    """A dict that tracing makes, filled as `cls(*others, **kwargs)`."""
    if len(others) > 1:
        return t.raise_(TypeError, f"{cls.__name__} expected at most 1 argument, got {len(others)}")
    result = Mapping(cls, {})
    _update(t, result, *others, **kwargs)
    return result


@handles(dict)
def _dict(t: Any, *others: Value, **kwargs: Value) -> Value:
    return new_dict(t, dict, *others, **kwargs)


@handles(OrderedDict)
def _ordered_dict(t: Any, *others: Value, **kwargs: Value) -> Value:
    return new_dict(t, OrderedDict, *others, **kwargs)


@handles(defaultdict)
def _defaultdict(t: Any, factory: Value | None = None, *others: Value, **kwargs: Value) -> Value:
    result = new_dict(t, defaultdict, *others, **kwargs)
    result.default_factory = none() if factory is None else factory
    return result


@handles(*(cls.__init__ for cls in DICTS if "__init__" in cls.__dict__))
def _init(t: Any, self: Value, *others: Value, **kwargs: Value) -> Value:
    part = receiver(self, Mapping)
    if part.cls is defaultdict and others:
        part.default_factory, others = others[0], others[1:]
    return _update(t, self, *others, **kwargs)


@handles(dict.fromkeys, dict.__dict__["fromkeys"], OrderedDict.fromkeys, OrderedDict.__dict__["fromkeys"])
def _fromkeys(t: Any, *args: Value, value: Value | None = None) -> Value:
    first = force(args[0])
    cls: type = dict
    if isinstance(first, Class):
        cls, args = first.obj, args[1:]
    if cls not in DICTS:
        raise Break(f"{cls.__name__}.fromkeys()")
    if value is not None and (cls is not OrderedDict or len(args) > 1):
        return t.raise_(TypeError, f"{cls.__name__}.fromkeys() takes no keyword arguments")
    value = value if value is not None else args[1] if len(args) > 1 else none()
    result = Mapping(cls, {})
    for key in model.unpack(t, args[0]):
        store(t, result, key, value)
    return result


@handles(*each_dict("__or__"))
def _or(t: Any, self: Value, other: Value) -> Value:
    if not isinstance(payload(other), Mapping):
        return Const(NotImplemented)
    result = _copy(t, self)
    _update(t, result, other)
    return result


@handles(*each_dict("__ror__"))
def _ror(t: Any, self: Value, other: Value) -> Value:
    own = receiver(self, Mapping)
    return merged(t, own, other, self) if isinstance(payload(other), Mapping) else Const(NotImplemented)


@handles(*each_dict("__ior__"))
def _ior(t: Any, self: Value, other: Value) -> Value:
    _update(t, self, other)
    return self


def _comparison(equal: bool, ordered: bool) -> Any:
    """`==` of dicts; of two OrderedDicts the order counts too."""

    def handler(t: Any, self: Value, other: Value) -> Value:
        if not isinstance(payload(other), Mapping):
            return Const(NotImplemented)
        a, b = _entries(t, self), _entries(t, other)
        same = len(a) == len(b) and all(k in b and same_or_equal(t, v[1], b[k][1]) for k, v in a.items())
        if ordered and issubclass(force(other).cls, OrderedDict):
            same = same and list(a) == list(b)
        return Const(same is equal)

    return handler


for _cls in (dict, OrderedDict):
    handles(_cls.__eq__)(_comparison(True, _cls is OrderedDict))
    handles(_cls.__ne__)(_comparison(False, _cls is OrderedDict))


if hasattr(collections, "_count_elements"):  # the C helper of Counter.update

    @handles(collections._count_elements)
    def _count_elements(t: Any, self: Value, iterable: Value) -> Value:
        for item in each(t, iterable):
            found = find(t, self, item)
            store(t, self, item, model.binary(t, "+", Const(0) if found is None else found, Const(1)))
        return none()


__all__ = ["default_factory", "find", "mapping", "missing", "store"]
