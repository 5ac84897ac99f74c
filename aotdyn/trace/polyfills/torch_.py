"""Functions of torch, in Python that says what they mean to a graph."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
import torch._functorch.eager_transforms as transforms
import torch.fx.traceback
from torch.nn.utils import stateless

from aotdyn.trace.handlers import polyfill


@polyfill(torch.fx.traceback.annotate)
def annotate(annotation_dict: dict[str, Any]) -> contextlib.nullcontext[None]:
    """Notes for tracers that make graphs with `make_fx`: there is none."""
    return contextlib.nullcontext()


@polyfill(torch.autograd.graph.disable_saved_tensors_hooks)
@contextlib.contextmanager
def disable_saved_tensors_hooks(error_message: str, fail_if_non_empty: bool = True) -> Iterator[None]:
    """Nothing that is captured inside pushes hooks; a break comes before it."""
    yield


@polyfill(transforms._autograd_grad)
def autograd_grad(
    outputs: Any, inputs: Any, grad_outputs: Any = None, retain_graph: bool = False, create_graph: bool = True
) -> tuple[Any, ...]:
    """Gradients of what depends on the inputs; zeros for the rest."""
    given = [None] * len(outputs) if grad_outputs is None else list(grad_outputs)
    pairs = [(output, each) for output, each in zip(outputs, given) if output.requires_grad]
    if not pairs:
        return tuple([torch.zeros_like(each) for each in inputs])
    gradients = torch.autograd.grad(
        tuple([output for output, _ in pairs]),
        inputs,
        None if grad_outputs is None else tuple([each for _, each in pairs]),
        retain_graph=retain_graph,
        create_graph=create_graph,
        allow_unused=True,
    )
    return tuple([torch.zeros_like(x) if each is None else each for each, x in zip(gradients, inputs)])


@polyfill(stateless._untie_named_tensors_map)
def untie_named_tensors_map(module: Any, parameters_and_buffers: dict[str, Any]) -> dict[str, Any]:
    """The given tensors, also under the other names of those that a module has twice; no order of a set matters."""
    names: dict[Any, list[str]] = {}
    for found in (module.named_parameters(remove_duplicate=False), module.named_buffers(remove_duplicate=False)):
        for name, tensor in found:
            names.setdefault(tensor, []).append(name)
    result = parameters_and_buffers.copy()
    for tied in names.values():
        given = [name for name in tied if name in parameters_and_buffers]
        if len(tied) == 1 or not given:
            continue
        first = parameters_and_buffers[given[0]]
        if len(given) > 1 and any(parameters_and_buffers[name] is not first for name in tied):
            raise ValueError(
                f"functional_call got multiple values for keys {sorted(tied)}, "
                f"which are tied. Consider using tie_weights=False"
            )
        for name in tied:
            result[name] = first
    return result


@polyfill(torch._C._group_tensors_by_device_and_dtype)
def group_tensors(tensorlistlist: Any, with_indices: bool = False) -> dict[Any, Any]:
    """The lists of tensors, taken apart by device and dtype of the first list's."""
    groups: dict[Any, Any] = {}
    for i, first in enumerate(tensorlistlist[0]):
        lists, indices = groups.setdefault((first.device, first.dtype), ([[] for _ in tensorlistlist], []))
        for kept, given in zip(lists, tensorlistlist):
            kept.append(given[i])
        if with_indices:
            indices.append(i)
    return groups
