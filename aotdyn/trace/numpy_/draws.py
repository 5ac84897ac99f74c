"""numpy's random generators, old and new: numbers and arrays that they give, seeds, states.

An array comes into the graph as one from outside does; its class, dtype and
shape are those that a generator of our own gives for the same arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from aotdyn.guards import constants
from aotdyn.guards.sources import Pure, Source

from .. import draws, model
from ..builtins.random_ import number
from ..control import Break, NotConstant
from ..handlers import handles
from ..torch_ import leaf
from ..values import Array, Const, Tensor, Value
from .arrays import FROM_NUMPY, captured, like

OLD = leaf.words(
    "rand randn random random_sample standard_normal standard_exponential uniform normal laplace logistic gumbel"
    " lognormal randint exponential poisson rayleigh permutation beta binomial gamma standard_gamma standard_t"
)
"""Methods of `RandomState` whose result's class, dtype and shape follow from their arguments."""
NEW = leaf.words(
    "random standard_normal standard_exponential uniform normal laplace logistic gumbel lognormal integers exponential"
    " poisson rayleigh permutation beta binomial gamma standard_gamma standard_t"
)
"""Those of `Generator`."""
SEEDS = (type(None), int)
MOST = 2**24


def _draw(t: Any, cls: type, make: Callable[[], Any], generator: Value, name: str, args: Any, kwargs: Any) -> Value:
    site = draws.site_of(t, generator, cls, whole=False)
    known = tuple(_argument(arg) for arg in args)
    named = {key: _argument(arg) for key, arg in kwargs.items()}
    sample = draws.tried(getattr(make(), name), name, known, named)
    if type(sample) is numpy.ndarray:
        return _array(t, site, name, known, named, sample)
    if named:
        raise Break(f"{name}() of a random generator with arguments by name")
    return number(t, site, name, known, sample)


def _argument(value: Value) -> Any:
    """A number, a size, a dtype: what is known, and holds no array."""
    try:
        found = model.as_python(value)
    except NotConstant:
        raise Break("a random generator is given something else than known numbers") from None
    return tuple(found) if type(found) is list else found


def _array(t: Any, site: Source, name: str, args: Any, named: Any, sample: numpy.ndarray) -> Value:
    if not captured(t) or sample.dtype.kind not in "fiub" or not sample.flags.c_contiguous or sample.size > MOST:
        raise Break("an array of random numbers is drawn by Python")
    try:
        site = draws.step(t, site, name, args, ("array", sample.shape, sample.dtype.str), named)
    except constants.NotConstant:
        raise Break("a random generator is given something else than known numbers") from None

    def made() -> Tensor:
        node, fake = t.sizes.carried(FROM_NUMPY, sample, site)
        return Tensor(node, fake, Pure(FROM_NUMPY, site))

    return Array(numpy.ndarray, made, like(sample.shape, sample.dtype), site)


def _method(cls: type, name: str, make: Callable[[], Any]) -> Callable[..., Value]:
    return lambda t, generator, *args, **kwargs: _draw(t, cls, make, generator, name, args, kwargs)


for _cls, _names, _make in (
    (numpy.random.RandomState, OLD, lambda: numpy.random.RandomState(0)),
    (numpy.random.Generator, NEW, lambda: numpy.random.default_rng(0)),
):
    for _name in sorted(_names):
        handles(getattr(_cls, _name))(_method(_cls, _name, _make))


def _maker(function: Any, cls: type) -> None:
    @handles(function)
    def made(t: Any, seed: Value = Const(None)) -> Value:  # noqa: B008 (a constant)
        args = (draws.known(seed, SEEDS, "a seed"),)
        draws.tried(function, function.__name__, args)
        site = t.durable(function).source
        return draws.Generator(cls, draws.step(t, site, "", args))


_maker(numpy.random.RandomState, numpy.random.RandomState)
_maker(numpy.random.default_rng, numpy.random.Generator)


@handles(numpy.random.seed)
def _seed(t: Any, seed: Value = Const(None)) -> Value:  # noqa: B008 (a constant)
    """The old module's generator: one that isn't a Mersenne twister takes no seed, which Python has to say."""
    args = (draws.known(seed, SEEDS, "a seed"),)
    draws.tried(numpy.random.RandomState, "seed", args)
    draws.step(t, t.durable(numpy.random.seed).source, "", args)
    return Const(None)


@handles(numpy.random.RandomState.seed)
def _seed_of(t: Any, generator: Value, seed: Value = Const(None)) -> Value:  # noqa: B008 (a constant)
    site = draws.site_of(t, generator, numpy.random.RandomState, whole=False)
    args = (draws.known(seed, SEEDS, "a seed"),)
    draws.tried(numpy.random.RandomState, "seed", args)
    draws.step(t, site, "seed", args)
    return Const(None)


@handles(numpy.random.RandomState.get_state)
def _get_state(t: Any, generator: Value) -> Value:
    site = draws.site_of(t, generator, numpy.random.RandomState, whole=False)
    return draws.State(draws.step(t, site, "get_state"), numpy.random.RandomState)


@handles(numpy.random.RandomState.set_state)
def _set_state(t: Any, generator: Value, state: Value) -> Value:
    site = draws.site_of(t, generator, numpy.random.RandomState, whole=False)
    if not isinstance(state, draws.State) or state.owner is not numpy.random.RandomState:
        raise Break("a random generator is given a state that this trace didn't read")
    draws.step(t, site, "set_state", others=(state.site,))
    return Const(None)
