"""Optimised modules: an object that is the module in every way but its call."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
import torch

from aotdyn.rewrite import frames, originals
from aotdyn.rewrite.digest import digest
from aotdyn.runtime.extent import Extent


def optimized(model: torch.nn.Module, extent: Extent) -> torch.nn.Module:
    """A module that shares all state with `model` (its `__dict__` is the same) and whose call is compiled."""
    if isinstance(model, torch.jit.ScriptModule):
        return model
    if type(model) in _classes.values():
        model = model._orig_mod  # type: ignore[assignment]  # compiled again: the outermost extent wins
    cls = _class(type(model))
    made: torch.nn.Module = object.__new__(cls)
    object.__setattr__(made, "__dict__", model.__dict__)
    cls._orig_mod.__set__(made, model)  # type: ignore[attr-defined]
    cls._aotdyn_extent.__set__(made, extent)  # type: ignore[attr-defined]
    cls._aotdyn_call.__set__(made, _compiled_call(model, extent))  # type: ignore[attr-defined]
    return made


def _template(self: Any, *args: Any, **kwargs: Any) -> Any:
    return self(*args, **kwargs)


def _compiled_call(model: torch.nn.Module, extent: Extent) -> Any:
    from aotdyn.api import stubbed, stubbing

    cls = type(model)
    code = _template.__code__
    forward = getattr(cls.forward, "__code__", None)
    name = digest(originals.original(forward)) if forward is not None else digest(code)
    spec = msgspec.structs.replace(
        frames.spec_of(code, cls.__module__), qualname=f"{cls.__qualname__}.__call__", digest=name
    )
    return stubbed(_template, stubbing(code, spec, extent), spec, extent)  # type: ignore[arg-type]


_classes: dict[type, type] = {}


def _class(cls: type) -> type:
    """The subclass of a module's class whose instances are optimised modules."""
    if cls not in _classes:
        namespace: dict[str, Any] = {
            "__slots__": ("_aotdyn_call", "_aotdyn_extent", "_orig_mod"),
            "__module__": cls.__module__,
            "__qualname__": cls.__qualname__,
            "__doc__": cls.__doc__,
            "__call__": _call,
            "__reduce_ex__": _reduce,
            "__deepcopy__": _deepcopy,
        }
        _classes[cls] = type(cls)(cls.__name__, (cls,), namespace)
    return _classes[cls]


def _call(self: Any, *args: Any, **kwargs: Any) -> Any:
    return self._aotdyn_call(self._orig_mod, *args, **kwargs)


def _reduce(self: Any, protocol: int) -> Any:
    extent = self._aotdyn_extent
    backend = extent.backend.name if getattr(extent.backend, "function", None) is None and extent.backend else None
    return _rebuild, (self._orig_mod, backend, extent.fullgraph, extent.dynamic, extent.backend_options)


def _rebuild(
    model: torch.nn.Module, backend: str | None, fullgraph: bool, dynamic: bool | None, options: dict[str, Any]
) -> Any:
    from aotdyn.api import compile

    return compile(model, backend=backend, fullgraph=fullgraph, dynamic=dynamic, options=options or None)


def _deepcopy(self: Any, memo: dict[int, Any]) -> Any:
    return optimized(copy.deepcopy(self._orig_mod, memo), self._aotdyn_extent)
