"""Reads that no plain expression says: a class's own lookup, a dict's key by position, a builtin's own item.

And what binding puts into cells for containers: the method of the builtin behind a subclass, which runs no Python.
"""

from __future__ import annotations

import collections
import types
from collections.abc import Callable
from typing import Any

import torch

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


_CONTAINERS = (dict, list, tuple, set, frozenset, str, bytes, range, collections.deque)
_VIEWS: tuple[type, ...] = (types.MappingProxyType, type({}.keys()), type({}.values()), type({}.items()))
_EXACT = frozenset((*_CONTAINERS, *_VIEWS))


def _builtin_base(obj: Any) -> Any:
    if type(obj) in _EXACT:
        return type(obj)
    for base in type(obj).__mro__:
        if base in _CONTAINERS or base is collections.OrderedDict:
            return base
    raise TypeError(f"{type(obj).__qualname__} is no builtin container")


def raw_len(obj: Any) -> Callable[[Any], int]:
    """`__len__` of the builtin container that `obj` is."""
    return _builtin_base(obj).__len__


def contains(obj: Any) -> Callable[[Any, Any], bool]:
    """`__contains__` of the builtin container that `obj` is."""
    return _builtin_base(obj).__contains__


def keys_getter(obj: Any) -> Callable[[Any], tuple]:
    """A function that gives the keys of a mapping like `obj` in order, running no Python code of a subclass."""
    base = _builtin_base(obj)
    if type(obj) is base:
        return tuple
    iterate = base.__iter__
    return lambda mapping: tuple(iterate(mapping))


_DISABLED = torch._disable_dynamo(lambda: None).__code__


def enabled(function: Any) -> Any:
    """What torch's own `_disable_dynamo` wraps; any other function as it is.

    Importing torch._dynamo wraps functions that exist already (`torch.manual_seed`); they do what they did.
    """
    while getattr(function, "__code__", None) is _DISABLED or _patched(function):
        function = function.__wrapped__
    return function


def _patched(function: Any) -> bool:
    """Whether it is an optimizer's private part that the first use of torch.compile has marked as disabled."""
    return (
        getattr(function, "__name__", "") == "_init_group"
        and getattr(function, "_torchdynamo_disable", False)
        and str(function.__module__).startswith("torch.optim.")
    )


LATER = frozenset({enabled(torch.manual_seed)})
"""Functions that are wrapped when torch._dynamo is imported, be it while a call is traced."""
