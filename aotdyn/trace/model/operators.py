"""Operators: arithmetic with reflected and in-place forms, comparison, truth, identity, isinstance, formatting."""

from __future__ import annotations

import collections
import operator
import re
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy
import torch

from ..control import Break, NotConstant
from ..flows import Flow, arithmetic, compared, joined, negated, text
from ..flows import truth as flow_truth
from ..symbols import ARITHMETIC, COMPARISONS, FUNCTIONS, REFLECTED, SIGNS
from ..symbols import UNARY as SIGNED
from ..values import (
    Address,
    Array,
    Builtin,
    Class,
    Const,
    Function,
    Generator,
    Lazy,
    Mapping,
    Method,
    Module,
    Namespace,
    Object,
    Opaque,
    Scalar,
    Sequence,
    SetValue,
    Tensor,
    Value,
    force,
)
from . import addresses
from .attributes import HEAPTYPE, class_lookup, type_of
from .calls import _name, call, fold, special_method
from .constants import as_constant, as_python, constant
from .containers import length, load_entries, payload
from .refused import refuse

if TYPE_CHECKING:
    from ..tracer import Tracer

BINARY = {symbol: (name, FUNCTIONS[symbol]) for symbol, name in ARITHMETIC.items()}
UNARY = {symbol: (name, SIGNED[symbol]) for symbol, name in SIGNS.items()}
NOT_IMPLEMENTED = Const(NotImplemented)


def _fold(t: Tracer, fn: Any, *args: Value) -> Value | None:
    if all(isinstance(each, (Const, Class)) for each in args):
        return fold(t, fn, list(args), {})
    return None


def binary(t: Tracer, symbol: str, a: Value, b: Value) -> Value:
    """`a symbol b`."""
    return _binary(t, symbol, force(a), force(b), BINARY[symbol][1])


def _binary(t: Tracer, symbol: str, a: Value, b: Value, fn: Callable[[Any, Any], Any]) -> Value:
    """The same; `fn` is the function of `operator`, whose errors say `+=` where the program does."""
    name, _ = BINARY[symbol]
    flowing = arithmetic(t, symbol, a, b) or (joined([a, b]) if symbol == "+" else None)
    if flowing is not None:
        return flowing
    folded = _fold(t, fn, a, b) if not (isinstance(a, Class) or isinstance(b, Class)) else None
    if folded is not None:
        return folded
    if isinstance(a, Tensor) or isinstance(b, Tensor):
        from ..torch_.tensors import tensor_binary

        result = tensor_binary(t, symbol, a, b, False)
        if result is not None:
            return result
    if isinstance(a, Array) or isinstance(b, Array):
        from ..numpy_.operators import array_binary

        return array_binary(t, symbol, a, b)
    if isinstance(a, Scalar) or isinstance(b, Scalar):
        from ..torch_.tensors import scalar_binary

        settled = _of_numpy(t, fn, a, b)
        result = settled if settled is not None else scalar_binary(t, symbol, a, b)
        if result is not None:
            return result
    built = _builtin_binary(t, symbol, a, b)
    if built is not None:
        return built
    return dispatch_binary(t, fn, f"__{name}__", f"__r{name}__", a, b)


def _builtin_binary(t: Tracer, symbol: str, a: Value, b: Value) -> Value | None:
    """Concatenation and repetition of lists and tuples, set and dict operators, `%` formatting."""
    from .iteration import unpack

    if isinstance(a, Sequence) and symbol == "+" and isinstance(b, Sequence):
        left, right = _base(a.cls), _base(b.cls)
        if left is right and left in (list, tuple):
            return Sequence(torch.Size if torch.Size in (a.cls, b.cls) else left, a.items + b.items)
    if symbol == "*":
        sequence, count = (a, b) if isinstance(a, Sequence) else (b, a)
        if isinstance(sequence, Sequence) and sequence.cls is collections.deque:
            return None  # which has a bound
        if isinstance(sequence, Sequence) and isinstance(count, (Const, Scalar)) and issubclass(count.cls, int):
            return Sequence(_base(sequence.cls), sequence.items * _settled(count, "the count of a repetition"))
    if isinstance(a, SetValue) and isinstance(b, SetValue) and symbol in ("&", "|", "-", "^"):
        keys = {
            "&": a.items.keys() & b.items.keys(),
            "|": a.items.keys() | b.items.keys(),
            "-": a.items.keys() - b.items.keys(),
            "^": a.items.keys() ^ b.items.keys(),
        }[symbol]
        both = {**b.items, **a.items}
        return SetValue(a.cls, {key: each for key, each in both.items() if key in keys})
    if isinstance(a, Mapping) and isinstance(b, Mapping) and symbol == "|":
        own = b if b.cls is not a.cls and issubclass(b.cls, a.cls) else a  # OrderedDict and defaultdict have `__ror__`
        return merged(t, own, a, b)
    if symbol == "%" and isinstance(a, Const) and isinstance(a.value, (str, bytes)):
        try:
            return fold(t, operator.mod, [a, Const(as_python(b))], {})
        except NotConstant:
            raise Break("`%` formatting of a value that isn't known") from None
    if isinstance(a, Class) and isinstance(b, (Class, Const, Opaque)) and symbol == "|":
        return Opaque(a.obj | (b.value if isinstance(b, Const) else b.obj))
    del unpack
    return None


def merged(t: Tracer, own: Mapping, a: Value, b: Value) -> Mapping:
    """`a | b` as a dict of the class of `own`, and with its default factory."""
    made = Mapping(own.cls, {**load_entries(t, payload(a)), **load_entries(t, payload(b))})  # type: ignore[arg-type]
    made.default_factory = own.default_factory
    return made


def _base(cls: type) -> type:
    return list if issubclass(cls, list) else tuple if issubclass(cls, tuple) else cls


def dispatch_binary(t: Tracer, fn: Callable[[Any, Any], Any], name: str, reflected: str, a: Value, b: Value) -> Value:
    """Language reference 3.3.8: the right operand's reflected method goes first where its class, a proper subclass
    of the left's, overrides it. What sequences do in C, `+` and `*`, comes behind the methods of both."""
    left, right = class_lookup(t, a.cls, name), class_lookup(t, b.cls, reflected)
    order = [(a, name, b), (b, reflected, a)]
    if a.cls is not b.cls and issubclass(b.cls, a.cls) and right is not None:
        inherited = class_lookup(t, a.cls, reflected)
        if inherited is None or inherited[0] is not right[0]:
            order.reverse()
    if a.cls is b.cls:
        order = order[:1]
    order.sort(key=lambda each: _of_sequences(left if each[1] is name else right))
    for receiver, method_name, other in order:
        raw = left if method_name is name else right
        if raw is None or (_of_sequences(raw) and not _fits_sequence(fn, raw[0], receiver is a, a, b)):
            continue
        method = special_method(t, receiver, method_name)
        result = _call_operator(t, method, other)
        if result is not None:
            return result
    refuse(t, fn, a, b)


def _of_sequences(raw: tuple[Any, Any] | None) -> bool:
    """Whether a method is the slot of a sequence, `sq_concat` or `sq_repeat`, which CPython asks last."""
    return raw is not None and getattr(raw[0], "__objclass__", None) in SEQUENCES


def _fits_sequence(fn: Callable[..., Any], method: Any, first: bool, a: Value, b: Value) -> bool:
    """Whether a sequence's own `+` or `*` takes the other operand: a sequence of its kind, a number that counts.

    In place, a sequence on the right isn't asked where the left's class might be one: that of a `class` statement.
    """
    other = b if first else a
    if fn in (operator.mul, operator.imul):
        if not first and fn is operator.imul and a.cls.__flags__ & HEAPTYPE:
            return False
        return hasattr(other.cls, "__index__")
    return issubclass(other.cls, method.__objclass__)


SEQUENCES = (list, tuple, str, bytes, bytearray, collections.deque)


def _call_operator(t: Tracer, method: Value | None, other: Value) -> Value | None:
    """Call a special method; None where it answers NotImplemented."""
    if method is None:
        return None
    if (
        isinstance(method, Method)
        and isinstance(force(method.function), Builtin)
        and isinstance(method.self_value, (Const, Class, Module, Function))
    ):
        return None
    result = force(call(t, method, [other], {}))
    return None if isinstance(result, Const) and result.value is NotImplemented else result


def inplace(t: Tracer, symbol: str, a: Value, b: Value) -> Value:
    """`a symbol= b`, the new value of `a`."""
    a, b = force(a), force(b)
    if isinstance(a, Array):
        return _inplace_array(t, symbol, a, b)
    result = None
    if isinstance(a, Tensor):
        from ..torch_.tensors import tensor_binary

        result = tensor_binary(t, symbol, a, b, True)
    elif isinstance(a, Sequence):
        result = _inplace_sequence(t, symbol, a, b)
    elif isinstance(a, SetValue) and a.cls is set and isinstance(b, SetValue) and symbol in ("&", "|", "-", "^"):
        items = _builtin_binary(t, symbol, a, b).items  # type: ignore[union-attr]
        t.mutated(a)
        a.items, result = items, a
    elif isinstance(a, Mapping) and symbol == "|":
        from .attributes import get_attr

        t.mutated(a)
        call(t, get_attr(t, a, "update"), [b], {})
        result = a
    elif isinstance(a, (Object, Opaque)):
        result = _inplace_object(t, symbol, a, b)
    return _binary(t, symbol, a, b, getattr(operator, f"__i{BINARY[symbol][0]}__")) if result is None else result


def _inplace_array(t: Tracer, symbol: str, a: Array, b: Value) -> Value:
    """Of numpy: an array is written to, a scalar can't be."""
    if not isinstance(a.like, numpy.ndarray):
        return binary(t, symbol, a, b)
    from ..numpy_.operators import array_binary

    return array_binary(t, symbol, a, b, inplace=True)


def _inplace_sequence(t: Tracer, symbol: str, a: Sequence, b: Value) -> Value | None:
    """Of a list or deque; None where it is as without `=`. What the other side says of itself comes first."""
    if symbol not in ("+", "*"):
        return None
    name, _ = BINARY[symbol]
    if isinstance(b, (Object, Opaque, Tensor)):
        reflected = class_lookup(t, b.cls, f"__r{name}__")
        if reflected is not None and not _of_sequences(reflected):
            result = _call_operator(t, special_method(t, b, f"__r{name}__"), a)
            if result is not None:
                return result
    if a.cls is collections.deque:
        return call(t, special_method(t, a, f"__i{name}__"), [b], {})  # type: ignore[arg-type]
    if a.cls is not list:
        return None
    if symbol == "+":
        from .iteration import unpack

        items = unpack(t, b)
        t.mutated(a)
        a.items.extend(items)
        return a
    if isinstance(b, (Const, Scalar)) and issubclass(b.cls, int):
        count = _settled(b, "the count of a repetition")
        t.mutated(a)
        a.items[:] = a.items * count
        return a
    return None


def _inplace_object(t: Tracer, symbol: str, a: Value, b: Value) -> Value | None:
    """By a class's own `__iadd__` or the like; None where there is none that fits."""
    name, _ = BINARY[symbol]
    raw = class_lookup(t, a.cls, f"__i{name}__")
    method = special_method(t, a, f"__i{name}__")
    if method is not None and (not _of_sequences(raw) or symbol == "+" or hasattr(b.cls, "__index__")):
        return _call_operator(t, method, b)
    return None


def unary(t: Tracer, symbol: str, a: Value) -> Value:
    """`-a`, `+a` or `~a`."""
    a = force(a)
    name, fn = UNARY[symbol]
    folded: Value | None = negated(a) if symbol == "-" else None
    if folded is None and isinstance(a, Const):
        folded = _fold(t, fn, a)
    if folded is not None:
        return folded
    if isinstance(a, (Tensor, Scalar)):
        from ..torch_.tensors import tensor_unary

        return tensor_unary(t, symbol, a)
    if isinstance(a, Array):
        from ..numpy_.operators import array_unary

        return array_unary(t, symbol, a)
    method = special_method(t, a, f"__{name}__")
    if method is None:
        refuse(t, fn, a)
    return call(t, method, [], {})


def compare(t: Tracer, symbol: str, a: Value, b: Value) -> Value:
    """`a symbol b` for a rich comparison."""
    a, b = force(a), force(b)
    fn = FUNCTIONS[symbol]
    if isinstance(a, Address) or isinstance(b, Address):
        return addresses.compare(t, symbol, a, b)
    if isinstance(a, Const) and isinstance(b, Const):
        return compared(t, symbol, fn, a, b) or fold(t, fn, [a, b], {})  # type: ignore[return-value]
    if _is_dtype(a) or _is_dtype(b):
        folded = _fold(t, fn, a, b)
        if folded is not None:
            return folded
    if isinstance(a, Tensor) or isinstance(b, Tensor):
        from ..torch_.tensors import tensor_compare

        result = tensor_compare(t, symbol, a, b)
        if result is not None:
            return result
    if isinstance(a, Array) or isinstance(b, Array):
        from ..numpy_.operators import array_binary

        return array_binary(t, symbol, a, b)
    if isinstance(a, Scalar) or isinstance(b, Scalar):
        from ..torch_.tensors import scalar_binary

        settled = _of_numpy(t, fn, a, b)
        result = settled if settled is not None else scalar_binary(t, symbol, a, b)
        if result is not None:
            return result
    built = _builtin_compare(t, symbol, a, b)
    if built is not None:
        return built
    if re.Pattern in (a.cls, b.cls) and symbol in ("==", "!=") and (a.cls is b.cls or Const in (type(a), type(b))):
        from ..builtins.strings import known_pattern

        same = a.cls is b.cls and known_pattern(t, a) == known_pattern(t, b)
        return Const(same if symbol == "==" else not same)
    order = [(symbol, a, b), (REFLECTED[symbol], b, a)]
    if a.cls is not b.cls and issubclass(b.cls, a.cls):
        order.reverse()
    for asked, receiver, other in order:
        result = _rich(t, asked, receiver, other)
        if result is not None:
            return result
    if symbol in ("==", "!="):
        same = is_same(t, a, b)
        return Const(same if symbol == "==" else not same)
    refuse(t, fn, a, b)


def _rich(t: Tracer, symbol: str, receiver: Value, other: Value) -> Value | None:
    """What the method of `receiver` answers to `receiver symbol other`; None where that is NotImplemented."""
    name = f"__{COMPARISONS[symbol]}__"
    raw = class_lookup(t, receiver.cls, name)
    if raw is None:
        return None
    if isinstance(raw[0], (types.FunctionType, Function)):
        return _call_operator(t, special_method(t, receiver, name), other)
    if raw[0] is getattr(object, name):
        if symbol != "!=":
            return Const(True) if symbol == "==" and is_same(t, receiver, other) else None
        equal = _rich(t, "==", receiver, other)  # `object.__ne__` is its inverse
        return None if equal is None else Const(not truth(t, equal))
    if isinstance(receiver, (Object, Opaque)) and not (isinstance(receiver, Object) and _has_payload(receiver)):
        raise Break(f"comparison of {receiver.cls.__qualname__} objects in C")
    a, b = payload(receiver), payload(other)
    if isinstance(a, Const) and isinstance(b, Const):
        answer = getattr(a.cls, name)(a.value, b.value)
        return None if answer is NotImplemented else Const(answer)
    return _of_a_kind(t, symbol, a, b)


def _has_payload(v: Object) -> bool:
    return isinstance(v.payload, Value)


def _of_numpy(t: Tracer, fn: Any, a: Value, b: Value) -> Value | None:
    """An operator of a symbol and a number of numpy's, which makes the symbol a constant; None for other operands."""
    if any(isinstance(each, Const) and isinstance(each.value, numpy.generic) for each in (a, b)):
        return fold(t, fn, [a, b], {})
    return None


def _is_dtype(v: Value) -> bool:
    """Whether a value is a dtype of numpy: it is equal to the class of its scalars, and to text."""
    return isinstance(v, Const) and issubclass(v.cls, numpy.dtype)


def _builtin_compare(t: Tracer, symbol: str, a: Value, b: Value) -> Value | None:
    """`a symbol b` of two objects of builtin kinds; None for others, and where there is no order."""
    found = _of_a_kind(t, symbol, a, b)
    if found is not None or symbol not in ("==", "!="):
        return found
    if isinstance(a, Sequence) and isinstance(b, Sequence):
        return Const(symbol == "!=")
    plain = (Sequence, Mapping, SetValue, Const, Class, Module, Builtin, Function, Namespace, Generator, Tensor)
    if isinstance(a, plain) and isinstance(b, plain):
        return Const(is_same(t, a, b) == (symbol == "=="))
    return None


def _of_a_kind(t: Tracer, symbol: str, a: Value, b: Value) -> Value | None:
    """`a symbol b` of two sequences of one kind, two dicts, or two sets; None for others."""
    from ..builtins.proxies import target
    from ..builtins.views import DictView, as_set

    a, b = target(a), target(b)
    a, b = (as_set(t, each) if isinstance(each, DictView) and each.kind != "values" else each for each in (a, b))
    if isinstance(a, Sequence) and isinstance(b, Sequence) and _base(a.cls) is _base(b.cls):
        return _compare_sequences(t, symbol, a, b)
    if isinstance(a, Mapping) and isinstance(b, Mapping) and symbol in ("==", "!="):
        return Const(_equal_dicts(t, a, b) == (symbol == "=="))
    if isinstance(a, SetValue) and isinstance(b, SetValue):
        return Const(bool(FUNCTIONS[symbol](a.items.keys(), b.items.keys())))
    return None


def _equal_dicts(t: Tracer, a: Mapping, b: Mapping) -> bool:
    """Whether two dicts are equal: as many entries, then entry by entry of the first, up to one that differs.

    See `dict_equal` in CPython's Objects/dictobject.c. Two of OrderedDict have one order, too.
    """
    left, right = load_entries(t, a), load_entries(t, b)
    if len(left) != len(right):
        return False
    if not all(key in right and equal_or_same(t, entry[1], right[key][1]) for key, entry in left.items()):
        return False
    return collections.OrderedDict is not a.cls or a.cls is not b.cls or list(left) == list(right)


def _compare_sequences(t: Tracer, symbol: str, a: Sequence, b: Sequence) -> Value:
    """`a symbol b`: the first items that differ decide, what their comparison gives is the result as it is.

    Lists and deques of two lengths are told apart without a look at their items, tuples aren't; deques ask for
    equality again, and their result is a bool. See `list_richcompare`, `tuplerichcompare` and `deque_richcompare` in
    CPython.
    """
    base, equality = _base(a.cls), symbol in ("==", "!=")
    if equality and base is not tuple and len(a.items) != len(b.items):
        return Const(symbol == "!=")
    for x, y in zip(a.items, b.items):
        if not equal_or_same(t, x, y):
            if base is collections.deque:
                return Const(truth(t, compare(t, symbol, x, y)))
            return Const(symbol == "!=") if equality else compare(t, symbol, x, y)
    return Const(bool(FUNCTIONS[symbol](len(a.items), len(b.items))))


def equal_or_same(t: Tracer, a: Value, b: Value) -> bool:
    """`a is b or a == b`, as containers compare."""
    if force(a) is force(b):
        return True
    x, y = force(a), force(b)
    if isinstance(x, Const) and isinstance(y, Const) and x.value is y.value:
        return True
    return truth(t, compare(t, "==", a, b))


def is_same(t: Tracer, a: Value, b: Value) -> bool:
    """`a is b`."""
    a, b = force(a), force(b)
    if a is b:
        return True
    if isinstance(a, (Scalar, Flow)) or isinstance(b, (Scalar, Flow)):
        if a.cls is not b.cls:
            return False
        raise Break("identity of numbers that vary")
    if a.source is not None and b.source is not None and a.cls is b.cls and not isinstance(a, Const):
        t.guard("DISTINCT", a.source, b.source)
    if isinstance(a, Const) and isinstance(b, Const):
        if a.value is None or b.value is None or isinstance(a.value, bool) or isinstance(b.value, bool):
            return a.value is b.value
        if type(a.value) is not type(b.value):
            return False
        if isinstance(a.value, (int, str, float, bytes, complex)):
            if a.value != b.value:
                return False
            raise Break("identity of two equal numbers or strings")
        return bool(a.value is b.value or (isinstance(a.value, torch.device) and a.value == b.value))
    if isinstance(a, (Class, Builtin, Module, Namespace, Function, Opaque, Object)) and type(a) is type(b):
        return a.obj is not None and a.obj is b.obj
    if a.cls is b.cls is types.CodeType:
        return getattr(a, "code", None) is getattr(b, "code", a)
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return False
    if isinstance(a, Lazy) or isinstance(b, Lazy):
        raise Break("identity of objects that aren't known")
    empty = isinstance(a, Sequence) and isinstance(b, Sequence) and not a.items and not b.items
    return empty and a.cls is b.cls is tuple


def _settled(v: Const | Scalar, what: str) -> Any:
    """The number that a constant or a symbol is in this call; Break where data decides."""
    try:
        return as_constant(v)
    except NotConstant:
        raise Break(f"{what} that depends on data") from None


def truth(t: Tracer, v: Value) -> bool:
    """`bool(v)`; a tensor's truth isn't known while tracing."""
    v = force(v)
    if isinstance(v, Const):
        return flow_truth(t, v) if isinstance(v, Flow) else bool(v.value)
    if isinstance(v, Tensor):
        from ..torch_.tensors import known_number

        known = known_number(v)
        if known is not None:
            return bool(known)
        raise Break("a branch on a tensor's data", "Use torch.where, or torch.cond where both sides are needed.")
    if isinstance(v, Array):
        raise Break("a branch on an array's data")
    if isinstance(v, Scalar):
        from ..torch_.tensors import scalar_truth

        return scalar_truth(t, v)
    if isinstance(v, (Sequence, Mapping, SetValue)):
        return length(t, v) > 0
    if isinstance(v, (Function, Builtin, Module, Method, Generator, Namespace)):
        return True
    for name in ("__bool__", "__len__"):
        method = special_method(t, v, name)
        if method is not None:
            result = force(call(t, method, [], {}))
            if name == "__bool__" and result.cls is not bool:
                t.raise_(TypeError, f"__bool__ should return bool, returned {result.cls.__name__}")
            if isinstance(result, (Const, Scalar)):
                return truth(t, result)
            raise Break(f"the result of {name} is not known while tracing")
    return True


def is_subclass(t: Tracer, cls: type, target: Value) -> bool:
    """`issubclass(cls, target)` for a class, a tuple of classes, or a union."""
    target = force(target)
    if isinstance(target, Sequence):
        return any(is_subclass(t, cls, each) for each in target.items)
    if isinstance(target, Class):
        hook = type(target.obj).__dict__.get("__subclasscheck__")
        if isinstance(hook, types.FunctionType) and type(target.obj).__module__ not in ("abc", "typing", "enum"):
            raise Break(f"__subclasscheck__ of {type(target.obj).__qualname__}")
        return issubclass(cls, target.obj)
    if isinstance(target, (Opaque, Const)):
        obj = target.obj if isinstance(target, Opaque) else target.value
        try:
            return issubclass(cls, obj)
        except TypeError as error:
            t.raise_(TypeError, *error.args)
    raise Break("issubclass with a class that isn't known")


def is_instance(t: Tracer, v: Value, target: Value) -> bool:
    """`isinstance(v, target)`; a Python `__instancecheck__` is called, but not for an object of the very class."""
    target = force(target)
    if isinstance(target, Sequence):
        return any(is_instance(t, v, each) for each in target.items)
    v = v if isinstance(v, Lazy) and v.value is None and not isinstance(v.obj, type) else force(v)
    cls = v.cls
    if isinstance(target, Class):
        meta = type(target.obj)
        hook = class_lookup(t, meta, "__instancecheck__")
        if hook is not None and isinstance(hook[0], (types.FunctionType, Function)) and not _plain_check(target.obj):
            from .attributes import _wrap_raw

            exact = type_of(t, v) is target.obj
            return exact or truth(t, call(t, _wrap_raw(t, *hook), [target, v], {}))
        cls = type_of(t, v)
        if meta is type(torch.FloatTensor):  # `torch.FloatTensor` and kin: a dtype on a kind of device
            like = force(v)
            return isinstance(like, Tensor) and isinstance(_like(like), target.obj)
        if target.obj is torch.nn.Parameter or meta is torch.nn.parameter._ParameterMeta:  # type: ignore[attr-defined]
            native = force(v)
            if isinstance(native, Tensor):
                return isinstance(native.obj if native.obj is not None else native.fake, target.obj)
        return issubclass(cls, target.obj) if isinstance(cls, type) else isinstance(v, target.obj)
    force(v)
    return is_subclass(t, cls, target)


def _like(v: Tensor) -> torch.Tensor:
    """An empty tensor of the dtype, device and layout of another."""
    return torch.empty(0, dtype=v.fake.dtype, device=v.fake.device, layout=v.fake.layout)


def _plain_check(cls: type) -> bool:
    """Metaclasses of the standard library and torch whose check is issubclass with registered classes."""
    return type(cls).__module__ in ("abc", "typing", "enum", "torch.nn.parameter", "torch", "torch._C", "torch.storage")


def format_value(t: Tracer, v: Value, spec: str = "") -> Value:
    """`format(v, spec)`."""
    v = force(v)
    flowing = text(v, "", spec)
    if flowing is not None:
        return flowing
    if isinstance(v, (Const, Sequence)):
        folded = fold(t, format, [v, Const(spec)], {})
        if folded is not None:
            return folded
    if isinstance(v, Scalar):
        return Const(format(_settled(v, "formatting of a number"), spec))
    if isinstance(v, Class):
        return Const(format(v.obj, spec))
    raw = class_lookup(t, v.cls, "__format__")
    if isinstance(v, Object) and raw is not None and isinstance(raw[0], (types.FunctionType, Function)):
        return call(t, special_method(t, v, "__format__"), [Const(spec)], {})  # type: ignore[arg-type]
    plain = raw is not None and raw[0] is object.__format__
    if (isinstance(v, (Object, Sequence, Mapping)) or hasattr(v, "shown")) and (plain or not spec):
        from ..builtins.functions import str_text

        if spec:
            t.raise_(TypeError, f"unsupported format string passed to {v.cls.__name__}.__format__")
        return Const(str_text(t, v))
    if isinstance(v, Object) and isinstance(v.payload, Const):
        return format_value(t, v.payload, spec)
    raise Break(f"formatting of a {v.cls.__qualname__}")


__all__ = [
    "_name",
    "as_constant",
    "binary",
    "compare",
    "constant",
    "dispatch_binary",
    "equal_or_same",
    "format_value",
    "inplace",
    "is_instance",
    "is_same",
    "is_subclass",
    "truth",
    "unary",
]
