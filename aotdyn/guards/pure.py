"""Pure accessors: functions whose result tracing may read and guard, because calling them again changes nothing.

A closed table: a stored source names its function by a key of PURE.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, NamedTuple

import torch


class Accessor(NamedTuple):
    """A function without effects, and what it tells."""

    function: Callable[..., Any]
    doc: str


def memoised(function: Any, names: tuple[str, ...], *args: Any) -> Any:
    """A call of a function that keeps its results; the last arguments go by `names`."""
    first = len(args) - len(names)
    return function(*args[:first], **dict(zip(names, args[first:], strict=True)))


def _sized(number: int) -> torch.Tensor:
    """An empty tensor that carries a number as its size: graphs take tensors alone."""
    with torch._C.DisableTorchFunction():
        return torch.empty((number, 0), device="cpu")


PURE: dict[str, Accessor] = {
    "len": Accessor(len, "length of a builtin container"),
    "list": Accessor(list, "items of a builtin iterable that can be iterated again"),
    "tuple": Accessor(tuple, "items of a builtin iterable that can be iterated again"),
    "dict.keys": Accessor(lambda d: list(dict.keys(d)), "keys of a dict or a subclass, in order"),
    "dict.values": Accessor(lambda d: list(dict.values(d)), "values of a dict or a subclass, in order"),
    "dict.contains": Accessor(
        lambda d, key: dict.__contains__(d, key), "whether a dict holds a class, function or module"
    ),
    "dict.get": Accessor(lambda d, key: dict.get(d, key), "what a dict holds under a class, function or module"),
    "sorted": Accessor(sorted, "items of a set of numbers or strings, ordered"),
    "abs": Accessor(abs, "absolute value of a number"),
    "int": Accessor(int, "a number as an int"),
    "float": Accessor(float, "a number as a float"),
    "str": Accessor(str.__str__, "text of an instance of a subclass of str"),
    "bool": Accessor(bool, "truth of a builtin object"),
    "os.environ.get": Accessor(os.environ.get, "an environment variable, None where unset"),
    "os.getcwd": Accessor(os.getcwd, "working directory"),
    "memoised": Accessor(memoised, "what a function under functools.lru_cache gives for arguments"),
    "weakref.call": Accessor(lambda reference: reference(), "what a weak reference refers to, None where it is gone"),
    "torch.empty": Accessor(_sized, "an empty tensor of as many rows as a number says"),
    "torch.get_default_dtype": Accessor(torch.get_default_dtype, "default floating point type"),
    "torch.get_default_device": Accessor(torch.get_default_device, "default device of factories"),
    "torch.is_grad_enabled": Accessor(torch.is_grad_enabled, "grad mode"),
    "torch.is_inference_mode_enabled": Accessor(torch.is_inference_mode_enabled, "inference mode"),
    "torch.get_num_threads": Accessor(torch.get_num_threads, "intra-op threads"),
    "torch.cuda.is_available": Accessor(torch.cuda.is_available, "whether CUDA can be used"),
    "torch.autograd._is_checkpoint_valid": Accessor(
        torch.autograd._is_checkpoint_valid, "whether a checkpointed backward pass may run"
    ),
    "torch.Tensor.size": Accessor(torch._C.TensorBase.size, "sizes of a tensor"),
    "torch.Tensor.stride": Accessor(torch._C.TensorBase.stride, "strides of a tensor"),
    "torch.Tensor.storage_offset": Accessor(torch._C.TensorBase.storage_offset, "storage offset of a tensor"),
    "torch.Tensor.data_ptr_equal": Accessor(lambda a, b: a.data_ptr() == b.data_ptr(), "same first byte"),
    "torch.Tensor.is_leaf": Accessor(lambda t: t.is_leaf, "whether a tensor is a leaf of the autograd graph"),
    "torch.Tensor.grad_is_none": Accessor(lambda t: t.grad is None, "whether a tensor has no gradient yet"),
}
