"""What the variants of an entry have served: how many calls, and which modules.

The counters ask for the one (`Tally`, by `Line`), the recompile limit for the other (`Served`; `runtime.limit`).
"""

from __future__ import annotations

import functools
import types
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import torch

from aotdyn.guards.sources import Env, Source
from aotdyn.report import events
from aotdyn.runtime import binding
from aotdyn.runtime.variant import Variant

if TYPE_CHECKING:
    from aotdyn.runtime.entry import Entry


class Served:
    """Which modules each variant of an entry was made or bound for, while they live; and of which classes."""

    def __init__(self) -> None:
        self._modules: dict[int, dict[int, weakref.ref[Any]]] = {}
        self._classes: dict[int, set[str]] = {}

    def note(self, variant: Variant, args: Sequence[Any], globals: dict[str, Any]) -> None:
        """A variant serves this call."""
        known = self._modules.setdefault(id(variant), {})
        env = binding.environment(variant, args, globals)
        for module in _modules(env):
            known[id(module)] = weakref.ref(module, functools.partial(_gone, known, id(module)))
        if (first := _class_of_first(args)) is not None:
            self._classes.setdefault(id(variant), set()).add(first)

    def knows(self, variant: Variant, module: Any) -> bool:
        """Whether a variant served this very module."""
        found = self._modules.get(id(variant), {}).get(id(module))
        return found is not None and found() is module

    def others(self, variant: Variant, args: Sequence[Any]) -> bool:
        """Whether a variant served modules of other classes alone than that which this call has first."""
        known = self._classes.get(id(variant))
        return known is not None and _class_of_first(args) not in known

    def clear(self) -> None:
        """Forget all."""
        self._modules.clear()
        self._classes.clear()


def _gone(known: dict[int, weakref.ref[Any]], key: int, reference: weakref.ref[Any]) -> None:
    """A module is gone: so is what was known of it, unless another has its number already."""
    if known.get(key) is reference:
        del known[key]


def _class_of_first(args: Sequence[Any]) -> str | None:
    """The class of the first module among the arguments, by name: it may end before the entry does."""
    for arg in args:
        if issubclass(kind := type(arg), torch.nn.Module):
            return f"{kind.__module__}.{kind.__qualname__}"
    return None


def _modules(env: Env) -> list[torch.nn.Module]:
    """The outermost modules on the ways to all sources, each once; what lies behind one isn't read.

    Bases stand before what is reached by them. (A function that calls itself would hold the arguments in a cycle.)
    """
    outermost: dict[int, torch.nn.Module | None] = {}
    for source in env.sources:
        above = outermost[id(source.bases[0])] if source.bases else None
        outermost[id(source)] = module_at(source, env) if above is None else above
    return list({id(module): module for module in outermost.values() if module is not None}.values())


def module_at(source: Source, env: Env) -> torch.nn.Module | None:
    """The object at a source, if it is a module."""
    try:
        obj = env.read(source)
    except (RecursionError, MemoryError):
        raise
    except Exception:  # not there in this call
        return None
    return obj if isinstance(obj, torch.nn.Module) else None


class Tally(msgspec.Struct, frozen=True):
    """What was served: calls by graphs, calls of operators in these and at their breaks, seconds that kernels saved."""

    graph_calls: int = 0
    captured: int = 0
    eager: int = 0
    saved: float = 0.0

    def plus(self, other: Tally) -> Tally:
        """Both together."""
        return Tally(
            self.graph_calls + other.graph_calls,
            self.captured + other.captured,
            self.eager + other.eager,
            self.saved + other.saved,
        )


class Line:
    """A bound variant in two forms that share their cells: `head` calls what `names` says, `probe` answers MISS."""

    __slots__ = ("_read", "calls", "head", "probe", "variant")

    def __init__(self, variant: Variant, bound: binding.Bound, **names: Callable[..., Any]) -> None:
        self.variant = variant
        self.probe = bound.function
        function: Any = bound.function
        self.head = types.FunctionType(function.__code__, {**function.__globals__, **names})
        self.calls = bound.calls
        self._read = 0

    def graph_calls(self) -> int:
        """How often the variant's graph has run. Reading the counter moves it, which is made up for."""
        count = next(self.calls) - self._read
        self._read += 1
        return count

    def tally(self) -> Tally:
        """The same with the calls of operators that these were."""
        count, variant = self.graph_calls(), self.variant
        saved = 0.0 if variant.graph is None else count * events.saved_per_call(variant.graph)
        return Tally(count, count * variant.operations, count * variant.eager_operations, saved)


def counted(some: list[Entry]) -> dict[str, Any]:
    """What entries tell of themselves."""
    from aotdyn.runtime import eager

    served = functools.reduce(Tally.plus, (entry.tally() for entry in some), Tally())
    return {
        "graph_calls": served.graph_calls,
        "tensor_calls_captured": served.captured,
        "tensor_calls_eager": served.eager + eager.operations(some),
        "calls_left": sum(entry.left_to_python() for entry in some),
        "seconds_saved": served.saved,
    }
