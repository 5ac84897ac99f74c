"""What the tracer knows of one Python object: the kinds of value.

A value is made once for each object (the tracer memoises by source and by
identity), so that `is` between values is `is` between objects for everything
mutable. A value knows its `source` when the object exists outside the frame.
Values loaded from outside arrive as `Lazy` and are looked at, by `force`, only
when a fact about them is used: that is when a guard is noted.
"""

from __future__ import annotations

import itertools
import types
import weakref
from typing import TYPE_CHECKING, Any

import torch

from .control import Break

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch
    from torch import fx

    from aotdyn.guards.sources import Source

    from .frame import Frame


_serials = itertools.count(1)


class Value:
    """One Python object, as tracing sees it.

    `source` reaches the object from the traced frame; None for an object that
    tracing made. `cls` is the object's real class.
    """

    __slots__ = ("born", "serial", "source")
    cls: type = object

    def __init__(self, source: Source | None = None) -> None:
        self.source = source
        self.born = 0
        self.serial = next(_serials)  # tells what is older

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.source or ''})"


class Null(Value):
    """The NULL that CPython puts on its stack below a callee."""

    __slots__ = ()


NULL = Null()


class SavedException(Value):
    """The exception state that PUSH_EXC_INFO saved: `value` is the exception being handled before, or None."""

    __slots__ = ("value",)

    def __init__(self, value: Value | None) -> None:
        super().__init__()
        self.value = value


class Lazy(Value):
    """An object from outside that nobody has looked at. `force` turns it into one of the other kinds."""

    __slots__ = ("obj", "tracer", "value")

    def __init__(self, tracer: Any, obj: Any, source: Source) -> None:
        super().__init__(source)
        self.obj = obj
        self.tracer = tracer
        self.value: Value | None = None

    @property
    def cls(self) -> type:  # type: ignore[override]
        return type(self.obj)

    def __repr__(self) -> str:
        return f"Lazy({self.source}: {type(self.obj).__name__})"


def force(value: Value) -> Value:
    """The value behind a Lazy, with the guard on its type noted; any other value as it is."""
    while isinstance(value, Lazy):
        if value.value is None:
            value.value = value.tracer.load(value.obj, value.source)
        value = value.value
    return value


def cleans_up(value: Value) -> bool:
    """Whether code may run when an object from outside goes: its frame holds it as long as Python's would."""
    obj = getattr(value, "obj", None)
    return isinstance(obj, types.GeneratorType) or hasattr(type(obj), "__del__")


def is_watched(value: Value) -> bool:
    """Whether it may show when an object from outside goes, so that a break carries it over though nobody reads it.

    A weak reference tells, and may have code to run (a TemporaryDirectory has
    a `weakref.finalize`). Those that torch and aotdyn have of tensors and
    modules don't count.
    """
    if cleans_up(value):
        return True
    obj = getattr(value, "obj", None)
    unseen = isinstance(obj, torch.Tensor | torch.nn.Module | type | types.FunctionType | types.ModuleType)
    return not unseen and weakref.getweakrefcount(obj) > 0


class Const(Value):
    """An immutable Python constant: None, a number, str, bytes, Ellipsis, dtype, device, enum member, slice, range."""

    __slots__ = ("value",)

    def __init__(self, value: Any, source: Source | None = None) -> None:
        super().__init__(source)
        self.value = value

    @property
    def cls(self) -> type:  # type: ignore[override]
        return type(self.value)

    def __repr__(self) -> str:
        return f"Const({self.value!r})"


class Tensor(Value):
    """A tensor: `node` computes it in the graph, `fake` has its metadata."""

    __slots__ = ("attrs", "fake", "node", "obj")

    def __init__(self, node: fx.Node, fake: torch.Tensor, source: Source | None = None, obj: Any = None) -> None:
        super().__init__(source)
        self.node = node
        self.fake = fake
        self.obj = obj  # the real tensor of an input
        self.attrs = Overlay()  # Python attributes set on it; None: deleted

    @property
    def cls(self) -> type:  # type: ignore[override]
        import torch

        if self.obj is not None:
            return type(self.obj)
        return torch.nn.Parameter if isinstance(self.fake, torch.nn.Parameter) else torch.Tensor


class Array(Value):
    """A numpy array, or a numpy scalar of data (`cls` tells): `tensor` has its elements, and shares memory with it.

    `like` is an array of the same dtype, shape and strides with other elements:
    numpy's own answers about it say what its answers about this one look like.
    """

    __slots__ = ("_tensor", "cls", "like", "obj")

    def __init__(
        self, cls: type, tensor: Tensor | Callable[[], Tensor], like: Any, source: Source | None = None, obj: Any = None
    ) -> None:
        super().__init__(source)
        self.cls = cls
        self._tensor = tensor
        self.like = like
        self.obj = obj  # the real array of an input

    @property
    def tensor(self) -> Tensor:
        """Its elements in the graph; of an array from outside an input, made when it is first asked for."""
        if not isinstance(self._tensor, Tensor):
            self._tensor = self._tensor()
        return self._tensor

    def rebuild(self, e: Any) -> int:
        """The array of an epilogue."""
        if self.cls.__name__ != "ndarray":
            return e.helper("numpy_scalar", e.value(self.tensor))
        flags = self.like.flags
        name = "numpy_readonly" if not flags.writeable else "numpy_owner" if flags.owndata else "numpy_array"
        return e.helper(name, e.value(self.tensor))


class Scalar(Value):
    """A number known as a symbol only: `sym` is a torch.SymInt, SymFloat or SymBool, `node` computes it."""

    __slots__ = ("node", "sym")

    def __init__(self, node: fx.Node | None, sym: Any, source: Source | None = None) -> None:
        super().__init__(source)
        self.node = node
        self.sym = sym

    @property
    def cls(self) -> type:  # type: ignore[override]
        import torch

        return {torch.SymInt: int, torch.SymFloat: float, torch.SymBool: bool}[type(self.sym)]


class Sequence(Value):
    """A list or tuple (also a subclass made of nothing else: namedtuple, torch.Size, structseq)."""

    __slots__ = ("cls", "items", "obj")

    def __init__(self, cls: type, items: list[Value], source: Source | None = None, obj: Any = None) -> None:
        super().__init__(source)
        self.cls = cls
        self.items = items
        self.obj = obj

    def __repr__(self) -> str:
        return f"{self.cls.__name__}{self.items!r}"


class UnreadList(Sequence):
    """A list from outside that nobody has looked at: `read` notes the guards when `items` is asked for.

    What is only appended to it stays in `appended` until then.
    """

    __slots__ = ("_items", "appended", "read")

    def __init__(self, read: Callable[[], list[Value]], source: Source, obj: list[Any]) -> None:
        self.appended: list[Value] = []
        self.read = read
        super().__init__(list, None, source, obj)  # type: ignore[arg-type]

    @property
    def items(self) -> list[Value]:  # type: ignore[override]
        if self._items is None:  # type: ignore[has-type]
            self._items = self.read() + self.appended
        return self._items

    @items.setter
    def items(self, items: list[Value] | None) -> None:
        self._items = items  # type: ignore[assignment, has-type]

    @property
    def unread(self) -> bool:
        """Whether nobody has looked at it yet."""
        return self._items is None

    def __repr__(self) -> str:
        return f"UnreadList({self.source})"


class Identity:
    """A dict key that stands for a value compared by identity."""

    __slots__ = ("value",)

    def __init__(self, value: Value) -> None:
        self.value = value

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return type(other) is Identity and self.value is other.value


class Address(Value):
    """`id(of)`: a number that nobody may look at but to tell whether two objects are the same."""

    __slots__ = ("of",)
    cls = int

    def __init__(self, of: Value) -> None:
        super().__init__()
        self.of = of

    def rebuild(self, e: Any) -> int:
        """The address of the object that the epilogue has made, or found."""
        return e.helper("id", e.value(self.of))


class AddressKey(Identity):
    """A dict key that stands for the address of a value, which no other number is equal to.

    Whether two equal constants are one object isn't known.
    """

    __slots__ = ()

    def __hash__(self) -> int:
        return hash(self.value.cls) if isinstance(self.value, Const) else id(self.value)

    def __eq__(self, other: object) -> bool:
        if type(other) is not AddressKey or self.value is other.value:
            return type(other) is AddressKey
        a, b = self.value, other.value
        constants = a.cls is b.cls and isinstance(a, Const) and isinstance(b, Const)
        if constants and (a.value == b.value or a.value != a.value):  # type: ignore[attr-defined]
            raise Break("addresses of two equal constants")
        return False


class Mapping(Value):
    """A dict (also OrderedDict, defaultdict).

    `entries` maps a native key (`model.native_key`) to (key value, value). Of a
    dict from outside, `entries` is None until it is looked at as a whole
    (`model.load_entries`); single keys are looked up with a guard each.
    """

    __slots__ = ("cls", "default_factory", "entries", "obj", "peeked")

    def __init__(
        self, cls: type, entries: dict[Any, tuple[Value, Value]] | None, source: Source | None = None, obj: Any = None
    ) -> None:
        super().__init__(source)
        self.cls = cls
        self.entries = entries
        self.obj = obj
        self.peeked: dict[Any, Value | None] = {}
        self.default_factory: Value | None = None


class SetValue(Value):
    """A set or frozenset: native key -> element.

    `grown` counts elements that were added one by one to an empty set and
    never taken out: while it is the number of elements, their order follows
    from the order in which they came.
    """

    __slots__ = ("cls", "grown", "items", "obj")

    def __init__(self, cls: type, items: dict[Any, Value], source: Source | None = None, obj: Any = None) -> None:
        super().__init__(source)
        self.cls = cls
        self.items = items
        self.obj = obj
        self.grown = 0


class Overlay(dict[str, "Value | None"]):
    """What tracing wrote over the names of an object or namespace, in order; None: deleted.

    A name that was deleted and set again stands behind all others, as in a dict. `deleted` are the names that were
    deleted at any time: the object from outside may have them or not.
    """

    __slots__ = ("deleted",)

    def __init__(self) -> None:
        super().__init__()
        self.deleted: set[str] = set()

    def __setitem__(self, name: str, value: Value | None) -> None:
        if value is None:
            self.deleted.add(name)
        elif name in self.deleted and self.get(name) is None:
            self.pop(name, None)
        super().__setitem__(name, value)


class Object(Value):
    """An instance of a Python class (or of a C class whose attributes we know to read).

    `attrs` overlays the instance dict and slots: name -> value, None where
    deleted. `payload` is the part that a builtin base holds (Sequence,
    Mapping, SetValue or Const), for subclasses of builtins; of an exception,
    the Sequence of its args. `obj` is the real object, None if tracing made
    this one.
    """

    __slots__ = ("attrs", "cls", "init_args", "obj", "payload")

    def __init__(self, cls: type, source: Source | None = None, obj: Any = None, payload: Value | None = None) -> None:
        super().__init__(source)
        self.cls = cls
        self.obj = obj
        self.payload = payload
        self.attrs = Overlay()
        self.init_args: tuple[Value, ...] = ()

    def __repr__(self) -> str:
        return f"Object<{self.cls.__qualname__}>({self.source or 'new'})"


class Group(Object):
    """An exception group: `message`, the tuple `exceptions`, and as `payload` the arguments that it was made of."""

    __slots__ = ("exceptions", "message")

    def __init__(
        self,
        cls: type,
        message: Value,
        exceptions: Value,
        payload: Value,
        source: Source | None = None,
        obj: Any = None,
    ) -> None:
        super().__init__(cls, source, obj, payload)
        self.message = message
        self.exceptions = exceptions


class InstanceDict(Value):
    """`obj.__dict__` of an Object: a view on its attributes."""

    __slots__ = ("owner",)
    cls = dict

    def __init__(self, owner: Object, source: Source | None = None) -> None:
        super().__init__(source)
        self.owner = owner


class Cell(Value):
    """A closure cell; `content` None while empty."""

    __slots__ = ("content", "obj")
    cls = types.CellType

    def __init__(self, content: Value | None = None, source: Source | None = None, obj: Any = None) -> None:
        super().__init__(source)
        self.content = content
        self.obj = obj


class Namespace(Value):
    """A globals dict: `names` overlays it (None: deleted). Reads of `obj` are guarded name by name."""

    __slots__ = ("names", "obj", "seen")
    cls = dict

    def __init__(self, obj: dict[str, Any], source: Source | None) -> None:
        super().__init__(source)
        self.obj = obj
        self.names = Overlay()
        self.seen: dict[str, Value | None] = {}


class Function(Value):
    """A Python function: from outside (`obj`) or made while tracing.

    `code` is the original code, never a stub's. `owner` and `path` say where
    nested code comes from: constants `path` of the code of the function at
    source `owner` (None: the traced frame's own code).
    """

    __slots__ = (
        "annotations",
        "attrs",
        "closure",
        "code",
        "defaults",
        "globals",
        "kwdefaults",
        "name",
        "obj",
        "owner",
        "path",
        "qualname",
    )
    cls = types.FunctionType

    def __init__(
        self,
        code: types.CodeType,
        globals: Namespace,
        *,
        name: str,
        qualname: str,
        defaults: tuple[Value, ...] = (),
        kwdefaults: dict[str, Value] | None = None,
        closure: tuple[Cell, ...] = (),
        annotations: Value | None = None,
        source: Source | None = None,
        obj: Any = None,
        owner: Source | None = None,
        path: tuple[int, ...] = (),
    ) -> None:
        super().__init__(source)
        self.code, self.globals, self.name, self.qualname = code, globals, name, qualname
        self.defaults, self.kwdefaults, self.closure = defaults, kwdefaults or {}, closure
        self.annotations, self.obj, self.owner, self.path = annotations, obj, owner, path
        self.attrs = Overlay()

    def __repr__(self) -> str:
        return f"Function<{self.qualname}>"


class Method(Value):
    """A bound method: `function` (any callable value) with `self`."""

    __slots__ = ("function", "self_value")
    cls = types.MethodType

    def __init__(self, function: Value, self_value: Value, source: Source | None = None) -> None:
        super().__init__(source)
        self.function = function
        self.self_value = self_value


class Builtin(Value):
    """A callable written in C (or known by itself): function, method descriptor, torch operator."""

    __slots__ = ("obj",)

    def __init__(self, obj: Any, source: Source | None = None) -> None:
        super().__init__(source)
        self.obj = obj

    @property
    def cls(self) -> type:  # type: ignore[override]
        return type(self.obj)

    def __repr__(self) -> str:
        return f"Builtin({self.obj!r})"


class Class(Value):
    """A class. `attrs` overlays what was set on it while tracing."""

    __slots__ = ("attrs", "obj")

    def __init__(self, obj: type, source: Source | None = None) -> None:
        super().__init__(source)
        self.obj = obj
        self.attrs = Overlay()

    @property
    def cls(self) -> type:  # type: ignore[override]
        return type(self.obj)

    def __repr__(self) -> str:
        return f"Class({self.obj.__qualname__})"


class Module(Value):
    """A Python module; its attributes are those of `namespace`."""

    __slots__ = ("namespace", "obj")
    cls = types.ModuleType

    def __init__(self, obj: types.ModuleType, namespace: Namespace, source: Source | None = None) -> None:
        super().__init__(source)
        self.obj = obj
        self.namespace = namespace


class Super(Value):
    """`super()`: lookup behind `after` in the MRO of `self_value`'s class (or of itself, where it is a Class)."""

    __slots__ = ("after", "self_value")
    cls = super

    def __init__(self, after: type, self_value: Value) -> None:
        super().__init__()
        self.after = after
        self.self_value = self_value


class Iterator(Value):
    """A lazily consumed iterator: subclasses say how to go on and how an epilogue rebuilds it.

    `advance(t)` gives the next value, or None at the end. `rebuild(e)` (see
    `finish.Emitter`) gives the register of an equal iterator.
    """

    __slots__ = ()

    def advance(self, t: Any) -> Value | None:
        raise NotImplementedError

    def rebuild(self, e: Any) -> int:
        raise NotImplementedError


class SequenceIterator(Iterator):
    """Over a Sequence (list items may change while it runs), a tuple of values, or a range: position `index`."""

    __slots__ = ("done", "index", "sequence")

    def __init__(self, sequence: Value, index: int = 0) -> None:
        super().__init__()
        self.sequence = sequence
        self.index = index
        self.done = False

    @property
    def cls(self) -> type:  # type: ignore[override]
        made = getattr(self.sequence, "cls", tuple)
        return type(iter(range(0) if made is range else made()))

    def advance(self, t: Any) -> Value | None:
        sequence = self.sequence
        t.mutated(self)
        if self.done:
            return None
        if isinstance(sequence, Const):
            if self.index >= len(sequence.value):
                self.done = True
                return None
            item: Value = Const(sequence.value[self.index])
        else:
            if self.index >= len(sequence.items):  # type: ignore[attr-defined]
                self.done = True
                return None
            item = sequence.items[self.index]  # type: ignore[attr-defined]
        self.index += 1
        return item

    def rebuild(self, e: Any) -> int:
        e.settle(self.sequence)
        return e.helper("sequence_iterator_at", e.value(self.sequence), e.const(None if self.done else self.index))


class Generator(Value):
    """A generator whose frame the tracer runs; it can't be rebuilt once started.

    One from outside (`obj`) hasn't started there. It is left as it was, or used up.
    """

    __slots__ = ("closed", "frame", "obj", "running", "started")
    cls = types.GeneratorType

    def __init__(self, frame: Frame, source: Source | None = None, obj: Any = None) -> None:
        super().__init__(source)
        self.frame = frame
        self.obj = obj
        self.started = False
        self.closed = False
        self.running = False


class Opaque(Value):
    """An object of a kind that the tracer doesn't know: it can be passed on, and nothing else."""

    __slots__ = ("obj",)

    def __init__(self, obj: Any, source: Source | None = None) -> None:
        super().__init__(source)
        self.obj = obj

    @property
    def cls(self) -> type:  # type: ignore[override]
        return type(self.obj)
