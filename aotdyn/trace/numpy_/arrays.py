"""Arrays from outside, stand-ins that numpy is asked about, and what a result of torch has to look like."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy
import torch

from aotdyn.guards.pure import PURE
from aotdyn.guards.sources import Arg, Pure, Source

from ..control import Break, LookedAt
from ..torch_ import calls
from ..values import Array, Const, Lazy, Scalar, Sequence, Tensor, Value

FROM_NUMPY = "torch.from_numpy"
FROM_SCALAR = "numpy.array"
LARGEST = 2**24
"""Elements of the largest array that numpy is asked about while tracing."""


def captured(t: Any) -> bool:
    """Whether numpy's functions go into graphs here: not where a floating point error may raise or be logged."""
    if t.options.trace_numpy != "always":
        return False
    t.guard_global("numpy_errors")
    return bool(numpy_quiet(t))


def numpy_quiet(t: Any) -> bool:
    """Whether numpy's floating point errors warn or are ignored."""
    from aotdyn.guards.globalstate import FACTS

    return not FACTS["numpy_errors"].read()


def load_array(t: Any, obj: numpy.ndarray, source: Source) -> Array | None:
    """An array from outside; None for one that no tensor can share memory with."""
    if t.options.trace_numpy != "always" or obj.size > LARGEST or not obj.flags.writeable:
        return None
    try:
        tensor = torch.from_numpy(obj)
    except (TypeError, ValueError):
        return None

    def made() -> Tensor:
        return _input(t, tensor, Pure(FROM_NUMPY, source))

    return Array(numpy.ndarray, made, like(obj.shape, obj.dtype, numpy.empty_like(obj, subok=False)), source, obj)


def load_scalar(t: Any, obj: numpy.generic, source: Source) -> Array | None:
    """A numpy scalar from outside that varies: data, as an array's elements are; None where it is a constant."""
    varies = source in t.sizes.policy.numbers or (t.sizes.policy.all and isinstance(source, Arg))
    if not varies or source in t.looked_at or not captured(t):
        return None
    maker = Pure(FROM_SCALAR, source)
    try:
        PURE[FROM_SCALAR].function(obj)
    except TypeError:
        return None

    def made() -> Tensor:
        node, fake = t.sizes.carried(FROM_SCALAR, obj, source)
        return Tensor(node, fake, maker)

    t.guard("TYPE", source, type(obj))
    t.scalars.append(source)
    return Array(type(obj), made, like((), obj.dtype)[()], source, obj)


def looked_at(t: Any, values: Iterable[Value]) -> None:
    """An operation is Python's: LookedAt where a numpy scalar, which may be a constant instead, is among its operands.

    So is a size that may be made of one.
    """
    found = (each.value if isinstance(each, Lazy) else each for each in values)
    if t.scalars and any(map(_of_data, found)):
        raise LookedAt(frozenset(t.scalars))


def _of_data(value: Value | None) -> bool:
    """Whether a value is a numpy scalar that isn't known, a number of data, or has such a size."""
    if isinstance(value, Array):
        return value.cls is not numpy.ndarray
    sizes = value.fake.shape if isinstance(value, Tensor) else [value.sym] if isinstance(value, Scalar) else ()
    return any(isinstance(size, calls.SYMBOLS) and size.node.hint is None for size in sizes)


def _input(t: Any, tensor: torch.Tensor, source: Source) -> Tensor:
    from ..values import force

    value = force(t.wrap(tensor, source))
    if not isinstance(value, Tensor):
        raise Break("an array that can't be a graph's input")
    return value


def like(shape: Any, dtype: Any, empty: numpy.ndarray | None = None) -> numpy.ndarray:
    """An array of this shape and dtype, filled so that few functions find fault with it."""
    made = numpy.empty(shape, dtype) if empty is None else empty
    if made.dtype.kind in "fc":
        made[...] = numpy.random.default_rng(0).random(made.shape) + 0.5
    else:
        made[...] = 0
    return made


def array_of(t: Any, tensor: Tensor) -> Array:
    """`tensor.numpy()`: an array with the tensor's memory."""
    fake = tensor.fake
    try:
        dtype = numpy_dtype(fake.dtype)
    except TypeError:
        raise Break(f"an array of {fake.dtype}") from None
    plain = fake.layout is torch.strided and fake.device.type == "cpu" and not (fake.is_conj() or fake.is_neg())
    if not plain or fake.requires_grad or fake.numel() > LARGEST:
        raise Break("an array of a tensor that takes part in autograd, isn't on the CPU or isn't plain")
    sizes, steps = hints(fake.shape), hints(fake.stride())
    stand_in = torch.empty_strided(sizes, steps, dtype=fake.dtype).numpy()
    return Array(numpy.ndarray, tensor, like(stand_in.shape, dtype, stand_in))


def hints(sizes: Any) -> list[int]:
    """Sizes as numbers, those of this call where they vary; no fact is noted."""
    return [_hint(size) if isinstance(size, torch.SymInt) else int(size) for size in sizes]


def _hint(size: torch.SymInt) -> int:
    hint = size.node.hint
    if hint is None:
        raise Break("a size that depends on data, in one of numpy's functions")
    return int(hint)


def numpy_dtype(dtype: torch.dtype) -> numpy.dtype:
    """numpy's dtype of a torch dtype; TypeError where there is none."""
    return numpy.dtype(str(dtype).removeprefix("torch."))


def torch_dtype(dtype: Any) -> torch.dtype:
    """torch's dtype of a numpy dtype; Break where there is none."""
    found = getattr(torch, numpy.dtype(dtype).name, None)
    if not isinstance(found, torch.dtype) or not numpy.dtype(dtype).isnative:
        raise Break(f"an array of {dtype}")
    return found


def matched(t: Any, name: str, result: Any, expected: Any, arrays: list[Array]) -> Value:
    """The value of what torch computed as `result`, which has to look like numpy's `expected`; Break otherwise."""
    if isinstance(expected, (tuple, list)) and isinstance(result, (tuple, list)) and len(result) == len(expected):
        items = [matched(t, name, one, other, arrays) for one, other in zip(result, expected, strict=True)]
        if type(expected) in (tuple, list):
            return Sequence(type(expected), items)
    if isinstance(result, Tensor) and isinstance(expected, (numpy.ndarray, numpy.generic)):
        return _array(t, name, result, expected, arrays)
    if expected is None and (result is None or isinstance(result, Tensor)):
        return Const(None)
    raise Break(f"numpy's {name}: torch gives another kind of result")


def _array(t: Any, name: str, tensor: Tensor, expected: Any, arrays: list[Array]) -> Value:
    for each in arrays:
        if each.like is expected:
            return each
    fake = tensor.fake
    sizes = hints(fake.shape)
    if type(expected) is not numpy.ndarray and not isinstance(expected, numpy.generic):
        raise Break(f"numpy's {name} gives an array of another class")
    if numpy_dtype(fake.dtype) != expected.dtype or tuple(sizes) != expected.shape:
        raise Break(f"numpy's {name}: torch gives another dtype or shape")
    views = isinstance(expected, numpy.ndarray) and any(numpy.may_share_memory(expected, each.like) for each in arrays)
    shares = any(_storage(fake) == _storage(each.tensor.fake) for each in arrays)
    if views and not shares:
        raise Break(f"numpy's {name} gives a view, torch a copy")
    if shares and not views:
        tensor = calls.record(t, "clone", [tensor], {"memory_format": Const(torch.preserve_format)})  # type: ignore[assignment]
    if isinstance(expected, numpy.ndarray) and not _same_strides(tensor.fake, expected):
        raise Break(f"numpy's {name}: torch gives other strides")
    return Array(type(expected), tensor, expected)


def _storage(fake: torch.Tensor) -> int:
    return fake.untyped_storage()._cdata


def _same_strides(fake: torch.Tensor, expected: numpy.ndarray) -> bool:
    steps = [step * expected.itemsize for step in hints(fake.stride())]
    return not expected.size or all(
        size == 1 or one == other for size, one, other in zip(expected.shape, steps, expected.strides, strict=True)
    )
