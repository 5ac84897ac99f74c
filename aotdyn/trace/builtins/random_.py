"""Random numbers of `random`, and numpy's old ones: drawn behind the guards, before the graph, in order.

Where a number is looked at (compared, an index, a number of turns) Python
draws it, and goes on behind it. Nothing else that the trace runs can move or
see the generator: what does so breaks.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy

from aotdyn.guards.sources import Attr, Drawn
from aotdyn.trace import flows, model
from aotdyn.trace.control import Break, NotConstant
from aotdyn.trace.handlers import handles
from aotdyn.trace.values import Value, force

from .left_to_python import leave

DRAWING = (
    *("random", "uniform", "gauss", "normalvariate", "triangular", "lognormvariate", "expovariate"),
    *("vonmisesvariate", "gammavariate", "betavariate", "paretovariate", "weibullvariate"),
    *("randint", "randrange", "getrandbits"),
)
"""Methods of `random.Random` that give a number."""
OF_NUMPY = {
    **dict.fromkeys(("rand", "randn", "random", "random_sample", "standard_normal", "standard_exponential"), 0),
    **dict.fromkeys(("uniform", "normal", "laplace", "logistic", "gumbel", "lognormal", "randint"), 2),
    **dict.fromkeys(("exponential", "poisson", "rayleigh"), 1),
}
"""Methods of numpy's `RandomState` that give a number, for this many arguments or fewer."""
EXACT = 2**53
"""Below this an int is exact as a float, too."""
OTHERS = ("seed", "getstate", "setstate", "shuffle", "sample", "choice", "choices", "randbytes")


def _draw(t: Any, generator: Value, name: str, args: tuple[Value, ...], like: Any) -> Value:
    """A number drawn by a method of a generator from outside; `like` is another that tells what it will be."""
    receiver = force(generator)
    mark: Any = ("drawn", t.position)
    plain = type(getattr(receiver, "obj", None)) is type(like) and receiver not in t.changed
    if not plain or receiver.source is None or t.isolated or mark in t.looked_at:
        raise Break("a random number is drawn by Python", "Its value is looked at, or its generator isn't a plain one.")
    if t.raises_into_handler:
        raise Break("a random number is drawn behind an operator that may raise where Python has to run what follows")
    known = tuple(_number(arg) for arg in args)
    try:
        sample = getattr(like, name)(*known)
    except Exception:
        raise Break(f"{name}() of a random generator with arguments that it doesn't take") from None
    if type(sample) not in (int, float) or not abs(sample) < EXACT or (name == "getrandbits" and known[0] > 53):
        raise Break(f"a {type(sample).__name__} is drawn by Python")
    t.mutated(t.state.token)
    t.impure = True
    drawn = Drawn(receiver.source, len(t.draws), name, known, sample)
    t.draws.append(drawn)
    return flows.Drawn(sample, drawn, mark)


def _number(value: Value) -> Any:
    try:
        known = model.as_constant(value)
    except NotConstant:
        known = None
    if type(known) not in (int, float) or not abs(known) < EXACT:
        raise Break("a random generator is given something else than known numbers")
    return known


def _method(name: str) -> Callable[..., Value]:
    return lambda t, generator, *args: _draw(t, generator, name, args, random.Random(0))


def _numpy_method(name: str, most: int) -> Callable[..., Value]:
    def handler(t: Any, generator: Value, *args: Value, **kwargs: Value) -> Value:
        if len(args) > most or kwargs:
            raise Break("an array of random numbers is drawn by Python")
        return _draw(t, generator, name, args, numpy.random.RandomState(0))

    return handler


def _function(function: Any) -> Callable[..., Value]:
    """The handler of a C function that is bound to the module's own generator."""

    def handler(t: Any, *args: Value) -> Value:
        owner = force(t.durable(function)).source
        assert owner is not None
        return _draw(t, t.wrap(function.__self__, Attr(owner, "__self__")), function.__name__, args, random.Random(0))

    return handler


for _name in DRAWING:
    handles(getattr(random.Random, _name))(_method(_name))
for _function_of in (random.random, random.getrandbits):
    handles(_function_of)(_function(_function_of))
for _name, _most in OF_NUMPY.items():
    handles(getattr(numpy.random.RandomState, _name))(_numpy_method(_name, _most))
leave("the state of a random generator is Python's", *(getattr(random.Random, name) for name in OTHERS))
