"""Small random programs: statements over tensors, numbers, lists and dicts, with `print` as break points.

Names have fixed kinds: `t0`, `t1` tensors of one shape, `n0`, `n1` numbers,
`l0`, `l1` lists (which may be the same list), `d0` a dict. Every statement is
defined for all of their values, or raises what plain Python raises too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

HEADER = """
import torch
from differential import program

LOG = []
COUNT = 0


class Manager:
    def __init__(self, swallow):
        self.swallow = swallow

    def __enter__(self):
        LOG.append("enter")
        return self

    def __exit__(self, cls, value, tb):
        LOG.append(cls and cls.__name__)
        return self.swallow and cls is ValueError


class Box:
    def __init__(self, value):
        self.value = value

    def put(self, value):
        self.value, old = value, self.value
        return old


@program(lambda: (torch.arange(6.0).reshape(2, 3) - 2, torch.ones(2, 3), 1, [1, 2]), graphs=False)
def generated(t0, t1, n0, l0):
    global COUNT
    n1, l1, d0, box = 2, l0, {"a": t0, "b": n0}, Box(t1)
"""
FOOTER = "    return t0, t1, n0, n1, l0, l1, d0, box, COUNT\n"

tensors, numbers, lists = st.sampled_from(("t0", "t1")), st.sampled_from(("n0", "n1")), st.sampled_from(("l0", "l1"))
small = st.integers(0, 3).map(str)
keys = st.sampled_from(("'a'", "'b'", "'c'"))
Draw = Callable[[Any], Any]
DEPTH = 3


@st.composite
def number(draw: Draw) -> str:
    """An expression of a number."""
    a, b = draw(numbers), draw(st.one_of(numbers, small))
    return draw(
        st.sampled_from(
            (f"({a} + {b}) % 7", f"{a} * {b} % 5", f"{a} - {b}", b, f"len({draw(lists)})", f"{draw(tensors)}.shape[1]")
        )
    )


@st.composite
def tensor(draw: Draw) -> str:
    """An expression of a tensor of the one shape."""
    a, b = draw(tensors), draw(st.one_of(tensors, numbers, small))
    choices = (
        f"{a} + {b}",
        f"{a} * {b}",
        f"{a} - {b}",
        f"{a}.relu()",
        f"{a}.clone()",
        f"{a}.flip(0)",
        f"{a}.sum() + {a}",
        f"torch.maximum({a}, {draw(tensors)})",
        f"d0.get('a', {a}) + {a}",
        f"box.value * {draw(small)}",
        f"{a} + torch.rand(2, 3)",
        a,
    )
    return draw(st.sampled_from(choices))


@st.composite
def condition(draw: Draw) -> str:
    """A condition, of Python values or of a tensor's data."""
    n, t, k = draw(numbers), draw(tensors), draw(small)
    basic = (
        f"{n} < {k}",
        f"{n} % 2",
        f"{t}.sum() > {k}",
        f"len({draw(lists)}) > {k}",
        f"{draw(keys)} in d0",
        "l0 is l1",
    )
    a, b = draw(st.sampled_from(basic)), draw(st.sampled_from(basic))
    return draw(st.sampled_from((a, f"not {a}", f"{a} and {b}", f"{a} or {b}")))


@st.composite
def simple(draw: Draw) -> str:
    """A statement on one line."""
    t, n, items, k = draw(tensors), draw(numbers), draw(lists), draw(small)
    value = draw(st.one_of(tensors, numbers))
    choices = (
        f"{t} = {draw(tensor())}",
        f"{t} = {draw(tensor())}",
        f"{n} = {draw(number())}",
        f"{t} += {draw(st.one_of(tensors, numbers))}",
        f"{t}.add_({n})",
        f"{t}[0] = {n}",
        f"{n} += {k}",
        f"{items}.append({value})",
        f"{items}.insert(0, {value})",
        f"{n} = len({items}[1:])",
        f"if {items}: {items}[{k} % len({items})] = {value}",
        f"if {items}: {items}.pop()",
        f"{items}[1] = {value}",
        f"l1 = list({items})",
        "l0 = l1",
        f"d0[{draw(keys)}] = {value}",
        f"{n} = len(d0)",
        f"d0.pop({draw(keys)}, None)",
        "if 'a' in d0: del d0['a']",
        f"{t} = box.put({draw(tensor())})",
        f"box.value = {t}",
        f"COUNT += {n}",
        f"LOG.append({value})",
        f"l1 = [v for v in {items} if v is not {value}]",
        f"{t}, {draw(tensors)} = {draw(tensor())}, {draw(tensor())}",
        f"print({n})",
        f"print('{t}', {n})",
        f"print(len({items}), sorted(d0))",
        f"raise ValueError({n})",
        f"return {t}, {n}",
        "break_or_continue",
    )
    return draw(st.sampled_from(choices))


def indent(lines: list[str]) -> list[str]:
    """The lines of a block."""
    return [f"    {line}" for line in lines]


@st.composite
def block(draw: Draw, depth: int, loop: bool = False, function: bool = False) -> list[str]:
    """A few statements, with others inside as deep as `depth` says."""
    lines: list[str] = []
    least, most = (4, 8) if depth == DEPTH else (1, 3)
    for _ in range(draw(st.integers(least, most))):
        if depth and draw(st.integers(0, 2)) == 0:
            lines += draw(compound(depth - 1, loop, function))
            continue
        line = draw(simple())
        if line == "break_or_continue":
            word = draw(st.sampled_from(("break", "continue"))) if loop else "pass"
            line = f"if {draw(condition())}: {word}"
        if line.startswith(("raise", "return")):
            line = f"if {draw(condition())}: {line}" if not (function and line.startswith("return")) else "pass"
        lines.append(line)
    return lines


@st.composite
def compound(draw: Draw, depth: int, loop: bool, function: bool) -> list[str]:
    """A statement with blocks."""

    def inner(in_loop: bool = loop, in_function: bool = function) -> list[str]:
        return indent(draw(block(depth, in_loop, in_function)))

    kind = draw(st.sampled_from(("if", "for", "while", "zip", "try", "finally", "with", "def", "no_grad")))
    if kind == "if":
        return [f"if {draw(condition())}:", *inner(), "else:", *inner()]
    if kind == "for":
        return [f"for i in range({draw(small)}):", f"    {draw(tensors)} = {draw(tensors)} + i", *inner(True)]
    if kind == "while":
        name = f"w{depth}"
        return [f"{name} = 0", f"while {name} < {draw(small)}:", f"    {name} += 1", *inner(True)]
    if kind == "zip":
        return [f"for v, w in zip({draw(lists)}[:3], (5, 6, 7)):", f"    {draw(numbers)} = w", *inner(True)]
    if kind == "try":
        raising = f"    if {draw(condition())}: raise KeyError('k')"
        errors = draw(st.sampled_from(("ValueError", "KeyError", "(KeyError, IndexError, ValueError)")))
        handler = ["    LOG.append(type(error).__name__)", *inner()]
        return ["try:", *inner(), raising, f"except {errors} as error:", *handler, "else:", *inner()]
    if kind == "finally":
        return ["try:", *inner(), "finally:", *inner(False, True)]
    if kind == "with":
        return [f"with Manager({draw(st.booleans())}):", *inner()]
    if kind == "no_grad":
        return ["with torch.no_grad():", *inner()]
    names = "t0, t1, n0, n1, l0, l1, d0"
    body = indent([f"nonlocal {names}", *draw(block(depth, False, True)), f"return {draw(tensor())}"])
    return [f"def f{depth}(a):", *["    global COUNT"], *body, f"{draw(tensors)} = f{depth}({draw(tensors)})"]


@st.composite
def programs(draw: Draw) -> str:
    """The text of a module with one program."""
    return HEADER + "".join(f"{line}\n" for line in indent(draw(block(DEPTH)))) + FOOTER
