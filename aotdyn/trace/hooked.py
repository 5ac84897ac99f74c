"""Hooked functions that a trace goes through: which operations are whose own, and which one is a loop's body."""

from __future__ import annotations

from typing import Any

from .control import LeaveAlone

MAX_REPEATED, MAX_REPEATED_OPERATIONS = 6, 120
"""Calls of one method of one object, and operations in them, that a sparing trace takes in."""

Key = tuple[str, str, str]
"A function: module, qualified name, digest."


class Hooked:
    """What has been met of them in one trace."""

    def __init__(self) -> None:
        self.nested = 0
        "operations of hooked functions that the current one, or the outermost frame, has called"
        self.shares: dict[Key, list[int]] = {}
        "those that were inlined: how often, and the operations that are their own"
        self._repeated: dict[Any, tuple[int, int]] = {}
        "by code and receiver: calls, and operations in them"

    def begin(self) -> int:
        """A function begins, hooked or not: answers what `end` wants back."""
        outer, self.nested = self.nested, 0
        return outer

    def end(self, outer: int, key: Key, frame: Any, made: int) -> None:
        """It ends, with so many operations in all; a hooked one has its share of them."""
        if frame.stub:
            share = self.shares.setdefault(key, [0, 0])
            share[0] += 1
            share[1] += made - self.nested
        self.nested = outer + (made if frame.stub else self.nested)

    def called(self, frame: Any, made: int) -> None:
        """A hooked one has returned: one that is called on one object time and again is a loop's body, better alone."""
        receiver = next(iter(frame.given), None)
        if receiver is None or receiver.source is None:
            return
        key = (frame.code, receiver.source)
        calls, operations = self._repeated.get(key, (0, 0))
        calls, operations = calls + 1, operations + made
        self._repeated[key] = (calls, operations)
        if calls >= MAX_REPEATED and operations > MAX_REPEATED_OPERATIONS:
            raise LeaveAlone(
                f"calls {frame.code.co_qualname} of one object time and again, which is compiled by itself"
            )
