"""One trace: the memory of a symbolic run of one frame.

It holds the graph under construction, the guards noted so far, the values of
objects met, what was changed, and the bounds. It decides nothing about
Python's meaning (that is `model`) and runs no instruction (that is `frame`).
"""

from __future__ import annotations

import builtins
import collections
import inspect
import os
import sys
import threading
import time
import types
from collections import Counter
from typing import Any, NoReturn

import torch

from aotdyn import collecting
from aotdyn.graph.build import FakeFailure, GraphBuilder, version
from aotdyn.guards import constants, naming, pure
from aotdyn.guards import sources as S
from aotdyn.guards.sources import Source
from aotdyn.guards.tensors import plain_class
from aotdyn.runtime.variant import FrameSpec, Inlined

from .control import Break, LeaveAlone, LookedAt, Raised
from .hooked import Hooked
from .load import load
from .sizes import STATIC, Policy, Sizes
from .values import (
    NULL,
    Cell,
    Class,
    Const,
    Function,
    Generator,
    InstanceDict,
    Lazy,
    Namespace,
    Object,
    Opaque,
    Sequence,
    Tensor,
    Value,
    force,
)

MAX_DEPTH = 120
MAX_IDLE = 1_000
_KEPT_IN_C = ("__name__", "__qualname__", "__doc__", "__module__", "__defaults__", "__kwdefaults__", "__annotations__")
"""Attributes of a function that aren't in its `__dict__`."""
_NOT_INLINED = (
    "torch._dynamo",
    "torch._inductor",
    "torch.fx",
    "torch.jit",
    "torch._subclasses",
    "torch._functorch",
    "logging",
    "threading",
    "importlib",
)

_INLINED = (
    "torch._functorch.vmap",
    "torch._functorch.apis",
    "torch._functorch.eager_transforms",
    "torch._functorch.functional_call",
    "torch._functorch.utils",
)


NOT_THE_USERS = (os.path.dirname(torch.__file__), os.path.dirname(os.path.dirname(__file__)))
"""Folders whose lines no user wrote."""


class Stop(Exception):
    """The planned end of this trace was reached: the frame may be given up at the instruction it stands before."""


class Tracer:
    """The state of one attempt at one frame.

    `stop_at` is the position (count of instructions run) before which the
    attempt ends with a break; None for the first attempt. `hooked` says that
    stubs called by Python are compiled by themselves (the hook's extent).
    """

    def __init__(
        self,
        spec: FrameSpec,
        globals: dict[str, Any],
        options: Any,
        stop_at: int | None = None,
        hooked: bool = False,
        sizes: Policy = STATIC,
        looked_at: frozenset[Source] = frozenset(),
    ) -> None:
        from .torch_.state import State

        self.spec = spec
        self.entry_globals = globals
        self.options = options
        self.stop_at = stop_at
        self.hooked = hooked
        self.sparing = False
        self.position = 0
        self.frame: Any = None
        self.handled: Value | None = None
        self.looked_at = looked_at  # numbers that don't flow: see `flows`
        self.raised: Value | None = None  # the exception raised last: it may leave the traced code
        # Tracebacks of raised exceptions, outermost first: one tuple is one traceback, that several may have.
        self.thrown: dict[Value, tuple[tuple[str, int, str], ...]] = {}
        self.builder = GraphBuilder(
            scalar_outputs=options.capture_scalar_outputs,
            shape_outputs=options.capture_dynamic_output_shape_ops,
            line=self.users_line,
        )
        self.guards: dict[Any, tuple[str, Source | None, Any]] = {}
        self.asked: dict[Any, tuple[str, int] | None] = {}  # lines of the program that guards are noted for first
        self.inputs: list[Source] = []
        self.input_versions: list[tuple[Any, int]] = []
        self.global_facts: dict[str, Any] = {}
        self.by_source: dict[Source, Lazy] = {}
        self.by_identity: dict[int, Value] = {}
        self.addressed = self.large_keys = False  # whether addresses were keys, and numbers that may be addresses
        self.keyed: dict[type, dict[Value, None]] = {}  # what was a key by its identity
        self.found_in_cells: list[Value] = []  # what cells from outside held
        self.found: list[tuple[Source, Any, Value]] = []  # (dict, key, value): what a lookup found there
        self.generators: list[Generator] = []  # those that the traced code made
        self.keep_alive: list[Any] = []
        self.namespaces: dict[int, Namespace] = {}
        self.instance_dicts: dict[int, InstanceDict] = {}
        self.owners: dict[int, Value] = {}
        self.class_values: dict[type, Class] = {}
        self.class_sources: dict[type, Source] = {}
        self.classes: dict[type, Class] = {}
        self.polyfills: dict[Any, Function] = {}
        self.changed: dict[Value, bool] = {}
        self.memoised: dict[Value, Any] = {}  # what cached functions have given: see builtins.memoised
        self.changes = 0
        self.deque_changes: Counter[Value] = Counter()  # an iterator over one ends where it has changed
        # What the epilogue does behind all: a helper's name and its arguments, or something that emits itself.
        self.postponed: list[Any] = []
        self.taken_apart: dict[Value, None] = {}  # classes on which `copy` leaves something, before all other changes
        self.given_up: list[Value] = []  # arguments that a name of the traced frames has given up
        self.locals: list[Any] = []
        self.process_local: list[str] = []
        self.inlined: dict[tuple[str, str, str], Inlined] = {}
        self.depth = 0
        self.impure = False  # the graph changes something
        self.overwritten: set[Any] = set()  # memory that it has written to
        self.drawn = False  # it draws random numbers
        self.scalars: list[Source] = []  # numpy scalars from outside that are taken as data
        self.draws: list[Source] = []  # numbers that Python's generators give before the graph runs, in order
        self.orders: Any = {}  # orders of sets that another process has
        self.batched: dict[int, Tensor] = {}  # tensors that torch.vmap made batches of, by id of their fake
        self.floats: dict[Any, Any] = {}  # operands of the graph that stand for numbers that flow
        self.lifted: dict[int, Any] = {}  # fresh tensors made to require a gradient, and the node, by id of their fake
        self.unlaid: set[int] = set()  # fakes whose strides aren't those that the real tensors will have
        self.selects: list[Any] = []  # nodes that select at a place of data: see torch_.selects
        self.checks: list[Tensor] = []  # what must hold of data for this to be the path: see torch_.checks
        self.raises_into_handler = False  # it holds an operator that may raise where a handler could see it
        self.operations = 0
        self.stubs = Hooked()
        self.differentiating = False  # a backward pass is traced, which may be recorded itself
        self.gathers = False  # indices that look like one number stand for many: see flex_attention
        self.isolated: list[int] = []  # regions that change nothing outside: the serial of the first value of each
        self.loops: dict[int, int] = {}
        self.shown: list[Value] = []  # containers whose repr() is being made
        self.started = time.thread_time()
        self.state = State(self)
        self.sizes = Sizes(self, sizes)

    def release(self) -> None:
        """Let go of the program's objects: values refer to each other in cycles, and would hold them for a while."""
        for lazy in self.by_source.values():
            lazy.obj = lazy.value = lazy.tracer = None
        for value in self.by_identity.values():
            if hasattr(value, "obj"):
                value.obj = None
        self.builder.release()
        vars(self).clear()

    # Objects from outside

    def wrap(self, obj: Any, source: Source) -> Value:
        """The value of the object at `source`, not yet looked at."""
        found = self.by_source.get(source)
        if found is None:
            found = self.by_source[source] = Lazy(self, obj, source)
        return found

    def wrap_found(self, obj: Any, source: S.Item | S.RawItem) -> Value:
        """The value that a lookup found in a dict: that it is there is a fact, even if nobody looks at it."""
        found = self.wrap(obj, source)
        self.found.append((source.bases[0], source.key, found))
        return found

    def wrap_entry(self, value: Any, base: Source, i: int) -> Value:
        """The i-th value of a dict whose keys aren't constants."""
        return self.wrap(value, S.Item(S.Pure("dict.values", base), i))

    def load(self, obj: Any, source: Source) -> Value:
        """What `force` calls on a Lazy."""
        value = load(self, obj, source)
        self._mark(value)
        return value

    def _mark(self, value: Value) -> None:
        if not value.born:
            value.born = -1

    def durable(self, obj: Any) -> Value:
        """The value of an object that a public path names; of this process alone where none does."""
        path = naming.path_of(obj)
        if path is None:
            return self.local(obj, repr(obj)[:80])
        return self.wrap(obj, self.path_source(path))

    def path_source(self, path: tuple[str, str]) -> Source:
        """The source of a public path."""
        source: Source = S.Module(path[0])
        for name in path[1].split(".") if path[1] else ():
            source = S.Attr(source, name)
        return source

    def local(self, obj: Any, note: str) -> Value:
        """The value of an object that no source reaches from another process."""
        for i, each in enumerate(self.locals):
            if each is obj:
                return self.wrap(obj, S.Local(i, note))
        self.locals.append(obj)
        self.process_local.append(note)
        return self.wrap(obj, S.Local(len(self.locals) - 1, note))

    def class_value(self, cls: type) -> Class:
        """The one value of a class."""
        found = self.class_values.get(cls)
        if found is None:
            found = self.class_values[cls] = Class(cls, self.class_sources.get(cls))
        return found

    def class_source(self, cls: type) -> Source:
        """How the prologue reaches a class: by an instance, the name it was read from, or its public path."""
        found = self.class_sources.get(cls)
        if found is None:
            path = naming.path_of(cls)
            if path is not None:
                found = self.path_source(path)
            else:
                value = self.local(cls, f"class {cls.__qualname__}")
                found = value.source
            assert found is not None
            self.class_sources[cls] = found
        return found

    def own_dict(self, owner: Any) -> dict[str, Any] | None:
        """The instance dict of an object from outside, if it has one; from now on it is known whose it is."""
        own = _instance_dict(owner.obj)
        if own is not None and self.owners.get(id(own)) is not owner:
            if id(own) in self.by_identity:
                raise Break("attributes of an object whose `__dict__` is in use as a dict")
            self.owners[id(own)] = owner
            self.keep_alive.append(own)
        return own

    def instance_dict(self, owner: Any) -> InstanceDict:
        """`owner.__dict__`."""
        found = self.instance_dicts.get(id(owner))
        if found is None:
            source = S.Attr(owner.source, "__dict__") if owner.source is not None else None
            if owner.obj is not None:
                self.own_dict(owner)
            found = self.instance_dicts[id(owner)] = InstanceDict(owner, source)
        return found

    def instance_names(self, owner: Any) -> list[str]:
        """Names in an instance's dict, in order."""
        names = []
        if owner.obj is not None:
            own = self.own_dict(owner) or {}
            if owner.source is not None:
                self.guard("KEYS", S.Attr(owner.source, "__dict__"), list(own))
            names = [name for name in own if name not in owner.attrs.deleted]
        added = [name for name, value in owner.attrs.items() if value is not None and not _is_in_c(owner, name)]
        return names + [name for name in added if name not in names]

    def tensor_input(self, obj: torch.Tensor, source: Source) -> Value:
        """A tensor from outside: a placeholder of the graph, its metadata guarded."""
        cls = type(obj)
        if not plain_class(cls):
            self.guard("TYPE", source, cls)
            return Opaque(obj, source)
        try:
            dims, unbacked = self.sizes.dims(obj, source), self.sizes.unbacked(obj)
            node, fake = self.builder.placeholder(f"l_{len(self.inputs)}", obj, (*dims, *unbacked), unbacked)
        except FakeFailure as failure:
            self.guard("TYPE", source, cls)
            value = Opaque(obj, source)
            del failure
            return value
        self.guard("TENSOR", source, obj)
        if obj.layout is torch.sparse_coo or obj.layout in pure.COMPRESSED:
            self.guard("CONST", S.Pure("torch.Tensor.sparse_form", source), pure.sparse_form(obj))
        self.inputs.append(source)
        self.input_versions.append((fake, version(fake)))
        self.sizes.met(source, obj, fake)
        return Tensor(node, fake, source, obj)

    def input_changed(self) -> bool:
        """Whether the graph has written to one of its inputs (views count: they share the version counter)."""
        return any(version(fake) != before for fake, before in self.input_versions) or self.input_changed_unseen()

    def input_changed_unseen(self) -> bool:
        """Whether it has written to the memory of an input whose version hasn't moved, as through `.data`."""
        from .torch_.calls import memory

        unmoved = (fake for fake, before in self.input_versions if version(fake) == before)
        return bool(self.overwritten) and any(memory(fake) in self.overwritten for fake in unmoved)

    # Names

    def is_namespace(self, obj: dict[str, Any]) -> bool:
        """Whether a dict is the globals of a loaded module (or of the traced frame)."""
        if obj is self.entry_globals or id(obj) in self.namespaces:
            return True
        return "__spec__" in obj and naming.module_name(obj) is not None

    def namespace(
        self, globals: dict[str, Any], holder: Source | None = None, holder_attribute: str = "__globals__"
    ) -> Namespace:
        """The value of a globals dict; `holder` is a function (or, by `__dict__`, a module) that reaches it."""
        found = self.namespaces.get(id(globals))
        if found is None:
            name = naming.module_name(globals)
            if globals is self.entry_globals:
                source: Source = S.Globals("")
            elif name is not None:
                source = S.Globals(name)
            else:
                source = S.Attr(holder, holder_attribute) if holder is not None else S.Globals("")
            found = self.namespaces[id(globals)] = Namespace(globals, source)
        return found

    def name_in(self, ns: Namespace, name: str) -> Value | None:
        """A name in a namespace; None if absent."""
        if name in ns.names:
            return ns.names[name]
        if name in ns.seen:
            return ns.seen[name]
        found: Value | None = None
        assert ns.source is not None
        if name in ns.obj:
            found = self.wrap_found(ns.obj[name], S.Item(ns.source, name))
        else:
            self.guard("LACKS", ns.source, name)
        ns.seen[name] = found
        return found

    def load_global(self, ns: Namespace, name: str) -> Value:
        """LOAD_GLOBAL: the module's name, else the builtin, else NameError."""
        found = self.name_in(ns, name)
        if found is None:
            found = self.name_in(self.namespace(vars(builtins)), name)
        if found is None:
            self.raise_(NameError, f"name {name!r} is not defined", name=name)
        return found

    def store_global(self, ns: Namespace, name: str, value: Value | None) -> None:
        """STORE_GLOBAL; None deletes."""
        if value is None and self.name_in(ns, name) is None:
            self.raise_(NameError, f"name {name!r} is not defined", name=name)
        self.mutated(ns)
        ns.names[name] = value

    def import_name(self, ns: Namespace, name: str, fromlist: Any, level: int) -> Value:
        """IMPORT_NAME of a module that is loaded already; loading one is Python's business."""
        if level:
            package = ns.obj.get("__package__") or (ns.obj.get("__name__") or "").rpartition(".")[0]
            base = package.rsplit(".", level - 1)[0]
            name = f"{base}.{name}" if name else base
        module = sys.modules.get(name)
        if module is None:
            raise Break(f"import of {name}, which isn't loaded yet", "Import it at module level.")
        if not fromlist:
            name = name.partition(".")[0]
            module = sys.modules[name]
        return self.wrap(module, S.Module(name))

    def cell(self, obj: types.CellType, source: Source) -> Cell:
        """The value of a closure cell from outside."""
        found = self.by_identity.get(id(obj))
        if found is None:
            found = self.by_identity[id(obj)] = Cell(None, source, obj)
            self.keep_alive.append(obj)
        return found  # type: ignore[return-value]

    def cell_content(self, cell: Cell) -> Value | None:
        """What a cell holds; None while it is empty."""
        if cell.content is None and cell.obj is not None and cell not in self.changed:
            try:
                obj = cell.obj.cell_contents
            except ValueError:
                if cell.source is not None:
                    self.guard("CONST", S.Pure("cell.filled", cell.source), False)
                return None
            assert cell.source is not None
            cell.content = self.wrap(obj, S.Cell(cell.source))
            self.found_in_cells.append(cell.content)
        return cell.content

    def set_cell(self, cell: Cell, value: Value | None) -> None:
        """Write (or, with None, empty) a cell."""
        self.mutated(cell)
        cell.content = value

    # Records

    def guard(self, kind: str, source: Source | None, expected: Any = None) -> None:
        """Note a fact that the trace relies on. `expected` is what `finish` encodes for the kind."""
        key = (kind, source, constants.token(expected) if kind in ("LACKS", "HAS", "NOATTR") else None)
        if kind in ("SAME", "DISTINCT", "APART", "ORDER"):
            key = (kind, source, expected)
        if key not in self.guards:
            self.guards[key] = (kind, source, expected)
            self.asked[key] = self.users_line()

    def key_by_identity(self, value: Value) -> None:
        """Note that an object was a key by its identity: another one must not be the same in a later call."""
        if value.source is not None and not value.source.late:
            self.keyed.setdefault(value.cls, {})[value] = None

    def set_order(self, keys: tuple[Any, ...]) -> tuple[Any, ...]:
        """The order of a set to which `keys` were added one by one: a fact of the process where there are strings."""
        order = self.orders.get(keys) or tuple(set(keys))
        if any(type(key) is str for key in keys):
            self.guard("ORDER", None, (keys, order))
        return order

    def guard_global(self, fact: str) -> None:
        """Note that a fact of the process's global state was read."""
        self.global_facts[fact] = True

    def mutated(self, value: Value) -> None:
        """To be called before a value's state changes: remembers what the epilogue has to replay."""
        if value in self.memoised:
            raise LookedAt(frozenset((self.memoised[value],)))
        self.changes += 1
        if isinstance(value, Sequence) and issubclass(value.cls, collections.deque):
            self.deque_changes[value] += 1
        older = self.isolated and (value.source is not None or value.serial < self.isolated[-1])
        if older and value is not self.state.token:
            raise Break("a change of what exists outside, in a function that may run at another time or not at all")
        if value.source is not None:
            self.changed.setdefault(value, True)

    def happens(self) -> None:
        """Break where what is traced runs at another time, or not at all: an effect would come at the wrong one."""
        if self.isolated:
            raise Break("an effect in a function that may run at another time or not at all")

    def postpone(self, effect: Any) -> None:
        """Leave an effect of the program, which nothing that it reads shows, to the epilogue."""
        self.happens()
        self.mutated(self.state.token)
        self.postponed.append(effect)

    def lasting(self, value: Value) -> Value:
        """A value that is read from a variable; Break where a backward pass reads a container that is there already.

        What the container holds when that runs isn't what it holds now.
        """
        if self.differentiating:
            found = force(value)
            older = found.source is not None or found.serial < self.isolated[-1]
            if older and issubclass(found.cls, (list, dict, set)) and not isinstance(found, Namespace | InstanceDict):
                raise Break(f"a backward pass reads a {found.cls.__name__}, which may be another one when it runs")
        return value

    def raise_(self, cls: type[BaseException], *args: Any, **attributes: str) -> NoReturn:
        """Raise in the traced program; `attributes` are set as well."""
        values: list[Value] = [each if isinstance(each, Value) else Const(each) for each in args]
        exception = Object(cls, payload=Sequence(tuple, values))
        for name, value in attributes.items():
            exception.attrs[name] = Const(value)
        raise Raised(exception)

    def graph_call(self, fn: Any, args: list[Value], kwargs: dict[str, Value] | None = None) -> Value:
        """Record a call of a torch function."""
        from .torch_.calls import call_torch

        return call_torch(self, fn, args, kwargs or {})

    def graph_method(self, name: str, args: list[Value], kwargs: dict[str, Value] | None = None) -> Value:
        """Record a call of a tensor's method; the receiver is the first argument."""
        from .torch_.tensors import tensor_method

        receiver = force(args[0])
        assert isinstance(receiver, Tensor)
        return tensor_method(self, name, receiver, args[1:], kwargs or {})

    # Frames

    def polyfill(self, function: Any) -> Function:
        """The value of one of our own Python functions."""
        found = self.polyfills.get(function)
        if found is None:
            found = self.polyfills[function] = force(self.durable(function))  # type: ignore[assignment]
        return found  # type: ignore[return-value]

    def inline_refusal(self, f: Function) -> str:
        """Why a Python function isn't traced into; empty where it is."""
        code = f.code
        if code.co_flags & 0x80 or code.co_flags & 0x200:
            return f"call of the async function {f.qualname}"
        if self.depth > MAX_DEPTH:
            return f"recursion deeper than {MAX_DEPTH} frames"
        if f.obj is not None:
            if getattr(f.obj, "_torchdynamo_disable", False) or getattr(f.obj, "__aotdyn_disable__", False):
                return f"call of {f.qualname}, which is marked as disabled"
            module = f.obj.__globals__.get("__name__") or ""
            if f.obj.__dict__.get("__script_if_tracing_wrapper"):
                return ""  # scripts under jit tracing alone
            if (
                module.startswith(_NOT_INLINED)
                and module not in _INLINED
                and any(module == m or module.startswith((m + ".", m)) for m in _NOT_INLINED)
            ):
                return f"call of {module}.{f.qualname}, which isn't traced into"
        return ""

    def inline(self, f: Function, bound: dict[str, Value], by_call: bool) -> Value:
        """Run a Python function's body on values."""
        from aotdyn.rewrite.digest import digest
        from aotdyn.rewrite.originals import dispatcher_of

        from .frame import Frame

        code = f.code
        cells = {name: Cell() for name in code.co_cellvars}
        for name, cell in zip(code.co_freevars, f.closure):
            cells[name] = cell
        key = ("", "", "")
        if f.obj is not None:
            row = Inlined(str(f.globals.obj.get("__name__")), f.qualname, digest(code))
            key = row.module, row.qualname, row.digest
            self.inlined[key] = row
            self.sizes.hand(row, bound)
        frame = Frame(self, code, f.globals, bound, cells, f.owner, f.path, self.frame, by_call)
        frame.stub = f.obj is not None and dispatcher_of(f.obj.__code__) is not None
        self.depth += 1
        outer = self.stubs.begin()
        try:
            value = frame.run()
        finally:
            self.depth -= 1
            self.stubs.end(outer, key, frame, self.operations - frame.entered)
        if self.sparing and frame.stub:
            self.stubs.called(frame, self.operations - frame.entered)
        return value

    def enter(self, frame: Any) -> None:
        """A frame begins to run."""
        self.frame = frame

    def leave(self, frame: Any) -> None:
        """A frame ends or is suspended."""
        self.frame = frame.caller

    def step(self, frame: Any) -> None:
        """Before each instruction: count it, keep the bounds, and end where this attempt is to end."""
        self.position += 1
        if self.position == self.stop_at:
            frame.position = self.position
            raise Stop
        if not self.position & 1023:
            options = self.options
            if self.position > options.max_instructions:
                raise LeaveAlone(f"more than {options.max_instructions} instructions to trace")
            if self.operations > options.max_nodes:
                raise LeaveAlone(f"more than {options.max_nodes} operations in one graph")
            if time.thread_time() - self.started > options.max_seconds:
                text = f"tracing took more than {options.max_seconds:.3g} s"
                raise LeaveAlone(text, seconds=options.max_seconds)
            if not self.position & 0x3FFF:
                collecting.young()

    def unrolled(self) -> None:
        """One more iteration of a loop of the current instruction."""
        if self.frame is None:
            return
        key = id(self.frame) ^ self.frame.index
        self.loops[key] = self.loops.get(key, 0) + 1
        if self.loops[key] > self.options.max_unrolled:
            raise Break(
                f"a loop of more than {self.options.max_unrolled} iterations", "It isn't unrolled into the graph."
            )

    def turn(self, frame: Any) -> None:
        """The current instruction jumps back, to the next iteration of a loop of the frame's."""
        count, operations, position = frame.turns.get(frame.index) or (0, self.operations, self.break_position())
        frame.turns[frame.index] = (count + 1, operations, position)
        if count == MAX_IDLE and self.operations == operations:
            self._leave_loop(position)

    def _leave_loop(self, position: int) -> NoReturn:
        """Give up a loop in which nothing is captured: Python goes on behind its first turn, and finishes the frame."""
        reason = f"a loop in whose first {MAX_IDLE} iterations nothing is captured"
        if self.operations == 0 and self.frame.caller is None:
            raise LeaveAlone(reason)
        found = Break(reason, "It is left to Python.")
        found.position = position
        raise found

    def break_position(self) -> int:
        """Position of the operation at which the frames can be given up now."""
        from .giveup import last_frame

        return last_frame(self, self.frame).position

    def in_try(self) -> bool:
        """Whether an exception raised now could be seen by a handler or a `with` of the user's."""
        frame = self.frame
        while frame is not None:
            if frame.guarded():
                return True
            frame = frame.caller
        return False

    def here(self) -> tuple[str, int, str]:
        """File, line and function of the innermost user frame."""
        frame = self.frame
        if frame is None:
            return ("", 0, self.spec.qualname)
        return (frame.code.co_filename, frame.line or 0, frame.code.co_qualname)

    def users_line(self) -> tuple[str, int] | None:
        """File and line of the innermost frame of the program's own (torch's aren't); None where none has begun."""
        frame = found = self.frame
        while frame is not None:
            if not frame.code.co_filename.startswith(NOT_THE_USERS):
                return (frame.code.co_filename, frame.line or 0)
            found, frame = frame, frame.caller
        return None if found is None else (found.code.co_filename, found.line or 0)

    def stack_lines(self) -> list[tuple[str, int, str]]:
        """File, line and function of every frame, outermost first."""
        lines = []
        frame = self.frame
        while frame is not None:
            lines.append((frame.code.co_filename, frame.line or 0, frame.code.co_qualname))
            frame = frame.caller
        return lines[::-1]


def _is_in_c(owner: Any, name: str) -> bool:
    """Whether an attribute isn't in the instance's dict: a slot, or a field of an object of C."""
    if isinstance(owner, Function):
        return name in _KEPT_IN_C
    found = inspect.getattr_static(owner.cls, name, None)
    return isinstance(found, types.MemberDescriptorType | types.GetSetDescriptorType)


def _instance_dict(obj: Any) -> dict[str, Any] | None:
    """An object's `__dict__`, whatever its class says of attributes; None where it has none."""
    if type(obj) is threading.local:
        return obj.__dict__  # this thread's
    try:
        return object.__getattribute__(obj, "__dict__")
    except AttributeError:
        return None


__all__ = ["NULL", "Stop", "Tracer"]
