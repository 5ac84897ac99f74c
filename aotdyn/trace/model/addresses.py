"""`id()`: numbers that tell objects apart. What they are nobody knows before the epilogue, and few programs ask."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, NoReturn

from aotdyn.guards.sources import Pure

from ..control import Break
from ..values import Address, AddressKey, Const, Value

if TYPE_CHECKING:
    from ..tracer import Tracer

LOWEST = 2**16
"""No object lies below: the first pages of a process aren't mapped."""


def key(t: Tracer, address: Address) -> AddressKey:
    """An address as a dict key."""
    if t.large_keys:
        raise Break("id() as a key, and numbers that may be addresses, too")
    t.addressed = True
    return AddressKey(address.of)


def not_one(t: Tracer, key: Any) -> None:
    """Note a constant that is a key: a large number may be an address that the program has kept."""
    if type(key) is int and key >= LOWEST:
        if t.addressed:
            raise Break("a number as a key that may be an address, and id() as one, too")
        t.large_keys = True


def compare(t: Tracer, symbol: str, a: Value, b: Value) -> Value:
    """`a symbol b` where one is an address."""
    from . import operators

    if symbol not in ("==", "!="):
        _looked_at()
    if isinstance(a, Address) and isinstance(b, Address):
        return Const(operators.is_same(t, a.of, b.of) is (symbol == "=="))
    address, other = (a, b) if isinstance(a, Address) else (b, a)
    assert isinstance(address, Address)
    if type(other) is Const and (not issubclass(other.cls, int | float | complex) or _small(other.value)):
        return Const(symbol == "!=")
    if not issubclass(other.cls, int | float):
        _looked_at()
    return operators.compare(t, symbol, Const(_known(t, address)), other)


def _small(number: complex) -> bool:
    return isinstance(number, int | float) and number < LOWEST


def _known(t: Tracer, address: Address) -> int:
    """The number itself, of an object from outside: it is known in this process, for as long as the object lives."""
    source, obj = address.of.source, getattr(address.of, "obj", None)
    if source is None or obj is None:
        _looked_at()
    try:
        reference = t.local(weakref.ref(obj), f"the address of `{source}`")
    except TypeError:
        raise Break("id() of an object without weak references") from None
    assert reference.source is not None
    t.guard("SAME", source, Pure("weakref.call", reference.source))
    return id(obj)


def _looked_at() -> NoReturn:
    raise Break("the number that id() gives")
