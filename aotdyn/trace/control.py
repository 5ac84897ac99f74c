"""How control leaves the tracer's handlers: breaks, exceptions of the traced program, bounds.

These are the only exceptions that the tracer's own code raises on purpose.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from aotdyn.guards.sources import Source

    from .values import Value


class Break(Exception):
    """The operation can't be captured: Python must run it. `reason` is a sentence, `hint` what the user may do."""

    def __init__(self, reason: str, hint: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.hint = hint
        self.position: int | None = None  # where to end instead, earlier in the trace


class Raised(Exception):
    """The traced program raised: `value` is the exception (an Object whose class is a BaseException)."""

    def __init__(self, value: Value) -> None:
        super().__init__(value)
        self.value = value


class Unbuildable(Exception):
    """A live value can't be rebuilt at a break; `value.born` says at which position it was made."""

    def __init__(self, value: Value, reason: str) -> None:
        super().__init__(reason)
        self.value = value
        self.reason = reason


class LookedAt(BaseException):
    """A number that was to flow back unseen (`flows`) is looked at: the attempt starts anew without that.

    No Exception: what folds the program's own operations takes those for the program's.
    """

    def __init__(self, sources: frozenset[Source]) -> None:
        super().__init__(sources)
        self.sources = sources


class LeaveAlone(Exception):
    """The frame as a whole isn't worth or can't be traced: run its body.

    `prepares` says that the body makes ready what the next call captures;
    `seconds` how long tracing took before its bound.
    """

    def __init__(self, reason: str, prepares: bool = False, seconds: float = 0.0) -> None:
        super().__init__(reason)
        self.reason = reason
        self.prepares = prepares
        self.seconds = seconds


class NotConstant(Exception):
    """`as_constant` met a value that isn't known."""


def graph_break(reason: str, hint: str = "") -> NoReturn:
    """Give the current operation to Python."""
    raise Break(reason, hint)


_never: Any = None
