"""Tracing into a graph inside the graph, and calls of the operators that take such graphs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from aotdyn.graph import effects
from aotdyn.graph.build import FakeFailure, Operand
from aotdyn.graph.scopes import Nested, Scope

from ..control import Break, NotConstant, Raised
from ..values import Const, Mapping, Scalar, Sequence, Tensor, Value, force
from . import calls


@contextlib.contextmanager
def region(t: Any, name: str, effects_: bool = False, **modes: Any) -> Iterator[Scope]:
    """Operations are recorded in a nested graph, which `close` ends; `modes` hold inside, without a node.

    Unless `effects_`, the region may run at another time, again, or not at
    all: it changes nothing that exists outside. It never raises.
    """
    state = t.state
    before, nesting = {key: state.read(key) for key in (*state.current, *modes)}, state.nesting
    state.current.update(modes)
    inside = dict(state.current)
    scope = t.builder.open()
    if not effects_:
        t.isolated.append(Value().serial)
    try:
        yield scope
        if any(state.current[key] != value for key, value in inside.items()) or state.nesting != nesting:
            raise Break(f"{name} leaves a mode changed")
    except Raised as raised:
        raise Break(f"{name} raises {raised.value.cls.__name__}") from None
    finally:
        if t.builder.scope is scope:
            t.builder.leave(scope)
        if not effects_:
            t.isolated.pop()
        for key in list(state.current):
            state.current[key] = before[key] if key in before else state.began[key]


@contextlib.contextmanager
def differentiating(t: Any) -> Iterator[None]:
    """What is traced is a backward pass: whether autograd records it is known when it runs."""
    before, t.differentiating = t.differentiating, True
    try:
        yield
    finally:
        t.differentiating = before


def leaves(t: Any, name: str, values: list[Value]) -> tuple[Any, ...]:
    """Nodes of the present graph for tensors and symbols; constants as they are."""
    convert = calls.Operands(t)
    try:
        return t.builder.local(tuple(convert.convert(value) for value in values))
    except FakeFailure as failure:
        raise Break(f"{name}: {failure.reason}") from failure


def close(name: str, scope: Scope, outputs: Any) -> Nested:
    """End a region's graph with these outputs (nodes and constants); Break where it writes to what it is handed."""
    nested = scope.close(outputs)
    handed = {calls.memory(node.meta.get("val")) for node in scope.graph.find_nodes(op="placeholder")}
    for node in scope.graph.nodes:
        if node.meta.get("mutates") and any(
            calls.memory(each.meta.get("val")) in handed for each in node.all_input_nodes
        ):
            raise Break(f"{name} may change a tensor in place that exists outside of it")
    return nested


def outer(nested: Nested) -> list[Operand]:
    """What a nested graph is handed from outside."""
    return [Operand(node, node.meta.get("val")) for node in nested.operands]


def call(t: Any, target: Any, arguments: list[Any], keywords: dict[str, Any] | None = None) -> tuple[Any, Any]:
    """Record a call of an operator that takes graphs: its node, and what it gives of fakes."""
    node, result = calls.run(t, target, arguments, keywords or {})
    node.meta["called"] = True
    t.drawn = t.drawn or bool(node.meta.get("random"))
    return node, result


def results(t: Any, node: Any, result: Any) -> list[Value]:
    """The values of an operator's flat tuple of results."""
    wrapped = calls.wrap(t, node, tuple(result), {})
    assert isinstance(wrapped, Sequence)
    return wrapped.items


Rebuild = Callable[[list[Value]], Value]


def flatten(t: Any, value: Value, name: str) -> tuple[list[Value], Rebuild]:
    """Tensors and symbols in nested containers, and what makes an equal structure of others; Break elsewhere."""
    from .. import model

    value = force(value)
    if isinstance(value, (Tensor, Scalar)):
        return [value], lambda leaves: leaves.pop(0)
    if isinstance(value, Const):
        return [], lambda leaves: value
    if isinstance(value, Sequence) and (value.cls in (list, tuple) or hasattr(value.cls, "_fields")):
        parts = [flatten(t, item, name) for item in value.items]
        cls = value.cls
        return (
            [leaf for leaves, _ in parts for leaf in leaves],
            lambda leaves: Sequence(cls, [rebuild(leaves) for _, rebuild in parts]),
        )
    if isinstance(value, Mapping) and value.cls is dict:
        if value.entries is None:
            model.load_entries(t, value)
        entries = {key: (one, flatten(t, each, name)) for key, (one, each) in (value.entries or {}).items()}
        return (
            [leaf for _, (leaves, _) in entries.values() for leaf in leaves],
            lambda leaves: Mapping(dict, {key: (one, back(leaves)) for key, (one, (_, back)) in entries.items()}),
        )
    raise Break(f"a {value.cls.__qualname__} goes into or comes out of {name}")


def known(value: Value | None, default: Any, what: str) -> Any:
    """A constant argument."""
    from .. import model

    if value is None:
        return default
    try:
        return model.as_constant(value)
    except NotConstant:
        raise Break(f"{what} isn't known while tracing") from None


def no_levels(name: str) -> None:
    """Break inside transforms: the operator would have to be transformed itself."""
    if effects.batching_level():
        raise Break(f"{name} under a transform of torch.func")
