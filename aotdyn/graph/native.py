"""Operators that take graphs: how a graph that runs eagerly calls them, and how they run on fake tensors.

In a graph they have torch's own names (`torch.ops.higher_order`), which its
compilers know. Run eagerly they are plain Python on functions: autograd records
what happens, as it does where a program isn't compiled.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._functorch.autograd_function import autograd_function_apply
from torch._higher_order_ops.cond import cond_op
from torch._higher_order_ops.map import map_impl
from torch._higher_order_ops.scan import scan_op
from torch._higher_order_ops.while_loop import while_loop_op
from torch._higher_order_ops.wrap import tag_activation_checkpoint
from torch.autograd import grad_mode
from torch.utils import checkpoint as checkpoints

_functorch = torch._C._functorch  # type: ignore[attr-defined]

Function = Callable[..., Any]


def apply_function(
    forward: Function,
    backward: Function,
    *args: Any,
    non_differentiable_idx: Sequence[int],
    saved_for_backward_idx: Sequence[int],
) -> Any:
    """An autograd function of two graphs.

    `forward(*args)` gives the outputs (one tensor, or a tuple) and the values
    that `backward(*gradients, *saved)` needs. Those in `saved_for_backward_idx`
    are saved as autograd saves tensors, the others as they are.
    """
    kept = vars(forward) if isinstance(forward, types.FunctionType) else {}
    function = kept.get("autograd_function")
    if function is None:
        function = _function(forward, backward, frozenset(non_differentiable_idx), tuple(saved_for_backward_idx))
        kept["autograd_function"] = function
    return function.apply(*args)


def _function(forward: Function, backward: Function, constant: frozenset[int], saved: tuple[int, ...]) -> Any:
    run, run_backward = forward, backward

    class Captured(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *args: Any) -> Any:
            outputs, values = run(*args)
            ctx.values = [None if i in saved else value for i, value in enumerate(values)]
            ctx.save_for_backward(*(values[i] for i in saved))
            if constant:
                every = outputs if isinstance(outputs, tuple) else (outputs,)
                ctx.mark_non_differentiable(*(every[i] for i in constant))
            return outputs

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> Any:
            values = list(ctx.values)
            for i, value in zip(saved, ctx.saved_tensors, strict=True):
                values[i] = value
            return run_backward(*gradients, *values)

    return Captured


def checkpoint(function: Function, *args: Any, **options: Any) -> Any:
    """What is recomputed in the backward pass, as `torch.utils.checkpoint` does it."""
    return checkpoints.checkpoint(function, *args, **options)


def branch(predicate: Any, yes: Function, no: Function, operands: Sequence[Any]) -> Any:
    """One of two graphs."""
    return yes(*operands) if predicate else no(*operands)


def loop(condition: Function, body: Function, carried: Sequence[Any], more: Sequence[Any]) -> Any:
    """A graph run again as long as another says so; what comes out is never what went in."""
    values = carried
    while condition(*values, *more):
        values = body(*values, *more)
    return tuple(each.clone() for each in values) if values is carried else tuple(values)


def scan(combine: Function, first: Sequence[Any], over: Sequence[Any], more: Sequence[Any]) -> Any:
    """A graph run on one slice after the other, handing on its first results and stacking the rest."""
    carried, rows = tuple(first), []
    for i in range(len(over[0])):
        found = combine(*carried, *(x[i] for x in over), *more)
        carried = found[: len(first)]
        rows.append(found[len(first) :])
    return (*carried, *(torch.stack(column) for column in zip(*rows, strict=True)))


def mapped(function: Function, over: Sequence[Any], more: Sequence[Any]) -> Any:
    """A graph run on each slice, its results stacked."""
    rows = [function(*(x[i] for x in over), *more) for i in range(len(over[0]))]
    return tuple(torch.stack(column) for column in zip(*rows, strict=True))


def require_grad(tensor: Any) -> Any:
    """`requires_grad_` of a tensor that a transform wraps, which functorch forbids elsewhere."""
    allowed = _functorch.get_inplace_requires_grad_allowed()
    _functorch.set_inplace_requires_grad_allowed(True)
    try:
        return tensor.requires_grad_()
    finally:
        _functorch.set_inplace_requires_grad_allowed(allowed)


def enter_dual_level() -> int:
    """Open a level of forward-mode derivatives."""
    return torch._C._enter_dual_level()  # type: ignore[attr-defined]


def exit_dual_level(level: int) -> None:
    """Close it."""
    torch._C._exit_dual_level(level=level)  # type: ignore[attr-defined]


def check_index(index: Any, size: Any, place: int) -> None:
    """Raise as a subscript does where `index` isn't one of a dimension of `size`; `place` is where it stands in it."""

    def text() -> str:
        return f"index {index} is out of bounds for dimension {place} with size {size}"

    torch._check_index(index >= -size, text)
    torch._check_index(index < size, text)


def register_hook(tensor: Any, hook: Function, more: Sequence[Any]) -> Any:
    """A graph that sees, and may replace, the gradient of a tensor."""
    return tensor.register_hook(lambda gradient: hook(gradient, *more))


EAGER: dict[Any, Function] = {
    autograd_function_apply: apply_function,
    tag_activation_checkpoint: checkpoint,
    cond_op: branch,
    while_loop_op: loop,
    scan_op: scan,
    map_impl: mapped,
}
"""What a graph that runs eagerly calls in the place of an operator."""

FAKE: dict[Any, Function] = {
    register_hook: lambda tensor, hook, more: None,
    grad_mode._enter_inference_mode: lambda mode: None,
    grad_mode._exit_inference_mode: lambda guard: None,
    autograd_function_apply: apply_function,
    tag_activation_checkpoint: lambda function, *args, **options: function(*args),
    while_loop_op: lambda condition, body, carried, more: body(*carried, *more),
}
"""What stands for an operator while it is recorded; the others know fake tensors themselves."""
