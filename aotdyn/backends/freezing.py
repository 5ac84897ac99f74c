"""Parameters folded into a kernel as constants (the option `freeze`), and the check that they still hold the same.

A frozen kernel serves one content. That is part of its key, and each call
compares what the parameters hold with what was folded in, byte by byte: their
versions tell nothing of a write through `.data` or numpy. Where they hold
something else the call goes by the ordinary kernel, which takes them as inputs.
Parameters in other places (layers that share a graph) get kernels of their own.

Only graphs that record no gradient are frozen.
"""

from __future__ import annotations

import ctypes
import hashlib
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec
import torch
from torch import fx

if TYPE_CHECKING:
    from aotdyn.backends.stored import Compiled
    from aotdyn.graph.program import Program

log = logging.getLogger("aotdyn.backends")

LARGEST = 1 << 30
"Bytes of parameters that one kernel may hold."

MANY = 64
"Places in memory that one graph's parameters may have before those in others go by the ordinary kernel."

_memcmp = ctypes.CDLL(None).memcmp
_memcmp.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)


def chosen(program: Program, inputs: Sequence[torch.Tensor]) -> tuple[int, ...]:
    """Numbers of the inputs that a kernel may hold: parameters without gaps, where no gradient is recorded."""
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in inputs):
        return ()
    pairs = enumerate(zip(program.inputs, inputs, strict=True))
    found = tuple(number for number, (item, tensor) in pairs if not item.dynamic and _foldable(tensor))
    size = sum(_bytes(inputs[number]) for number in found)
    if size > LARGEST:
        log.info("aotdyn: a graph's parameters aren't folded in: they have %d MiB", size >> 20)
        return ()
    return found


def _foldable(tensor: torch.Tensor) -> bool:
    dense = tensor.is_contiguous() or (tensor.dim() == 4 and tensor.is_contiguous(memory_format=torch.channels_last))
    return type(tensor) is torch.nn.Parameter and dense and not tensor.is_conj() and not tensor.is_neg()


def _bytes(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def digest(tensor: torch.Tensor) -> str:
    """Digest of what a tensor holds, in the order of its memory."""
    data = (ctypes.c_char * _bytes(tensor)).from_address(tensor.data_ptr()) if tensor.numel() else b""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


class Held:
    """A copy of what some inputs held, and the callable that was made for it."""

    def __init__(self, numbers: tuple[int, ...], inputs: Sequence[torch.Tensor]) -> None:
        self._copies = [inputs[number].detach().clone() for number in numbers]
        self._facts = [
            (number, copy.data_ptr(), _bytes(copy)) for number, copy in zip(numbers, self._copies, strict=True)
        ]
        self.run: Compiled | None = None

    def same(self, inputs: Sequence[torch.Tensor]) -> bool:
        """Whether the inputs hold that now."""
        return not any(_memcmp(inputs[number].data_ptr(), copy, size) for number, copy, size in self._facts)


class Frozen:
    """A graph's callable whose parameters are folded in.

    Args:
        numbers: of the inputs that kernels hold.
        make: compiles for inputs whose parameters are folded in.
        ordinary: compiles for inputs that are all taken.
    """

    def __init__(
        self,
        numbers: tuple[int, ...],
        inputs: list[torch.Tensor],
        make: Callable[[list[torch.Tensor]], Compiled],
        ordinary: Callable[[list[torch.Tensor]], Compiled],
    ) -> None:
        self._numbers = numbers
        self._make = make
        self._ordinary = ordinary
        self._plain: Compiled | None = None
        self._held: dict[int, Held] = {}
        self._find(inputs)

    def __call__(self, *inputs: torch.Tensor) -> Sequence[object]:
        held = self._held.get(inputs[self._numbers[0]].data_ptr()) or self._find(list(inputs))
        if held is not None and held.run is not None and held.same(inputs):
            return held.run(*inputs)
        if self._plain is None:
            self._plain = self._ordinary(list(inputs))
        return self._plain(*inputs)

    def _find(self, inputs: list[torch.Tensor]) -> Held | None:
        """What serves parameters in a place that is new; None where there are too many."""
        if len(self._held) >= MANY:
            return None
        held = next((each for each in self._held.values() if each.same(inputs)), None)
        if held is None:
            held = Held(self._numbers, inputs)
            held.run = self._make(inputs)
        self._held[inputs[self._numbers[0]].data_ptr()] = held
        return held


def folded(module: fx.GraphModule, inputs: Sequence[torch.Tensor], numbers: Sequence[int]) -> fx.GraphModule:
    """The graph with some of its inputs as constants of its own; it is changed."""
    placeholders = module.graph.find_nodes(op="placeholder")
    for number in numbers:
        node, name = placeholders[number], f"frozen_{number}"
        module.register_buffer(name, inputs[number].detach().clone())
        with module.graph.inserting_after(placeholders[-1]):
            constant = module.graph.get_attr(name)
        node.replace_all_uses_with(constant)
    for number in numbers:
        module.graph.erase_node(placeholders[number])
    module.recompile()
    return module


def encode(numbers: Sequence[int]) -> bytes:
    """The content of the file."""
    return msgspec.msgpack.encode(list(numbers))


def without(run: Compiled, data: bytes) -> Compiled:
    """What takes all inputs, of a kernel that holds those that the file's content numbers."""
    held = frozenset(msgspec.msgpack.decode(data, type=list[int]))

    def call(*args: torch.Tensor) -> Sequence[object]:
        return run(*[each for number, each in enumerate(args) if number not in held])

    return call
