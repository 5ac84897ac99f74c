"""Recording what a Python function written in torch's operations does to fake tensors."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from ..control import Break, Raised
from ..torch_ import calls, leaf
from ..values import Array, Class, Const, Mapping, Object, Scalar, Sequence, Tensor, Value, force

ASKED = leaf.words(
    "dim size stride numel nelement ndimension is_floating_point is_complex is_contiguous element_size __len__"
)
"""Methods that tell facts of a fake tensor: they run, and aren't recorded."""


class Recording(TorchFunctionMode):
    """While it is on, each operator that meets the fake tensors of values is recorded as the program's."""

    def __init__(self, t: Any) -> None:
        super().__init__()
        self.t = t
        self.tensors: dict[int, Tensor] = {}
        self.stopped: BaseException | None = None

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        if name == "__get__":
            return self._attribute(func, args[0])
        if name in ASKED and leaf.raw_method(name) is not None:
            return func(*args, **kwargs or {})
        target = leaf.methods().get(func)
        if target is None:
            target = _ITEMS.get(name, func)
            if target is func and not leaf.is_leaf(func):
                self._stop(Break(f"torch's {name} within one of numpy's functions"))
        try:
            values = [self.value(each) for each in args]
            named = {key: self.value(each) for key, each in (kwargs or {}).items()}
            return self.native(calls.record(self.t, target, values, named))
        except (Break, Raised) as stopped:
            self._stop(stopped)

    def _stop(self, reason: BaseException) -> Any:
        """End the recording: the function that is recorded may catch what it doesn't know."""
        self.stopped = reason
        raise reason

    def _attribute(self, func: Any, receiver: Any) -> Any:
        name = func.__self__.__name__
        if name in ("T", "mT", "H", "mH", "real", "imag"):
            return self.native(calls.record(self.t, getattr, [self.value(receiver), Const(name)], {}))
        return func(receiver)

    def native(self, value: Value) -> Any:
        """What stands for a value in the function that is recorded: a fake tensor, a symbol, a number."""
        value = force(value)
        if isinstance(value, Array):
            value = value.tensor
        if isinstance(value, Tensor):
            self.tensors[id(value.fake)] = value
            return value.fake
        if isinstance(value, Scalar):
            return value.sym
        if isinstance(value, Const):
            return value.value
        if isinstance(value, Class):
            return value.obj
        if isinstance(value, Sequence):
            items = [self.native(each) for each in value.items]
            return value.cls(items) if value.cls in (list, tuple, torch.Size) else tuple(items)
        if isinstance(value, Object) and value.cls is slice:
            return slice(*(self.native(value.attrs[name] or Const(None)) for name in ("start", "stop", "step")))
        raise Break(f"a {value.cls.__qualname__} as argument of one of numpy's functions")

    def value(self, obj: Any) -> Value:
        """The value of an argument of an operator."""
        if isinstance(obj, torch.Tensor):
            known = self.tensors.get(id(obj))
            if known is None:
                raise Break("a tensor of unknown origin within one of numpy's functions")
            return known
        if isinstance(obj, calls.SYMBOLS):
            known_number = calls.concrete(obj)
            if known_number is not None:
                return Const(known_number)
            found = self.t.sizes.of_symbol(obj) if isinstance(obj, torch.SymInt) else None
            return found if found is not None else Const(calls.type_of_symbol(obj)(obj))
        if isinstance(obj, (list, tuple)):
            return Sequence(type(obj) if type(obj) in (list, torch.Size) else tuple, [self.value(each) for each in obj])
        if isinstance(obj, slice):
            made = Object(slice)
            for name in ("start", "stop", "step"):
                made.attrs[name] = self.value(getattr(obj, name))
            return made
        if isinstance(obj, dict):
            return Mapping(dict, {key: (Const(key), self.value(each)) for key, each in obj.items()})
        return Class(obj) if isinstance(obj, type) else Const(obj)


_ITEMS = {"__getitem__": operator.getitem, "__setitem__": operator.setitem}


def recorded(t: Any, function: Callable[[Recording], Any]) -> Any:
    """What `function` gives, called with the recording; Break where it does what can't be recorded, or raises."""
    recording = Recording(t)
    try:
        with recording:
            return _values(recording, function(recording))
    except (Break, Raised, MemoryError, RecursionError):
        raise
    except Exception as error:
        if recording.stopped is not None:
            raise recording.stopped from error
        raise Break(f"one of numpy's functions: {type(error).__name__}: {error}") from error


def _values(recording: Recording, result: Any) -> Any:
    """A result with Tensors in place of torch._numpy's arrays and of fake tensors."""
    inner = getattr(result, "tensor", result)
    if isinstance(inner, torch.Tensor):
        found = recording.value(inner)
        assert isinstance(found, Tensor)
        return found
    if isinstance(result, (tuple, list)):
        return [_values(recording, each) for each in result]
    return result
