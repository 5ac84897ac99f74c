"""A compile job as data: a graph, what its inputs are like, and the modes that it is compiled for.

A worker makes inputs of the same kind (their values only where they are whole
numbers, which may be indices) and enters the modes; then the kernel's key must
come out the same, or it refuses.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import torch

from aotdyn.graph import data
from aotdyn.graph.program import Program, map_refs
from aotdyn.guards import tensors

VALUES = 1 << 20
"Bytes of whole numbers that a job carries for one input; larger ones come as zeros."

WHOLE = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool)

OURS = ("torch", "operator", "_operator", "builtins", "math", "numpy", "aotdyn")
"Modules whose functions a worker finds without running the program's code."


class Unlike(Exception):
    """A worker can't make a job's graph and inputs as the program has them."""


class Tensor(msgspec.Struct, frozen=True, array_like=True):
    """What an input is like; `storage` numbers its memory, of `size` bytes."""

    shape: list[int]
    stride: list[int]
    offset: int
    dtype: str
    storage: int
    size: int
    parameter: bool
    requires_grad: bool
    leaf: bool
    inference: bool
    conj: bool
    neg: bool
    values: bytes = b""


class Ambient(msgspec.Struct, frozen=True, array_like=True):
    """Modes and defaults of the thread that a graph may be compiled differently for."""

    grad: bool
    inference: bool
    autocast: str
    "the dtype, empty for none"
    dtype: str
    deterministic: bool
    precision: str
    mkldnn: bool
    flash: bool
    efficient: bool
    math: bool
    many: bool
    "whether there is more than one thread"

    def enter(self, threads: int) -> None:
        """Make a worker's main thread such a one; for good, or until the next job."""
        torch.set_num_threads(threads)
        torch._C._set_grad_enabled(self.grad)
        torch.set_default_dtype(_dtype(self.dtype))
        torch.use_deterministic_algorithms(self.deterministic)
        torch.set_float32_matmul_precision(self.precision)
        torch._C._set_mkldnn_enabled(self.mkldnn)
        torch.backends.cuda.enable_flash_sdp(self.flash)
        torch.backends.cuda.enable_mem_efficient_sdp(self.efficient)
        torch.backends.cuda.enable_math_sdp(self.math)
        torch.set_autocast_enabled("cpu", bool(self.autocast))
        if self.autocast:
            torch.set_autocast_dtype("cpu", _dtype(self.autocast))


def ambient() -> Ambient:
    """The modes of this thread."""
    return Ambient(
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        str(torch.get_autocast_dtype("cpu")) if torch.is_autocast_enabled("cpu") else "",
        str(torch.get_default_dtype()),
        torch.are_deterministic_algorithms_enabled(),
        torch.get_float32_matmul_precision(),
        bool(torch.backends.mkldnn.enabled),
        torch._C._get_flash_sdp_enabled(),
        torch._C._get_mem_efficient_sdp_enabled(),
        torch._C._get_math_sdp_enabled(),
        torch.get_num_threads() > 1,
    )


class Job(msgspec.Struct, frozen=True, array_like=True):
    """All that a worker needs; `digest` is the kernel's key."""

    digest: str
    program: bytes
    inputs: list[Tensor]
    options: dict[str, Any]
    ambient: Ambient
    threads: int
    frozen: list[int] = []
    "inputs that the kernel is to hold: their values are the program's"

    def graph(self) -> Program:
        """The graph; Unlike where it names a function that isn't here."""
        try:
            return data.decode_program(self.program)
        except LookupError as error:
            raise Unlike(str(error)) from error


def encode(
    program: Program,
    inputs: Sequence[torch.Tensor],
    options: Mapping[str, Any],
    digest: str | None,
    frozen: Collection[int] = (),
) -> bytes | None:
    """A job as bytes; None for what another process couldn't compile the same."""
    if digest is None or not all(_found_anywhere(step.target) for step in _steps(program)):
        return None
    try:
        numbers: dict[int, int] = {}
        described = [_tensor(each, numbers, i in frozen) for i, each in enumerate(inputs)]
        threads = torch.get_num_threads()
        job = Job(digest, data.encode(program), described, dict(options), ambient(), threads, list(frozen))
        return msgspec.msgpack.encode(job)
    except (data.NotDurable, TypeError, OverflowError):
        return None


def decode(data: bytes) -> Job:
    """The job in these bytes; msgspec.MsgspecError where there is none."""
    return msgspec.msgpack.decode(data, type=Job)


def without_values(data: bytes) -> bytes:
    """The same job without the program's numbers: what is kept of one that failed."""
    job = decode(data)
    bare = [msgspec.structs.replace(each, values=b"") for each in job.inputs]
    return msgspec.msgpack.encode(msgspec.structs.replace(job, inputs=bare))


def _steps(program: Program) -> Iterator[Any]:
    for step in program.steps:
        yield step
        nested: list[Program] = []
        map_refs((step.args, step.kwargs), nested.append, Program)
        for each in nested:
            yield from _steps(each)


def _found_anywhere(target: Any) -> bool:
    if isinstance(target, str):
        return True
    if isinstance(target, torch._ops.OpOverload | torch._ops.OpOverloadPacket):
        return str(target).partition(".")[0] in ("aten", "prims", "quantized")
    owner = getattr(target, "__self__", None)
    module = getattr(target, "__module__", None) or (owner.__module__ if isinstance(owner, type) else None)
    return module is None or module.partition(".")[0] in OURS


def _tensor(tensor: torch.Tensor, numbers: dict[int, int], whole: bool = False) -> Tensor:
    """What a tensor is like, with its values if they are wanted as a `whole`."""
    storage = tensor.untyped_storage()
    number = numbers.setdefault(tensors.storage(tensor), len(numbers))
    size = tensor.numel() * tensor.element_size()
    values = b""
    if size and (whole or (tensor.dtype in WHOLE and size <= VALUES)):
        dense = tensor.detach().contiguous()
        values = ctypes.string_at(dense.data_ptr(), size)
    return Tensor(
        list(tensor.shape),
        list(tensor.stride()),
        int(tensor.storage_offset()),
        str(tensor.dtype),
        number,
        storage.nbytes(),
        isinstance(tensor, torch.nn.Parameter),
        tensor.requires_grad,
        tensor.is_leaf,
        tensor.is_inference(),
        tensor.is_conj(),
        tensor.is_neg(),
        values,
    )


def inputs(job: Job) -> list[torch.Tensor]:
    """Tensors like a job's: in the same memory where they were, with numbers between 0 and 1."""
    storages: dict[int, torch.UntypedStorage] = {}
    return [_made(each, storages) for each in job.inputs]


def _made(like: Tensor, storages: dict[int, torch.UntypedStorage]) -> torch.Tensor:
    dtype = _dtype(like.dtype)
    with torch.inference_mode(like.inference), torch.no_grad():
        memory = storages.get(like.storage)
        fresh = memory is None
        if memory is None:
            memory = storages[like.storage] = torch.zeros(like.size, dtype=torch.uint8).untyped_storage()
        made = torch.empty(0, dtype=dtype).set_(memory, like.offset, like.shape, like.stride)
        if like.values:
            values = torch.frombuffer(bytearray(like.values), dtype=torch.uint8).view(dtype).view(like.shape)
            if not _overlaps(made):
                made.copy_(values)
        elif fresh and dtype.is_floating_point and not _overlaps(made):
            made.copy_(torch.linspace(0, 1, max(made.numel(), 1))[: made.numel()].view(like.shape))
        if like.conj:
            made = made.conj()
        if like.neg:
            made = made._neg_view()
    if like.parameter:
        made = torch.nn.Parameter(made, like.requires_grad)
    elif like.requires_grad:
        made = made.requires_grad_()
    if like.leaf or not like.requires_grad:
        return made
    with torch.enable_grad():
        return made.as_strided(made.shape, made.stride(), made.storage_offset())


def _overlaps(tensor: torch.Tensor) -> bool:
    last = sum((size - 1) * abs(stride) for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return bool(tensor.numel()) and math.prod(tensor.shape) > last + 1


def _dtype(name: str) -> torch.dtype:
    found = getattr(torch, name.removeprefix("torch."), None)
    if not isinstance(found, torch.dtype):
        raise ValueError(f"{name!r} is no dtype")
    return found
