"""Calls: binding arguments, inlining Python functions, making instances, and the tables of known callables."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

import torch

from aotdyn import interrupted

from ..control import Break, NotConstant, Raised
from ..handlers import BY_CODE, FOLDABLE, HANDLERS, POLYFILLS
from ..values import (
    Builtin,
    Cell,
    Class,
    Const,
    Function,
    Iterator,
    Lazy,
    Mapping,
    Method,
    Object,
    Opaque,
    Sequence,
    SetValue,
    Super,
    Tensor,
    Value,
    force,
)
from .attributes import _wrap_raw, class_lookup, get_attr
from .constants import as_constant, as_python, constant, is_constant

if TYPE_CHECKING:
    from ..tracer import Tracer

Args = list[Value]
Kwargs = dict[str, Value]


def call_method(t: Tracer, v: Value, name: str, *args: Value) -> Value:
    """`v.name(*args)`."""
    return call(t, get_attr(t, v, name), list(args), {})


def special_method(t: Tracer, v: Value, name: str) -> Value | None:
    """The special method `name`, looked up on the class as the data model says, bound; None if absent."""
    from .attributes import bind_raw

    v = force(v)
    raw = class_lookup(t, v.cls, name)
    return None if raw is None or raw[0] is None else bind_raw(t, *raw, v, v.cls)


def call(t: Tracer, f: Value, args: Args, kwargs: Kwargs) -> Value:
    """`f(*args, **kwargs)`."""
    f = force(f)
    if isinstance(f, Function):
        return call_function(t, f, args, kwargs)
    if isinstance(f, Method):
        return call(t, f.function, [f.self_value, *args], kwargs)
    by_call, t.frame.calling = t.frame.calling, False
    if isinstance(f, Builtin):
        return _call_builtin(t, f, args, kwargs)
    if isinstance(f, Class):
        return _call_class(t, f, args, kwargs)
    if isinstance(f, Object) and f.cls is functools.partial:
        from ..builtins.partials import call_partial

        return call_partial(t, f, args, kwargs)
    if isinstance(f, Opaque) and _key(f.obj) in HANDLERS:
        return _handle(t, HANDLERS[f.obj], args, kwargs)
    if isinstance(f, Opaque) and isinstance(f.obj, functools._lru_cache_wrapper):
        from ..builtins.memoised import call_memoised

        return call_memoised(t, f, args, kwargs)
    raw = class_lookup(t, f.cls, "__call__")
    if raw is None:
        t.raise_(TypeError, f"{f.cls.__name__!r} object is not callable")
    if isinstance(raw[0], (types.FunctionType, Function)):
        t.frame.calling = by_call
        return call(t, _wrap_raw(t, *raw), [f, *args], kwargs)
    if _key(raw[0]) in HANDLERS:
        return _handle(t, HANDLERS[raw[0]], [f, *args], kwargs)
    if isinstance(f, Opaque):
        raise Break(f"call of {_name(f.obj)}, which isn't Python code", "It runs natively between two graphs.")
    raise Break(f"call of a {f.cls.__qualname__} object")


def _key(obj: Any) -> Any:
    try:
        hash(obj)
    except TypeError:
        return None
    return obj


def _name(obj: Any) -> str:
    module = getattr(obj, "__module__", None) or getattr(type(obj), "__module__", "")
    owner = getattr(obj, "__self__", None)
    if type(owner).__name__.startswith("pybind11_detail_function_record"):  # what a function of pybind11 is bound to
        return f"{module}.{obj.__name__}"
    return f"{module}.{getattr(obj, '__qualname__', None) or getattr(obj, '__name__', type(obj).__qualname__)}"


def _handle(t: Tracer, handler: Callable[..., Any], args: Args, kwargs: Kwargs) -> Value:
    """Call a handler; arguments that don't fit it are left to Python."""
    try:
        return handler(t, *args, **kwargs)
    except TypeError as error:
        if error.__traceback__ is not None and error.__traceback__.tb_next is None:
            raise Break(f"arguments that the tracer doesn't know for {handler.__name__.strip('_')}") from None
        raise


def _call_builtin(t: Tracer, f: Builtin, args: Args, kwargs: Kwargs) -> Value:
    key = _key(f.obj)
    if key is not None and key in HANDLERS:
        return _handle(t, HANDLERS[key], args, kwargs)
    if key is not None and key in FOLDABLE:
        folded = fold(t, f.obj, args, kwargs)
        if folded is not None:
            return folded
    if key is not None and key in POLYFILLS:
        return call_function(t, t.polyfill(POLYFILLS[key]), args, kwargs)
    from ..torch_.calls import call_torch
    from ..torch_.leaf import is_leaf
    from ..torch_.tensors import tensor_method

    owner = getattr(f.obj, "__objclass__", None)
    receiver = force(args[0]) if args else None
    if owner is not None and owner in torch.Tensor.__mro__[:-1] and isinstance(receiver, Tensor):
        return tensor_method(t, f.obj.__name__, receiver, args[1:], kwargs)
    if is_leaf(f.obj):
        return call_torch(t, f.obj, args, kwargs)
    if isinstance(f.obj, types.MethodWrapperType | types.WrapperDescriptorType | types.MethodDescriptorType):
        folded = fold(t, f.obj, args, kwargs) if all(isinstance(force(a), Const) for a in args) else None
        if folded is not None:
            return folded
        payload = _on_payload(t, f, args, kwargs)
        if payload is not None:
            return payload
    raise Break(f"call of {_name(f.obj)}, which is written in C", "It runs natively between two graphs.")


def _on_payload(t: Tracer, f: Builtin, args: Args, kwargs: Kwargs) -> Value | None:
    """A builtin's method called on an instance of its subclass: it acts on the payload."""
    if not args:
        return None
    receiver = force(args[0])
    owner = getattr(f.obj, "__objclass__", object)
    if isinstance(receiver, Object) and receiver.payload is not None and isinstance(receiver.payload, Value):
        inner = force(receiver.payload)
        if owner is not object and issubclass(inner.cls, owner):
            if receiver.source is not None:
                t.mutated(receiver)
            return call(t, f, [inner, *args[1:]], kwargs)
    return None


def fold(t: Tracer, fn: Any, args: Args, kwargs: Kwargs) -> Value | None:
    """Compute a C function of constants; None where an argument isn't known. Its exceptions are the program's."""
    try:
        native = [as_python(each) for each in args]
        native_kwargs = {name: as_python(each) for name, each in kwargs.items()}
    except NotConstant:
        return None
    try:
        result = fn(*native, **native_kwargs)
    except Exception as error:  # the traced program's own exception
        interrupted.hand_on(error)
        t.raise_(type(error), *error.args)
    return constant(result)


def call_function(t: Tracer, f: Function, args: Args, kwargs: Kwargs) -> Value:
    """Call a Python function: a handler or graph operation where it's known, else inline it."""
    by_call, t.frame.calling = t.frame.calling, False
    if f.obj is not None:
        key = _key(f.obj)
        if key in HANDLERS:
            return _handle(t, HANDLERS[key], args, kwargs)
        if key in POLYFILLS:
            return call_function(t, t.polyfill(POLYFILLS[key]), args, kwargs)
        inner = BY_CODE.get(f.code.co_qualname)
        if inner is not None and inner[0] is f.code:
            return _handle(t, inner[1], [f, *args], kwargs)
        from ..torch_.calls import call_torch
        from ..torch_.leaf import is_leaf

        if is_leaf(f.obj):
            return call_torch(t, f.obj, args, kwargs)
        receiver = force(args[0]) if args else None
        if torch.Tensor.__dict__.get(f.name) is f.obj and isinstance(receiver, Tensor):
            from ..torch_.tensors import tensor_method

            return tensor_method(t, f.name, receiver, args[1:], kwargs)
    reason = t.inline_refusal(f)
    if reason:
        raise Break(reason)
    return t.inline(f, bind_arguments(t, f, args, kwargs), by_call)


def _unexpected(t: Tracer, f: Function, name: str, kwargs: Kwargs) -> NoReturn:
    """A keyword that no parameter takes; see `initialize_locals` in CPython's Python/ceval.c."""
    only = [each for each in f.code.co_varnames[: f.code.co_posonlyargcount] if each in kwargs]
    what = f"some positional-only arguments passed as keyword arguments: '{', '.join(only)}'"
    t.raise_(TypeError, f"{f.qualname}() got {what if only else f'an unexpected keyword argument {name!r}'}")


def _too_many(t: Tracer, f: Function, given: int, keywords: int) -> NoReturn:
    """More positional arguments than parameters, `keywords` of the keyword-only ones beside (`too_many_positional`)."""

    def arguments(count: int, kind: str) -> str:
        return f"{kind} argument{'' if count == 1 else 's'}"

    n, defaults = f.code.co_argcount, len(f.defaults)
    takes = f"from {n - defaults} to {n}" if defaults else str(n)
    beside = f" {arguments(given, 'positional')} (and {keywords} {arguments(keywords, 'keyword-only')})"
    were = "was" if given == 1 and not keywords else "were"
    takes = f"{f.qualname}() takes {takes} {arguments(2 if defaults else n, 'positional')}"
    t.raise_(TypeError, f"{takes} but {given}{beside if keywords else ''} {were} given")


def bind_arguments(t: Tracer, f: Function, args: Args, kwargs: Kwargs) -> dict[str, Value]:
    """The callee's parameters by name, as the language reference 6.3.4 says; TypeErrors as CPython words them."""
    code = f.code
    n, posonly, kwonly = code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount
    names = code.co_varnames
    bound: dict[str, Value] = dict(zip(names[:n], args))
    index = n + kwonly
    extra = args[n:]
    if code.co_flags & inspect.CO_VARARGS:
        bound[names[index]] = Sequence(tuple, list(extra))
        index += 1
    rest: dict[str, Value] = {}
    keywords = set(names[posonly:n]) | set(names[n : n + kwonly])
    for name, value in kwargs.items():
        if name in keywords:
            if name in bound:
                t.raise_(TypeError, f"{f.qualname}() got multiple values for argument {name!r}")
            bound[name] = value
        elif code.co_flags & inspect.CO_VARKEYWORDS:
            rest[name] = value
        else:
            _unexpected(t, f, name, kwargs)
    if extra and not code.co_flags & inspect.CO_VARARGS:
        _too_many(t, f, len(args), sum(name in bound for name in names[n : n + kwonly]))
    if code.co_flags & inspect.CO_VARKEYWORDS:
        bound[names[index]] = Mapping(dict, {name: (Const(name), value) for name, value in rest.items()})
    missing = []
    for i, name in enumerate(names[:n]):
        if name not in bound:
            at = i - (n - len(f.defaults))
            if at >= 0:
                bound[name] = f.defaults[at]
            else:
                missing.append(name)
    if missing:
        _missing(t, f, missing, "positional")
    for name in names[n : n + kwonly]:
        if name not in bound:
            if name in f.kwdefaults:
                bound[name] = f.kwdefaults[name]
            else:
                missing.append(name)
    if missing:
        _missing(t, f, missing, "keyword-only")
    return bound


def _missing(t: Tracer, f: Function, names: list[str], kind: str) -> None:
    quoted = [repr(name) for name in names]
    listed = (
        quoted[0]
        if len(quoted) == 1
        else ", ".join(quoted[:-1]) + (", and " if len(quoted) > 2 else " and ") + quoted[-1]
    )
    plural = "" if len(names) == 1 else "s"
    t.raise_(TypeError, f"{f.qualname}() missing {len(names)} required {kind} argument{plural}: {listed}")


def _call_class(t: Tracer, f: Class, args: Args, kwargs: Kwargs) -> Value:
    """`type.__call__`: `__new__`, then `__init__`; a metaclass's `__call__` before both."""
    cls = f.obj
    key = _key(cls)
    if key in HANDLERS:
        return _handle(t, HANDLERS[key], args, kwargs)
    if hasattr(f, "construct"):  # a class that tracing made
        return f.construct(t, args, kwargs)
    if key in FOLDABLE:
        folded = fold(t, cls, args, kwargs)
        if folded is not None:
            return folded
    if key in POLYFILLS:
        return call_function(t, t.polyfill(POLYFILLS[key]), args, kwargs)
    meta = class_lookup(t, type(cls), "__call__")
    if meta is not None and isinstance(meta[0], (types.FunctionType, Function)):
        handler = HANDLERS.get(meta[0])
        if handler is not None:
            return _handle(t, handler, [f, *args], kwargs)
        return call(t, _wrap_raw(t, *meta), [f, *args], kwargs)
    if cls in (torch.Tensor, torch.nn.Parameter) or issubclass(cls, torch.Tensor):
        raise Break(f"construction of a {cls.__qualname__}")
    return instantiate(t, f, args, kwargs)


def instantiate(t: Tracer, f: Class, args: Args, kwargs: Kwargs) -> Value:
    """`__new__` and `__init__` of an ordinary class."""
    cls = f.obj
    if class_lookup(t, cls, "__del__") is not None:
        raise Break(f"a {cls.__qualname__} is made, which has a `__del__`", "Python runs it when the object dies.")
    new = class_lookup(t, cls, "__new__")
    raw_new = new[0].__func__ if new is not None and isinstance(new[0], staticmethod) else new[0] if new else None
    if new is not None and isinstance(raw_new, types.FunctionType):
        from aotdyn.guards.sources import Attr

        source = new[1]
        if isinstance(new[0], staticmethod) and source is not None:
            source = Attr(source, "__func__")
        instance = force(call(t, _wrap_raw(t, raw_new, source), [f, *args], kwargs))
        if not issubclass(instance.cls, cls):
            return instance
        if isinstance(instance, Sequence):
            return instance
    else:
        instance = new_instance(t, cls, args, kwargs)
    init = class_lookup(t, cls, "__init__")
    if init is not None and isinstance(init[0], (types.FunctionType, Function)):
        call(t, _wrap_raw(t, *init), [instance, *args], kwargs)
    elif isinstance(instance, Object) and issubclass(cls, BaseException):
        if isinstance(raw_new, types.FunctionType):
            instance.payload = Sequence(tuple, list(args))
    elif isinstance(instance, Object) and isinstance(instance.payload, Value):
        _init_payload(t, instance, args, kwargs)
    elif init is not None and init[0] is object.__init__ and (args or kwargs) and raw_new is object.__new__:
        t.raise_(TypeError, f"{cls.__name__}() takes no arguments")
    return instance


def new_instance(t: Tracer, cls: type, args: Args, kwargs: Kwargs) -> Value:
    """`cls.__new__(cls, ...)` where that is a builtin's."""
    if issubclass(cls, BaseExceptionGroup):
        from .groups import make

        if kwargs:
            t.raise_(TypeError, f"{cls.__name__}() takes no keyword arguments")
        return make(t, cls, args)
    if issubclass(cls, BaseException):
        return Object(cls, payload=Sequence(tuple, list(args)))
    if issubclass(cls, dict):
        from collections import OrderedDict

        return Object(cls, payload=Mapping(OrderedDict if issubclass(cls, OrderedDict) else dict, {}))
    if issubclass(cls, list):
        return Object(cls, payload=Sequence(list, []))
    if issubclass(cls, tuple):
        from .iteration import unpack

        items = unpack(t, args[0]) if args else []
        if plain_tuple(cls):
            return Sequence(cls, items)
        return Object(cls, payload=Sequence(tuple, items))
    if issubclass(cls, (set, frozenset)):
        base = set if issubclass(cls, set) else frozenset
        return Object(cls, payload=SetValue(base, {}))
    if issubclass(cls, (int, float, str, bytes, complex)):
        scalar: type = next(each for each in (bool, int, float, str, bytes, complex) if issubclass(cls, each))
        inner = fold(t, scalar, args, kwargs)
        if inner is None:
            raise Break(f"construction of a {cls.__qualname__} from a value that isn't known")
        return Object(cls, payload=inner)
    if not _made_by_object(cls):
        raise Break(f"construction of {_name(cls)}, a class written in C", "Construct it outside of the compiled code.")
    if getattr(cls, "__abstractmethods__", None):
        raise Break(f"construction of the abstract class {cls.__qualname__}")
    return Object(cls)


def plain_tuple(cls: type) -> bool:
    """Whether instances of a subclass of tuple are nothing but their items: named tuples, sizes, structseqs."""
    if cls is torch.Size or hasattr(cls, "n_sequence_fields"):
        return True
    return (
        hasattr(cls, "_fields")
        and cls.__dictoffset__ == 0
        and not any(name in base.__dict__ for base in cls.__mro__[: cls.__mro__.index(tuple)] for name in _OF_TUPLES)
    )


_OF_TUPLES = ("__getitem__", "__iter__", "__len__", "__contains__", "__eq__", "__ne__", "__add__", "__mul__")


def _made_by_object(cls: type) -> bool:
    """Whether `object.__new__` makes the instances: no class among the bases has a `__new__` written in C."""
    own = (each.__dict__["__new__"] for each in cls.__mro__[:-1] if "__new__" in each.__dict__)
    return all(isinstance(getattr(new, "__func__", new), types.FunctionType) for new in own)


def _init_payload(t: Tracer, instance: Object, args: Args, kwargs: Kwargs) -> None:
    """`dict.__init__`, `list.__init__`, `set.__init__` on the payload of a new instance."""
    inner = force(instance.payload)  # type: ignore[arg-type]
    if isinstance(inner, Mapping) and (args or kwargs):
        call(t, get_attr(t, inner, "update"), args, kwargs)
    elif isinstance(inner, Sequence) and inner.cls is list and args:
        call(t, get_attr(t, inner, "extend"), args, {})
    elif isinstance(inner, SetValue) and inner.cls is set and args:
        call(t, get_attr(t, inner, "update"), args, {})


def build_slice(t: Tracer, parts: list[Value]) -> Value:
    """`slice(*parts)`: a constant where its parts are, else an Object with start, stop, step."""
    if all(is_constant(each) for each in parts):
        return Const(slice(*[as_constant(each) for each in parts]))
    made = Object(slice)
    if len(parts) == 1:
        parts = [Const(None), parts[0]]
    for name, each in zip(("start", "stop", "step"), [*parts, Const(None)]):
        made.attrs[name] = each
    return made


__all__ = [
    "Cell",
    "Iterator",
    "Lazy",
    "Raised",
    "Super",
    "bind_arguments",
    "build_slice",
    "call",
    "call_function",
    "call_method",
    "fold",
    "instantiate",
    "new_instance",
    "special_method",
]
