"""Python's `random`: generators and what is drawn from them.

Where a number is looked at (compared, an index, a number of turns) Python
draws it, and goes on behind it.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from aotdyn.guards.pure import PURE
from aotdyn.guards.sources import Attr, Pure, Source
from aotdyn.trace import draws, flows, model
from aotdyn.trace.control import Break, NotConstant
from aotdyn.trace.handlers import handles
from aotdyn.trace.values import Const, Lazy, Opaque, Sequence, Value, force

from .left_to_python import leave

DRAWING = (
    *("random", "uniform", "gauss", "normalvariate", "triangular", "lognormvariate", "expovariate"),
    *("vonmisesvariate", "gammavariate", "betavariate", "paretovariate", "weibullvariate"),
    *("randint", "randrange", "getrandbits"),
)
"""Methods of `random.Random` that give a number."""
IN_C = ("random", "getrandbits")
"""Those that call no other method."""
OTHERS = ("shuffle", "sample", "choices", "randbytes")
SEEDS = (type(None), int, float, str, bytes)
IS_STATE = "random.is_state"


def number(t: Any, site: Source, name: str, args: tuple[Any, ...], sample: Any) -> Value:
    """A number that a method of the generator at `site` gives, like `sample`."""
    mark: Any = ("drawn", t.position)
    if mark in t.looked_at:
        raise Break("a random number is drawn by Python", "Its value is looked at.")
    if type(sample) not in (int, float) or not abs(sample) < draws.EXACT or (name == "getrandbits" and args[0] > 53):
        raise Break(f"a {type(sample).__name__} is drawn by Python")
    return flows.Drawn(sample, draws.step(t, site, name, args, sample), mark)


def _draw(t: Any, generator: Value, name: str, args: tuple[Value, ...], kwargs: dict[str, Value]) -> Value:
    if kwargs:
        raise Break(f"{name}() of a random generator with arguments by name")
    site = draws.site_of(t, generator, random.Random, name not in IN_C)
    known = tuple(draws.known(arg, (int, float), "an argument") for arg in args)
    return number(t, site, name, known, draws.tried(getattr(random.Random(0), name), name, known))


def _method(name: str) -> Callable[..., Value]:
    return lambda t, generator, *args, **kwargs: _draw(t, generator, name, args, kwargs)


def _own(t: Any, function: Any) -> Value:
    """The module's own generator, to which a C function of the module is bound."""
    owner = force(t.durable(function)).source
    assert owner is not None
    return t.wrap(function.__self__, Attr(owner, "__self__"))


def _function(function: Any) -> Callable[..., Value]:
    return lambda t, *args: _draw(t, _own(t, function), function.__name__, args, {})


for _name in DRAWING:
    handles(getattr(random.Random, _name))(_method(_name))
for _function_of in (random.random, random.getrandbits):
    handles(_function_of)(_function(_function_of))
leave("what is drawn are no numbers by themselves", *(getattr(random.Random, name) for name in OTHERS))


@handles(random.Random.choice)
def _choice(t: Any, generator: Value, seq: Value) -> Value:
    """One of several known numbers of one class."""
    site = draws.site_of(t, generator, random.Random)
    try:
        items = model.as_python(seq)
    except NotConstant:
        items = None
    plain = type(items) in (list, tuple, range) and len(items)
    if not plain or len({type(item) for item in items}) > 1 or not all(_exact(item) for item in items):
        raise Break("a choice by a random generator among what aren't known numbers")
    return number(t, site, "choice", (tuple(items),), items[0])


def _exact(item: Any) -> bool:
    return type(item) in (int, float) and abs(item) < draws.EXACT


@handles(random.Random)
def _made(t: Any, x: Value = Const(None)) -> Value:  # noqa: B008 (a constant)
    seed = draws.known(x, SEEDS, "a seed")
    cls = t.durable(random.Random).source
    return draws.Generator(random.Random, draws.step(t, cls, "", (seed,)))


@handles(random.Random.seed)
def _seed(t: Any, generator: Value, a: Value = Const(None), version: Value = Const(2)) -> Value:  # noqa: B008
    site = draws.site_of(t, generator, random.Random, whole=False)
    args = (draws.known(a, SEEDS, "a seed"), draws.known(version, (int,), "a version"))
    draws.step(t, site, "seed", args)
    return Const(None)


@handles(random.Random.getstate)
def _getstate(t: Any, generator: Value) -> Value:
    site = draws.site_of(t, generator, random.Random, whole=False)
    return draws.State(draws.step(t, site, "getstate"), random.Random)


@handles(random.Random.setstate)
def _setstate(t: Any, generator: Value, state: Value) -> Value:
    site = draws.site_of(t, generator, random.Random, whole=False)
    draws.step(t, site, "setstate", others=(_state(t, state),))
    return Const(None)


def _state(t: Any, value: Value) -> Source:
    """Where a state is found: one that was read in this trace, or a tuple from outside, which is guarded to be one."""
    found = value.value if isinstance(value, Lazy) and value.value is not None else value
    if isinstance(found, draws.State) and found.owner is random.Random:
        return found.site
    obj, source = getattr(found, "obj", None), found.source
    if source is None or not isinstance(found, (Lazy, Sequence, Opaque)) or found in t.changed or source.late:
        raise Break("a random generator is given a state that was made while tracing")
    if not PURE[IS_STATE].function(obj):
        raise Break("a random generator is given what is no state of one")
    t.guard("CONST", Pure(IS_STATE, source), True)
    return source
