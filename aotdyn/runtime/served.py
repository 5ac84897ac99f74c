"""Which modules each variant of an entry was made or bound for: the recompile limit asks (`runtime.limit`)."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import torch

from aotdyn.guards.sources import Env, Source
from aotdyn.runtime import binding
from aotdyn.runtime.variant import Variant


class Served:
    """Which modules each variant of an entry was made or bound for, while they live."""

    def __init__(self) -> None:
        self._modules: dict[int, list[weakref.ref[Any]]] = {}

    def note(self, variant: Variant, args: Sequence[Any], globals: dict[str, Any]) -> None:
        """A variant serves this call."""
        known = self._modules.setdefault(id(variant), [])
        env = binding.environment(variant, args, globals)
        for module in _modules(env):
            if not any(each() is module for each in known):
                known.append(weakref.ref(module))

    def knows(self, variant: Variant, module: Any) -> bool:
        """Whether a variant served this very module."""
        return any(each() is module for each in self._modules.get(id(variant), ()))

    def clear(self) -> None:
        """Forget all."""
        self._modules.clear()


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
