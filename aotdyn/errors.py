"""Every exception that a user of aotdyn can meet.

A message says what happened, where, and what to do about it; the three parts
are attributes as well. May import: the standard library.
"""

from __future__ import annotations

from typing import Any


class AotdynError(RuntimeError):
    """Base of them all.

    Args:
        what: what happened, one sentence.
        where: the place in the user's code or on disk, as `file:line in function`.
        hint: what to do about it.
    """

    def __init__(self, what: str, *, where: str = "", hint: str = "") -> None:
        parts = [what]
        if where:
            parts.append(f"  at {where}")
        if hint:
            parts.append(f"  hint: {hint}")
        super().__init__("\n".join(parts))
        self.what = what
        self.where = where
        self.hint = hint


class ConfigError(AotdynError, ValueError):
    """An option has an unknown name or a value that isn't allowed."""


class GraphBreakError(AotdynError):
    """`fullgraph=True` met an operation that can't be captured."""

    @classmethod
    def at(cls, info: Any) -> GraphBreakError:
        """The error for a break (`runtime.variant.BreakInfo`)."""
        from aotdyn.report import advice

        reason = info.reason.removesuffix(".")
        told = f"{info.file}:{info.line}: graph break in {info.function}, which fullgraph=True forbids: {reason}."
        return cls(told, hint=info.hint or advice.of(info.reason))


class UserError(AotdynError):
    """The program is right in eager Python and asks for something that tracing can't give.

    Made as torch makes its own: a type (a name or any enum member), a message,
    and the name of an example case.
    """

    def __init__(self, error_type: Any, msg: str, case_name: str | None = None) -> None:
        super().__init__(msg)
        self.args = (error_type, msg, case_name)
        self.error_type = error_type
        self.msg = self.message = msg
        self.case_name = case_name

    def __str__(self) -> str:
        return self.msg


class BackendError(AotdynError):
    """A backend is unknown or failed; what it raised is the `__cause__`."""

    def __init__(self, what: str, *, backend: str = "", where: str = "", hint: str = "") -> None:
        super().__init__(what, where=where, hint=hint)
        self.backend_name = backend

    @property
    def inner_exception(self) -> BaseException | None:
        """What the backend raised, under the name that torch's own error gives it."""
        return self.__cause__


class RecompileLimitError(AotdynError):
    """A function has as many variants as `recompile_limit` allows and another was asked for.

    Raised where `fail_on_recompile_limit_hit` or `error_on_recompile` is set.
    """


class CacheError(AotdynError):
    """The cache can't be used as it was asked for."""
