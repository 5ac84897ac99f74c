"""Why a call misses a variant, in words: for what is traced again or told of, and not for a start that is warm."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from aotdyn.guards.kinds import KINDS, Reason
from aotdyn.guards.sources import Env, words
from aotdyn.runtime import binding
from aotdyn.runtime.variant import GuardData, Variant


def explain_miss(variant: Variant, args: Sequence[Any], globals: dict[str, Any]) -> list[Reason]:
    """A sentence for the first guard that doesn't hold for `args`; empty where all hold.

    What stands behind a failed guard isn't looked at: its source may mean something else then.
    """
    try:
        env = binding.environment(variant, args, globals)
    except binding.BindingMiss as miss:
        return [Reason.of(miss.sentence)]
    found = (failure(variant, i, env) for i in range(len(variant.guards)))
    return list(itertools.islice((sentence for sentence in found if sentence is not None), 1))


def reasons(variant: Variant, env: Env, guards: Sequence[int]) -> list[Reason]:
    """Sentences for those of these guards that fail."""
    found = (failure(variant, i, env) for i in guards)
    return [reason for reason in found if reason is not None]


def failure(variant: Variant, i: int, env: Env) -> Reason | None:
    """Why guard i doesn't hold; None where it holds. What can't be evaluated doesn't hold."""
    guard = variant.guards[i]
    source = env.sources[guard.source] if guard.source >= 0 else None
    text = words(source, env) if source is not None else "global state"
    where = place(variant, guard)
    try:
        kind = KINDS[guard.kind]
        try:
            obj = env.read(source) if source is not None else None
        except (LookupError, AttributeError):
            return Reason.of(f"`{text}` isn't there in this call", where)
        if kind.check(obj, guard.expected, env):
            return None
        return Reason.of(kind.describe(text, guard.expected, obj, env), where)
    except (RecursionError, MemoryError):
        raise
    except Exception as error:
        return Reason.of(f"`{text}` can't be checked for {guard.kind}: {type(error).__name__}: {error}", where)


def place(variant: Variant, guard: GuardData) -> str:
    """The line of the program that asked for a guard, as "file:line"; empty where none is known."""
    if not 0 <= guard.place < len(variant.places):
        return ""
    file, line = variant.places[guard.place]
    return f"{file}:{line}"
