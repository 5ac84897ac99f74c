"""What a program does with random generators: in its order, behind the guards and before the graph.

A draw, a seed, a generator that is made, a state that is read or set are steps
of one sequence (`t.draws`): nothing else that the trace runs can move or see a
generator, so that the prologue may take them all at once. What a step gives
flows on unseen: a number, an array, a generator, a state.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from aotdyn.guards import sources as S
from aotdyn.guards.sources import Attr, Source

from . import model
from .control import Break, NotConstant, Unbuildable
from .values import Object, Opaque, Value, force

EXACT = 2**53
"""Below this an int is exact as a float, too."""


class Generator(Object):
    """A random generator that the traced code made: `site` is the step that makes it."""

    __slots__ = ("site",)

    def __init__(self, cls: type, site: Source) -> None:
        super().__init__(cls)
        self.site = site
        if cls is random.Random:
            self.attrs["gauss_next"] = Unknown()

    def rebuild(self, e: Any) -> int:
        """The generator that the prologue made, as all the steps have left it."""
        register = e.source(self.site)
        for name, value in self.attrs.items():
            if value is not None and not isinstance(value, Unknown):
                e.do("setattr", register, name, e.value(value))
        return register


class State(Opaque):
    """The state of a generator of class `owner`, which nobody has looked at."""

    __slots__ = ("owner", "site")
    cls = tuple

    def __init__(self, site: Source, owner: type) -> None:
        super().__init__(None)
        self.site, self.owner = site, owner

    def rebuild(self, e: Any) -> int:
        """The state that the prologue read."""
        return e.source(self.site)


class Unknown(Opaque):
    """What a generator keeps for itself."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(None)

    def rebuild(self, e: Any) -> int:
        """It changes with each step."""
        raise Unbuildable(self, "the state of a random generator is looked at")


def step(
    t: Any,
    site: Source,
    name: str,
    args: tuple[Any, ...] = (),
    sample: Any = None,
    named: dict[str, Any] | None = None,
    others: tuple[Source, ...] = (),
    by_name: dict[str, Source] | None = None,
) -> Source:
    """The next step: `site.name(*others, *args, **named, **by_name)`, which gives something like `sample`."""
    if t.isolated:
        raise Break("a random generator is used in a function that may run at another time or not at all")
    if t.raises_into_handler:
        raise Break("a random generator is used behind an operator that may raise where Python has to run what follows")
    t.mutated(t.state.token)
    t.impure = True
    made = S.Drawn(
        site, len(t.draws), name, args, sample, tuple((named or {}).items()), others, tuple((by_name or {}).items())
    )
    t.draws.append(made)
    return made


def site_of(t: Any, generator: Value, cls: type, whole: bool = True) -> Source:
    """Where the prologue finds a generator of this very class; Break for another.

    `whole` guards that its methods, which call each other, are those of the class.
    """
    known = force(generator)
    if isinstance(known, Generator) and known.cls is cls and not (whole and known.attrs.keys() - {"gauss_next"}):
        return known.site
    obj = getattr(known, "obj", None)
    if type(obj) is not cls or known.source is None or known in t.changed:
        raise Break("a random generator of a class of the program's own, or one that was changed")
    if whole and hasattr(obj, "__dict__"):
        names = list(vars(obj))
        if names != ["gauss_next"]:
            raise Break("a random generator with attributes of its own")
        t.guard("KEYS", Attr(known.source, "__dict__"), names)
    return known.source


def known(value: Value, types: tuple[type, ...], what: str) -> Any:
    """A constant of one of these types; Break for anything else."""
    try:
        found = model.as_constant(value)
    except NotConstant:
        found = value
    if type(found) not in types or (type(found) in (int, float) and not abs(found) < EXACT):
        raise Break(f"{what} of a random generator that isn't known")
    return found


def tried(function: Callable[..., Any], name: str, args: tuple[Any, ...], named: dict[str, Any] | None = None) -> Any:
    """What a call gives on a generator of our own; Break where it raises."""
    try:
        return function(*args, **named or {})
    except (MemoryError, RecursionError):
        raise
    except Exception:
        raise Break(f"{name}() of a random generator with arguments that it doesn't take") from None
