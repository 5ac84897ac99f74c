"""Tensors under Python's operations: attributes, operators, subscripts, iteration; and arithmetic on symbols."""

from __future__ import annotations

import operator
from collections.abc import Sequence as Items
from typing import Any

import numpy
import torch

from aotdyn.graph import effects
from aotdyn.graph.build import Operand
from aotdyn.guards.sources import Attr, Pure
from aotdyn.guards.tensors import plain_class

from ..control import Break
from ..flows import Drawn
from ..handlers import HANDLERS
from ..symbols import FUNCTIONS, IN_PLACE, UNARY
from ..values import Array, Const, Scalar, Sequence, Tensor, Value, force
from . import calls, floats, leaf

FACTS = leaf.words(
    "dtype device layout ndim requires_grad itemsize nbytes is_cpu is_cuda is_ipu is_maia is_meta is_mkldnn is_mps"
    " is_mtia is_nested is_quantized is_sparse is_sparse_csr is_vulkan is_xla is_xpu"
)
"""Attributes that metadata decides."""

VIEWS = leaf.words("T mT H mH real imag")
"""Attributes that are operators."""

HIDDEN = {
    "grad_fn": "the autograd graph isn't known while tracing",
    "_grad_fn": "the autograd graph isn't known while tracing",
    "_version": "version counters aren't known while tracing",
    "_base": "whose view a tensor is isn't known while tracing",
    "_backward_hooks": "hooks of a tensor",
    "output_nr": "the autograd graph isn't known while tracing",
    "__dict__": "the Python attributes of a tensor as a whole",
    "__cuda_array_interface__": "the address of a tensor's data",
    "_cdata": "the address of a tensor",
    "_post_accumulate_grad_hooks": "hooks of a tensor",
    "grad_dtype": "the autograd graph isn't known while tracing",
    "name": "a name given in C++",
    "volatile": "it warns",
}
"""Attributes that break, with the reason."""


def tensor_attr(t: Any, v: Tensor, name: str) -> Value | None:
    """`v.name` for what is kept in C or on the tensor; None where the class answers (or nobody)."""
    from .. import model

    if name == "shape":
        return shape_value(t, v)
    if name in FACTS:
        fact = getattr(v.fake, name)
        return (
            calls.record(t, getattr, [v, Const(name)], {}) if isinstance(fact, calls.SYMBOLS) else model.constant(fact)
        )
    if name in VIEWS:
        return calls.record(t, getattr, [v, Const(name)], {})
    if name == "data":
        return calls.record(t, torch._C._autograd._get_data_attr, [v], {})  # type: ignore[attr-defined]
    if name == "is_leaf":
        return is_leaf(t, v)
    if name in ("grad", "_grad"):
        return _grad(t, v)
    if name == "grad_fn" and (not v.fake.requires_grad or (v.source is None and v.fake.is_leaf)):
        return Const(None)
    if name == "retains_grad" and not v.fake.requires_grad:
        return Const(False)
    if name in HIDDEN:
        raise Break(f"Tensor.{name}: {HIDDEN[name]}")
    if name == "__class__":
        return model.class_value(t, v.cls)
    if not hasattr(v.cls, name) and v.obj is not None and v.source is not None:
        own = t.own_dict(v) or {}
        if name in own:
            return t.wrap(own[name], Attr(v.source, name))
        t.guard("NOATTR", v.source, name)
    return None


def shape_value(t: Any, v: Tensor) -> Sequence:
    """`v.shape`: a torch.Size of constants and symbols."""
    items: list[Value] = []
    for dim, size in enumerate(v.fake.shape):
        known = calls.concrete(size)
        if known is not None:
            items.append(Const(known))
            continue
        value = t.sizes.of_symbol(size)
        items.append(value or Scalar(*calls.run(t, "size", [Operand(v.node, v.fake), dim], {})))
    return Sequence(torch.Size, items)


def is_leaf(t: Any, v: Tensor) -> Value:
    """`v.is_leaf`."""
    if v.source is None or not v.fake.requires_grad or v.fake.is_leaf != v.obj.is_leaf:
        return Const(v.fake.is_leaf)
    return t.wrap(v.obj.is_leaf, Pure("torch.Tensor.is_leaf", v.source))


def _grad(t: Any, v: Tensor) -> Value:
    """The gradient of an input is where it is; what tracing made has none yet, unless it was set."""
    if v.attrs.get("grad") is not None:
        return v.attrs["grad"]  # type: ignore[return-value]
    if v.source is not None:
        if v.obj.requires_grad and not v.obj.is_leaf and not v.obj.retains_grad:
            raise Break("reading .grad of a tensor that isn't a leaf warns")
        return t.wrap(v.obj.grad, Attr(v.source, "grad"))
    if v.fake.requires_grad and not v.fake.is_leaf:
        raise Break("reading .grad of a tensor that isn't a leaf warns")
    return Const(None)


def set_tensor_attr(t: Any, v: Tensor, name: str, value: Value) -> None:
    """`v.name = value`: Python attributes are kept with the value, those in C have setters or break."""
    from .setters import SETTERS

    if name in SETTERS:
        SETTERS[name](t, v, force(value))
        return
    if hasattr(v.cls, name):
        raise Break(f"setting {name} of a tensor")
    t.mutated(v)
    v.attrs[name] = value


def tensor_method(t: Any, name: str, self: Tensor, args: Items[Value], kwargs: dict[str, Value]) -> Value:
    """A call of the method `name` that torch.Tensor has."""
    raw = leaf.raw_method(name)
    handler = HANDLERS.get(raw) if raw is not None else None
    if handler is not None:
        return handler(t, self, *args, **kwargs)
    if name == "__getitem__":
        return tensor_getitem(t, self, args[0])
    if name == "__setitem__":
        tensor_setitem(t, self, args[0], args[1])
        return Const(None)
    if name in leaf.PYTHON_FACT_METHODS:
        raise Break(f"Tensor.{name} needs the tensor itself", "Python runs it between two graphs.")
    return calls.record(t, name, [self, *args], kwargs)


def is_operand(value: Value) -> bool:
    """Whether a tensor's operators take the value: a tensor, a number or a symbol."""
    if isinstance(value, (Tensor, Scalar)):
        return True
    if isinstance(value, Array):
        return issubclass(value.cls, (numpy.integer, numpy.floating))
    numbers = (bool, int, float, complex, numpy.integer, numpy.floating)
    return isinstance(value, Const) and issubclass(value.cls, numbers)


def tensor_binary(t: Any, symbol: str, a: Value, b: Value, inplace: bool) -> Value | None:
    """`a symbol b` (or `a symbol= b`), one of them a tensor; None where the other's class must decide."""
    a, b = force(a), force(b)
    if not is_operand(a) or not is_operand(b):
        return None
    if symbol in ("+", "-", "*", "/"):
        a, b = _floated(a, b), _floated(b, a)
    return calls.record(t, (IN_PLACE if inplace else FUNCTIONS)[symbol], [a, b], {})


def _floated(v: Value, other: Value) -> Value:
    """An operand; an int that is drawn as a float, where a tensor of floats makes one of it."""
    floats = isinstance(other, Tensor) and other.fake.dtype.is_floating_point
    return v.floated() if floats and isinstance(v, Drawn) and v.cls is int else v


def tensor_compare(t: Any, symbol: str, a: Value, b: Value) -> Value | None:
    """`a symbol b` for a rich comparison."""
    return tensor_binary(t, symbol, a, b, False)


def tensor_unary(t: Any, symbol: str, a: Value) -> Value:
    """`-a`, `+a`, `~a` of a tensor or a symbol."""
    a = force(a)
    if isinstance(a, Scalar):
        return scalar_call(t, UNARY[symbol], a)
    return calls.record(t, UNARY[symbol], [a], {})


def tensor_getitem(t: Any, v: Tensor, index: Value) -> Value:
    """`v[index]`; where numbers stand for many (`t.gathers`), tensors of one element are no ints."""
    if t.gathers:
        found = force(index)
        items = found.items if isinstance(found, Sequence) and found.cls is tuple else [found]
        if all(isinstance(force(item), Tensor) for item in items):
            return calls.record(t, torch.ops.aten.index.Tensor, [v, Sequence(list, list(items))], {})
    v, index = _selected(t, v, index)
    return v if index is _WHOLE else calls.record(t, operator.getitem, [v, index], {})


def tensor_setitem(t: Any, v: Tensor, index: Value, value: Value) -> None:
    """`v[index] = value`; a place that more than one number leads to is left to torch where one of them is data.

    (inductor compiles no write to a view of such a view.)
    """
    parts = _parts(index)
    if not any(_is_one_integer(each) for each in parts) or sum(_is_number(each) for each in parts) == 1:
        v, index = _selected(t, v, index)
    calls.record(t, operator.setitem, [v, Const(...) if index is _WHOLE else index, value], {})


_WHOLE = Sequence(tuple, [])


def _selected(t: Any, v: Tensor, index: Value) -> tuple[Tensor, Value]:
    """Tensor and index without the ints that are symbols: torch's subscript would make them constants, `select` not.

    Only where the rest are ints, slices, None and `...`: beside a tensor an int is part of the gathering.
    A tensor that holds one integer is that int, which the graph reads.
    """
    parts = _parts(index)
    if not all(_is_plain(each) or _is_one_integer(each) for each in parts):
        return v, index
    if not any(_is_symbol(each) or _is_one_integer(each) for each in parts):
        return v, index
    parts = [force(calls.number_of(t, each)) if isinstance(each, Tensor) else each for each in parts]
    rest: list[Value] = []
    dim = 0
    for i, each in enumerate(parts):
        if isinstance(each, Scalar):
            v = force(calls.select(t, v, dim, each, i))  # type: ignore[assignment]
        elif isinstance(each, Const) and each.value is ...:
            after = sum(1 for other in parts[i + 1 :] if not (isinstance(other, Const) and other.value is None))
            dim = v.fake.dim() - after
            rest.append(each)
        else:
            taken = not (isinstance(each, Const) and each.value is None)
            dim += taken
            rest.append(each)
    return v, Sequence(tuple, rest) if rest else _WHOLE


def _parts(index: Value) -> list[Value]:
    """What a subscript is made of."""
    value = force(index)
    return [force(each) for each in value.items] if isinstance(value, Sequence) and value.cls is tuple else [value]


def _is_number(value: Value) -> bool:
    """Whether a part of a subscript takes one place of a dimension."""
    return _is_symbol(value) or _is_one_integer(value) or (isinstance(value, Const) and type(value.value) is int)


def _is_symbol(value: Value) -> bool:
    return isinstance(value, Scalar) and value.cls is int and calls.concrete(value.sym) is None


def _is_one_integer(value: Value) -> bool:
    """Whether torch's subscript takes a tensor for the integer in it (ATen/TensorIndexing.h, handleDimInMulti...)."""
    if not isinstance(value, Tensor) or value.fake.dim() or effects.batching_level() or known_number(value) is not None:
        return False
    dtype = value.fake.dtype
    return plain_class(value.cls) and dtype in _INDICES


_INDICES = (torch.int64, torch.int32, torch.int16, torch.int8)


def _is_plain(value: Value) -> bool:
    if isinstance(value, Const):
        return value.value is None or value.value is ... or type(value.value) in (int, slice)
    return _is_symbol(value) or value.cls is slice


def tensor_iterate(t: Any, v: Tensor) -> Sequence:
    """The items of `iter(v)`: `v.unbind(0)`."""
    if v.fake.dim() == 0:
        t.raise_(TypeError, "iteration over a 0-d tensor")
    items = force(calls.record(t, "unbind", [v, Const(0)], {}))
    if not isinstance(items, Sequence):
        raise Break("iteration over a tensor")
    return items


def known_number(v: Tensor) -> Any:
    """The number in a tensor that was made of constants alone (and written to with such); None where data decides."""
    known = getattr(v.fake, "constant", None)
    return known.item() if known is not None and known.numel() == 1 else None


def tensor_length(t: Any, v: Tensor) -> Value:
    """`len(v)`."""
    if v.fake.dim() == 0:
        t.raise_(TypeError, "len() of a 0-d tensor")
    return force(shape_value(t, v).items[0])


def scalar_call(t: Any, function: Any, *args: Value) -> Value:
    """A function of symbols and numbers, recorded in the graph; a constant where the result is one."""
    operands = calls.Operands(t)
    arguments = [operands.convert(arg) for arg in args]
    floats.refuse(operands.flows)  # a symbol that is computed of sizes and floats would be compared inexactly
    if not any(isinstance(arg, Operand) for arg in arguments):
        from .. import model

        try:
            return model.constant(function(*arguments))
        except ArithmeticError as error:
            return t.raise_(type(error), *error.args)
    node, result = calls.run(t, function, arguments, {})
    return calls.wrap(t, node, result, {})


def scalar_binary(t: Any, symbol: str, a: Value, b: Value) -> Value | None:
    """Arithmetic or comparison of two numbers, at least one of them a symbol; None where the other isn't a number."""
    a, b = force(a), force(b)
    for each in (a, b):
        if isinstance(each, Tensor) or not is_operand(each):
            return None
    return scalar_call(t, FUNCTIONS[symbol], a, b)


def scalar_compare(t: Any, symbol: str, a: Value, b: Value) -> Value | None:
    """The same for a rich comparison."""
    return scalar_binary(t, symbol, a, b)


def scalar_truth(t: Any, v: Scalar) -> bool:
    """`bool(v)`, as a fact on sizes that the ShapeEnv keeps."""
    try:
        return bool(v.sym)
    except Exception as error:
        raise Break("a branch on a number that depends on data") from error
