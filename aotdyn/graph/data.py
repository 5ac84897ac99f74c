"""Graphs as data: MessagePack by schema, targets by their durable names, and back to an equal graph.

A decoded graph needs torch and torch.fx, nothing of torch's compilers.

Annotations are evaluated as the classes are made: see `runtime.variant`.
"""

import hashlib
from collections.abc import Callable
from typing import Any

import msgspec
from torch import fx

from aotdyn.graph import program as programs
from aotdyn.graph.program import Input, Program, Ref, Step
from aotdyn.guards import constants, naming


class NotDurable(TypeError):
    """A target or argument that another process couldn't find; `what` says which."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} has no durable form")
        self.what = what


class StepData(msgspec.Struct, frozen=True, array_like=True):
    """A step: its target's place in the table, its arguments, its stack's place in the table (-1: none)."""

    target: int
    args: list[Any]
    kwargs: dict[str, Any]
    stack: int = -1


class GraphData(msgspec.Struct, frozen=True, array_like=True):
    """A program. Names of inputs and stacks come last: the canonical key leaves them out."""

    dynamic: list[tuple[int, ...]]
    targets: list[Any]
    steps: list[StepData]
    outputs: list[Any]
    names: list[str] = []
    frames: list[Any] = []
    stacks: list[list[int]] = []
    bare: bool = False
    unbacked: list[tuple[int, ...]] = []
    "as `dynamic`; empty where no input has such a dimension"
    ranges: list[tuple[tuple[int, int, int], ...]] = []
    "dimensions with least and most size; empty where no input has one"
    key: str = ""
    "the graph's own, without stacks, where it was asked for"


_DECODER = msgspec.msgpack.Decoder(GraphData)
_ENCODER = msgspec.msgpack.Encoder(order="sorted")


def encode(graph: fx.GraphModule | Program, keyed: bool = False) -> bytes:
    """The graph as bytes, `keyed` with what kernels are found by; NotDurable where something in it can't be named."""
    program = _program(graph)
    written = _Writer(program).data()
    return _ENCODER.encode(msgspec.structs.replace(written, key=key(program, stacks=False)) if keyed else written)


def decode(data: bytes) -> fx.GraphModule:
    """The graph that was encoded; ValueError for damaged data, LookupError for a target that is gone."""
    return programs.to_module(decode_program(data))


def decode_program(data: bytes) -> Program:
    """The same without fx: what the `eager` backend needs."""
    try:
        graph = _DECODER.decode(data)
        return _read(graph)
    except (msgspec.DecodeError, IndexError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not a graph: {error}") from error


def check(data: bytes) -> None:
    """See that bytes are a graph by their form, without looking for what it names.

    Raises:
        ValueError: they aren't.
    """
    try:
        msgspec.msgpack.decode(data, type=GraphData)
    except msgspec.MsgspecError as error:
        raise ValueError(str(error)) from error


def key(graph: fx.GraphModule | Program, stacks: bool = True, durable: bool = True) -> str:
    """Digest (32 hex digits) of what the graph does: node and input names don't matter.

    With `stacks`, the user's lines count: a stored graph names lines, so it may
    only be shared by what has the same. Compiled kernels leave them out. Unless
    `durable`, what has no durable form counts by its identity: a key for this
    process, while the graph lives.
    """
    if isinstance(graph, Program) and graph.key and not stacks:
        return graph.key
    return hashlib.blake2b(
        _ENCODER.encode(_Writer(_program(graph), stacks, durable).data(names=False)), digest_size=16
    ).hexdigest()


def _program(graph: fx.GraphModule | Program) -> Program:
    return graph if isinstance(graph, Program) else programs.of_module(graph)


class _Writer:
    """One pass over a program that fills the tables."""

    def __init__(self, program: Program, stacks: bool = True, durable: bool = True) -> None:
        self.program = program
        self.durable = durable
        self.names = True
        self.stacks = _Table() if stacks else None
        self.frames = _Table()
        self.targets: dict[Any, int] = {}
        self.target_data: list[Any] = []

    def data(self, names: bool = True) -> GraphData:
        program, self.names = self.program, names
        inputs = program.inputs
        steps = [
            StepData(
                self.target(step.target),
                [self._argument(item) for item in step.args],
                {name: self._argument(item) for name, item in step.kwargs.items()},
                self.stack(step.stack),
            )
            for step in program.steps
        ]
        return GraphData(
            dynamic=[item.dynamic for item in program.inputs],
            targets=self.target_data,
            steps=steps,
            outputs=[_encode(item) for item in program.outputs],
            names=[item.name for item in program.inputs] if names else [],
            frames=self.frames.rows,
            stacks=self.stacks.rows if self.stacks else [],
            bare=program.bare,
            unbacked=[item.unbacked for item in inputs] if any(item.unbacked for item in inputs) else [],
            ranges=[item.ranges for item in inputs] if any(item.ranges for item in inputs) else [],
        )

    def target(self, target: Any) -> int:
        mark = target if isinstance(target, str) else id(target)
        found = self.targets.get(mark)
        if found is None:
            found = self.targets[mark] = len(self.target_data)
            self.target_data.append(target if isinstance(target, str) else self._target(target))
        return found

    def _target(self, target: Any) -> list[Any]:
        try:
            return _encode_target(target)
        except NotDurable:
            if self.durable:
                raise
            return ["local", id(target)]

    def _argument(self, value: Any) -> Any:
        return _encode(value, self.durable, self.nested)

    def nested(self, program: Program) -> Any:
        """A graph inside the graph, with tables of its own."""
        return _Writer(program, self.stacks is not None, self.durable).data(self.names)

    def stack(self, stack: tuple[programs.Frame, ...]) -> int:
        if not stack or self.stacks is None:
            return -1
        return self.stacks.place([self.frames.place(list(frame)) for frame in stack])


class _Table:
    """Rows, each once, by value."""

    def __init__(self) -> None:
        self.rows: list[list[Any]] = []
        self._places: dict[tuple[Any, ...], int] = {}

    def place(self, row: list[Any]) -> int:
        mark = tuple(row)
        found = self._places.setdefault(mark, len(self.rows))
        if found == len(self.rows):
            self.rows.append(row)
        return found


def _encode_target(target: Any) -> list[Any]:
    path = naming.path_of(target)
    if path is not None:
        return ["path", *path]
    owner, name = getattr(target, "__self__", None), getattr(target, "__name__", None)
    if isinstance(owner, type) and name:  # a class method: autograd.Function's apply
        path = naming.path_of(owner)
        if path is not None and getattr(owner, name, None) == target:
            return ["path", path[0], f"{path[1]}.{name}"]
    raise NotDurable(f"call target {getattr(target, '__qualname__', None) or type(target).__qualname__}")


def _encode(value: Any, durable: bool = True, nested: Callable[[Program], Any] | None = None) -> Any:
    if isinstance(value, Ref):
        return ["@", value.index]
    if isinstance(value, Program) and nested is not None:
        return ["graph", nested(value)]
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        path = naming.path_of(type(value))
        if path is None and durable:
            raise NotDurable(f"tuple type {type(value).__qualname__}")
        return ["named", *(path or ("", id(type(value)))), [_encode(item, durable, nested) for item in value]]
    if type(value) is tuple:
        return ["(", [_encode(item, durable, nested) for item in value]]
    if isinstance(value, list):
        return ["[", [_encode(item, durable, nested) for item in value]]
    if isinstance(value, dict):
        return ["{", [[_encode(name, durable), _encode(item, durable, nested)] for name, item in value.items()]]
    if isinstance(value, slice):
        return [":", *(_encode(bound, durable) for bound in (value.start, value.stop, value.step))]
    try:
        data = constants.encode(value)
    except constants.NotConstant as error:
        if durable:
            raise NotDurable(f"argument of type {type(value).__qualname__}") from error
        return ["local", id(value)]
    return ["c", data] if isinstance(data, list) else data


def _decode(data: Any) -> Any:
    return _DECODERS[data[0]](*data[1:]) if isinstance(data, list) else data


_DECODERS: dict[str, Any] = {
    "@": Ref,
    "named": lambda module, name, items: naming.find(module, name)(*(_decode(item) for item in items)),
    "(": lambda items: tuple(_decode(item) for item in items),
    "[": lambda items: [_decode(item) for item in items],
    "{": lambda items: {_decode(name): _decode(item) for name, item in items},
    ":": lambda *bounds: slice(*(_decode(bound) for bound in bounds)),
    "c": constants.decode,
    "graph": lambda data: _read(msgspec.convert(data, GraphData)),
}


def _read(graph: GraphData) -> Program:
    targets = [item if isinstance(item, str) else naming.find(*item[1:]) for item in graph.targets]
    frames = [tuple(frame) for frame in graph.frames]
    stacks = [tuple(frames[place] for place in stack) for stack in graph.stacks]
    steps = [
        Step(
            targets[step.target],
            tuple(_decode(item) for item in step.args),
            {name: _decode(item) for name, item in step.kwargs.items()} if step.kwargs else {},
            stacks[step.stack] if step.stack >= 0 else (),
        )
        for step in graph.steps
    ]
    none: list[Any] = [()] * len(graph.dynamic)
    rows = zip(graph.names, graph.dynamic, graph.unbacked or none, graph.ranges or none, strict=True)
    inputs = [Input(*row) for row in rows]
    return Program(inputs, steps, tuple(_decode(item) for item in graph.outputs), graph.bare, graph.key)
