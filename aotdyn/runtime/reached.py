"""What a `compile()` reaches past its own code: callees of a break, or of a frame left alone, stubbed in place.

The function object stays, its code becomes a stub whose dispatcher acts only
while an extent is set: in what runs behind a break of that extent, in the
context (so the thread) at hand. Elsewhere the function is plain Python.
"""

from __future__ import annotations

import contextvars
import functools
import sys
import threading
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from aotdyn.runtime import home
from aotdyn.runtime.extent import Extent

current: contextvars.ContextVar[Extent | None] = contextvars.ContextVar("aotdyn_extent", default=None)
"""The extent that reached functions act in."""

_lock = threading.Lock()
_gates: dict[str, dict[str, Any]] = {}
"Dispatcher name of a gate to the globals of its functions."
_entries: dict[str, dict[str, Any]] = {}
"Dispatcher name of a gate to the entries behind it, by extent."
_reached: dict[str, home.Alive] = {}
"Dispatcher name of a gate to the functions behind it."


@contextmanager
def within(extent: Extent | None) -> Iterator[None]:
    """Sets the extent, unless one is: the outermost wins."""
    if extent is None or current.get() is not None:
        yield
        return
    token = current.set(extent)
    try:
        yield
    finally:
        current.reset(token)


class Body:
    """The body of a frame left alone, as a continuation of its start: it runs within its extent."""

    block = None
    "it is no block of any code"

    def __init__(self, code: types.CodeType, globals: dict[str, Any], extent: Extent, arity: int) -> None:
        self.code = code.replace(
            co_argcount=arity, co_posonlyargcount=arity, co_kwonlyargcount=0, co_flags=code.co_flags & ~(0x4 | 0x8)
        )
        self.globals = globals
        self.extent = extent
        self.arity = arity
        self.call = mover(arity)

    def made(self, state: tuple[Any, ...], k: Any) -> Any:
        """Runs the body on its arguments and cells; those of its own it makes anew."""
        closure = state[self.arity + len(self.code.co_cellvars) :]
        made = types.FunctionType(self.code, self.globals, None, None, closure or None)
        items = list(state[: self.arity])
        del state
        items.reverse()
        return self.call(made, items.pop)


@functools.cache
def mover(arity: int) -> Callable[[types.FunctionType, Callable[[], Any]], Any]:
    """`function(pop(), ..., pop())`: moves arguments into the callee's frame; `function(*items)` would hold them."""
    pops = ", ".join(["pop()"] * arity)
    namespace: dict[str, Any] = {}
    exec(compile(f"def call(function, pop): return function({pops})", __file__, "exec"), namespace)
    return namespace["call"]


def reach(obj: Any) -> None:
    """Stub a function in place; what isn't a Python function of the program's is left as it is."""
    from aotdyn.rewrite import originals, points, stubs

    function = obj.__func__ if type(obj) is types.MethodType else obj
    if type(function) is not types.FunctionType or not _programs(function):
        return
    code = function.__code__
    if originals.dispatcher_of(code) or stubs.eligible(code) or _disabled(function):
        return
    spec = stubs.spec_of(code, function.__globals__.get("__name__") or "")
    with _lock:
        name = points.dispatcher_name(spec, "reached")
        while _gates.get(name, function.__globals__) is not function.__globals__:
            name += "_"
        if name not in _gates:
            _open(name, spec, function.__globals__, code)
        function.__code__ = stubs.stub(code, name)
        _reached[name].append(function)


def _open(name: str, spec: Any, globals: dict[str, Any], code: types.CodeType) -> None:
    """A gate: a dispatcher that asks the entry of the extent that is set."""
    from aotdyn.rewrite import originals
    from aotdyn.runtime import dispatch

    entries = _entries.setdefault(name, {})
    functions = _reached[name] = home.Alive()
    shared = [home.InPlace(name, lambda: code, functions)] if home.blocks_wanted() else []

    def gate(*args: Any) -> Any:
        if torch.compiler.is_dynamo_compiling() or sys._getframe(1).f_globals is not globals:
            return None
        extent = current.get()
        if extent is None:
            return None
        entry = entries.get(extent.number)
        if entry is None:
            entry = entries[extent.number] = _entry(spec, extent, globals, code)
            entry.homes = list(shared)
        return entry.dispatcher(*args)

    _gates[name] = globals
    originals.register(name, code)
    dispatch.install(name, gate)


def release(extent: str) -> None:
    """An extent is gone."""
    for entries in list(_entries.values()):
        entry = entries.pop(extent, None)
        if entry is not None:
            entry.give_back()


def _entry(spec: Any, extent: Extent, globals: dict[str, Any], code: types.CodeType) -> Any:
    from aotdyn.rewrite import points
    from aotdyn.runtime.entry import Entry

    def published(dispatcher: Callable[..., Any]) -> None:
        """Nothing names it: the gate asks the entry."""

    return Entry(
        points.dispatcher_name(spec, extent.number), spec, extent, globals, lambda: code, published, direct=False
    )


def _disabled(function: types.FunctionType) -> bool:
    marks = function.__dict__
    return bool(marks.get("__aotdyn_disable__") or marks.get("_torchdynamo_disable"))


def _programs(function: types.FunctionType) -> bool:
    """Whether a function is the program's: neither torch's, ours nor the standard library's."""
    top = str(function.__globals__.get("__name__") or "").partition(".")[0]
    return top not in ("torch", "aotdyn", "") and (top == "__main__" or top not in sys.stdlib_module_names)
