"""The two packed tables of a code object, alike from CPython 3.11 on.

Exception table: Objects/exception_handling_notes.txt. Location table:
Objects/locations.md. Units are code units of two bytes.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import CodeType
from typing import NamedTuple


class Region(NamedTuple):
    """Units `start` to `end` are under the handler at `target`, which gets the stack cut to `depth`."""

    start: int
    end: int
    target: int
    depth: int
    lasti: bool


class Position(NamedTuple):
    """What `co_positions` gives for one instruction."""

    line: int | None
    end_line: int | None = None
    column: int | None = None
    end_column: int | None = None


def regions(code: CodeType) -> list[Region]:
    """The exception table of `code`, decoded."""
    data = iter(code.co_exceptiontable)
    result = []
    for first in data:
        start = _read(first, data)
        size, target, packed = (_read(next(data), data) for _ in range(3))
        result.append(Region(start, start + size, target, packed >> 1, bool(packed & 1)))
    return result


def encode_regions(entries: Iterable[Region]) -> bytes:
    """An exception table: `entries` may be in any order but don't overlap."""
    out = bytearray()
    for start, end, target, depth, lasti in sorted(entries):
        for mark, number in ((128, start), (0, end - start), (0, target), (0, depth << 1 | lasti)):
            parts = [number & 63]
            while number := number >> 6:
                parts.append(number & 63 | 64)
            parts[-1] |= mark
            out += bytes(reversed(parts))
    return bytes(out)


def locations(units: int, step: int, position: Position) -> bytes:
    """Location entries of `units` units at `position`, whose line is `step` lines behind the entry before."""
    out = bytearray()
    while units > 0:
        size = min(units, 8)
        line, end_line, column, end_column = position
        if line is None:
            out.append(0x80 | 15 << 3 | size - 1)
        elif end_line is None or column is None or end_column is None:
            out.append(0x80 | 13 << 3 | size - 1)
            out += _signed(step)
        else:
            out.append(0x80 | 14 << 3 | size - 1)
            out += _signed(step) + _varint(end_line - line) + _varint(column + 1) + _varint(end_column + 1)
        units, step = units - size, 0
    return bytes(out)


def split_locations(table: bytes, units: int) -> tuple[bytes, bytes]:
    """A location table cut behind its first `units` units; raises ValueError where an entry spans the cut."""
    at = seen = 0
    while seen < units:
        seen += (table[at] & 7) + 1
        at += 1
        while at < len(table) and not table[at] & 128:
            at += 1
    if seen != units:
        raise ValueError("a location entry spans the cut")
    return table[:at], table[at:]


def last_line(code: CodeType) -> int:
    """The line that a location entry behind those of `code` counts from."""
    lines = [position[0] for position in code.co_positions() if position[0] is not None]
    return lines[-1] if lines else code.co_firstlineno


def _read(first: int, data: Iterable[int]) -> int:
    number = first & 63
    if first & 64:
        for byte in data:
            number = number << 6 | byte & 63
            if not byte & 64:
                break
    return number


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 63:
        out.append(number & 63 | 64)
        number >>= 6
    out.append(number)
    return bytes(out)


def _signed(number: int) -> bytes:
    return _varint(-number << 1 | 1 if number < 0 else number << 1)
