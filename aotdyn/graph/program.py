"""A graph as a list of steps with live targets: what data decodes to and code is generated from, without fx.

Values are numbered: the inputs first, then one for each step. Arguments are
nested tuples, lists, dicts, slices and constants whose leaves may be `Ref`s.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import torch
from torch import fx

Frame = tuple[Any, ...]
"""Where the user's code stood: `(file, line, function)`, or another tuple of scalars that `locate` turns into it."""


Locate = Callable[[Frame], tuple[str, int, str]]
"""File, line and function of a frame of a step's stack."""


def locate(frame: Frame) -> tuple[str, int, str]:
    """The default: frames are `(file, line, function)`."""
    return frame[0], frame[1], frame[2]


class Ref(msgspec.Struct, frozen=True):
    """The value with this number."""

    index: int


class Input(msgspec.Struct):
    """A tensor handed to the graph; `dynamic` lists the dimensions whose size varies.

    Those that are `unbacked` as well may be 0 and 1, too, and nothing may be decided by them. `ranges` are those that
    the user gave: dimension, least and most.
    """

    name: str
    dynamic: tuple[int, ...] = ()
    unbacked: tuple[int, ...] = ()
    ranges: tuple[tuple[int, int, int], ...] = ()


class Step(msgspec.Struct):
    """One call: of `target`, or of the method that it names (a str, whose receiver is the first argument)."""

    target: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    stack: tuple[Frame, ...] = ()
    "the user's frames, outermost first"


class Program(msgspec.Struct):
    """Inputs, steps in order, and the structure of outputs (a tuple, of one that is given `bare`).

    An argument of a step may be a Program itself: a graph inside the graph,
    closed, whose inputs are handed to it by the step's target.
    """

    inputs: list[Input]
    steps: list[Step]
    outputs: tuple[Any, ...]
    bare: bool = False
    key: str = ""
    "what `data.key` gives without stacks, of one that was read with it; another program is made by `changed`"


def map_refs(value: Any, replace: Callable[[Any], Any], leaf: type | tuple[type, ...] = Ref) -> Any:
    """`value` with each leaf of type `leaf` replaced, in tuples (named ones too), lists, dicts and slices."""
    if isinstance(value, leaf):
        return replace(value)
    if isinstance(value, tuple):
        items = [map_refs(item, replace, leaf) for item in value]
        if hasattr(value, "_fields"):
            return type(value)(*items)
        if isinstance(value, torch.Size) and all(isinstance(item, int) for item in items):
            return value
        return tuple(items)
    if isinstance(value, list):
        return [map_refs(item, replace, leaf) for item in value]
    if isinstance(value, dict):
        return {key: map_refs(item, replace, leaf) for key, item in value.items()}
    if isinstance(value, slice):
        return slice(*(map_refs(item, replace, leaf) for item in (value.start, value.stop, value.step)))
    return value


def refs(value: Any) -> list[int]:
    """Numbers of the values that `value` mentions, in order."""
    found: list[int] = []
    map_refs(value, lambda ref: found.append(ref.index))
    return found


def of_module(gm: fx.GraphModule) -> Program:
    """The program of a graph module. Attributes that it reads become constants, those that are graphs programs."""
    values: dict[fx.Node, Any] = {}
    program = Program([], [], ())
    for node in gm.graph.find_nodes(op="placeholder"):
        values[node] = Ref(len(program.inputs))
        program.inputs.append(_input(node))
    for node in gm.graph.nodes:
        if node.op == "placeholder":
            continue
        if node.op == "get_attr":
            found = _attribute(gm, node.target)
            values[node] = of_module(found) if isinstance(found, fx.GraphModule) else found
            continue
        args = map_refs(node.args, values.__getitem__, fx.Node)
        if node.op == "output":
            program.bare = not isinstance(args[0], tuple | list)
            program.outputs = (args[0],) if program.bare else tuple(args[0])
            continue
        target = gm.get_submodule(node.target) if node.op == "call_module" else node.target
        values[node] = Ref(len(program.inputs) + len(program.steps))
        kwargs = {name: map_refs(value, values.__getitem__, fx.Node) for name, value in node.kwargs.items()}
        program.steps.append(Step(target, args, kwargs, tuple(node.meta.get("stack", ()))))
    return program


def _input(node: fx.Node) -> Input:
    return Input(node.name, *(tuple(node.meta.get(kind, ())) for kind in ("dynamic", "unbacked", "ranges")))


def to_module(program: Program) -> fx.GraphModule:
    """A graph module that is the program; placeholders and calls carry `dynamic` and `stack` in their `meta`."""
    graph = fx.Graph()
    values: list[fx.Node] = []
    modules: dict[str, fx.GraphModule] = {}

    def value(ref: Ref | Program) -> fx.Node:
        if isinstance(ref, Ref):
            return values[ref.index]
        name = f"graph_{len(modules)}"
        modules[name] = to_module(ref)
        return graph.get_attr(name)

    for item in program.inputs:
        node = graph.placeholder(item.name)
        if item.dynamic:
            node.meta["dynamic"] = item.dynamic
        for kind in ("unbacked", "ranges"):
            if found := getattr(item, kind):
                node.meta[kind] = found
        values.append(node)
    for step in program.steps:
        op = "call_method" if isinstance(step.target, str) else "call_function"
        args, kwargs = (map_refs(part, value, (Ref, Program)) for part in (step.args, step.kwargs))
        node = graph.create_node(op, step.target, args, kwargs)
        if step.stack:
            note_stack(node, step.stack)
        values.append(node)
    graph.output(map_refs(program.outputs[0] if program.bare else program.outputs, value))
    return fx.GraphModule(modules, graph)


def note_stack(node: fx.Node, stack: tuple[Frame, ...]) -> None:
    """Put the user's frames into a node's metadata, for us (`stack`) and for torch (`stack_trace`)."""
    node.meta["stack"] = stack
    if all(len(frame) >= 3 for frame in stack):
        node.stack_trace = "".join(f'  File "{file}", line {line}, in {name}\n' for file, line, name, *_ in stack)


def _attribute(gm: fx.GraphModule, path: Any) -> Any:
    found: Any = gm
    for name in str(path).split("."):
        found = getattr(found, name)
    return found


def changed(program: Program, **fields: Any) -> Program:
    """Another program, which has some of the fields of this one, and not its key."""
    return msgspec.structs.replace(program, key="", **fields)


def static(program: Program) -> Program:
    """The same program with every size fixed."""
    return changed(program, inputs=[Input(item.name) for item in program.inputs])


def last_uses(program: Program) -> Mapping[int, int]:
    """For each value, the index of the last step that mentions it (the number of steps for an output)."""
    last: dict[int, int] = {}
    for index, step in enumerate(program.steps):
        for value in refs((step.args, step.kwargs)):
            last[value] = index
    for value in refs(program.outputs):
        last[value] = len(program.steps)
    return last


def to_function(program: Program, locate: Locate = locate) -> Callable[..., tuple[Any, ...]]:
    """The program as plain calls. What writes them loads here: a start that is warm runs kernels."""
    from aotdyn.graph import codegen

    return codegen.to_function(program, locate)
