"""Building values again: the instructions of an epilogue that make, from graph outputs and sources, what is live.

A value that has a source is read there; one that tracing made is built once,
so that objects keep their identity. Containers are made empty first where
something inside refers back to them.
"""

from __future__ import annotations

import collections
import functools
import types
from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from aotdyn.guards import constants, naming
from aotdyn.guards.sources import Source
from aotdyn.runtime.variant import Instruction

from .control import LookedAt, Unbuildable
from .flows import Data, Drawn, Flow, Text
from .opcodes.functions import CodeValue
from .values import (
    Builtin,
    Cell,
    Class,
    Const,
    Function,
    Generator,
    Group,
    Identity,
    InstanceDict,
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
    Super,
    Tensor,
    Value,
    force,
)


class Emitter:
    """Writes an epilogue. `index` gives a source's row, `outputs` gathers the graph nodes that it reads."""

    def __init__(self, t: Any, index: Callable[[Source], int]) -> None:
        self.t = t
        self.index = index
        self.code: list[Instruction] = []
        self.outputs: list[fx.Node] = []
        self._made: dict[int, int] = {}
        self._keep: list[Value] = []
        self._open: set[int] = set()
        self._constants: dict[Any, int] = {}
        self._next = 0
        self._tracebacks: dict[int, int] = {}
        self._settled: set[Value] = set()

    # Instructions

    def add(self, op: str, *args: Any) -> int:
        """An instruction that writes a new register."""
        self._next += 1
        self.code.append(Instruction(op, self._next - 1, args))
        return self._next - 1

    def do(self, op: str, *args: Any) -> None:
        """An instruction that writes none."""
        self.code.append(Instruction(op, -1, args))

    def const(self, obj: Any) -> int:
        token = ("const", constants.token(obj))
        if token not in self._constants:
            self._constants[token] = self.add("const", constants.encode(obj))
        return self._constants[token]

    def helper(self, name: str, *registers: int) -> int:
        """Call of a function of runtime.helpers."""
        return self.call(self._shared("helper", name), list(registers))

    def call(self, function: int, registers: list[int], named: dict[str, int] | None = None) -> int:
        return self.add("call", function, registers, named or {})

    def import_(self, module: str, qualname: str) -> int:
        return self._shared("import", module, qualname)

    def source(self, source: Source) -> int:
        return self._shared("source", self.index(source))

    def _shared(self, op: str, *args: Any) -> int:
        token = (op, args)
        if token not in self._constants:
            self._constants[token] = self.add(op, *args)
        return self._constants[token]

    # Values

    def value(self, v: Value) -> int:
        """The register that holds the object of `v`."""
        if isinstance(v, Lazy):
            if v.value is None:
                return self.source(v.source)  # type: ignore[arg-type]
            v = force(v)
        found = self._made.get(id(v))
        if found is not None:
            return found
        if id(v) in self._open:
            raise Unbuildable(v, "an immutable object that refers to itself")
        self._open.add(id(v))
        self._keep.append(v)
        register = self._build(v)
        self._open.discard(id(v))
        self._made[id(v)] = register
        return register

    def has(self, v: Value) -> bool:
        """Whether the object of `v` has been asked for."""
        return id(v) in self._made

    def settle(self, v: Value) -> None:
        """Write what was changed in `v`, once. An iterator over `v` is made behind that: it would see the change."""
        from .replay import write_back

        v = force(v)
        if v in self.t.changed and v not in self._settled:
            self._settled.add(v)
            write_back(self, v)

    def _build(self, v: Value) -> int:
        if isinstance(v, Flow):
            return self._flow(v)
        if isinstance(v, Const):
            return self._const(v)
        if v.source is not None:
            return self.source(v.source)
        if v in self.t.memoised:
            raise LookedAt(frozenset((self.t.memoised[v],)))
        if hasattr(v, "rebuild"):
            return v.rebuild(self)
        builder = BUILDERS.get(type(v))
        if builder is not None:
            return builder(self, v)
        raise Unbuildable(v, f"a live {v.cls.__name__} can't be rebuilt")

    def _flow(self, v: Flow) -> int:
        if isinstance(v, Data):
            v.current()
            register = self.shared_call(v.tensor, "tolist")
            for index in v.path:
                register = self.add("getitem", register, self.const(index))
            return register
        if isinstance(v, Text):
            return self._text(v)
        if isinstance(v, Drawn):
            return self.source(v.drawn)
        if v.source is not None:
            return self.source(v.source)
        return self.add("binary", v.symbol, *self._many(v.operands))

    def _text(self, v: Text) -> int:
        parts = []
        for part in v.parts:
            if isinstance(part, str):
                parts.append(self.const(part))
                continue
            number, conversion, spec = part
            register = self.value(number)
            if conversion:
                name = {"s": "str", "r": "repr", "a": "ascii"}[conversion]
                register = self.call(self.import_("builtins", name), [register])
            parts.append(self.call(self.import_("builtins", "format"), [register, self.const(spec)]))
        return self.call(self.add("getattr", self.const(""), "join"), [self.add("list", parts)])

    def shared_call(self, v: Value, name: str) -> int:
        """The register of `v.name()`, called once."""
        token = ("method", (id(v), name))
        if token not in self._constants:
            self._constants[token] = self.call(self.add("getattr", self.value(v), name), [])
        return self._constants[token]

    def _const(self, v: Const) -> int:
        try:
            return self.const(v.value)
        except constants.NotConstant:
            pass
        if v.source is not None:
            return self.source(v.source)
        if isinstance(v.value, (torch.finfo, torch.iinfo)):
            dtype = self.const(getattr(torch, v.value.dtype))
            return self.call(self.import_("torch", type(v.value).__name__), [dtype])
        raise Unbuildable(v, f"a {type(v.value).__name__} can't be rebuilt")

    def _early(self, v: Value, register: int) -> None:
        """Announce a container before its contents are built."""
        self._made[id(v)] = register

    def _many(self, values: Any) -> list[int]:
        return [self.value(each) for each in values]

    # Kinds

    def _tensor(self, v: Tensor) -> int:
        if v.node.graph is not self.t.builder.graph:
            raise Unbuildable(v, "a tensor that was made in a graph inside the graph")
        if v.node not in self.outputs:
            self.outputs.append(v.node)
        register = self.add("out", self.outputs.index(v.node))
        self._early(v, register)
        if id(v.fake) in self.t.lifted:
            _, node = self.t.lifted[id(v.fake)]
            if node is not None:  # a compiler would give an output of the graph a history
                self.t.builder.forget(node)
                self.t.lifted[id(v.fake)] = v, None
            self.call(self.add("getattr", register, "requires_grad_"), [])
        for name, value in v.attrs.items():
            if value is not None:
                self.do("setattr", register, name, self.value(value))
        return register

    def _scalar(self, v: Scalar) -> int:
        if v.node is None:
            raise Unbuildable(v, "a symbolic number without a node")
        if v.node not in self.outputs:
            self.outputs.append(v.node)
        return self.add("out", self.outputs.index(v.node))

    def _sequence(self, v: Sequence) -> int:
        cls = v.cls
        if cls is list:
            register = self.add("list", [])
            if v.items and not self._cyclic(v):
                self.code.pop()
                return self._tuple("list", v, register)
            self._early(v, register)
            if v.items:
                self.helper("replace_list", register, self.add("list", self._many(v.items)))
            return register
        if cls is tuple:
            return self.add("tuple", self._many(v.items))
        if cls is collections.deque:
            return self.call(self.import_("collections", "deque"), [self.add("list", self._many(v.items))])
        items = self.add("tuple", self._many(v.items))
        if hasattr(cls, "_fields"):
            return self.helper("new_tuple", self.cls(cls), items)
        return self.call(self.cls(cls), [items])

    def _tuple(self, op: str, v: Sequence, register: int) -> int:
        items = self._many(v.items)
        self.code.append(Instruction(op, register, (items,)))
        return register

    def _cyclic(self, v: Value) -> bool:
        """Whether something inside a container leads back to it."""
        seen: set[int] = set()

        def leads_back(x: Value) -> bool:
            if isinstance(x, Lazy):
                if x.value is None:
                    return False
                x = force(x)
            if x is v:
                return True
            if id(x) in seen or x.source is not None or id(x) in self._made:
                return False
            seen.add(id(x))
            return any(leads_back(each) for each in children(x))

        return any(leads_back(each) for each in children(v))

    def _mapping(self, v: Mapping) -> int:
        assert v.entries is not None
        if v.cls is dict and not self._cyclic(v):
            return self.add("dict", [[self.value(key), self.value(each)] for key, each in v.entries.values()])
        if v.cls is collections.defaultdict:
            factory = self.value(v.default_factory) if v.default_factory is not None else self.const(None)
            register = self.call(self.import_("collections", "defaultdict"), [factory])
        elif v.cls is dict:
            register = self.add("dict", [])
        else:
            register = self.call(self.cls(v.cls), [])
        self._early(v, register)
        for key, each in v.entries.values():
            self.do("setitem", register, self.value(key), self.value(each))
        return register

    def _set(self, v: SetValue) -> int:
        register = self.add("set", self._many(v.items.values()))
        return register if v.cls is set else self.call(self.import_("builtins", "frozenset"), [register])

    def _object(self, v: Object) -> int:
        cls = v.cls
        if cls is slice:
            return self.call(
                self.import_("builtins", "slice"), self._many(v.attrs[name] for name in ("start", "stop", "step"))
            )
        if cls is functools.partial:
            given, keywords = force(v.attrs["args"]), force(v.attrs["keywords"])  # type: ignore[arg-type]
            assert isinstance(given, Sequence)
            assert isinstance(keywords, Mapping)
            args, named = [v.attrs["func"], *given.items], keywords.entries or {}
            made = self.call(
                self.import_("functools", "partial"),
                self._many(args),
                {key: self.value(each) for key, (_, each) in named.items()},
            )
            for name, value in v.attrs.items():
                if name not in ("func", "args", "keywords") and value is not None:
                    self.do("setattr", made, name, self.value(value))
            return made
        if cls is property or (
            cls.__flags__ & (1 << 9) == 0
            and not issubclass(cls, BaseException)
            and cls is not object
            and cls is not types.SimpleNamespace
        ):
            raise Unbuildable(v, f"a {cls.__qualname__} can't be rebuilt")
        made = self.cls(cls)
        payload = force(v.payload) if v.payload is not None else None
        if isinstance(v, Group):
            assert payload is not None
            register = self.helper("new_group", made, *self._many((v.message, v.exceptions, payload)))
        elif issubclass(cls, BaseException):
            assert isinstance(payload, Sequence)
            register = self.helper("new_exception", made, self.value(payload))
        elif isinstance(payload, Const):
            register = self.helper("new_scalar", made, self.value(payload))
        elif isinstance(payload, Sequence) and payload.cls is tuple:
            register = self.helper("new_tuple", made, self.add("tuple", self._many(payload.items)))
        else:
            register = self.helper("new_object", made)
        self._early(v, register)
        if isinstance(payload, Sequence) and payload.cls is list:
            self.helper("replace_list", register, self.add("list", self._many(payload.items)))
        elif isinstance(payload, Mapping):
            self.fill_mapping(register, payload)
        elif isinstance(payload, SetValue):
            self.helper("replace_set", register, self.add("set", self._many(payload.items.values())))
        self.attributes(register, v)
        if v in self.t.thrown:
            self._thrown(register, self.t.thrown[v])
        return register

    def _thrown(self, register: int, lines: tuple[tuple[str, int, str], ...]) -> None:
        """Give a new exception its traceback: exceptions may have one and the same, which tells parts of a group."""
        other = self._tracebacks.setdefault(id(lines), register)
        if other == register:
            self.helper("thrown", register, self.const(lines))
        elif lines:
            self.helper("thrown_as", register, other)

    def fill_mapping(self, register: int, payload: Mapping) -> None:
        """Put a payload's entries into a dict or subclass, by the builtin's own methods."""
        pairs = [[self.value(key), self.value(each)] for key, each in (payload.entries or {}).values()]
        self.helper("replace_dict", register, self.add("dict", pairs))

    def attributes(self, register: int, v: Any) -> None:
        """Write what tracing set on an object, past its own `__setattr__`."""
        for name, value in v.attrs.items():
            if name in v.attrs.deleted and v.obj is not None:
                self.helper("delete_attribute_raw", register, self.const(name))
            if value is None:
                continue
            if (
                isinstance(v, Object)
                and issubclass(v.cls, BaseException)
                and name in ("__cause__", "__context__", "__suppress_context__", "__traceback__")
            ):
                if name != "__traceback__":
                    self.do("setattr", register, name, self.value(value))
            else:
                self.helper("set_attribute_raw", register, self.const(name), self.value(value))

    def _function(self, v: Function) -> int:
        owner = -1 if v.owner is None else self.index(v.owner)
        code = self._shared_list("code", owner, list(v.path))
        parts = [
            code,
            self.value(v.globals),
            self.const(v.name),
            self.const(v.qualname),
            self.add("tuple", self._many(v.defaults)) if v.defaults else self.const(None),
            self.add("dict", [[self.const(name), self.value(each)] for name, each in v.kwdefaults.items()])
            if v.kwdefaults
            else self.const(None),
            self.add("tuple", self._many(v.closure)) if v.closure else self.const(None),
            self.value(v.annotations) if v.annotations is not None else self.const(None),
        ]
        register = self.helper("make_function", *parts)
        self._early(v, register)
        for name, value in v.attrs.items():
            if value is not None and name not in ("__name__", "__qualname__"):
                self.do("setattr", register, name, self.value(value))
        return register

    def _shared_list(self, op: str, owner: int, path: list[int]) -> int:
        token = (op, owner, tuple(path))
        if token not in self._constants:
            self._constants[token] = self.add(op, owner, path)
        return self._constants[token]

    def code_of(self, owner: Source | None, path: tuple[int, ...]) -> int:
        """A frame's code, by the function that it belongs to and its place there."""
        return self._shared_list("code", -1 if owner is None else self.index(owner), list(path))

    def _cell(self, v: Cell) -> int:
        register = self.helper("make_cell")
        self._early(v, register)
        if v.content is not None:
            self.helper("set_cell", register, self.value(v.content))
        return register

    def _method(self, v: Method) -> int:
        function = force(v.function)
        receiver = self.value(v.self_value)
        if isinstance(function, Builtin) and _plainly(function, v.self_value):
            return self.add("getattr", receiver, function.obj.__name__)
        return self.helper("bind_method", self.value(function), receiver)

    def cls(self, cls: type) -> int:
        """A class, by its source or public path."""
        value = self.t.class_values.get(cls)
        if value is not None and value.source is not None:
            return self.source(value.source)
        if value is not None and hasattr(value, "rebuild"):
            return self.value(value)
        return self._named(cls)

    def _named(self, obj: Any) -> int:
        path = naming.path_of(obj)
        if path is not None:
            return self.import_(*path)
        if isinstance(obj, type):
            return self.source(self.t.class_source(obj))
        if isinstance(obj, types.MethodDescriptorType | types.WrapperDescriptorType):
            return self.add("getattr", self._named(obj.__objclass__), obj.__name__)
        value = self.t.local(obj, repr(obj)[:80])
        return self.source(value.source)

    def _opaque(self, v: Opaque) -> int:
        return self._named(v.obj)

    def _instance_dict(self, v: InstanceDict) -> int:
        return self.add("getattr", self.value(v.owner), "__dict__")

    def _super(self, v: Super) -> int:
        return self.call(self.import_("builtins", "super"), [self.cls(v.after), self.value(v.self_value)])

    def _namespace(self, v: Namespace) -> int:
        assert v.source is not None
        return self._shared("globals", self.index(v.source))

    def _generator(self, v: Generator) -> int:
        raise Unbuildable(v, "a live generator can't be rebuilt")

    def _code(self, v: CodeValue) -> int:
        return self.code_of(v.owner, v.path)


def _plainly(function: Builtin, receiver: Value) -> bool:
    """Whether the receiver has this method by its name: a class may override what `super()` gave."""
    if not isinstance(function.obj, types.MethodDescriptorType | types.WrapperDescriptorType):
        return True
    return getattr(receiver.cls, function.obj.__name__, None) is function.obj


def children(v: Value) -> list[Value]:
    """What a value that tracing made refers to."""
    if isinstance(v, Sequence):
        return v.items
    if isinstance(v, Mapping):
        return [each for pair in (v.entries or {}).values() for each in pair]
    if isinstance(v, SetValue):
        return list(v.items.values())
    if isinstance(v, Group):
        return [v.exceptions, v.payload or v, *(each for each in v.attrs.values() if each is not None)]
    if isinstance(v, Object):
        return [each for each in v.attrs.values() if each is not None] + ([v.payload] if v.payload is not None else [])
    if isinstance(v, Function):
        return [
            *v.defaults,
            *v.kwdefaults.values(),
            *v.closure,
            *[each for each in v.attrs.values() if each is not None],
        ]
    if isinstance(v, Cell):
        return [v.content] if v.content is not None else []
    if isinstance(v, Method):
        return [v.function, v.self_value]
    return []


BUILDERS: dict[type, Callable[[Any, Any], int]] = {
    Tensor: Emitter._tensor,
    Scalar: Emitter._scalar,
    Sequence: Emitter._sequence,
    Mapping: Emitter._mapping,
    SetValue: Emitter._set,
    Object: Emitter._object,
    Group: Emitter._object,
    Function: Emitter._function,
    Cell: Emitter._cell,
    Method: Emitter._method,
    Class: lambda e, v: e._named(v.obj),
    Builtin: lambda e, v: e._named(v.obj),
    Module: lambda e, v: e._named(v.obj),
    Opaque: Emitter._opaque,
    InstanceDict: Emitter._instance_dict,
    Super: Emitter._super,
    Namespace: Emitter._namespace,
    Generator: Emitter._generator,
    CodeValue: Emitter._code,
}

__all__ = ["Emitter", "Identity"]
