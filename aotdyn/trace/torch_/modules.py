"""Knowledge of nn.Module: attributes that live in `_parameters`, `_buffers` and `_modules`.

Modules are ordinary Python objects otherwise: `__call__` and `__setattr__` are
traced into.
"""

from __future__ import annotations

import weakref
from typing import Any

import torch

from aotdyn.guards.sources import Pure

from ..control import Break, LeaveAlone, Raised
from ..handlers import handles, handles_inner
from ..values import (
    Cell,
    Class,
    Const,
    Lazy,
    Mapping,
    Namespace,
    Object,
    Opaque,
    Sequence,
    SetValue,
    Super,
    UnreadList,
    Value,
    force,
)

DICTS = ("_parameters", "_buffers", "_modules")
"""Dicts that `nn.Module.__getattr__` looks into, in its order."""


def module_attr(t: Any, obj: Object, name: str) -> Value | None:
    """What `nn.Module.__getattr__(obj, name)` returns; None where it raises AttributeError."""
    from .. import model
    from ..model.attributes import instance_lookup

    key = Const(name)
    for each in DICTS:
        holder = instance_lookup(t, obj, each)
        if holder is None:
            continue
        mapping = force(holder)
        if isinstance(mapping, Object) and isinstance(mapping.payload, Mapping):
            mapping = mapping.payload
        if not isinstance(mapping, Mapping):
            raise Break(f"{each} of a module is a {mapping.cls.__qualname__}")
        found = model.lookup(t, mapping, key)
        if found is not None:
            return found
    return None


@handles(torch.nn.Module.__getattr__)
def _getattr(t: Any, obj: Value, name: Value) -> Value:
    module, wanted = force(obj), force(name)
    if not isinstance(module, Object) or not isinstance(wanted, Const):
        raise Break("nn.Module.__getattr__ of an unusual object")
    found = module_attr(t, module, wanted.value)
    if found is None:
        return t.raise_(AttributeError, f"'{module.cls.__name__}' object has no attribute '{wanted.value}'")
    return found


@handles(torch.nn.modules.lazy.LazyModuleMixin._infer_parameters)
def _infer_parameters(t: Any, *args: Value, **kwargs: Value) -> Value:
    """The first call of a lazy module makes its parameters, and is Python's as a whole; the next is traced."""
    raise LeaveAlone("a lazy module makes its parameters", prepares=True)


@handles(weakref.ReferenceType.__call__)
def _dereference(t: Any, reference: Value) -> Value:
    """RNNs hold their weights by weak reference, and compare them with their parameters."""
    found = force(reference)
    if not isinstance(found, Opaque) or found.source is None:
        raise Break("call of a weak reference")
    obj = found.obj()
    if obj is not None and _may_be_gone(t, obj):
        raise Break(
            "a weak reference is asked behind something that was given up", "Python knows who holds the object."
        )
    return t.wrap(obj, Pure("weakref.call", found.source))


def _may_be_gone(t: Any, obj: Any) -> bool:
    """Whether an object may have gone since the trace began: an argument was given up, or what objects held."""
    given_up = [each.obj if isinstance(each, Lazy) else getattr(each, "obj", None) for each in t.given_up]
    if any(each is obj or not isinstance(each, torch.Tensor | int | float | str | None) for each in given_up):
        return True
    return any(_dropped(value) for value in t.changed)


def _dropped(value: Value) -> bool:
    """Whether a change took something out of an object from outside."""
    if isinstance(value, Object):
        return any(name in getattr(value.obj, "__dict__", ()) for name in value.attrs)
    if isinstance(value, Namespace):
        return any(name in value.obj for name in value.names)
    if isinstance(value, UnreadList) and value.unread:
        return False
    return isinstance(value, Sequence | Mapping | SetValue | Cell) and value.obj is not None


def _no_module(t: Any, *args: Value, **kwargs: Value) -> Value:
    classes = [each for each in map(force, args) if isinstance(each, Class)]
    name = classes[0].obj.__qualname__ if classes else "a tensor"
    raise Break(f"construction of {name} while tracing", "Make parameters outside of the compiled code.")


handles(torch.nn.Parameter, torch.nn.Buffer, torch.nn.parameter.UninitializedParameter)(_no_module)
handles(torch.nn.parameter.UninitializedBuffer)(_no_module)


@handles_inner(torch.fx.GraphModule.recompile, "call_wrapped")
def _call_graph_module(t: Any, _: Value, module: Value, *args: Value, **kwargs: Value) -> Value:
    """A call of an `fx.GraphModule`: of the class's own `__call__` if it has one, else of what stands behind it.

    Where an exception leaves it, torch prints the generated code beside it: Python does that.
    """
    from .. import model

    wrapped = force(model.get_attr(t, module, "_wrapped_call"))
    own, cls = (force(model.get_attr(t, wrapped, name)) for name in ("cls_call", "cls"))
    assert isinstance(cls, Class)
    receiver = force(module)
    try:
        if not isinstance(own, Const):
            return model.call(t, own, [receiver, *args], kwargs)
        return model.call(t, model.get_attr(t, Super(cls.obj, receiver), "__call__"), list(args), kwargs)
    except Raised as raised:
        raise Break(f"{raised.value.cls.__name__} leaves an fx.GraphModule") from None
