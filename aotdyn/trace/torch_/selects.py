"""Places that a tensor's data chooses: views as the program has them, copies where nobody could tell.

inductor can't take a view at a place of data out of what it has yet to compute
(`(x + 1)[0][i]`); a copy of that place it can.
"""

from __future__ import annotations

from typing import Any

import torch

from .calls import memory


def settle(t: Any, outputs: list[Any]) -> None:
    """Make copies of those of the graph's selects (`t.selects`) that share memory with nothing that shows."""
    if not t.selects:
        return
    graph = t.builder.graph
    shown = {memory(fake) for fake, _ in t.input_versions} | {memory(node.meta.get("val")) for node in outputs}
    for node in graph.nodes:
        if node.meta.get("mutates"):
            shown.update(memory(each.meta.get("val")) for each in node.all_input_nodes)
    for node in t.selects:
        fake = node.meta["val"]
        base, dim, number = node.args
        plain = node.graph is graph and number.op == "call_method" and number.target == "item"
        if not plain or memory(fake) in shown or not fake.is_contiguous():
            continue  # a copy of what has gaps would have none
        with graph.inserting_before(node):
            copy = graph.call_function(torch.ops.aten.index.Tensor, (base, [None] * dim + [number.args[0]]))
        copy.meta.update(node.meta)
        node.replace_all_uses_with(copy)
        t.builder.forget(node)
