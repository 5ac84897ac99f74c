"""Floats that vary as operands of torch's operators: a temperature, a learning rate.

A Flow that meets an operator comes into the graph in a tensor of one number,
out of which `item` takes it again; what Python computed with it on the way is
computed in the graph. An operator that looks at the number itself (a shape or
a branch depends on it) ends the attempt, as Python code that looks does.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from typing import Any

import torch

from aotdyn.graph import build
from aotdyn.graph.build import Operand
from aotdyn.guards.sources import Source

from ..control import Break, LookedAt
from ..flows import DIVIDING, TOTAL, Drawn, Flow
from ..symbols import FUNCTIONS

CARRIER = "torch.scalar_tensor"


def operand(t: Any, flow: Flow) -> Operand:
    """A float Flow as an operand; LookedAt where it can't be one."""
    found = t.floats.get(flow)
    if found is None or found.node.graph is not t.builder.scope.graph:
        found = t.floats[flow] = _from_outside(t, flow) if _site(flow) is not None else _computed(t, flow)
    return found


def _site(flow: Flow) -> Source | None:
    """Where the prologue finds a number; None for one that is computed."""
    return flow.drawn if isinstance(flow, Drawn) else flow.source


def _from_outside(t: Any, flow: Flow) -> Operand:
    if not isinstance(flow.real, float) or not math.isfinite(flow.real):
        refuse([flow])
    site = _site(flow)
    known = next((made for each, made in t.floats.items() if _site(each) is site), None)
    if known is not None:
        return known
    carrier = Operand(*t.sizes.carried(CARRIER, flow.real, site))
    return Operand(*t.builder.number(carrier, float(flow.real)))


def _computed(t: Any, flow: Flow) -> Operand:
    if flow.symbol not in TOTAL + DIVIDING:
        refuse([flow])  # a number of data
    whole = [_exact(each) if flow.cls is float else each for each in flow.operands]
    operands = [operand(t, each) if isinstance(each, Flow) else each.value for each in whole]
    return Operand(*t.builder.call_function(FUNCTIONS[flow.symbol], operands, {}, t.stack_lines()))


def _exact(v: Any) -> Any:
    """An operand of what is a float; an int that is drawn (below 2**53) as a float."""
    return v.floated() if isinstance(v, Drawn) and v.cls is int else v


def refuse(flows: list[Flow]) -> None:
    """LookedAt if there are any."""
    if flows:
        raise LookedAt(frozenset(source for flow in flows for source in flow.roots()))


@contextlib.contextmanager
def watched(t: Any, flows: list[Flow]) -> Iterator[Callable[[Any], None]]:
    """Around an operator that is handed these floats; gives what checks its result.

    LookedAt where it looked at one: it fails on a symbol, a fact of the number
    was noted, or a size of the result depends on it.
    """
    guards = t.builder.shape_env.guards if flows else []
    before = len(guards)

    def check(result: Any) -> None:
        own = {symbol for flow in flows for symbol in _symbols(t.floats[flow].fake)}
        met = {symbol for guard in guards[before:] for symbol in guard.expr.free_symbols}
        met.update(symbol for tensor in build.tensors(result) for size in _extent(tensor) for symbol in _symbols(size))
        if own & met:
            refuse(flows)

    try:
        yield check
    except Break:
        refuse(flows)
        raise


def _extent(fake: torch.Tensor) -> Iterator[Any]:
    yield from fake.shape
    if fake.layout is torch.strided:
        yield from fake.stride()
        yield fake.storage_offset()


def _symbols(number: Any) -> Any:
    """The symbols in a number as it was made: one that became a constant is no less looked at."""
    return number.node._expr.free_symbols if isinstance(number, (torch.SymInt, torch.SymFloat)) else ()
