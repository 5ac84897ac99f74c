"""`torch.vmap`: its Python code is traced into, its levels become nodes of the graph.

While a level is open, operators run on batched fake tensors, as they will on
batched tensors when the graph runs. A break inside moves to before the level
opens: the context manager that holds it can't be rebuilt.
"""

from __future__ import annotations

from typing import Any

import torch
import torch._functorch.predispatch as predispatch

from aotdyn.graph import effects

from ..control import Break, NotConstant
from ..handlers import handles
from ..values import Const, Tensor, Value, force
from . import calls

_functorch = torch._C._functorch  # type: ignore[attr-defined]


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


@handles(predispatch._vmap_increment_nesting)
def _open(t: Any, batch_size: Value, randomness: Value) -> Value:
    return _step(t, predispatch._vmap_increment_nesting, *_constants(batch_size, randomness))


@handles(predispatch._vmap_decrement_nesting)
def _close(t: Any) -> Value:
    return _step(t, predispatch._vmap_decrement_nesting)


@handles(predispatch._add_batch_dim)
def _add_batch_dim(t: Any, tensor: Value, dim: Value, level: Value) -> Value:
    return calls.record(t, predispatch._add_batch_dim, [tensor, dim, level], {})


@handles(predispatch._remove_batch_dim)
def _remove_batch_dim(t: Any, tensor: Value, level: Value, size: Value, dim: Value) -> Value:
    return calls.record(t, predispatch._remove_batch_dim, [tensor, level, size, dim], {})


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
