"""Transforms of `torch.func`: their Python code is traced into, their levels become nodes of the graph.

While a level is open, operators run on wrapped fake tensors, as they will on
wrapped tensors when the graph runs. A break inside moves to before the level
opens: the context manager that holds it can't be rebuilt.
"""

from __future__ import annotations

from typing import Any

import torch
import torch._functorch.eager_transforms as transforms
import torch._functorch.predispatch as predispatch
from torch.autograd import forward_ad

from aotdyn.graph import effects, native

from ..control import Break, NotConstant
from ..handlers import handles
from ..values import Const, Sequence, Tensor, Value, force
from . import calls

_functorch = torch._C._functorch  # type: ignore[attr-defined]


class Held(Value):
    """A level of forward-mode derivatives that is open: a break inside comes before it."""

    __slots__ = ()

    def __init__(self, born: int) -> None:
        super().__init__()
        self.born = born


def _constants(*values: Value) -> list[Any]:
    from .. import model

    try:
        return [model.as_constant(each) for each in values]
    except NotConstant:
        raise Break("torch.vmap over a size that isn't known while tracing") from None


def _step(t: Any, function: Any, *args: Any) -> Value:
    """A node that opens or closes a level; the level is opened or closed here as well."""
    t.state.note_operation()
    t.mutated(t.state.token)
    _, result = t.builder.call_function(function, list(args), {}, t.stack_lines())
    return Const(result)


@handles(predispatch.lazy_load_decompositions)
def _load(t: Any) -> Value:
    return _step(t, predispatch.lazy_load_decompositions)


@handles(forward_ad._maybe_load_decompositions)
def _load_forward(t: Any) -> Value:
    return _step(t, forward_ad._maybe_load_decompositions)


@handles(predispatch._vmap_increment_nesting)
def _open(t: Any, batch_size: Value, randomness: Value) -> Value:
    return _step(t, predispatch._vmap_increment_nesting, *_constants(batch_size, randomness))


def _level(function: Any) -> None:
    @handles(function)
    def _change(t: Any) -> Value:
        return _step(t, function)


for _function in (
    predispatch._vmap_decrement_nesting,
    predispatch._jvp_increment_nesting,
    predispatch._jvp_decrement_nesting,
    _functorch._grad_increment_nesting,
    _functorch._grad_decrement_nesting,
):
    _level(_function)


@handles(predispatch._enter_dual_level)
def _enter_dual_level(t: Any) -> Value:
    level = _step(t, native.enter_dual_level)
    t.state.dual_levels.append(level.value)  # type: ignore[attr-defined]
    t.state.opened.append(Held(t.break_position()))
    return level


@handles(predispatch._exit_dual_level)
def _exit_dual_level(t: Any, *, level: Value) -> Value:
    (number,) = _constants(level)
    if t.state.dual_levels[-1:] != [number] or not isinstance(t.state.opened[-1], Held):
        raise Break("a level of forward-mode derivatives that was opened outside")
    t.state.dual_levels.pop()
    t.state.opened.pop()
    return _step(t, native.exit_dual_level, number)


def _operator(*functions: Any) -> None:
    """Functions of a tensor and numbers that are nodes as they are."""
    for function in functions:

        @handles(function)
        def _record(t: Any, *args: Value, _target: Any = function, **kwargs: Value) -> Value:
            return calls.record(t, _target, args, kwargs)


_operator(predispatch._make_dual, predispatch._unpack_dual)


@handles(predispatch._add_batch_dim)
def _add_batch_dim(t: Any, tensor: Value, *args: Value) -> Value:
    whole = force(tensor)
    if isinstance(whole, Tensor):
        t.batched[id(whole.fake)] = whole
    return calls.record(t, predispatch._add_batch_dim, [tensor, *args], {})


@handles(predispatch._remove_batch_dim)
def _remove_batch_dim(t: Any, *args: Value) -> Value:
    """What a batch was made of is that very tensor again, if it was changed in place."""
    operands = calls.Operands(t)
    node, result = calls.run(t, predispatch._remove_batch_dim, [operands.convert(arg) for arg in args], {}, operands)
    node.meta["called"] = True
    return calls.wrap(t, node, result, {**t.batched, **operands.tensors})


@handles(_functorch._wrap_for_grad)
def _wrap_for_grad(t: Any, tensor: Value, level: Value) -> Value:
    return calls.record(t, _functorch._wrap_for_grad, [tensor, level], {})


@handles(predispatch._unwrap_for_grad)
def _unwrap_for_grad(t: Any, tensor: Value, level: Value) -> Value:
    return calls.record(t, _functorch._unwrap_for_grad, [tensor, level], {})


@handles(transforms._set_tensor_requires_grad)
def _set_tensor_requires_grad(t: Any, x: Value) -> Value:
    """The wrapped tensor is nobody else's: that it takes part from now on isn't seen outside."""
    operands = calls.Operands(t)
    operand = operands.convert(x)
    node, result = calls.run(t, native.require_grad, [operand], {}, operands)
    node.meta["called"] = True
    return calls.wrap(t, node, result, operands.tensors)


@handles(_functorch.get_inplace_requires_grad_allowed)
def _allowed(t: Any) -> Value:
    return Const(False)


@handles(_functorch.set_inplace_requires_grad_allowed)
def _allow(t: Any, allowed: Value) -> Value:
    """`native.require_grad` asks for it where it is needed."""
    return Const(None)


@handles(torch._C._set_fwd_grad_enabled)  # type: ignore[attr-defined]
def _set_fwd_grad_enabled(t: Any, mode: Value) -> Value:
    from .. import model

    present = model.call(t, t.durable(torch._C._is_fwd_grad_enabled), [], {})  # type: ignore[attr-defined]
    if _constants(mode) != _constants(present):
        raise Break("forward-mode derivatives are switched")
    return Const(None)


@handles(torch.autograd.grad)
def _grad(t: Any, outputs: Value, inputs: Value, grad_outputs: Value | None = None, **kwargs: Value) -> Value:
    """A backward pass through what the graph has computed.

    A history from before it isn't seen here, so that what is None, and what the pass frees, isn't known.
    """
    if any(each.grad_fn is not None for each in t.builder.inputs()):
        raise Break("a backward pass, and the graph is handed tensors with a history")
    given = [outputs, inputs, *([] if grad_outputs is None else [grad_outputs])]
    found = calls.record(t, torch.autograd.grad, given, kwargs)
    return found if isinstance(found, Sequence) else Sequence(tuple, [found])


@handles(_functorch.is_batchedtensor)
def _is_batched(t: Any, tensor: Value) -> Value:
    found = force(tensor)
    if not isinstance(found, Tensor):
        raise Break("is_batchedtensor of something that isn't a tensor")
    return Const(_functorch.is_batchedtensor(found.fake))


@handles(torch._C._are_functorch_transforms_active)
def _active(t: Any) -> Value:
    """Those of the traced program: the dispatcher steps aside inside others."""
    return Const(effects.batching_level() > 0)
