"""Python constants as MessagePack-able data, by exact type and exact value.

`None`, `bool`, 64-bit `int`, ordinary `float`, `str` and `bytes` stand for
themselves; everything else is a list `[tag, ...]`. A tuple of the program is
therefore never confused with data of ours: `encode` makes lists only.
"""

from __future__ import annotations

import enum
import struct
import types
from collections.abc import Callable, Hashable
from typing import Any

import numpy
import torch

from aotdyn.guards import naming


class NotConstant(TypeError):
    """The value has no durable form."""


SINGLETONS: dict[str, Any] = {"...": Ellipsis, "NotImplemented": NotImplemented}

NUMPY_SCALARS = frozenset(
    kind for kind in numpy.sctypeDict.values() if issubclass(kind, (numpy.number, numpy.bool_)) and kind().nbytes <= 16
) - {numpy.longdouble}
"""Classes of numpy's numbers; each is known by its dtype and bytes."""

NUMBERS = (int, float, numpy.float64)
"""Classes of numbers that may flow through a trace unseen: numpy's float is Python's, with another class."""

VARYING = frozenset((*NUMBERS, *NUMPY_SCALARS))
"""Classes of numbers that a trace may take in without their value."""

TORCH_NAMED: dict[type, str] = {torch.dtype: "dtype", torch.layout: "layout", torch.memory_format: "memory_format"}
"""torch types whose values print as `torch.<name>`, with their tags."""


def encode(value: Any) -> Any:
    """`value` as data; NotConstant where it isn't a constant."""
    encoder = _ENCODERS.get(type(value))
    if encoder is not None:
        return encoder(value)
    if isinstance(value, enum.Enum) or is_bound_enum(type(value)):
        return _encode_enum(value)
    if isinstance(value, numpy.dtype) and plain_dtype(value):
        return ["np.dtype", value.str]
    if isinstance(value, naming.NAMED_TYPES):
        path = naming.path_of(value)
        if path is not None:
            return ["path", *path]
    raise NotConstant(f"{type(value).__qualname__} object isn't a constant")


def decode(data: Any) -> Any:
    """The value that `encode` was given; LookupError where a named object is missing."""
    if isinstance(data, (list, tuple)):
        return _DECODERS[data[0]](*data[1:])
    return data


def is_constant(value: Any) -> bool:
    """Whether `encode` takes the value."""
    try:
        encode(value)
    except NotConstant:
        return False
    return True


def is_bound_enum(cls: type) -> bool:
    """Whether a class is an enumeration of C++ as pybind11 binds it (`torch.nn.attention.SDPBackend`)."""
    return type(cls).__name__ == "pybind11_type" and hasattr(cls, "__members__")


def plain_dtype(value: numpy.dtype) -> bool:
    """Whether a dtype is one of numpy's numbers, with nothing said beyond its text."""
    return value.type in NUMPY_SCALARS and value.metadata is None and numpy.dtype(value.str) == value


def token(value: Any) -> Hashable:
    """A key that is equal for two values exactly if they are the same constant: type and value, -0.0 and nan told."""
    kind = type(value)
    if kind in _THEMSELVES:
        return kind, value
    if kind is float:
        return float, struct.pack("<d", value)
    if kind is complex:
        return complex, struct.pack("<dd", value.real, value.imag)
    if kind in (tuple, torch.Size):
        return kind, tuple(token(item) for item in value)
    if kind is frozenset:
        return kind, frozenset(token(item) for item in value)
    if kind is slice:
        return kind, token((value.start, value.stop, value.step))
    if kind is range:  # ranges compare as sequences: range(0) == range(1, 0)
        return kind, (value.start, value.stop, value.step)
    if kind in NUMPY_SCALARS:
        return kind, value.tobytes()
    if is_bound_enum(kind):
        return kind, int(value)
    if kind in _ENCODERS or issubclass(kind, numpy.dtype):
        return kind, value
    return kind, id(value)


_THEMSELVES = frozenset((str, int, bool, bytes, type(None)))
"""Classes whose values are the same constant exactly if they are equal."""


def same(a: Any, b: Any) -> bool:
    """Whether two constants are of one exact type and value (`1`, `True`, `1.0`, `-0.0` and `nan` all differ)."""
    if a is b:
        return True
    kind = type(a)
    return kind is type(b) and (a == b if kind in _THEMSELVES else token(a) == token(b))


def _encode_int(value: int) -> Any:
    return value if -(2**63) <= value < 2**63 else ["int", hex(value)]


def _encode_float(value: float) -> Any:
    return value if value == value else ["float", struct.pack("<d", value)]


def _encode_str(value: str) -> Any:
    try:
        value.encode()
    except UnicodeEncodeError:
        return ["str", value.encode("utf-8", "surrogatepass")]
    return value


def _encode_items(tag: str) -> Callable[[Any], Any]:
    return lambda value: [tag, [encode(item) for item in value]]


def _encode_frozenset(value: frozenset) -> Any:
    return ["frozenset", sorted((encode(item) for item in value), key=repr)]


def _encode_enum(value: enum.Enum) -> Any:
    path = naming.path_of(type(value))
    found = type(value).__members__.get(value.name)  # type: ignore[attr-defined]
    if path is None or not (found is value or (is_bound_enum(type(value)) and found == value)):
        raise NotConstant(f"{value!r} isn't a named member of a public enumeration")
    return ["bound" if is_bound_enum(type(value)) else "enum", *path, value.name]  # C++ makes equal ones anew


def _torch_named(tag: str) -> Callable[[Any], Any]:
    return lambda value: [tag, str(value).removeprefix("torch.")]


def _identity(value: Any) -> Any:
    return value


_ENCODERS: dict[type, Callable[[Any], Any]] = {
    type(None): _identity,
    bool: _identity,
    bytes: _identity,
    int: _encode_int,
    float: _encode_float,
    str: _encode_str,
    complex: lambda value: ["complex", struct.pack("<dd", value.real, value.imag)],
    tuple: _encode_items("tuple"),
    torch.Size: _encode_items("size"),
    frozenset: _encode_frozenset,
    slice: lambda value: ["slice", encode(value.start), encode(value.stop), encode(value.step)],
    range: lambda value: ["range", encode(value.start), encode(value.stop), encode(value.step)],
    types.EllipsisType: lambda value: ["..."],
    types.NotImplementedType: lambda value: ["NotImplemented"],
    torch.device: lambda value: ["device", value.type, value.index],
    **{kind: _torch_named(tag) for kind, tag in TORCH_NAMED.items()},
    **dict.fromkeys(NUMPY_SCALARS, lambda value: ["np", value.dtype.str, value.tobytes()]),
}

_DECODERS: dict[str, Callable[..., Any]] = {
    "int": lambda text: int(text, 16),
    "float": lambda raw: struct.unpack("<d", raw)[0],
    "str": lambda raw: raw.decode("utf-8", "surrogatepass"),
    "complex": lambda raw: complex(*struct.unpack("<dd", raw)),
    "tuple": lambda items: tuple(decode(item) for item in items),
    "size": lambda items: torch.Size(decode(item) for item in items),
    "frozenset": lambda items: frozenset(decode(item) for item in items),
    "slice": lambda *bounds: slice(*(decode(bound) for bound in bounds)),
    "range": lambda *bounds: range(*(decode(bound) for bound in bounds)),
    "device": lambda kind, index: torch.device(kind) if index is None else torch.device(kind, index),
    **dict.fromkeys(("enum", "bound"), lambda module, qualname, name: naming.find(module, qualname).__members__[name]),
    "path": naming.find,
    "np": lambda dtype, raw: numpy.frombuffer(raw, dtype)[0],
    "np.dtype": numpy.dtype,
    **{tag: (lambda name: getattr(torch, name)) for tag in TORCH_NAMED.values()},
    **{tag: (lambda value=value: value) for tag, value in SINGLETONS.items()},
}
