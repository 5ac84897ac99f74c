"""An object graph as plain data: types, values, identities, tensors with their storage; equal data, same behaviour."""

from __future__ import annotations

import collections
import enum
import functools
import types
from typing import Any

import torch

PLAIN = (type(None), bool, int, float, complex, str, bytes, torch.dtype, torch.device, type(Ellipsis), range, enum.Enum)

OPEN = ("types", "torch.nn", "builtins")
"Modules, besides the program's, whose instances are described by their attributes."


class Describer:
    """Describes objects; the same object is described once and referred to by number from then on.

    `module` is the module of the program: its functions are described with
    their closures, all others by name.
    """

    def __init__(self, module: str) -> None:
        self.module = module
        self.numbers: dict[int, int] = {}
        self.storages: dict[int, int] = {}
        self.kept: list[Any] = []

    def __call__(self, obj: Any) -> Any:
        if isinstance(obj, PLAIN):
            return self.plain(obj)
        if type(obj) is tuple and constant(obj):
            return ("tuple", [self(each) for each in obj])  # Python may share it with equal ones
        number = self.numbers.get(id(obj))
        if number is not None:
            return f"#{number}"
        self.numbers[id(obj)] = number = len(self.numbers)
        self.kept.append(obj)
        return (f"#{number}", *self.described(obj))

    def plain(self, obj: Any) -> Any:
        """A constant, told apart by type and exact value."""
        return f"{type(obj).__qualname__} {obj!r}"

    def described(self, obj: Any) -> tuple[Any, ...]:
        """What there is to say of an object met for the first time."""
        for kinds, describe in TABLE:
            if isinstance(obj, kinds):
                return describe(self, obj)
        return self.instance(obj)

    def tensor(self, t: torch.Tensor) -> tuple[Any, ...]:
        storage = self.storages.setdefault(t.untyped_storage().data_ptr() or id(t), len(self.storages))
        values = [repr(each) for each in t.detach().flatten().tolist()]
        facts = (str(t.dtype), tuple(t.shape), t.stride(), t.storage_offset(), t.requires_grad, t.is_leaf, t._is_view())
        grad = self(t.grad) if t.is_leaf and t.grad is not None else None
        return (type(t).__qualname__, *facts, f"storage {storage}", values, grad, self.attributes(vars(t)))

    def sequence(self, obj: Any) -> tuple[Any, ...]:
        return (type(obj).__qualname__, [self(each) for each in tuple(obj)], self.own_attributes(obj))

    def deque(self, obj: Any) -> tuple[Any, ...]:
        return (type(obj).__qualname__, obj.maxlen, [self(each) for each in obj])

    def mapping(self, obj: Any) -> tuple[Any, ...]:
        items = [(self(key), self(dict.__getitem__(obj, key))) for key in obj]
        factory = self(obj.default_factory) if isinstance(obj, collections.defaultdict) else None
        return (type(obj).__qualname__, items, factory, self.own_attributes(obj))

    def set(self, obj: Any) -> tuple[Any, ...]:
        return (type(obj).__qualname__, sorted(map(repr, obj)) if self.sortable(obj) else len(obj))

    @staticmethod
    def sortable(obj: Any) -> bool:
        """Whether the elements have a `repr` without an address."""
        return all(isinstance(each, PLAIN + (tuple,)) for each in obj)

    def function(self, f: types.FunctionType) -> tuple[Any, ...]:
        name = (f.__module__, f.__qualname__)
        if f.__module__ != self.module:
            return name
        parts = (f.__defaults__, f.__kwdefaults__, f.__closure__, f.__doc__, f.__annotations__)
        return (*name, *(self(part) for part in parts), self.attributes(vars(f)))

    def method(self, m: types.MethodType) -> tuple[Any, ...]:
        return ("method", self(m.__func__), self(m.__self__))

    def cell(self, cell: types.CellType) -> tuple[Any, ...]:
        try:
            return ("cell", self(cell.cell_contents))
        except ValueError:
            return ("empty cell",)

    def cls(self, cls: type) -> tuple[Any, ...]:
        if cls.__module__ != self.module:
            return (cls.__module__, cls.__qualname__)
        # An enum keeps what it was asked for once: a cache.
        skipped = ("__dict__", "__weakref__", "__doc__", "__module__", "_value2member_map_")
        own = {name: value for name, value in vars(cls).items() if name not in skipped and not callable(value)}
        return (cls.__module__, cls.__qualname__, self.attributes(own))

    def named(self, obj: Any) -> tuple[Any, ...]:
        return (type(obj).__qualname__, getattr(obj, "__qualname__", None) or obj.__name__)

    def partial(self, obj: functools.partial) -> tuple[Any, ...]:
        return (type(obj).__qualname__, self(obj.func), self(obj.args), self(obj.keywords))

    def slice(self, obj: slice) -> tuple[Any, ...]:
        return ("slice", self(obj.start), self(obj.stop), self(obj.step))

    def exception(self, obj: BaseException) -> tuple[Any, ...]:
        links = (obj.__cause__, obj.__context__, obj.__suppress_context__)
        return (type(obj).__qualname__, self(obj.args), [self(each) for each in links], self.attributes(vars(obj)))

    def instance(self, obj: Any) -> tuple[Any, ...]:
        cls = type(obj)
        if hasattr(cls, "__next__") and cls.__module__ in ("builtins", "itertools"):
            rest = []
            for each in obj:
                rest.append(self(each))
                if len(rest) > 20:
                    break
            return (cls.__qualname__, "rest", rest)
        if cls.__module__ != self.module and not cls.__module__.startswith(OPEN):
            return (cls.__module__, cls.__qualname__)
        return (cls.__module__, cls.__qualname__, self.own_attributes(obj))

    def own_attributes(self, obj: Any) -> Any:
        """Instance dict and slots."""
        found = dict(getattr(obj, "__dict__", None) or {})
        for cls in type(obj).__mro__:
            slots = cls.__dict__.get("__slots__", ())
            for name in (slots,) if isinstance(slots, str) else slots:
                if hasattr(obj, name):
                    found[name] = getattr(obj, name)
        return self.attributes(found)

    def attributes(self, found: Any) -> list[Any]:
        return [(name, self(value)) for name, value in found.items() if not str(name).startswith("_torchdynamo")]


def constant(obj: Any) -> bool:
    """Whether an object is made of nothing but constants: which object it is, nothing depends on."""
    return isinstance(obj, PLAIN) or (type(obj) is tuple and all(map(constant, obj)))


TABLE: list[tuple[Any, Any]] = [
    (torch.Tensor, Describer.tensor),
    ((list, tuple), Describer.sequence),
    (collections.deque, Describer.deque),
    (dict, Describer.mapping),
    ((set, frozenset), Describer.set),
    (types.FunctionType, Describer.function),
    (types.MethodType, Describer.method),
    (types.CellType, Describer.cell),
    (type, Describer.cls),
    ((types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType), Describer.named),
    (functools.partial, Describer.partial),
    (slice, Describer.slice),
    (BaseException, Describer.exception),
]
