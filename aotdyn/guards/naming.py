"""Durable names: the public path by which a class, function or module is found again in another process.

Python objects are found by `__module__` and `__qualname__`, C functions by a
table made on first use by walking public namespaces (most of torch's C
functions name no module, or a private one). A path counts only if following
it gives the very object back.
"""

from __future__ import annotations

import functools
import importlib
import sys
import types
from collections.abc import Iterator
from typing import Any

import numpy
import torch

Path = tuple[str, str]

DESCRIPTORS = (
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
    types.ClassMethodDescriptorType,
)

NUMPY_FUNCTIONS: tuple[type, ...] = (numpy.ufunc, type(numpy.sum))
"""Types of numpy's functions that aren't Python's or CPython's own."""

NAMED_TYPES = (
    *NUMPY_FUNCTIONS,
    type,
    types.FunctionType,
    types.BuiltinFunctionType,
    types.ModuleType,
    torch._ops.OpOverload,
    torch._ops.OpOverloadPacket,
    *DESCRIPTORS,
)
"""Types of the objects that a public path may name; others are reached by sources."""

NAMESPACES = (
    "torch",
    "torch.nn.functional",
    "torch.functional",
    "torch.linalg",
    "torch.fft",
    "torch.special",
    "torch.sparse",
    "torch.nn.init",
    "torch.autograd",
    "torch._C",
    "torch._C._nn",
    "torch._C._linalg",
    "torch._C._fft",
    "torch._C._special",
    "torch._C._sparse",
    "torch._C._nested",
    "torch._C._functorch",
    "torch._C._autograd",
    "torch._C._VariableFunctions",
    "torch._C._cudnn",
    "builtins",
    "math",
    "operator",
    "itertools",
    "functools",
    "collections",
    "time",
    "random",
    "os",
    "sys",
    "gc",
    "types",
)
"""Walked in this order for C objects; the first path found is the name."""


def is_cython(obj: Any) -> bool:
    """Whether an object is a function or method that Cython has compiled: each of its modules has a type for them."""
    return type(obj).__name__ == "cython_function_or_method"


def path_of(obj: Any) -> Path | None:
    """`(module, qualname)` that finds `obj` in any process that has imported the module, or None.

    A module's qualname is the empty string.
    """
    path: Path | None
    if isinstance(obj, torch._ops._OpNamespace):  # a module, but none of sys.modules
        path = ("torch.ops", obj.name)
        return path if _finds(path, obj) else None
    if isinstance(obj, types.ModuleType):
        name = module_name(vars(obj))
        return (name, "") if name is not None and sys.modules.get(name) is obj else None
    if isinstance(obj, torch._ops.OpOverload | torch._ops.OpOverloadPacket):
        path = ("torch.ops", str(obj))
        return path if _finds(path, obj) else None
    if isinstance(obj, torch._ops.HigherOrderOperator):
        path = ("torch.ops", f"higher_order.{obj.name()}")
        return path if _finds(path, obj) else None
    if not isinstance(obj, NAMED_TYPES) and not is_cython(obj):
        return None
    if isinstance(obj, DESCRIPTORS):
        owner = path_of(obj.__objclass__)
        path = owner and (owner[0], f"{owner[1]}.{obj.__name__}")
        return path if path and _finds(path, obj) else None
    module = getattr(obj, "__module__", None)
    for attribute in ("__qualname__", "__name__"):  # F.max_pool1d is `boolean_dispatch.<locals>.fn` by the first
        name = getattr(obj, attribute, None)
        if isinstance(module, str) and isinstance(name, str) and "<" not in name and _finds((module, name), obj):
            return module, name
    if isinstance(obj, types.FunctionType):
        return None
    if isinstance(obj, types.BuiltinFunctionType) and isinstance(obj.__self__, type):
        owner = path_of(obj.__self__)
        path = owner and (owner[0], f"{owner[1]}.{obj.__name__}")
        if path and _finds(path, obj):
            return path
    return _c_table().get(_Identity(obj))


def module_name(namespace: dict[str, Any]) -> str | None:
    """The name under which the module of these globals is loaded, None where it isn't.

    That needn't be its `__name__`: `_collections_abc` calls itself `collections.abc`.
    """
    for name in (namespace.get("__name__"), getattr(namespace.get("__spec__"), "name", None)):
        module = sys.modules.get(name) if isinstance(name, str) else None
        if module is not None and getattr(module, "__dict__", None) is namespace:
            return name
    return None


def find(module: str, qualname: str, load: bool = True) -> Any:
    """The object at a path; LookupError where it is missing. Imports the module unless `load` is false."""
    found = sys.modules.get(module)
    if found is None:
        if not load:
            raise LookupError(f"module {module} isn't loaded")
        try:
            found = importlib.import_module(module)
        except ImportError as error:
            raise LookupError(f"no module {module}: {error}") from error
    if not qualname:
        return found
    try:
        for name in qualname.split("."):
            found = getattr(found, name)
    except AttributeError as error:
        raise LookupError(f"no {qualname} in module {module}") from error
    return found


class _Identity:
    """Key by identity; for C functions and methods, whose objects may be made anew by each lookup, by equality."""

    __slots__ = ("key", "obj")

    def __init__(self, obj: Any) -> None:
        self.obj = obj
        self.key = hash(obj) if isinstance(obj, types.BuiltinFunctionType) else id(obj)

    def __hash__(self) -> int:
        return self.key

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identity) and _same(self.obj, other.obj)


def _same(a: Any, b: Any) -> bool:
    return a is b or (isinstance(a, types.BuiltinFunctionType) and type(a) is type(b) and bool(a == b))


def _finds(path: Path, obj: Any) -> bool:
    try:
        return _same(find(*path, load=False), obj)
    except LookupError:
        return False


@functools.cache
def _c_table() -> dict[_Identity, Path]:
    table: dict[_Identity, Path] = {}
    for path, value in _walk():
        table.setdefault(_Identity(value), path)
    return table


def _walk() -> Iterator[tuple[Path, Any]]:
    for namespace in NAMESPACES:
        try:
            holder, path = _namespace(namespace)
        except LookupError:
            continue
        for name in dir(holder):
            value = getattr(holder, name, None)
            if isinstance(value, types.BuiltinFunctionType | type):
                yield (path[0], f"{path[1]}.{name}".lstrip(".")), value


def _namespace(name: str) -> tuple[Any, Path]:
    if name in sys.modules:
        return sys.modules[name], (name, "")
    module, _, attribute = name.rpartition(".")
    return find(module, attribute, load=False), (module, attribute)
