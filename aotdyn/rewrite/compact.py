"""Code marshalled so that it loads fast: what is equal is written once, and nothing else is set aside.

`marshal.dumps` goes by identity and reference counts. Rewriting makes anew what the compiler had shared, tuples of
names above all, and a reader then spends its time on making equal objects again. The bytes are read once, what is
equal is brought together, and they are written in the same format (CPython's Python/marshal.c, version 4): half the
size, and read in two thirds of the time, for a module of many small functions.

Code objects aren't shared: each stays one of its own.
"""

from __future__ import annotations

import marshal
from typing import Any

Part = bytes | int
"Bytes of the file, or an object inside, by its number."

REFERENCE = 0x80
"set in a type's letter: the object gets the next number, by which `r` means it again"

_FIXED = {ord(kind): size for kind, size in zip("NTF.igy", (0, 0, 0, 0, 4, 8, 16), strict=True)}
"bytes behind the letter, where their number is fixed"
_SHORT, _LONG = frozenset(b"zZ"), frozenset(b"saAut")
"strings of bytes whose length stands in one byte, and in four"
_SINGLE = frozenset(b"NTF.ic")
"types that aren't worth a number, or mustn't have one"
_BACK, _DIGITS, _FEW, _CODE, _PAIRS, _END = b"rl)c{0"
_MANY = frozenset(b"(>")


def dumps(value: Any) -> bytes:
    """What `marshal.loads` gives `value` for."""
    plain = marshal.dumps(value, 4)
    try:
        reader = _Reader(plain)
        return _write(reader, reader.node())
    except LookupError:  # a type that code isn't made of
        return plain


class _Reader:
    """Reads marshalled bytes: `nodes` has each object once, as its type's letter and its parts in the file's order.

    `uses` counts for each how often it will be written: by the objects that hold it, these being counted once.
    """

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0
        self.nodes: list[tuple[Part, ...]] = []
        self.uses: list[int] = []
        self._numbered: list[int] = []
        self._known: dict[tuple[Part, ...], int] = {}

    def node(self) -> int:
        """The number of the object at the current place."""
        data, start = self.data, self.at + 1
        letter = data[self.at]
        kind = letter & ~REFERENCE
        if kind == _BACK:
            self.at = start + 4
            return self._again(self._numbered[int.from_bytes(data[start : self.at], "little")])
        if letter & REFERENCE:
            place = len(self._numbered)
            self._numbered.append(-1)
        if kind in _SHORT:
            self.at = end = start + 1 + data[start]
        elif kind in _LONG:
            self.at = end = start + 4 + int.from_bytes(data[start : start + 4], "little")
        elif kind in _FIXED:
            self.at = end = start + _FIXED[kind]
        else:
            self.at, end = start, 0
        found = self._shared((kind, data[start:end]) if end else (kind, *self._parts(kind)))
        if letter & REFERENCE:
            self._numbered[place] = found
        return found

    def _shared(self, node: tuple[Part, ...]) -> int:
        """The number of an object that was read just now: that of an equal one, where there is one."""
        found = None if node[0] == _CODE else self._known.get(node)
        if found is None:
            found = len(self.nodes)
            self._known[node] = found
            self.nodes.append(node)
            self.uses.append(1)
            return found
        self.uses[found] += 1
        for part in node[1:]:  # they were counted as this one's, which isn't written
            if type(part) is int:
                self.uses[part] -= 1
        return found

    def _again(self, number: int) -> int:
        """An object that is written once more, with all that is in it where it gets no number."""
        self.uses[number] += 1
        node = self.nodes[number]
        if node[0] == _CODE:
            for part in node[1:]:
                if type(part) is int:
                    self._again(part)
        return number

    def _parts(self, kind: int) -> list[Part]:
        if kind == _FEW:
            count = self.data[self.at]
            return [self._take(1), *[self.node() for _ in range(count)]]
        if kind in _MANY:
            head = self._take(4)
            return [head, *[self.node() for _ in range(int.from_bytes(head, "little"))]]
        if kind == _CODE:
            numbers = self._take(20)
            objects = [self.node() for _ in range(8)]
            return [numbers, *objects, self._take(4), self.node(), self.node()]
        if kind == _PAIRS:
            parts: list[Part] = []
            while self.data[self.at] != _END:
                parts += [self.node(), self.node()]
            return [*parts, self._take(1)]
        if kind == _DIGITS:
            count = abs(int.from_bytes(self.data[self.at : self.at + 4], "little", signed=True))
            return [self._take(4 + 2 * count)]
        raise LookupError(chr(kind))

    def _take(self, size: int) -> bytes:
        self.at += size
        return self.data[self.at - size : self.at]


def _write(read: _Reader, root: int) -> bytes:
    nodes, uses = read.nodes, read.uses
    out = bytearray()
    numbers: dict[int, bytes] = {}

    def write(number: int) -> None:
        node = nodes[number]
        letter = node[0]
        assert type(letter) is int
        if uses[number] > 1 and letter not in _SINGLE:
            if number in numbers:
                out.extend(numbers[number])
                return
            numbers[number] = b"r" + len(numbers).to_bytes(4, "little")
            letter |= REFERENCE
        out.append(letter)
        for part in node[1:]:
            if type(part) is int:
                write(part)
            else:
                out.extend(part)  # type: ignore[arg-type]

    write(root)
    return bytes(out)
