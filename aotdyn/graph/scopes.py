"""Graphs inside a graph: branches, loop bodies, checkpointed regions, the two halves of an autograd function.

A nested graph is closed: what it uses from outside are its inputs, in the order
of first use. The graph around it refers to it by a `get_attr` node and hands it
the outer values.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from torch import fx

from aotdyn.graph import effects


class Escaped(Exception):
    """A value of a nested graph is used outside of it."""


@dataclasses.dataclass(frozen=True, slots=True)
class Nested:
    """A closed graph, and the nodes around it that are its inputs behind those that its maker declared."""

    module: fx.GraphModule
    operands: list[fx.Node]


class Scope:
    """A graph under construction; `outer` is the scope around it."""

    def __init__(self, graph: fx.Graph, outer: Scope | None = None) -> None:
        self.graph = graph
        self.outer = outer
        self.made: list[fx.Node] = []
        self.modules: dict[str, fx.GraphModule] = {}
        self._lifted: dict[fx.Node, fx.Node] = {}
        self._last: fx.Node | None = None

    def local(self, node: fx.Node) -> fx.Node:
        """The node that stands for `node` in this graph: an input, where it comes from around it."""
        if node.graph is self.graph:
            return node
        if self.outer is None:
            raise Escaped(f"{node.name} belongs to a graph inside this one")
        outer = self.outer.local(node)
        found = self._lifted.get(outer)
        if found is None:
            found = self._lifted[outer] = self.input(outer.name, outer.meta.get("val"))
        return found

    def input(self, name: str, fake: Any) -> fx.Node:
        """A new input behind those there are."""
        first = next(iter(self.graph.nodes), None)
        with self.graph.inserting_after(self._last) if self._last else self.graph.inserting_before(first):
            node = self._last = self.graph.placeholder(name)
        node.meta["val"] = node.meta["example_value"] = fake
        return node

    def reference(self, module: fx.GraphModule, label: str) -> fx.Node:
        """The node that stands for a nested graph."""
        name = f"{label}_{len(self.modules)}"
        self.modules[name] = module
        node = self.graph.get_attr(name)
        self.made.append(node)
        return node

    def prune(self) -> None:
        """Drop nodes that nobody reads, that do nothing, and that the program didn't call."""
        for node in reversed(self.made):
            kept = node.op == "placeholder" or node.meta.get("called")
            if not node.users and not kept and effects.is_pure(node):
                self.graph.erase_node(node)
        used = {node.target for node in self.graph.nodes if node.op == "get_attr"}
        self.modules = {name: module for name, module in self.modules.items() if name in used}

    def lifted(self) -> list[fx.Node]:
        """The nodes around this graph that it uses, in the order of its inputs."""
        return list(self._lifted)

    def arrange(self, outer: Sequence[fx.Node]) -> None:
        """Make the inputs from outside these, in this order: what branches share."""
        for node in outer:
            self.local(node)
        self._lifted = {node: self._lifted[node] for node in outer}
        places = list(self._lifted.values())
        for node, after in zip(places[1:], places):
            after.append(node)

    def close(self, outputs: Any) -> Nested:
        """Finish a nested graph; leaves of the outputs (a tuple, or one alone) are its nodes and constants."""
        self.graph.output(outputs)
        self.prune()
        return Nested(fx.GraphModule(dict(self.modules), self.graph), list(self._lifted))
