"""Pure accessors: functions whose result tracing may read and guard, because calling them again changes nothing.

A closed table: a stored source names its function by a key of PURE.
"""

from __future__ import annotations

import gc
import inspect
import logging
import operator
import os
import random
import sys
import types
from collections.abc import Callable
from typing import Any

import msgspec
import torch

from aotdyn.guards import ahead, naming
from aotdyn.guards.reads import enabled


class Accessor(msgspec.Struct, frozen=True):
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


def _number(number: float) -> torch.Tensor:
    """A tensor that carries a float, exactly."""
    with torch._C.DisableTorchFunction():
        return torch.scalar_tensor(number, dtype=torch.float64, device="cpu")


def _names(objects: Any) -> tuple[str, ...]:
    return tuple(sorted(".".join(naming.path_of(each) or ("", repr(each))) for each in objects))


def _filled(cell: types.CellType) -> bool:
    try:
        _ = cell.cell_contents
    except ValueError:
        return False
    return True


def _plain_stream(name: str) -> bool:
    """Whether a print to `sys.stdout` (or `stderr`) runs no Python code, and can't fail for what is printed."""
    stream = getattr(sys, name, None)
    layers = [stream, getattr(stream, "buffer", None), getattr(getattr(stream, "buffer", None), "raw", None)]
    if any(isinstance(getattr(type(each), "write", None), types.FunctionType) for each in layers):
        return False
    encoding = getattr(stream, "encoding", None) or "utf-8"
    return stream is None or (not stream.closed and encoding.lower().replace("-", "").startswith("utf"))


def viewed(proxy: types.MappingProxyType) -> Any:
    """The mapping that a proxy is a view of: the one object that it refers to."""
    return gc.get_referents(proxy)[0]


def generator_facts(generator: types.GeneratorType) -> tuple[str, ...]:
    """Digest of the code of a generator that hasn't started, and the names of its variables; empty for another."""
    from aotdyn.rewrite.digest import digest

    frame = generator.gi_frame
    if frame is None or generator.gi_running or generator.gi_suspended:
        return ()
    return digest(generator.gi_code), *frame.f_locals


COMPRESSED = (torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc)
"""Layouts of sparse tensors that hold one dimension's indices compressed."""


def sparse_form(tensor: torch.Tensor) -> tuple[Any, ...]:
    """What a sparse tensor is besides its metadata, but for its data: dimensions, coalesced or not, size of blocks."""
    with torch._C.DisableTorchFunction():
        if tensor.layout is torch.sparse_coo:
            return tensor.sparse_dim(), tensor.dense_dim(), tensor.is_coalesced()
        if tensor.layout in (torch.sparse_bsr, torch.sparse_bsc):
            return tensor.dense_dim(), *tensor.values().shape[-2 - tensor.dense_dim() :][:2]
        return (tensor.dense_dim(),)


FLAGS = tuple(
    name
    for name in (
        "_get_cpu_allow_fp16_reduced_precision_reduction",
        "_get_cublas_allow_bf16_reduced_precision_reduction",
        "_get_cublas_allow_fp16_accumulation",
        "_get_cublas_allow_fp16_reduced_precision_reduction",
        "_get_cublas_allow_tf32",
        "_get_cudnn_allow_tf32",
        "_get_math_sdp_allow_fp16_bf16_reduction",
        "_get_mkldnn_deterministic",
        "_get_nnpack_enabled",
        "_get_onednn_allow_tf32",
        "_get_overrideable_sdp_enabled",
        "_is_fwd_grad_enabled",
    )
    if hasattr(torch._C, name)
)
"""Flags of backends that programs may read, by their getters in torch._C."""


def _elements(array: Any) -> torch.Tensor:
    """A tensor that shares memory with a numpy array; an error for an array of a subclass or one that is read-only."""
    if type(array).__name__ != "ndarray" or not array.flags.writeable:
        raise TypeError("not a plain array that can be written to")
    with torch._C.DisableTorchFunction():
        return torch.from_numpy(array)


def _of_scalar(number: Any) -> torch.Tensor:
    """A tensor of no dimensions that holds a numpy scalar, in its own dtype."""
    import numpy

    with torch._C.DisableTorchFunction():
        return torch.from_numpy(numpy.array(number))


def is_state(obj: Any) -> bool:
    """Whether `random.Random.setstate` takes an object, without running code of its own."""
    if type(obj) is not tuple or len(obj) != 3 or type(obj[1]) is not tuple or not all(type(n) is int for n in obj[1]):
        return False
    try:
        random.Random(0).setstate(obj)
    except (ValueError, TypeError, OverflowError):
        return False
    return True


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
    "generator.facts": Accessor(generator_facts, "code and variables of a generator that hasn't started"),
    "generator.local": Accessor(
        lambda generator, name: generator.gi_frame.f_locals[name], "a variable of a generator that hasn't started"
    ),
    "mappingproxy.mapping": Accessor(viewed, "the mapping that a mappingproxy is a view of"),
    "class.holds": Accessor(lambda cls, name: name in vars(cls), "whether a class itself holds a name"),
    "class.own": Accessor(lambda cls, name: vars(cls)[name], "what a class itself holds under a name"),
    "type.__subclasses__": Accessor(type.__subclasses__, "the subclasses of a class that are alive"),
    "inspect.signature": Accessor(inspect.signature, "the signature of a Python function"),
    "set.names": Accessor(_names, "names of the classes and functions that a set holds, ordered"),
    "sorted": Accessor(sorted, "items of a set of numbers or strings, ordered"),
    **{
        f"operator.{name}": Accessor(getattr(operator, name), f"comparison of numbers, `{name}`")
        for name in ("lt", "le", "gt", "ge", "eq", "ne")
    },
    "abs": Accessor(abs, "absolute value of a number"),
    "int": Accessor(int, "a number as an int"),
    "float": Accessor(float, "a number as a float"),
    "str": Accessor(str.__str__, "text of an instance of a subclass of str"),
    "bool": Accessor(bool, "truth of a builtin object"),
    "os.environ.get": Accessor(os.environ.get, "an environment variable, None where unset"),
    "logging.Logger.isEnabledFor": Accessor(logging.Logger.isEnabledFor, "whether a logger logs at a level"),
    "singledispatch": Accessor(
        lambda dispatch, cls: dispatch(cls), "the function that `functools.singledispatch` has for a class"
    ),
    "print.plain": Accessor(_plain_stream, "whether no Python code runs where the program prints"),
    "enabled": Accessor(enabled, "the function that torch has wrapped for its own tracer"),
    "sys.exc_info": Accessor(lambda: sys.exc_info()[1] is None, "whether no exception is being handled"),
    "os.getcwd": Accessor(os.getcwd, "working directory"),
    "memoised": Accessor(memoised, "what a function under functools.lru_cache gives for arguments"),
    "cell.filled": Accessor(_filled, "whether a closure's cell holds something"),
    "weakref.call": Accessor(lambda reference: reference(), "what a weak reference refers to, None where it is gone"),
    "iterator.known": Accessor(ahead.known, "whether it can be told what a builtin iterator will give"),
    "iterator.has": Accessor(ahead.has, "whether a builtin iterator has more than a number of items left"),
    "iterator.ahead": Accessor(ahead.item, "the item that a builtin iterator gives after a number of others"),
    "iterator.count": Accessor(ahead.count, "the number that enumerate gives after a number of others"),
    "iterator.part": Accessor(ahead.part, "an iterator from which enumerate or zip takes its items"),
    "random.is_state": Accessor(is_state, "whether a tuple is a state of `random.Random`"),
    "torch.empty": Accessor(_sized, "an empty tensor of as many rows as a number says"),
    "torch.scalar_tensor": Accessor(_number, "a tensor that holds a float"),
    "torch.from_numpy": Accessor(_elements, "the tensor that shares memory with a numpy array"),
    "numpy.array": Accessor(_of_scalar, "the tensor of no dimensions that holds a numpy scalar"),
    "torch.get_default_dtype": Accessor(torch.get_default_dtype, "default floating point type"),
    "torch.get_default_device": Accessor(torch.get_default_device, "default device of factories"),
    "torch.is_grad_enabled": Accessor(torch.is_grad_enabled, "grad mode"),
    "torch.is_inference_mode_enabled": Accessor(torch.is_inference_mode_enabled, "inference mode"),
    "torch.get_num_threads": Accessor(torch.get_num_threads, "intra-op threads"),
    "torch.autograd._profiler_enabled": Accessor(torch.autograd._profiler_enabled, "whether a profiler records"),
    "torch.cuda.is_available": Accessor(torch.cuda.is_available, "whether CUDA can be used"),
    "torch.autograd._is_checkpoint_valid": Accessor(
        torch.autograd._is_checkpoint_valid, "whether a checkpointed backward pass may run"
    ),
    **{f"torch._C.{name}": Accessor(getattr(torch._C, name), "a flag of a backend") for name in FLAGS},
    "torch.Tensor.size": Accessor(torch._C.TensorBase.size, "sizes of a tensor"),
    "torch.Tensor.stride": Accessor(torch._C.TensorBase.stride, "strides of a tensor"),
    "torch.Tensor.storage_offset": Accessor(torch._C.TensorBase.storage_offset, "storage offset of a tensor"),
    "torch.Tensor.data_ptr_equal": Accessor(lambda a, b: a.data_ptr() == b.data_ptr(), "same first byte"),
    "torch.Tensor.sparse_form": Accessor(sparse_form, "sparse and dense dimensions, coalesced or not, size of blocks"),
    "torch.Tensor.is_leaf": Accessor(lambda t: t.is_leaf, "whether a tensor is a leaf of the autograd graph"),
    "torch.Tensor.grad_is_none": Accessor(lambda t: t.grad is None, "whether a tensor has no gradient yet"),
}
