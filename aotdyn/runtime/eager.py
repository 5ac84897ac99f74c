"""Calls of operators that Python made in hooked functions because no graph served the call: an estimate.

A trace says of each hooked function that it went through how many operations
are its own, those of hooked functions that it calls aside: these ask for graphs
of their own, and are counted where they are left. So nothing is counted twice,
and what a callee's graph captures isn't taken for what Python ran.
"""

from __future__ import annotations

import collections
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aotdyn.runtime.entry import Entry
    from aotdyn.runtime.variant import Variant

Key = tuple[str, str, str]
"A function: module, qualified name, digest."


class _Mean:
    """Operations a call."""

    def __init__(self) -> None:
        self.calls, self.operations = 0, 0.0

    def note(self, calls: int, operations: float) -> None:
        self.calls += calls
        self.operations += operations

    def times(self, calls: int) -> int:
        return round(calls * self.operations / max(self.calls, 1))


def operations(entries: Iterable[Entry]) -> int:
    """How many calls of operators those calls made, about, that no graph served.

    Nothing is known of a function of which no call was ever traced: then it counts for none.
    """
    entries = list(entries)
    roots: dict[Key, dict[int, _Mean]] = collections.defaultdict(lambda: collections.defaultdict(_Mean))
    inlined: dict[Key, _Mean] = collections.defaultdict(_Mean)
    for entry in entries:
        for variant in entry.variants:
            part, at_break = _part(variant), 0 if variant.leave else variant.eager_operations
            roots[_key(entry)][entry.spec.offset].note(1, part * variant.own + at_break)
            for index, calls, own in variant.shares:
                row = variant.inlined[index]
                inlined[row.module, row.qualname, row.digest].note(calls, part * own)
    return sum(_made(entry, roots.get(_key(entry), {}), inlined) for entry in entries if entry.left_to_python())


def _part(variant: Variant) -> float:
    """How much of what was met while tracing is calls of operators: where the graph doesn't have it, it was dropped."""
    met = variant.own + sum(own for _, _, own in variant.shares)
    return 1.0 if variant.leave or not met else variant.operations / met


def _made(entry: Entry, parts: Mapping[int, _Mean], inlined: Mapping[Key, _Mean]) -> int:
    """Of one entry: a function that breaks makes what stands before and behind its breaks."""
    calls = entry.left_to_python()
    if entry.spec.offset:
        return parts[entry.spec.offset].times(calls) if entry.spec.offset in parts else 0
    if parts:
        return sum(part.times(calls) for part in parts.values())
    key = _key(entry)
    return inlined[key].times(calls) if key in inlined else 0


def _key(entry: Entry) -> Key:
    return entry.spec.module, entry.spec.qualname, entry.spec.digest
