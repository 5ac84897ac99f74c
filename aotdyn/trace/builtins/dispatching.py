"""`functools.singledispatch`: which function it has for a class is a fact, which is guarded."""

from __future__ import annotations

import functools
from typing import Any

from aotdyn.guards.sources import Pure
from aotdyn.trace.control import Break
from aotdyn.trace.handlers import handles_inner
from aotdyn.trace.values import Class, Function, Value, force


@handles_inner(functools.singledispatch, "dispatch")
def _dispatch(t: Any, dispatch: Function, cls: Value) -> Value:
    known = force(cls)
    if not isinstance(known, Class) or hasattr(known, "construct") or dispatch.source is None:
        raise Break("functools.singledispatch of a class that the frame makes")
    found = dispatch.obj(known.obj)
    return t.wrap(found, Pure("singledispatch", dispatch.source, t.class_source(known.obj)))
