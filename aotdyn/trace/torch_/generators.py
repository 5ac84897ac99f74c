"""torch's random generators: seeds, states and tensors drawn from a generator of the program's own.

The graph draws from torch's default generator itself, so that a seed of that
may come before the graph only while the graph hasn't drawn. What is drawn from
another generator (`torch.rand(3, generator=g)`) is a step before the graph,
and comes into it as a tensor from outside.
"""

from __future__ import annotations

from typing import Any

import torch

from aotdyn.guards import constants, naming
from aotdyn.guards.reads import enabled
from aotdyn.guards.sources import Drawn, Source

from .. import draws, model
from ..control import Break, NotConstant
from ..handlers import HANDLERS, handles
from ..values import Const, Tensor, Value, force
from . import calls

FACTORIES = (torch.rand, torch.randn, torch.randint, torch.randperm)
LARGEST = 2**24
"""Elements of the largest tensor that is drawn while tracing, to see what it looks like."""


def _before_the_graph(t: Any, what: str) -> None:
    """Break where the graph has drawn random numbers already."""
    if t.drawn:
        raise Break(f"{what} behind random numbers of the graph")


@handles(enabled(torch.manual_seed))
def _manual_seed(t: Any, seed: Value) -> Value:
    """It seeds the generators of all devices; the graph draws behind it."""
    _before_the_graph(t, "seeding the random generators")
    draws.step(t, t.path_source(("torch", "manual_seed")), "", (_seed(seed),))
    return t.wrap(torch.default_generator, t.path_source(("torch", "default_generator")))


def _seed(value: Value) -> int:
    seed = draws.known(value, (int,), "a seed")
    draws.tried(torch.Generator().manual_seed, "manual_seed", (seed,))
    return seed


def _site(t: Any, function: Any) -> Source:
    path = naming.path_of(function)
    assert path is not None
    return t.path_source(path)


@handles(torch.Generator)
def _generator(t: Any, device: Value = Const("cpu")) -> Value:  # noqa: B008 (a constant)
    known = draws.known(device, (str, torch.device), "a device")
    if torch.device(known).type != "cpu":
        raise Break("a random generator of another device is made")
    return draws.Generator(torch.Generator, draws.step(t, _site(t, torch.Generator), "", (str(known),)))


def _owner(t: Any, generator: Value) -> Source:
    """The generator's source: a default generator's numbers are drawn by the graph, so it must not have drawn yet."""
    known = force(generator)
    if getattr(known, "obj", None) is torch.default_generator:
        _before_the_graph(t, "a step of the default random generator")
    return draws.site_of(t, known, torch.Generator, whole=False)


@handles(torch.Generator.manual_seed)
def _seed_of(t: Any, generator: Value, seed: Value) -> Value:
    draws.step(t, _owner(t, generator), "manual_seed", (_seed(seed),))
    return generator


@handles(torch.Generator.get_state)
def _get_state(t: Any, generator: Value) -> Value:
    sample = torch.Generator().get_state()
    return _tensor(t, draws.step(t, _owner(t, generator), "get_state", (), _looks(sample)), sample)


@handles(torch.Generator.set_state)
def _set_state(t: Any, generator: Value, state: Value) -> Value:
    """A state that a generator gave in this trace, and that nothing has written to."""
    known = force(state)
    fresh = isinstance(known, Tensor) and isinstance(known.source, Drawn) and known.fake._version == 0
    if not fresh or known.source.key[1] != "get_state":  # type: ignore[union-attr]
        raise Break("a random generator is given a state that this trace didn't read")
    draws.step(t, _owner(t, generator), "set_state", others=(known.source,))  # type: ignore[arg-type]
    return generator


def drawn(t: Any, function: Any, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """`function(*args, generator=g)` for a factory and another generator than the default one."""
    named = {key: value for key, value in kwargs.items() if key != "generator"}
    site = _owner(t, kwargs["generator"])
    try:
        given = tuple(model.as_python(value) for value in args)
        words = {key: model.as_constant(value) for key, value in named.items()}
    except NotConstant:
        raise Break("random numbers of a generator, of a size that varies") from None
    if words.get("requires_grad") or words.get("out") is not None or words.get("pin_memory"):
        raise Break("random numbers of a generator, in a tensor that exists or that requires a gradient")
    with t.state.applied():
        sample = draws.tried(function, function.__name__, given, {**words, "generator": torch.Generator()})
    if sample.device.type != "cpu" or sample.layout is not torch.strided or sample.numel() > LARGEST:
        raise Break("random numbers of a generator, in a tensor of another kind or a large one")
    words.update(dtype=sample.dtype, device=sample.device)
    sizes = tuple(tuple(each) if isinstance(each, (list, tuple)) else each for each in given)
    try:
        made = draws.step(t, _site(t, function), "", sizes, _looks(sample), words, by_name={"generator": site})
    except constants.NotConstant:
        raise Break("random numbers of a generator, for arguments that aren't constants") from None
    return _tensor(t, made, sample)


def _looks(sample: torch.Tensor) -> tuple[Any, ...]:
    return ("tensor", tuple(sample.shape), sample.dtype)


def _tensor(t: Any, source: Source, sample: torch.Tensor) -> Tensor:
    """The tensor of a step, as an input of the graph."""
    node, fake = t.sizes.brought(source, sample)
    return Tensor(node, fake, source)


def _factory(function: Any) -> None:
    inner = HANDLERS.get(function)

    @handles(function)
    def made(t: Any, *args: Value, **kwargs: Value) -> Value:
        generator = force(kwargs.get("generator", Const(None)))
        if isinstance(generator, Const) and generator.value is None:
            kwargs.pop("generator", None)
            return inner(t, *args, **kwargs) if inner is not None else calls.call_torch(t, function, list(args), kwargs)
        return drawn(t, function, list(args), kwargs)


for _function in FACTORIES:
    _factory(_function)
