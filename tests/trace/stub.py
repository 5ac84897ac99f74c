"""A tracer without a graph, guards or effects: what frames need to run plain Python on values."""

from __future__ import annotations

import builtins
import importlib
import pkgutil
import types

from aotdyn.guards.sources import Arg
from aotdyn.trace import model
from aotdyn.trace.control import Raised
from aotdyn.trace.frame import Frame
from aotdyn.trace.values import (
    Builtin,
    Cell,
    Class,
    Const,
    Function,
    Module,
    Namespace,
    Object,
    Sequence,
    Value,
)

HANDLERS = pkgutil.resolve_name("aotdyn.trace.builtins")
for _module in pkgutil.iter_modules(HANDLERS.__path__):
    importlib.import_module(f"aotdyn.trace.builtins.{_module.name}")


class Tracer:
    def __init__(self):
        self.frame = self.handled = self.raised = None
        self.position = self.operations = 0
        self.thrown = {}
        self.generators = []
        self.shown, self.given_up = [], []
        self.differentiating = False
        self.classes, self.values, self.class_values = {}, {}, {}
        self.options = None

    # -- Frames

    def enter(self, frame):
        self.frame = frame

    def leave(self, frame):
        self.frame = frame.caller

    def step(self, frame):
        self.position += 1
        assert self.position < 100_000

    def inline_refusal(self, f):
        return None

    def turn(self, frame):
        pass

    def lasting(self, value):
        return value

    def unrolled(self):
        pass

    def inline(self, f, bound, by_call):
        cells = dict(zip(f.code.co_freevars, f.closure, strict=True))
        cells |= {name: Cell() for name in f.code.co_cellvars}
        return Frame(self, f.code, f.globals, bound, cells, f.owner, f.path, self.frame, by_call).run()

    def break_position(self):
        return self.position

    def here(self):
        return self.frame.code.co_filename, self.frame.line, self.frame.code.co_name

    # -- Values

    def value(self, obj):
        if id(obj) not in self.values:
            self.values[id(obj)] = self.make(obj)
        return self.values[id(obj)]

    def make(self, obj):
        if isinstance(obj, types.FunctionType):
            cells = tuple(Cell(self.value(cell.cell_contents)) for cell in obj.__closure__ or ())
            return Function(
                obj.__code__,
                Namespace(obj.__globals__, None),
                name=obj.__name__,
                qualname=obj.__qualname__,
                defaults=tuple(map(self.value, obj.__defaults__ or ())),
                kwdefaults={k: self.value(v) for k, v in (obj.__kwdefaults__ or {}).items()},
                closure=cells,
                obj=obj,
            )
        if isinstance(obj, type):
            return Class(obj)
        if isinstance(obj, types.ModuleType):
            return Module(obj, Namespace(vars(obj), None))
        if isinstance(obj, (types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType)):
            return Builtin(obj)
        if hasattr(obj, "__dict__") and not isinstance(obj, (staticmethod, classmethod, property)):
            return Object(type(obj), obj=obj)
        return model.constant(obj)

    def wrap(self, obj, source):
        return self.value(obj)

    def wrap_found(self, obj, source):
        return self.value(obj)

    durable = value
    class_value = value

    def local(self, obj, name):
        return self.value(obj)

    def class_source(self, cls):
        return Arg(cls.__name__)

    def instance_dict(self, v):
        return None

    def guard(self, *args):
        pass

    def mutated(self, value):
        pass

    def cell_content(self, cell):
        return cell.content

    def set_cell(self, cell, value):
        cell.content = value

    def name_in(self, namespace, name):
        return self.value(namespace.obj[name]) if name in namespace.obj else None

    def load_global(self, namespace, name):
        if name in namespace.names:
            return namespace.names[name]
        if name in namespace.obj:
            return self.value(namespace.obj[name])
        if hasattr(builtins, name):
            return self.value(getattr(builtins, name))
        return self.raise_(NameError, f"name {name!r} is not defined")

    def store_global(self, namespace, name, value):
        namespace.names[name] = value

    def import_name(self, namespace, name, fromlist, level):
        return self.value(__import__(name, namespace.obj, None, fromlist, level))

    def raise_(self, cls, *args, **attributes):
        values = [each if isinstance(each, Value) else model.constant(each) for each in args]
        made = Object(cls, payload=Sequence(tuple, values))
        for name, value in attributes.items():
            made.attrs[name] = model.constant(value)
        raise Raised(made)

    def own_dict(self, owner):
        return getattr(owner.obj, "__dict__", None)


def chain_of(exception):
    """An exception as plain data: class, arguments, cause, context."""
    if isinstance(exception, Const) or exception is None:
        return None
    cause, context = (exception.attrs.get(name) for name in ("__cause__", "__context__"))
    args = tuple(model.as_python(each) for each in exception.payload.items)
    return exception.cls.__name__, args, chain_of(cause), chain_of(context)


def plain_chain(exception):
    if exception is None:
        return None
    cause, context = exception.__cause__, exception.__context__
    return type(exception).__name__, exception.args, plain_chain(cause), plain_chain(context)


def traced(function, *args):
    """The outcome of `function(*args)` on values: ('returns', value) or ('raises', chain)."""
    t = Tracer()
    f = t.value(function)
    top = Frame(t, (lambda: 0).__code__, f.globals, {}, {})
    t.enter(top)
    try:
        return "returns", model.as_python(model.call(t, f, [t.value(each) for each in args], {}))
    except Raised as raised:
        return "raises", chain_of(raised.value)


def plain(function, *args):
    try:
        return "returns", function(*args)
    except Exception as error:
        return "raises", plain_chain(error)
