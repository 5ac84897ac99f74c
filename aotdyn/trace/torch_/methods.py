"""Methods and functions of tensors that tell Python facts, or that need the tensor itself."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from aotdyn.graph import effects, native

from ..control import Break, NotConstant
from ..flows import data
from ..handlers import HANDLERS, foldable, handles
from ..values import Address, Class, Const, Sequence, Tensor, Value, force
from . import calls, leaf
from .tensors import known_number, shape_value, tensor_iterate, tensor_length

FACT_METHODS = leaf.words(
    "stride dim ndimension numel nelement storage_offset is_contiguous is_floating_point is_complex is_conj is_neg"
    " is_inference is_signed element_size get_device is_same_size is_coalesced dense_dim sparse_dim has_names"
    " is_distributed dim_order"
)
"""Methods whose answer metadata decides."""

FACT_FUNCTIONS = leaf.words(
    "numel is_floating_point is_complex is_conj is_neg is_inference is_signed is_same_size get_device is_distributed"
    " result_type can_cast promote_types"
)
"""The same as functions of torch."""

LAYOUT = tuple(f"Tensor.{name}" for name in ("stride", "is_contiguous", "storage_offset", "dim_order"))
"""Facts that gradients only show when they are computed."""

DATA = "It depends on the data of a tensor; Python runs it between two graphs. Keep the value a tensor where you can."

MOST_SIZES = 64
"""Numbers of a tensor that go into a graph, each by itself."""

BROKEN_METHODS: dict[str, tuple[str, str]] = {
    **dict.fromkeys(
        leaf.words("__array__ __bool__ __int__ __float__ __complex__ __index__ __nonzero__ __long__ __contains__"),
        ("a tensor's data as a Python object", DATA),
    ),
    **dict.fromkeys(("__repr__", "__format__", "__str__"), ("text of a tensor's data", DATA)),
    **dict.fromkeys(
        leaf.words("data_ptr const_data_ptr mutable_data_ptr is_set_to"), ("the address of a tensor's data", "")
    ),
    **dict.fromkeys(
        leaf.words(
            "storage untyped_storage _typed_storage storage_type set_ share_memory_ is_shared __dlpack__"
            " __dlpack_device__ is_pinned"
        ),
        ("a tensor's storage", ""),
    ),
    **dict.fromkeys(
        leaf.words("backward register_post_accumulate_grad_hook retain_grad reinforce"),
        ("the autograd graph of a tensor", "Backward passes and hooks run between two graphs."),
    ),
    **dict.fromkeys(leaf.words("__reduce_ex__ __setstate__"), ("copying a tensor as a Python object", "")),
    **dict.fromkeys(("map_", "map2_", "apply_", "module_load", "_make_subclass"), ("the bytes of a tensor", "")),
}
"""Methods that Python must run: what they need, and a hint."""


def _fact(name: str, function: Callable[..., Any], target: Any) -> Callable[..., Value]:
    """A handler that asks the fake tensor; where the answer has symbols, the question goes into the graph."""

    def handler(t: Any, *args: Value, **kwargs: Value) -> Value:
        from .. import model

        if name in LAYOUT and id(getattr(force(args[0]), "fake", None)) in t.unlaid:
            raise Break(f"{name} of a tensor whose strides aren't known yet")
        if name == "torch.result_type":  # of an integer tensor and a float it is the default dtype
            t.state.read("default_dtype")
        try:
            with t.state.applied():
                result = function(*(_native(arg) for arg in args), **{key: _native(arg) for key, arg in kwargs.items()})
        except (NotConstant, RuntimeError, TypeError, IndexError, ValueError) as error:
            raise Break(f"{name}: {error}" if str(error) else f"{name} of a value that isn't known") from error
        if isinstance(result, calls.SYMBOLS) or (
            isinstance(result, tuple) and any(isinstance(r, calls.SYMBOLS) for r in result)
        ):
            return calls.record(t, target, args, kwargs)
        return model.constant(result)

    return handler


def _native(value: Value) -> Any:
    from .. import model

    value = force(value)
    if isinstance(value, Tensor):
        calls.check_ordinary(value)
        return value.fake
    return model.as_python(value)


def _method(name: str) -> Callable[..., Any]:
    return lambda receiver, *args, **kwargs: getattr(receiver, name)(*args, **kwargs)


for _name in FACT_METHODS:
    _raw = leaf.raw_method(_name)
    if _raw is not None:
        HANDLERS[_raw] = _fact(f"Tensor.{_name}", _method(_name), _name)
for _name in FACT_FUNCTIONS:
    _function = getattr(torch, _name, None)
    if _function is not None:
        HANDLERS[_function] = _fact(f"torch.{_name}", _function, _function)


def _breaking(name: str, reason: str, hint: str) -> Callable[..., Value]:
    def handler(t: Any, *args: Value, **kwargs: Value) -> Value:
        raise Break(f"Tensor.{name}: {reason}", hint)

    return handler


for _name, (_reason, _hint) in BROKEN_METHODS.items():
    _raw = leaf.raw_method(_name)
    if _raw is not None:
        HANDLERS[_raw] = _breaking(_name, _reason, _hint)


@handles(leaf.raw_method("storage_offset"))
def _storage_offset(t: Any, v: Value) -> Value:
    """Tensor guards don't see the offset of an input: it is guarded by itself."""
    from aotdyn.guards.sources import Pure

    tensor = _tensor(v)
    if tensor.source is not None:
        return t.wrap(tensor.obj.storage_offset(), Pure("torch.Tensor.storage_offset", tensor.source))
    return Const(int(tensor.fake.storage_offset()))


def _tensor(value: Value) -> Tensor:
    value = force(value)
    if not isinstance(value, Tensor):
        raise Break("a method of Tensor on something else")
    return value


@handles(leaf.raw_method("size"))
def _size(t: Any, v: Value, dim: Value | None = None) -> Value:
    tensor = _tensor(v)
    if dim is None or (isinstance(force(dim), Const) and force(dim).value is None):  # type: ignore[attr-defined]
        return shape_value(t, tensor)
    return calls.record(t, "size", [tensor, dim], {})


@handles(leaf.raw_method("item"))
def _item(t: Any, v: Value) -> Value:
    tensor = _tensor(v)
    known = known_number(tensor)
    if known is not None:
        return Const(known)
    if getattr(t.options, "capture_scalar_outputs", False):
        return calls.number_of(t, tensor)
    number = data(t, tensor) if not tensor.fake.dim() else None
    if number is not None:
        return number
    raise Break("Tensor.item: a tensor's data as a Python object", DATA)


@handles(leaf.raw_method("tolist"))
def _tolist(t: Any, v: Value) -> Value:
    """Nested lists: of numbers in the graph where they may become sizes, else of numbers that nobody looks at."""
    return numbers(t, _tensor(v), "Tensor.tolist")


def numbers(t: Any, tensor: Tensor, name: str) -> Value:
    """The Python numbers of a tensor, in nested lists."""
    fake = tensor.fake
    hints = [size.node.hint if isinstance(size, torch.SymInt) else size for size in fake.shape]
    known = None not in hints and math.prod(hints) <= MOST_SIZES
    whole = not (fake.dtype.is_floating_point or fake.dtype.is_complex or fake.dtype is torch.bool)
    if known and (whole or getattr(t.options, "capture_scalar_outputs", False)):
        for size in fake.shape:
            int(size)  # lists have a length: a size that varies becomes a constant
        return _items(t, tensor)
    found = data(t, tensor)
    if found is None:
        raise Break(f"{name}: a tensor's data as a Python object", DATA)
    return found


def _items(t: Any, tensor: Tensor) -> Value:
    if not tensor.fake.dim():
        known = known_number(tensor)
        return calls.number_of(t, tensor) if known is None else Const(known)
    return Sequence(list, [_items(t, _tensor(part)) for part in tensor_iterate(t, tensor).items])


@handles(leaf.raw_method("type"))
def _type(t: Any, v: Value, dtype: Value | None = None, **kwargs: Value) -> Value:
    """Without arguments the name of the legacy type, else a conversion."""
    tensor = _tensor(v)
    if dtype is not None and not (isinstance(force(dtype), Const) and force(dtype).value is None):  # type: ignore[attr-defined]
        target = force(dtype)
        if isinstance(target, Class):
            if type(target.obj) is not type(torch.FloatTensor):
                raise Break("Tensor.type with a class")
            target = Const(f"{target.obj.__module__}.{target.obj.__name__}")
        return calls.record(t, "type", [tensor, target], kwargs)
    return Const(torch.empty(0, dtype=tensor.fake.dtype, device=tensor.fake.device).type())


@handles(leaf.raw_method("requires_grad_"))
def _requires_grad_(t: Any, v: Value, requires_grad: Value | None = None) -> Value:
    tensor = _tensor(v)
    flag = True if requires_grad is None else getattr(force(requires_grad), "value", None)
    if tensor.fake.requires_grad is flag and (flag or tensor.fake.is_leaf):
        return tensor
    fresh = tensor.source is None and tensor.fake.is_leaf and not tensor.fake._is_view()
    if flag is not True or not fresh or not tensor.fake.dtype.is_floating_point:
        raise Break("Tensor.requires_grad_: whether a tensor takes part in autograd changes")
    # Operations under autograd on such a tensor end the graph; where it is handed out, the epilogue repeats the change.
    t.mutated(tensor)
    if t.state.read("grad") or effects.batching_level() or t.builder.scope.outer:
        tensor.fake.requires_grad_()
        node = None
    else:
        operands = calls.Operands(t)
        node, _ = calls.run(t, native.require_grad, [operands.convert(tensor)], {}, operands)
        node.meta["called"] = True
    t.lifted[id(tensor.fake)] = tensor, node
    return tensor


@handles(leaf.raw_method("__deepcopy__"))
def _deepcopy(t: Any, v: Value, memo: Value) -> Value:
    """`copy.deepcopy` of a tensor that nothing shares memory with: its elements are written to a new one."""
    from .. import model

    tensor = _tensor(v)
    fake, address = tensor.fake, Address(tensor)
    if model.truth(t, model.contains(t, memo, address)):
        return model.get_item(t, memo, address)
    whole = not fake._is_view() and fake.layout is torch.strided and fake.is_contiguous()
    if tensor.source is not None or tensor.attrs or not whole or fake.requires_grad or fake.is_inference():
        raise Break("copying a tensor as a Python object, with its storage")
    copied = calls.record(t, "copy_", [calls.record(t, torch.empty_like, [tensor], {}), tensor], {})
    model.set_item(t, memo, address, copied)
    return copied


@handles(leaf.raw_method("__len__"))
def _len(t: Any, v: Value) -> Value:
    return tensor_length(t, _tensor(v))


@handles(leaf.raw_method("__iter__"))
def _iter(t: Any, v: Value) -> Value:
    from .. import model

    return model.iterate(t, tensor_iterate(t, _tensor(v)))


@handles(leaf.raw_method("__reversed__"))
def _reversed(t: Any, v: Value) -> Value:
    """`flip(0)`, as torch/_tensor.py has it."""
    tensor = _tensor(v)
    return tensor if tensor.fake.dim() == 0 else calls.record(t, "flip", [tensor, Const(0)], {})


@handles(torch.is_tensor)
def _is_tensor(t: Any, obj: Value) -> Value:
    return Const(isinstance(force(obj), Tensor))


@handles(torch.is_storage)
def _is_storage(t: Any, obj: Value) -> Value:
    return Const(force(obj).cls in torch._storage_classes)


@handles(torch.Size)
def _new_size(t: Any, items: Value | None = None) -> Value:
    from .. import model

    return Sequence(torch.Size, [] if items is None else list(model.unpack(t, items)))


@handles(torch.Size.numel)
def _size_numel(t: Any, size: Value) -> Value:
    from .. import model

    result: Value = Const(1)
    for item in model.unpack(t, size):
        result = model.binary(t, "*", result, item)
    return result


@handles(torch.broadcast_shapes)
def _broadcast_shapes(t: Any, *shapes: Value) -> Value:
    from .. import model

    try:
        native = [model.as_python(shape) for shape in shapes]
    except NotConstant:
        raise Break("broadcast_shapes of sizes that aren't known") from None
    try:
        return model.constant(torch.broadcast_shapes(*native))
    except RuntimeError as error:
        raise Break(f"broadcast_shapes: {error}") from error


foldable(torch.device, torch.finfo, torch.iinfo)
