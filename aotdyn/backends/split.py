"""A graph in two: what a compiled kernel computes, and what is done around it in Python.

A kernel gives new tensor objects; the program may expect an input itself, a
view that autograd knows as one, or an int. So an output that is an input is
handed through, views and sizes are made again from what they are of (the
`outer` program), and the kernel computes the rest (the `inner` graph).

A kernel without gradients writes to inputs itself. One that is trained gives
what the inputs become, and the outer program copies it into them, so that
autograd sees the write.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from aotdyn.backends.context import Interpreted, storage
from aotdyn.graph import build
from aotdyn.graph.program import Input, Program, Ref, Step, map_refs

LITERALS = (type(None), bool, int, float, complex, str, torch.dtype, torch.device, torch.layout, torch.memory_format)

VARYING = (torch.SymInt, torch.SymFloat, torch.SymBool)


class Unsuitable(Exception):
    """A graph is better run eagerly; the message says why."""


@dataclasses.dataclass
class Split:
    """`inner`: the kernel's graph, None if it computes nothing. `outer`: takes the inputs and the kernel's outputs."""

    inner: fx.GraphModule | None
    outer: Program
    computed: list[fx.Node]
    "what the kernel gives; behind them, a trained kernel gives what the written inputs become"
    written: list[int]
    "inputs that the graph writes to"
    trained: bool


def split(module: fx.GraphModule, inputs: list[Input], seen: Interpreted) -> Split:
    """Tell what the kernel computes from what the program around it does.

    Raises:
        Unsuitable: an output has no place in either.
    """
    work = _Work(module, inputs, seen)
    output = module.graph.output_node()
    outputs = map_refs(output.args[0], work.place, fx.Node)
    outputs = tuple(outputs) if isinstance(outputs, tuple | list) else (outputs,)
    trained = bool(seen.rebased) or any(seen.values[node].requires_grad for node in work.computed)
    written = sorted({*written_inputs(work.placeholders, seen), *seen.hidden})
    shift = len(inputs) + len(work.computed) + (len(written) if trained else 0)
    steps = work.write_back(written) if trained else work.bump([n for n in written if n not in seen.hidden])

    def renumber(ref: Ref) -> Ref:
        return Ref(ref.index if ref.index >= 0 else shift + len(steps) - ref.index - 1)

    replays = [Step(s.target, map_refs(s.args, renumber), map_refs(s.kwargs, renumber), s.stack) for s in work.steps]
    kernel = [Input(f"k{number}") for number in range(shift - len(inputs))]
    outer = Program([*inputs, *kernel], steps + replays, map_refs(outputs, renumber))
    needed = bool(work.computed or seen.mutating or seen.drawn or seen.hidden)
    return Split(_inner(module, work.computed) if needed else None, outer, work.computed, written, trained)


class _Work:
    """Places nodes; steps of the outer program are numbered -1, -2, ... until the kernel's outputs are counted."""

    def __init__(self, module: fx.GraphModule, inputs: list[Input], seen: Interpreted) -> None:
        self.seen = seen
        self.placeholders = module.graph.find_nodes(op="placeholder")
        self.inputs = {node: number for number, node in enumerate(self.placeholders)}
        self.computed: list[fx.Node] = []
        self.steps: list[Step] = []
        self.places: dict[fx.Node, Any] = {}
        self.first: dict[int, fx.Node] = {}
        for node, value in seen.values.items():
            if isinstance(value, torch.Tensor):
                self.first.setdefault(id(value), node)

    def place(self, node: fx.Node) -> Any:
        value = self.seen.values[node]
        if _literal(value):
            return value
        if isinstance(value, torch.Tensor):
            node = self.first[id(value)]
        if node not in self.places:
            self.places[node] = self._place(node, value)
        return self.places[node]

    def _place(self, node: fx.Node, value: Any) -> Ref:
        if node in self.inputs:
            return Ref(self.inputs[node])
        if self._again(node, value):
            args, kwargs = (map_refs(part, self.place, fx.Node) for part in (node.args, dict(node.kwargs)))
            step = Step(node.target, args, kwargs, tuple(node.meta.get("stack", ())))
            given = build.tensors([self.seen.values[item] for item in node.all_input_nodes])
            return self._step(step, node in self.seen.other_mode and any(tensor.requires_grad for tensor in given))
        if not isinstance(value, torch.Tensor):
            raise Unsuitable(f"an output is a {type(value).__name__}")
        self.computed.append(node)
        return Ref(len(self.inputs) + len(self.computed) - 1)

    def _again(self, node: fx.Node, value: Any) -> bool:
        """Whether the node is a view of what it is given, or a number that comes from tensors' sizes."""
        if node in self.seen.mutating or node.op not in ("call_function", "call_method"):
            return False
        if isinstance(value, VARYING) or (isinstance(value, tuple) and not build.tensors(value)):
            return True
        made, given = build.tensors(value), []
        for item in node.all_input_nodes:
            of = self.seen.values[item]
            if isinstance(of, tuple | list) and not self._again(item, of):
                return False
            given += build.tensors(of)
        if any(build.innermost(tensor) is not tensor for tensor in (*made, *given)):
            return False  # batched tensors don't leave the kernel
        return bool(made) and {storage(tensor) for tensor in made} <= {storage(tensor) for tensor in given}

    def _step(self, step: Step, other_mode: bool) -> Ref:
        """Do a step behind the kernel, in the other grad mode than the graph's caller is in if `other_mode`."""
        here = torch.is_grad_enabled()
        around = [Step(torch._C._set_grad_enabled, (mode,), {}) for mode in (not here, here)]
        before, after = (around[:1], around[1:]) if other_mode else ([], [])
        self.steps += [*before, step]
        made = Ref(-len(self.steps))
        self.steps += after
        return made

    def bump(self, written: list[int]) -> list[Step]:
        """The step that tells autograd of the writes to inputs: a kernel doesn't."""
        refs = tuple(Ref(number) for number in written)
        return [Step(torch.autograd.graph.increment_version, (refs,), {})] if refs else []

    def write_back(self, written: list[int]) -> list[Step]:
        """The steps that copy what a trained kernel gives for the written inputs into them."""
        first = len(self.inputs) + len(self.computed)
        off, on = (Step(torch._C._set_grad_enabled, (mode,), {}) for mode in (False, True))
        steps: list[Step] = []
        for i, number in enumerate(written):
            to, new = Ref(number), Ref(first + i)
            if number in self.seen.hidden:
                steps.append(Step(getattr, (to, "data"), {}))
                to = Ref(first + len(written) + len(steps) - 1)
            copy = Step("copy_", (to, new), {})
            steps += [copy] if number in (*self.seen.hidden, *self.seen.rebased) else [off, copy, on]
        return steps


def written_inputs(placeholders: Sequence[fx.Node], seen: Interpreted) -> list[int]:
    """Numbers of the inputs that a graph writes to."""
    before = zip(placeholders, seen.versions, strict=True)
    return [number for number, (node, was) in enumerate(before) if build.version(seen.values[node]) != was]


def _inner(module: fx.GraphModule, computed: list[fx.Node]) -> fx.GraphModule:
    graph = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    graph.graph_copy(module.graph, copies)
    graph.output(tuple(copies[node] for node in computed))
    return fx.GraphModule(module, graph)


def _literal(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(_literal(item) for item in value)
    return isinstance(value, LITERALS) and not isinstance(value, VARYING)
