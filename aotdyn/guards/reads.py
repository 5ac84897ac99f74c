"""Reads that no plain expression says: a class's own lookup, a dict's key by position, a builtin's own item."""

from __future__ import annotations

import types
from typing import Any

SLOTS = (types.MemberDescriptorType, types.GetSetDescriptorType)
"""Descriptors of what an object keeps outside of its dict."""


def class_attribute(cls: type, name: str) -> Any:
    """What the MRO of `cls` holds under `name`, no descriptor bound; AttributeError where nothing does."""
    for owner in _mro(cls):
        namespace = _namespace(owner)
        if name in namespace:
            return namespace[name]
    raise AttributeError(name)


_mro = type.__dict__["__mro__"].__get__
_namespace = type.__dict__["__dict__"].__get__


def lacks_attribute(obj: Any, name: str) -> bool:
    """Whether neither the MRO of the class nor the object's dict holds `name`; a slot that holds nothing lacks it."""
    try:
        found = class_attribute(type(obj), name)
    except AttributeError:
        pass
    else:
        return isinstance(found, SLOTS) and _is_empty(found, obj)
    try:
        namespace = object.__getattribute__(obj, "__dict__")
    except AttributeError:
        return True
    return name not in namespace


def _is_empty(slot: Any, obj: Any) -> bool:
    """Whether a slot of `obj`, or an attribute kept in C, has no value."""
    try:
        slot.__get__(obj, type(obj))
    except AttributeError:
        return True
    return False


def dict_key(mapping: dict, i: int) -> Any:
    """The `i`-th key of a dict, in order; IndexError where it has fewer."""
    return list(dict.keys(mapping))[i]


def raw_getter(container: Any) -> Any:
    """`__getitem__` of the builtin that `container` is an instance of."""
    for builtin in (dict, list, tuple):
        if isinstance(container, builtin):
            return builtin.__getitem__
    raise TypeError(f"{type(container).__qualname__} is no dict, list or tuple")
