"""Warnings: the epilogue issues them, behind the graph, in the order in which the program did.

Whoever looks whether there were any, or changes what becomes of them, does so
by attributes of the module `warnings`: where such were written to, and where a
filter makes errors of warnings, Python issues the warning.
"""

from __future__ import annotations

import _warnings
import warnings
from typing import Any

from aotdyn.guards.globalstate import FACTS
from aotdyn.trace.control import Break
from aotdyn.trace.handlers import handles
from aotdyn.trace.values import Class, Const, Value, force

from .common import none
from .left_to_python import leave

leave("a warning is issued by Python", warnings.warn_explicit)


@handles(warnings.warn)
def _warn(
    t: Any, message: Value, category: Value | None = None, stacklevel: Value | None = None, source: Value | None = None
) -> Value:
    text, level = force(message), force(stacklevel or Const(1))
    kind = force(category or none())
    if isinstance(kind, Const) and kind.value is None:
        kind = t.class_value(UserWarning)
    known = isinstance(text, Const) and type(text.value) is str and isinstance(level, Const) and source is None
    if not known or not isinstance(kind, Class) or not issubclass(kind.obj, Warning):
        raise Break("a warning is issued by Python")
    t.guard_global("warnings_raise")
    if FACTS["warnings_raise"].read() or t.namespace(vars(warnings)).names:
        raise Break("a warning is issued by Python")
    frame = t.frame
    for _ in range(max(level.value, 1) - 1):  # type: ignore[attr-defined]
        frame = frame and frame.caller
    if frame is None:
        raise Break("a warning names the caller of the compiled code")
    offset = (frame.line or frame.code.co_firstlineno) - frame.code.co_firstlineno
    t.postpone(("warn_at", text, kind, (frame.owner, frame.path), Const(offset), frame.globals))
    return none()


@handles(_warnings._filters_mutated)  # type: ignore[attr-defined]
def _filters_mutated(t: Any) -> Value:
    """What was warned of already is forgotten."""
    t.postpone(("filters_mutated",))
    return none()
