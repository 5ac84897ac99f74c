"""Operators that take functions: `torch.cond`, `while_loop`, `scan`, `map`, checkpoints.

Each function is traced into a graph of its own. Their Python fronts are traced
into; what stands here are the operators behind them.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._higher_order_ops.cond import cond_op
from torch._higher_order_ops.flex_attention import flex_attention
from torch._higher_order_ops.map import map_impl
from torch._higher_order_ops.scan import scan_op
from torch._higher_order_ops.while_loop import while_loop_op
from torch._higher_order_ops.wrap import tag_activation_checkpoint
from torch.utils import checkpoint as checkpoints

from aotdyn.graph.build import FakeFailure, Operand
from aotdyn.graph.scopes import Scope
from aotdyn.guards.reads import enabled

from ..control import Break
from ..handlers import handles
from ..values import Const, Scalar, Sequence, Tensor, Value, force
from . import calls, regions


class Body:
    """A function traced into a graph of its own, not yet closed.

    Its arguments are tensors that look like `like`, which stand for those that
    come when the graph runs, and behind them `args` themselves.
    """

    def __init__(
        self,
        t: Any,
        name: str,
        function: Value,
        args: list[Value],
        like: list[Value] | None = None,
        kwargs: dict[str, Value] | None = None,
    ) -> None:
        from .. import model

        self.name = name
        with regions.region(t, name) as scope:
            self.scope: Scope = scope
            given = [*(self._input(t, i, arg) for i, arg in enumerate(like or ())), *args]
            self.values, self.rebuild = regions.flatten(t, model.call(t, function, given, kwargs or {}), name)
            self.outputs = regions.leaves(t, name, self.values)

    def _input(self, t: Any, i: int, arg: Value) -> Value:
        arg = force(arg)
        if not isinstance(arg, Tensor):
            raise Break(f"{self.name} over a {arg.cls.__qualname__}")
        operand = t.builder.fresh_like(f"x_{i}", arg.fake)
        operand.fake.requires_grad_(arg.fake.requires_grad)
        t.unlaid.add(id(operand.fake))
        return Tensor(operand.node, operand.fake)

    def fakes(self) -> list[Any]:
        """The outputs as tracing sees them."""
        return [each.fake if isinstance(each, Tensor) else getattr(each, "sym", None) for each in self.values]

    def looks(self) -> list[Any]:
        """Shapes, dtypes and devices of the outputs."""
        return [(each.shape, each.dtype, each.device) for each in self.fakes() if isinstance(each, torch.Tensor)]

    def close(self, t: Any, order: list[Any], bare: bool = False, aliases: bool = False) -> Operand:
        """The graph as an operand, its inputs from outside in this order; `aliases` may come out."""
        try:
            self.scope.arrange(order)
        except FakeFailure as failure:
            raise Break(f"{self.name}: {failure.reason}") from failure
        if not aliases:
            self._check_aliases()
        nested = regions.close(self.name, self.scope, self.outputs[0] if bare else self.outputs)
        return t.builder.nested(nested, "body")

    def _check_aliases(self) -> None:
        """torch's operators refuse results that share memory with inputs or each other: the error is torch's own."""
        seen = [calls.memory(node.meta.get("val")) for node in self.scope.graph.find_nodes(op="placeholder")]
        for fake in self.fakes():
            if calls.memory(fake) in seen:
                raise Break(f"{self.name} gives what it was handed")
            seen.append(calls.memory(fake))


def shared(*bodies: Body) -> list[Any]:
    """What bodies use from outside, each once."""
    return list(dict.fromkeys(node for body in bodies for node in body.scope.lifted()))


def operands(nodes: list[Any]) -> tuple[Operand, ...]:
    """Nodes as operands of a call."""
    return tuple(Operand(node, node.meta.get("val")) for node in nodes)


def of(values: list[Value], name: str) -> tuple[Operand, ...]:
    """Tensors as operands of a call."""
    found = []
    for value in values:
        each = force(value)
        if not isinstance(each, Tensor):
            raise Break(f"{name} over a {each.cls.__qualname__}")
        calls.check_ordinary(each)
        found.append(Operand(each.node, each.fake))
    return tuple(found)


def differentiated(t: Any, fakes: list[Any]) -> bool:
    """Whether autograd would record an operator on these."""
    return t.state.read("grad") and any(isinstance(each, torch.Tensor) and each.requires_grad for each in fakes)


def check_gradients(t: Any, name: str, handed: list[Any], bodies: list[Body]) -> None:
    """torch's operators make all results require grad where one operand does: Break where a function doesn't."""
    if not differentiated(t, [node.meta.get("val") for node in handed]):
        return
    for fake in (fake for body in bodies for fake in body.fakes()):
        if isinstance(fake, torch.Tensor) and not fake.requires_grad:
            raise Break(f"{name} whose results don't all require grad")


def items(value: Value) -> list[Value]:
    """The items of a tuple or list."""
    found = force(value)
    if not isinstance(found, Sequence):
        raise Break(f"a {found.cls.__qualname__} as operands of an operator")
    return list(found.items)


@handles(cond_op)
def _cond(t: Any, pred: Value, true_fn: Value, false_fn: Value, operands_: Value | None = None) -> Value:
    from .. import model

    name = "torch.cond"
    regions.no_levels(name)
    args = items(operands_) if operands_ is not None else []
    found = force(pred)
    if not isinstance(found, Tensor):
        if not isinstance(found, (Const, Scalar)):
            raise Break(f"{name} on a {found.cls.__qualname__}")
        return model.call(t, true_fn if model.truth(t, found) else false_fn, args, {})
    if found.fake.dtype is not torch.bool or found.fake.numel() != 1:
        raise Break(f"{name} on a tensor that isn't one bool")
    branches = [Body(t, name, function, args) for function in (true_fn, false_fn)]
    if branches[0].looks() != branches[1].looks() or len(branches[0].values) != len(branches[1].values):
        raise Break(f"{name} whose branches give different things")
    handed = shared(*branches)
    check_gradients(t, name, handed, branches)
    graphs = [branch.close(t, handed) for branch in branches]
    node, result = regions.call(t, cond_op, [Operand(found.node, found.fake), *graphs, operands(handed)])
    return branches[0].rebuild(regions.results(t, node, result))


@handles(while_loop_op)
def _while_loop(
    t: Any, cond_fn: Value, body_fn: Value, carried_inputs: Value, additional_inputs: Value, **kwargs: Value
) -> Value:
    name = "while_loop"
    regions.no_levels(name)
    carried = items(carried_inputs)
    if kwargs or items(additional_inputs):
        raise Break(f"{name} with unusual arguments")
    first = of(carried, name)
    condition = Body(t, name, cond_fn, [], carried)
    body = Body(t, name, body_fn, [], carried)
    if condition.looks() != [(torch.Size([]), torch.bool, each.fake.device) for each in first[:1]]:
        raise Break(f"{name} whose condition isn't one bool")
    if body.looks() != [(each.fake.shape, each.fake.dtype, each.fake.device) for each in first]:
        raise Break(f"{name} whose body changes shapes or types")
    handed = shared(condition, body)
    if differentiated(t, [each.fake for each in (*first, *operands(handed))]):
        raise Break(f"{name} of what requires grad")
    graphs = [condition.close(t, handed, bare=True), body.close(t, handed)]
    node, result = regions.call(t, while_loop_op, [*graphs, first, operands(handed)])
    return body.rebuild(regions.results(t, node, result))


def slices(t: Any, xs: list[Value]) -> list[Value]:
    """What looks like the slices of tensors along the first dimension: no nodes of the graph."""
    found: list[Value] = []
    with t.builder.fake_mode, torch.no_grad():
        for x in xs:
            tensor = force(x)
            assert isinstance(tensor, Tensor)
            fake = tensor.fake[0].detach().clone().requires_grad_(tensor.fake.requires_grad)
            found.append(Tensor(tensor.node, fake))
    return found


@handles(scan_op)
def _scan(t: Any, combine_fn: Value, init: Value, xs: Value, additional_inputs: Value) -> Value:
    name = "scan"
    regions.no_levels(name)
    start, over = items(init), items(xs)
    if items(additional_inputs):
        raise Break(f"{name} with unusual arguments")
    first, second = of(start, name), of(over, name)
    body = Body(t, name, combine_fn, [], [*start, *slices(t, over)])
    carried = [(each.fake.shape, each.fake.dtype, each.fake.device) for each in first]
    if body.looks()[: len(first)] != carried or len(body.looks()) != len(body.values):
        raise Break(f"{name} whose carry changes its shape or type")
    handed = shared(body)
    if differentiated(t, [each.fake for each in (*first, *second, *operands(handed))]):
        raise Break(f"{name} of what requires grad")
    graph = body.close(t, handed)
    node, result = regions.call(t, scan_op, [graph, list(first), list(second), operands(handed)])
    return body.rebuild(regions.results(t, node, result))


@handles(map_impl)
def _map(t: Any, f: Value, xs: Value, pos_args: Value) -> Value:
    name = "map"
    regions.no_levels(name)
    over, others = items(xs), items(pos_args)
    first = of(over, name)
    body = Body(t, name, f, others, slices(t, over))
    handed = shared(body)
    if differentiated(t, [each.fake for each in (*first, *operands(handed))]):
        raise Break(f"{name} of what requires grad")
    graph = body.close(t, handed)
    node, result = regions.call(t, map_impl, [graph, list(first), operands(handed)])
    return body.rebuild(regions.results(t, node, result))


OPTIONS = ("preserve_rng_state", "determinism_check", "early_stop")
"""Of a checkpoint: handed on as they are."""


@handles(enabled(checkpoints.checkpoint))
def _checkpoint(t: Any, function: Value, *args: Value, use_reentrant: Value | None = None, **kwargs: Value) -> Value:
    name = "activation checkpointing"
    regions.no_levels(name)
    reentrant = regions.known(use_reentrant, None, "use_reentrant")
    if reentrant is None:
        raise Break(f"{name} without use_reentrant warns")
    options = {key: regions.known(kwargs.pop(key), None, key) for key in OPTIONS if key in kwargs}
    if "context_fn" in kwargs or regions.known(kwargs.pop("debug", None), False, "debug"):
        raise Break(f"{name} with a context of its own")
    if reentrant and kwargs:
        raise Break(f"{name} with keyword arguments that it doesn't know")
    body = Body(t, name, function, list(args), kwargs=kwargs)
    handed = body.scope.lifted()
    if reentrant:
        _check_reentrant(t, name, list(args), handed, body)
    graph = regions.close(name, body.scope, body.outputs)
    operand = t.builder.nested(graph, "checkpointed")
    given = [Operand(node, node.meta.get("val")) for node in handed]
    options["use_reentrant"] = bool(reentrant)
    node, result = regions.call(t, tag_activation_checkpoint, [operand, *given], options)
    return body.rebuild(regions.results(t, node, result))


def _check_reentrant(t: Any, name: str, args: list[Value], handed: list[Any], body: Body) -> None:
    """Break where a tensor that the function finds by itself would take part in another way than one it is given."""
    given = [each for each in map(force, args) if isinstance(each, Tensor)]
    nodes = [each.node for each in given]
    for node in handed:
        fake = node.meta.get("val")
        if not isinstance(fake, torch.Tensor) or isinstance(fake, torch.nn.Parameter) or node in nodes:
            continue
        if fake.requires_grad:
            raise Break(f"{name} of a tensor that is no argument")
    if t.state.read("grad"):
        if not any(each.fake.requires_grad for each in given):
            raise Break(f"{name} without an argument that requires grad")
        if not all(isinstance(fake, torch.Tensor) and fake.requires_grad for fake in body.fakes()):
            raise Break(f"{name} whose results don't all require grad")


@handles(flex_attention)
def _flex_attention(
    t: Any,
    query: Value,
    key: Value,
    value: Value,
    score_mod: Value,
    block_mask: Value,
    scale: Value,
    kernel_options: Value,
    *buffers: Value,
) -> Value:
    name = "flex_attention"
    regions.no_levels(name)
    given = of([query, key, value], name)
    *blocks, mask_mod = items(block_mask)
    if any(items(each) for each in buffers):
        raise Break(f"{name} with unusual arguments")
    places = _places(t, given[0])
    t.gathers = True
    score = Body(t, name, score_mod, [], [_score(t, given[0]), *places])
    mask = Body(t, name, mask_mod, [], places)
    t.gathers = False
    if [len(each.values) for each in (score, mask)] != [1, 1]:
        raise Break(f"{name} whose functions don't give one tensor")
    operands_ = calls.Operands(t)
    options = [operands_.convert(each) for each in (scale, kernel_options)]
    fixed = tuple(operands_.convert(each) for each in blocks)
    more = [tuple(operands(each.scope.lifted())) for each in (score, mask)]
    graphs = [each.close(t, each.scope.lifted(), bare=True, aliases=True) for each in (score, mask)]
    node, result = regions.call(t, flex_attention, [*given, graphs[0], (*fixed, graphs[1]), *options, *more])
    return Sequence(tuple, regions.results(t, node, result))


def _score(t: Any, query: Operand) -> Value:
    """What looks like the score of one pair."""
    with t.builder.fake_mode, torch.no_grad():
        fake = query.fake.new_zeros(()).requires_grad_(query.fake.requires_grad)
    return Tensor(query.node, fake)


def _places(t: Any, query: Operand) -> list[Value]:
    """What looks like the numbers of batch, head, query and key."""
    with t.builder.fake_mode, torch.no_grad():
        fakes = [query.fake.new_zeros((), dtype=torch.int32) for _ in range(4)]
    return [Tensor(query.node, fake) for fake in fakes]
