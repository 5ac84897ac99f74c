"""Code marshalled so that it loads fast: what is equal is written once, and nothing else is set aside.

`marshal.dumps` goes by identity and reference counts. Rewriting makes anew what the compiler had shared, tuples of
names above all, and a reader then spends its time on making equal objects again. The bytes are read once, what is
equal is brought together, and they are written in the same format (CPython's Python/marshal.c, version 4): half the
size, and read in two thirds of the time, for a module of many small functions.

Code objects aren't shared: each stays one of its own.
"""

from __future__ import annotations

import marshal
from collections.abc import Callable
from typing import Any

Node = tuple[Any, ...]
"The letter of an object's type, then its bytes and parts in the order of the file."

REFERENCE = 0x80
"set in a type's letter: the object gets the next number, by which `r` means it again"

_SIZES = {"N": 0, "T": 0, "F": 0, ".": 0, "i": 4, "g": 8, "y": 16}
"bytes behind the letter, where their number is fixed"

_SINGLE = frozenset("NTF.ic")
"types that aren't worth a number, or mustn't have one"


def dumps(value: Any) -> bytes:
    """What `marshal.loads` gives `value` for."""
    plain = marshal.dumps(value, 4)
    try:
        return _write(_Reader(plain).node())
    except KeyError:  # a type that code isn't made of
        return plain


class _Reader:
    """Reads marshalled bytes as nodes, equal ones as one object."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0
        self.numbered: list[Node] = []
        self.known: dict[tuple[Any, ...], Node] = {}

    def node(self) -> Node:
        """The object at the current place."""
        letter = self.data[self.at]
        kind = chr(letter & ~REFERENCE)
        self.at += 1
        if kind == "r":
            return self.numbered[int.from_bytes(self._take(4), "little")]
        number = len(self.numbered)
        if letter & REFERENCE:
            self.numbered.append(())
        found = self._shared((kind, *self._parts(kind)))
        if letter & REFERENCE:
            self.numbered[number] = found
        return found

    def _parts(self, kind: str) -> list[bytes | Node]:
        if kind in _SIZES:
            return [self._take(_SIZES[kind])]
        return _READERS[kind](self)

    def _shared(self, node: Node) -> Node:
        # The parts are shared already, so that identity tells them apart.
        key = tuple(part if isinstance(part, bytes) else id(part) for part in node[1:])
        return self.known.setdefault((node[0], *key), node)

    def _take(self, size: int) -> bytes:
        self.at += size
        return self.data[self.at - size : self.at]

    def _short(self) -> list[bytes | Node]:
        return [self._take(1 + self.data[self.at])]

    def _long(self) -> list[bytes | Node]:
        return [self._take(4 + self._count())]

    def _digits(self) -> list[bytes | Node]:
        return [self._take(4 + 2 * abs(self._count()))]

    def _few(self) -> list[bytes | Node]:
        count = self._take(1)
        return [count, *(self.node() for _ in range(count[0]))]

    def _many(self) -> list[bytes | Node]:
        items = self._count()
        return [self._take(4), *(self.node() for _ in range(items))]

    def _pairs(self) -> list[bytes | Node]:
        parts: list[bytes | Node] = []
        while self.data[self.at] != ord("0"):
            parts += [self.node(), self.node()]
        return [*parts, self._take(1)]

    def _code(self) -> list[bytes | Node]:
        numbers = self._take(20)
        objects = [self.node() for _ in range(8)]
        return [numbers, *objects, self._take(4), self.node(), self.node()]

    def _count(self) -> int:
        return int.from_bytes(self.data[self.at : self.at + 4], "little", signed=True)


_READERS: dict[str, Callable[[_Reader], list[bytes | Node]]] = {
    **dict.fromkeys("zZ", _Reader._short),
    **dict.fromkeys("saAut", _Reader._long),
    "l": _Reader._digits,
    ")": _Reader._few,
    **dict.fromkeys("(>", _Reader._many),
    "{": _Reader._pairs,
    "c": _Reader._code,
}


def _write(root: Node) -> bytes:
    uses: dict[int, int] = {}
    _count(root, uses)
    out = bytearray()
    numbers: dict[int, int] = {}

    def write(node: Node) -> None:
        kind, known = node[0], numbers.get(id(node))
        if known is not None:
            out.extend(b"r" + known.to_bytes(4, "little"))
            return
        letter = ord(kind)
        if uses[id(node)] > 1 and kind not in _SINGLE:
            numbers[id(node)] = len(numbers)
            letter |= REFERENCE
        out.append(letter)
        for part in node[1:]:
            if isinstance(part, bytes):
                out.extend(part)
            else:
                write(part)

    write(root)
    return bytes(out)


def _count(node: Node, uses: dict[int, int]) -> None:
    """How often each node is written; code as often as it is met, with all that is in it."""
    uses[id(node)] = uses.get(id(node), 0) + 1
    if uses[id(node)] == 1 or node[0] in _SINGLE:
        for part in node[1:]:
            if not isinstance(part, bytes):
                _count(part, uses)
