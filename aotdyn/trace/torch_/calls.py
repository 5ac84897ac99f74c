"""Calls of torch operators: values become operands, the builder runs and records, results become values."""

from __future__ import annotations

import contextlib
import dataclasses
import operator
from collections.abc import Iterator
from collections.abc import Sequence as Items
from typing import Any

import numpy
import torch

from aotdyn.graph import effects, native
from aotdyn.graph.build import FakeFailure, Operand, version
from aotdyn.guards.tensors import innermost, plain_class

from ..control import Break, NotConstant
from ..flows import Flow
from ..values import Array, Builtin, Class, Const, Mapping, Object, Scalar, Sequence, Tensor, Value, force
from . import floats, leaf, refused
from .overlap import check_overlap, one_by_one

HINTS = {
    "data-dependent": "The result depends on the data of a tensor; Python runs this operation.",
    "dynamic-shape": "The shape of the result depends on the data of a tensor; Python runs this operation.",
    "unsupported": "torch can't run this operator without data.",
    "raises": "The operation raises; Python runs it, so that the error is torch's own.",
}

DTYPES = {bool: torch.bool, int: torch.int64, float: torch.float64, complex: torch.complex128}
"""What a class of Python's numbers says as a dtype."""

SYMBOLS = (torch.SymInt, torch.SymFloat, torch.SymBool)


class Operands:
    """The operands of one call: what values turn into, and the tensors met on the way."""

    def __init__(self, t: Any) -> None:
        self.t = t
        self.tensors: dict[int, Tensor] = {}
        self.leaves: list[Any] = []
        self.flows: list[Flow] = []

    def convert(self, value: Value) -> Any:
        """A structure of Operands and constants equal to `value`; Break where there is none."""
        value = force(value)
        if isinstance(value, Tensor):
            check_ordinary(value)
            self.tensors[id(value.fake)] = value
            self.leaves.append(value.fake)
            return Operand(value.node, value.fake)
        if isinstance(value, Array) and value.cls is not numpy.ndarray:
            value = force(number_of(self.t, value.tensor))  # numpy's scalars are numbers for torch
        if isinstance(value, Scalar):
            return self._scalar(value)
        if isinstance(value, Flow) and issubclass(value.cls, float):
            number = floats.operand(self.t, value)
            self.flows.append(value)
            self.leaves.append(number.fake)
            return number
        if isinstance(value, Const):
            if type(value.value) is range:
                return list(value.value)
            plain = value.value
            if isinstance(plain, numpy.generic):
                if not isinstance(plain, (numpy.integer, numpy.floating)):
                    raise Break(f"a {value.cls.__qualname__} as argument of an operator")
                plain = plain.item()
            self.leaves.append(plain)
            return plain
        if isinstance(value, Sequence):
            return self._sequence(value)
        if isinstance(value, Mapping) and value.cls is dict:
            return self._mapping(value)
        if isinstance(value, Class) and value.obj in DTYPES:
            return DTYPES[value.obj]
        if isinstance(value, (Builtin, Class)):
            raise Break(f"a {value.cls.__qualname__} as argument of an operator can't be put in a graph")
        if isinstance(value, Object) and value.cls is slice:
            parts = [value.attrs.get(name) for name in ("start", "stop", "step")]
            return slice(*(None if part is None else self.convert(part) for part in parts))
        if isinstance(value, Object) and plain_record(value.cls):
            return self._record(value)
        raise Break(
            f"an argument of type {value.cls.__qualname__} can't be put in a graph",
            "Graphs take tensors, numbers, strings, dtypes, devices and containers of these.",
        )

    def _record(self, value: Object) -> Any:
        """A frozen dataclass: the graph makes an equal one."""
        from .. import model

        fields = {each.name: model.get_attr(self.t, value, each.name) for each in dataclasses.fields(value.cls)}
        named = {name: self.convert(each) for name, each in fields.items()}
        return Operand(*run(self.t, value.cls, [], named))

    def _scalar(self, value: Scalar) -> Any:
        known = concrete(value.sym)
        if known is not None:
            self.leaves.append(known)
            return known
        if value.node is None:
            raise Break("a symbolic number without a node in the graph")
        self.leaves.append(value.sym)
        return Operand(value.node, value.sym)

    def _sequence(self, value: Sequence) -> Any:
        items = [self.convert(item) for item in value.items]
        if value.cls is list:
            return items
        if value.cls is torch.Size:
            return tuple(items) if any(isinstance(item, Operand) for item in items) else torch.Size(items)
        if value.cls is tuple:
            return tuple(items)
        if hasattr(value.cls, "_fields"):
            return tuple.__new__(value.cls, items)
        if issubclass(value.cls, tuple):
            return tuple(items)
        raise Break(f"a {value.cls.__qualname__} as argument of an operator can't be put in a graph")

    def _mapping(self, value: Mapping) -> Any:
        from .. import model

        if value.entries is None:
            model.load_entries(self.t, value)
        result: dict[Any, Any] = {}
        for key, item in (value.entries or {}).values():
            try:
                result[model.as_constant(key)] = self.convert(item)
            except NotConstant:
                raise Break("a dict with keys that aren't constants can't be put in a graph") from None
        return result


def plain_record(cls: type) -> bool:
    """Whether instances of a class are their fields and nothing else: a frozen dataclass whose `__init__` is made."""
    parameters = getattr(cls, "__dataclass_params__", None)
    return bool(
        parameters is not None
        and parameters.frozen
        and parameters.init
        and "__dataclass_fields__" in vars(cls)
        and not hasattr(cls, "__post_init__")
        and cls.__new__ is object.__new__
        and all(each.init for each in dataclasses.fields(cls))
    )


def check_ordinary(value: Tensor) -> None:
    """Break for a tensor subclass, whose `__torch_function__` has the last word."""
    if not plain_class(value.cls):
        raise Break(f"an operation on a tensor of class {value.cls.__qualname__}")


def concrete(sym: Any) -> Any:
    """The number that a symbol stands for if it is known without a guard, else None."""
    if not isinstance(sym, SYMBOLS):
        return sym
    node = sym.node
    for known in (
        getattr(node, "maybe_as_int", None),
        getattr(node, "maybe_as_float", None),
        getattr(node, "maybe_as_bool", None),
    ):
        number = known() if known is not None else None
        if number is not None:
            return type_of_symbol(sym)(number)
    return None


def type_of_symbol(sym: Any) -> type:
    """The Python type that a symbol poses as."""
    return {torch.SymInt: int, torch.SymFloat: float, torch.SymBool: bool}[type(sym)]


def call_torch(t: Any, fn: Any, args: Items[Value], kwargs: dict[str, Value]) -> Value:
    """Record a call of the operator `fn` on values."""
    name = leaf.methods().get(fn)
    if name is None:
        return record(t, fn, args, kwargs)
    receiver = force(args[0]) if args else None
    if isinstance(receiver, Tensor):
        return record(t, name, args, kwargs)
    if receiver is not None and issubclass(receiver.cls, torch.Tensor):
        raise Break(f"Tensor.{name} of a {receiver.cls.__qualname__} that a graph can't hold")
    raise Break(f"Tensor.{name} on something that isn't a tensor")


def record(t: Any, target: Any, args: Items[Value], kwargs: dict[str, Value]) -> Value:
    """Record a call of a function, or of the method that a string names, and wrap its result.

    A tensor without dimensions given for a number (`addcmul(x, y, value=t)`) becomes one in the graph.
    """
    apart = one_by_one(target if isinstance(target, str) else operation_name(target), args, kwargs)
    if not apart:
        return _record_one(t, target, args, kwargs)
    parts = [_record_one(t, target, each, named) for each, named in apart]
    items = [item for part in parts if isinstance(part, Sequence) for item in part.items]
    return Sequence(list, items) if items else parts[-1]


def _record_one(t: Any, target: Any, args: Items[Value], kwargs: dict[str, Value]) -> Value:
    try:
        return _record(t, target, args, kwargs)
    except Break as failed:
        cause = failed.__cause__
        if not isinstance(cause, FakeFailure) or cause.kind != "data-dependent" or target == "item":
            raise
        for chosen in _without_dimensions(args, kwargs):
            try:
                return _record(
                    t,
                    target,
                    [number_of(t, each) if i in chosen else each for i, each in enumerate(args)],
                    {name: number_of(t, each) if name in chosen else each for name, each in kwargs.items()},
                )
            except Break:
                pass  # not these
        raise


def _without_dimensions(args: Items[Value], kwargs: dict[str, Value]) -> Iterator[set[Any]]:
    """Choices of arguments (positions and names) that are tensors without dimensions: the last ones first, then all."""
    found: list[Any] = []
    for place, each in [*enumerate(args), *kwargs.items()]:
        value = force(each)
        if isinstance(value, Tensor) and value.fake.dim() == 0 and not value.fake.requires_grad:
            found.append(place)
    yield from ({place} for place in reversed(found))
    if len(found) > 1:
        yield set(found)


def number_of(t: Any, v: Value) -> Value:
    """The number in a tensor as a symbol of the graph. Where no option captures such, the graph alone may read it."""
    with _reading_data(t):
        number = _record(t, "item", [v], {})
    if isinstance(number, Scalar) and number.node is not None:
        number.node.meta["called"] = False  # where nobody reads it, it isn't computed
    return number


def select(t: Any, v: Value, dim: int, index: Scalar, place: int) -> Value:
    """`v.select(dim, index)`, with a check where the index depends on data: a compiler's `select` has none.

    `place` is where the index stands in a subscript. The view's place in its storage depends on data as well.
    """
    shape = force(v).fake.shape  # type: ignore[attr-defined]
    if dim >= len(shape):
        raise Break("too many indices for a tensor")
    if index.sym.node.hint is None:
        size = shape[dim]
        length = Const(size) if isinstance(size, int) else _record(t, "size", [v, Const(dim)], {})
        _record(t, native.check_index, [index, length, Const(place)], {})
    with _reading_data(t):
        found = force(record(t, "select", [v, Const(dim), index], {}))
    if index.sym.node.hint is None:
        t.selects.append(found.node)  # type: ignore[attr-defined]
    return found


@contextlib.contextmanager
def _reading_data(t: Any) -> Iterator[None]:
    """Numbers that depend on data become symbols of the graph."""
    mode = t.builder.fake_mode
    before, mode.allow_scalar_outputs = mode.allow_scalar_outputs, True
    try:
        yield
    finally:
        mode.allow_scalar_outputs = before


def _record(t: Any, target: Any, args: Items[Value], kwargs: dict[str, Value]) -> Value:
    operands = Operands(t)
    arguments = [operands.convert(arg) for arg in args]
    keywords = {name: operands.convert(arg) for name, arg in kwargs.items()}
    name = target if isinstance(target, str) else operation_name(target)
    if t.lifted and t.state.read("grad") and any(fake in t.lifted for fake in operands.tensors):
        raise Break("autograd of a tensor that was made to require a gradient while tracing")
    if name in leaf.QUANTIZING:
        raise Break(f"{name}: a quantized tensor", HINTS["unsupported"])
    if name in leaf.SPARSE_PARTS and any(
        tensor.fake.layout is not torch.strided for tensor in operands.tensors.values()
    ):
        raise Break(f"{name} of a sparse tensor: how many elements it holds isn't known", HINTS["dynamic-shape"])
    raises = leaf.may_raise(name, operands.leaves) or refused.refuses(name, operands.leaves)
    seen = bool(t.postponed) or t.in_try()
    handled = raises and (seen or any(not isinstance(value, Tensor) or value.attrs for value in t.changed))
    if handled and t.impure:
        raise Break(
            f"{name} may raise on its data inside a try or with block, or behind a change of a Python object, "
            "and the graph has changed something",
            "The error must find what plain Python would have left, so Python runs this operation.",
        )
    with floats.watched(t, operands.flows) as check:
        node, result = run(t, target, arguments, keywords, operands)
        check(result)
    node.meta["called"] = True
    if raises:
        node.meta["may_raise"] = True
        t.raises_into_handler = t.raises_into_handler or handled
    t.drawn = t.drawn or bool(node.meta.get("random"))
    inplace = node.meta.get("mutates") or (name.endswith("_") and not name.endswith("__"))
    if inplace and effects.batching_level():
        return _written_in_level(t, node, result, operands, "out" in kwargs)
    if node.meta.get("mutates") and any(_reseated(value) and version(value.fake) for value in t.changed):
        raise Break("a change in place of a tensor whose data were set")
    if node.meta.get("mutates") and t.input_changed():
        if t.raises_into_handler:
            raise Break("something is changed behind an operator that may raise where Python has to run what follows")
        t.impure = True
    return wrap(t, node, result, operands.tensors)


def _reseated(value: Value) -> bool:
    """Whether `x.data = y` was said of a tensor from outside: its version isn't that of what it stands for."""
    return isinstance(value, Tensor) and "data" in value.attrs


def _written_in_level(t: Any, node: Any, result: Any, operands: Operands, out: bool) -> Value:
    """The result of a change in place under a transform: the tensor that it is called on (or one that it is given).

    Wrapped tensors share no version counter with what they wrap: a change of
    an input wouldn't be seen.
    """
    given = {memory(fake) for fake, _ in t.input_versions}
    written = list(operands.tensors.values())[: None if out else 1]
    if any(memory(each.fake) in given for each in written):
        raise Break("a change in place of a tensor from outside under a transform of torch.func")
    if isinstance(result, torch.Tensor) and id(result) not in operands.tensors:
        if not written or memory(result) != memory(written[0].fake):
            raise Break("a change in place under a transform of torch.func")
        operands.tensors[id(result)] = written[0]
    return wrap(t, node, result, operands.tensors)


def memory(fake: Any) -> Any:
    """Identity of a fake tensor's memory; of anything else its own."""
    if not isinstance(fake, torch.Tensor) or fake.layout is not torch.strided:
        return id(fake)
    return innermost(fake).untyped_storage()._cdata


def run(
    t: Any, target: Any, arguments: list[Any], keywords: dict[str, Any], operands: Operands | None = None
) -> tuple[Any, Any]:
    """Hand a call of operands to the builder under the symbolic modes; notes which tensors it changed."""
    t.state.note_operation()
    t.operations += 1
    tensors = list(operands.tensors.values()) if operands is not None else []
    before = [version(value.fake) for value in tensors]
    builder = t.builder
    try:
        with t.state.applied():
            if isinstance(target, str):
                node, result = builder.call_method(target, arguments, keywords, t.stack_lines())
            else:
                node, result = builder.call_function(target, arguments, keywords, t.stack_lines())
    except FakeFailure as failure:
        raise Break(f"{describe(target)}: {failure.reason}", HINTS.get(failure.kind, "")) from failure
    written = [value for value, old in zip(tensors, before, strict=True) if version(value.fake) != old]
    for value in written:
        t.mutated(value)
        t.overwritten.add(memory(value.fake))
    check_overlap(operation_name(target) if not isinstance(target, str) else target, node, written, tensors)
    return node, result


def operation_name(target: Any) -> str:
    """The short name of an operator."""
    if isinstance(target, torch._ops.OpOverload):
        return target._schema.name.rpartition("::")[2]
    return getattr(target, "__name__", str(target)).rpartition(".")[2]


def describe(target: Any) -> str:
    """An operator as the user calls it."""
    return f"Tensor.{target}" if isinstance(target, str) else operation_name(target)


def wrap(t: Any, node: Any, result: Any, tensors: dict[int, Tensor]) -> Value:
    """The value of what a node gives; a result that is one of the operands' fakes is that tensor itself."""
    from .. import model

    if isinstance(result, torch.Tensor):
        same = tensors.get(id(result))
        if same is None:
            return Tensor(node, result)
        if node.graph is same.node.graph:
            same.node = node  # what follows depends on the operation, though its result is its operand
        return same
    if isinstance(result, SYMBOLS):
        known = concrete(result)
        return Scalar(node, result) if known is None else Const(known)
    if isinstance(result, (tuple, list)):
        if not _symbolic(result):
            return (
                model.constant(result)
                if not isinstance(result, list)
                else Sequence(list, [model.constant(x) for x in result])
            )
        return Sequence(type(result), [_item(t, node, result, i, tensors) for i in range(len(result))])
    if isinstance(result, dict):
        raise Break("an operator whose result is a dict")
    if result is None or isinstance(result, (bool, int, float, complex, str, torch.dtype, torch.device, torch.layout)):
        return Const(result)
    raise Break(f"an operator whose result is a {type(result).__qualname__}")


def _symbolic(result: Any) -> bool:
    if isinstance(result, (tuple, list)):
        return any(_symbolic(item) for item in result)
    return isinstance(result, (torch.Tensor, *SYMBOLS))


def _item(t: Any, node: Any, result: Any, i: int, tensors: dict[int, Tensor]) -> Value:
    if not _symbolic(result[i]):
        return wrap(t, node, result[i], tensors)
    if isinstance(result[i], torch.Tensor) and id(result[i]) in tensors:
        return tensors[id(result[i])]  # an operand handed through
    child, _ = run(t, operator.getitem, [Operand(node, result), i], {})
    return wrap(t, child, result[i], tensors)
