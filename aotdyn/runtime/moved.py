"""Which sizes moved: what a variant's failed guards say of a call that differs from it in sizes alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from aotdyn.guards import constants, tensors
from aotdyn.guards.kinds import KINDS
from aotdyn.guards.sources import Arg, Attr, Cell, Env, Globals, Item, Pure, RawItem, Source
from aotdyn.runtime import binding
from aotdyn.runtime.variant import GuardData, Variant

Moved = dict[Source, frozenset[int]]
"""Dimensions of tensors, by source; of an int the empty set."""

STEPS = (Arg, Attr, Cell, Globals, Item, RawItem)
"""How an int may be reached that becomes a symbol."""


AHEAD = "iterator.ahead"
"""What an iterator gives next is a tensor like any other."""


def moved(variant: Variant, args: Sequence[Any], globals: dict[str, Any]) -> Moved:
    """The sizes by which a call misses a variant; empty where it misses it for another reason as well."""
    found: Moved = {}
    if variant.leave:
        return found
    try:
        env = binding.environment(variant, args, globals)
        for guard in variant.guards:
            obj = env.read(env.sources[guard.source]) if guard.source >= 0 else None
            if guard.kind == "SHAPE" or KINDS[guard.kind].check(obj, guard.expected, env):
                continue
            dims = _dims(guard, obj, env)
            if dims is None:
                return {}
            found[env.sources[guard.source]] = dims
    except (RecursionError, MemoryError):
        raise
    except Exception:  # a source that can't be read differs in more than a size
        return {}
    return found


def changed(variant: Variant, args: Sequence[Any], globals: dict[str, Any]) -> frozenset[Source]:
    """Where a call has another number than a variant was made for."""
    if variant.leave:
        return frozenset()
    try:
        env = binding.environment(variant, args, globals)
    except binding.BindingMiss:
        return frozenset()
    rows = [guard for guard in variant.guards if guard.kind == "CONST" and type(guard.expected) in (int, float, list)]
    return frozenset(env.sources[guard.source] for guard in rows if _another_number(guard, env))


def _another_number(guard: GuardData, env: Env) -> bool:
    source = env.sources[guard.source]
    if not isinstance(source, STEPS) or not _durable(source):
        return False
    try:
        obj, expected = env.read(source), constants.decode(guard.expected)
    except (RecursionError, MemoryError):
        raise
    except Exception:  # it can't be read in this call, so it isn't another number
        return False
    return type(obj) is type(expected) and type(obj) in constants.VARYING and not constants.same(obj, expected)


def learnt(variant: Variant, args: Sequence[Any], globals: dict[str, Any]) -> Moved:
    """What was known to move when a variant was traced."""
    if not variant.moving:
        return {}
    try:
        sources = binding.environment(variant, args, globals).sources
        return {sources[row]: frozenset(dims) for row, dims in variant.moving}
    except (binding.BindingMiss, IndexError):
        return {}


def merge(into: Moved, more: Moved) -> None:
    """Add to what is known."""
    for source, dims in more.items():
        into[source] = into.get(source, frozenset()) | dims


def _dims(guard: GuardData, obj: Any, env: Env) -> frozenset[int] | None:
    """The dimensions in which a failed guard says that a tensor moved, none for an int; None for any other failure."""
    source = env.sources[guard.source]
    ahead = isinstance(source, Pure) and source.key == AHEAD
    if not (isinstance(source, STEPS) or ahead) or not _durable(source):
        return None
    if guard.kind == "TENSOR" and not isinstance(obj, torch.nn.Parameter):
        return tensors.moved(obj, guard.expected)
    if guard.kind == "CONST" and type(obj) is type(guard.expected) is int and not _of_module(source, env):
        return frozenset()
    return None


def _durable(source: Source) -> bool:
    """Whether a source means the same in another variant: every root but objects of this process."""
    return source.kind != "local" and all(_durable(base) for base in source.bases)


def _of_module(source: Source, env: Env) -> bool:
    """Whether an int belongs to an `nn.Module` (a layer's number, a width): such are constants."""
    return any(isinstance(env.read(base), torch.nn.Module) or _of_module(base, env) for base in source.bases)
