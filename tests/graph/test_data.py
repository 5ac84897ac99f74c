"""Graphs as data: they come back equal, in another process too, or say what can't."""

from __future__ import annotations

import operator
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
from torch import fx
from torch.nn import functional as F

from aotdyn.graph import codegen, data
from aotdyn.graph import program as programs
from aotdyn.graph.program import Input, Program, Ref, Step

STACK = (("app.py", 7, "f"),)


class Double(torch.autograd.Function):
    """A function that only a name in this module finds."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x * 2


def program() -> Program:
    steps = [
        Step(F.linear, (Ref(0), Ref(1)), {"bias": None}, STACK),
        Step(operator.getitem, (Ref(2), (slice(None, 2), ..., None)), {}, STACK),
        Step(torch.cat, ([Ref(3), Ref(3)],), {"dim": -1}, (*STACK, ("lib.py", 2, "g"))),
        Step("to", (Ref(4), torch.float64), {"memory_format": torch.contiguous_format}),
        Step(torch.ops.aten.mul.Tensor, (Ref(5), -2.5), {}),
        Step("sum", (Ref(6),), {"dim": (0, 1)}),
    ]
    return Program([Input("x", (0,)), Input("w")], steps, (Ref(7), Ref(2)))


def run(graph: Program | fx.GraphModule, *inputs: torch.Tensor) -> Any:
    return codegen.to_function(graph)(*inputs)


def test_a_graph_comes_back_equal():
    one = data.encode(program())
    module = data.decode(one)
    assert data.encode(module) == one
    assert data.decode_program(one) == program()
    module.graph.lint()
    x, w = torch.randn(3, 4), torch.randn(5, 4)
    expected = module(x, w)
    assert torch.equal(run(program(), x, w)[0], expected[0])
    node = next(iter(node for node in module.graph.nodes if node.target is torch.cat))
    assert node.meta["stack"][1] == ("lib.py", 2, "g")
    assert module.graph.find_nodes(op="placeholder")[0].meta["dynamic"] == (0,)


def test_the_key_is_of_what_a_graph_does():
    renamed = program()
    renamed.inputs[0].name = "other"
    assert data.key(renamed) == data.key(program())
    moved = program()
    moved.steps[0].stack = (("app.py", 8, "f"),)
    assert data.key(moved) != data.key(program())
    assert data.key(moved, stacks=False) == data.key(program(), stacks=False)
    keys = {data.key(program())}
    for change in (-0.0, 0.0, 0, False, float("nan"), None, "0", b"0", (0,), [0], {0: 0}):
        changed = program()
        changed.steps[4].args = (Ref(5), change)
        keys.add(data.key(changed))
    assert len(keys) == 12


def test_what_has_no_durable_form_is_named():
    def local(x: torch.Tensor) -> torch.Tensor:
        return x

    with pytest.raises(data.NotDurable, match="local"):
        data.encode(Program([Input("x")], [Step(local, (Ref(0),), {})], (Ref(1),)))
    with pytest.raises(data.NotDurable, match="Tensor"):
        data.encode(Program([Input("x")], [Step(torch.add, (Ref(0), torch.ones(1)), {})], (Ref(1),)))


def test_an_autograd_function_is_named_through_its_class(monkeypatch):
    monkeypatch.setitem(sys.modules, __name__, sys.modules.get(__name__) or type(sys)(__name__))
    monkeypatch.setattr(sys.modules[__name__], "Double", Double, raising=False)
    made = data.decode_program(data.encode(Program([Input("x")], [Step(Double.apply, (Ref(0),), {})], (Ref(1),))))
    assert made.steps[0].target == Double.apply


@pytest.mark.parametrize("damage", [b"", b"\xc1", b"\x93\x01\x02\x03", None])
def test_damaged_data_is_a_value_error(damage):
    whole = data.encode(program())
    with pytest.raises(ValueError, match="not a graph"):
        data.decode(whole[: len(whole) // 2] if damage is None else damage)


def test_decoding_loads_no_compiler(tmp_path: Path):
    (tmp_path / "graph").write_bytes(data.encode(program()))
    code = """
import sys, torch
from aotdyn.graph import codegen, data
raw = open(sys.argv[1], "rb").read()
x, w = torch.ones(3, 4), torch.ones(5, 4)
print(codegen.to_function(data.decode_program(raw))(x, w)[1].sum().item(), data.decode(raw)(x, w)[1].sum().item())
print([m for m in ("torch._dynamo", "torch._inductor", "sympy") if m in sys.modules])
"""
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "graph"], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.splitlines() == ["60.0 60.0", "[]"]


def test_a_graph_inside_the_graph():
    inner = Program([Input("a"), Input("b")], [Step(torch.add, (Ref(0), Ref(1)), {}, (("f.py", 3, "g"),))], (Ref(2),))
    bare = msgspec.structs.replace(inner, outputs=(Ref(2),), bare=True)
    cond = torch.ops.higher_order.cond
    outer = Program([Input("x"), Input("p")], [Step(cond, (Ref(1), inner, bare, (Ref(0), Ref(0))), {})], (Ref(2),))
    module = programs.to_module(outer)
    assert programs.of_module(module) == outer
    back = data.decode_program(data.encode(module))
    assert back == outer
    assert data.key(back) == data.key(outer) != data.key(msgspec.structs.replace(outer, bare=True))
    x = torch.ones(2)
    (found,) = codegen.to_function(back)(x, torch.tensor(True))
    torch.testing.assert_close(found[0], x + x)


def test_a_graph_that_is_read_knows_its_key_and_another_made_of_it_does_not():
    back = data.decode_program(data.encode(program(), keyed=True))
    assert back.key == data.key(back, stacks=False) == data.key(program(), stacks=False)
    assert data.key(back) == data.key(program())
    other = programs.changed(back, outputs=back.outputs[:1])
    assert data.key(other, stacks=False) == data.key(programs.changed(program(), outputs=other.outputs), stacks=False)
    assert not programs.static(back).key
