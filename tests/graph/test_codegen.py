"""Generated Python: the same calls, readable, with the user's lines, lifetimes and modes."""

from __future__ import annotations

import gc
import marshal
import math
import operator
import traceback
import types
import weakref

import pytest
import torch
from torch.amp import autocast_mode
from torch.autograd import grad_mode

from aotdyn.graph import codegen, effects
from aotdyn.graph.program import Input, Program, Ref, Step


def program(inputs: int, *steps: Step, outputs: tuple = ()) -> Program:
    return Program([Input(f"x{n}") for n in range(inputs)], list(steps), outputs)


def test_it_reads_as_python():
    made = codegen.generate(
        program(
            2,
            Step(operator.add, (Ref(0), 1), {}),
            Step(torch.nn.functional.linear, (Ref(2), Ref(1)), {}),
            Step(operator.getitem, (Ref(3), (slice(1, None), 0)), {}),
            Step(operator.setitem, (Ref(3), slice(None, Ref(0)), Ref(4)), {}),
            Step("to", (Ref(4), torch.float64), {"copy": True}),
            Step(getattr, (Ref(6), "T"), {}),
            outputs=(Ref(7), None, -1.5),
        ),
        name="f",
    )
    assert made.source().splitlines() == [
        "def f(a0, a1):",
        "    v0 = a0 + 1",
        "    v1 = f0_linear(v0, a1)",
        "    del v0, a1",
        "    v2 = v1[1:, 0]",
        "    v1[:a0] = v2",
        "    del v1, a0",
        "    v4 = v2.to(c1_dtype, copy=True)",
        "    del v2",
        "    v5 = v4.T",
        "    del v4",
        "    return (v5, None, -1.5)",
    ]


@pytest.mark.parametrize(
    "value",
    [0, -1, True, None, 1.5, -0.0, math.inf, 10**30, "a'\n", b"\0", ..., (), (1, (2,)), [], [1], {"a": 1}, 1j,
     torch.float16, torch.device("cpu"), slice(1, 2), range(3), torch.Size([1, 2])],
)  # fmt: skip
def test_constants_keep_value_and_type(value):
    (got,) = codegen.to_function(program(0, outputs=(value,)))()
    assert type(got) is type(value)
    assert repr(got) == repr(value)


def test_a_value_dies_at_its_last_use():
    seen = []

    def watch(value: torch.Tensor) -> torch.Tensor:
        seen.append(weakref.ref(value))
        return value + 1

    def alive() -> torch.Tensor:
        gc.collect()
        return torch.tensor([ref() is not None for ref in seen])

    made = codegen.to_function(
        program(
            1,
            Step("clone", (Ref(0),), {}),
            Step(watch, (Ref(1),), {}),
            Step(watch, (Ref(2),), {}),
            Step(alive, (), {}),
            outputs=(Ref(4),),
        )
    )
    assert made(torch.zeros(2))[0].tolist() == [False, False]


def test_errors_name_the_users_lines():
    def stack(line: int) -> tuple:
        return (("user.py", line, "forward"), ("lib.py", 1, "inner"))

    made = codegen.generate(
        program(2, Step(torch.sin, (Ref(0),), {}, stack(40)), Step(torch.mm, (Ref(2), Ref(1)), {}, stack(20)),
                outputs=(Ref(3),))
    )  # fmt: skip
    for function in (made.function(), made.function(marshal.loads(marshal.dumps(made.code())))):
        with pytest.raises(RuntimeError) as failure:
            function(torch.ones(2, 2), torch.ones(3, 3))
        frame = traceback.extract_tb(failure.value.__traceback__)[-1]
        assert (frame.filename, frame.lineno, frame.name) == ("user.py", 20, "forward")


def test_lines_may_be_stored_relative_to_a_function():
    one = program(1, Step(torch.sin, (Ref(0),), {}, (("f", 2),)), outputs=(Ref(1),))
    made = codegen.generate(one, locate=lambda frame: ("moved.py", 100 + frame[1], frame[0]))
    assert (made.code().co_filename, made.tree.body[0].lineno) == ("moved.py", 102)


def test_modes_are_put_back_where_it_raises():
    modes = (
        Step(torch._C._set_grad_enabled, (False,), {}),
        Step(autocast_mode._enter_autocast, ("cpu", torch.bfloat16, True, True), {}),
        Step(grad_mode._enter_inference_mode, (True,), {}),
        Step(torch.mm, (Ref(0), Ref(0)), {}),
        Step(grad_mode._exit_inference_mode, (Ref(3),), {}),
        Step(autocast_mode._exit_autocast, (Ref(2),), {}),
        Step(torch._C._set_grad_enabled, (True,), {}),
    )
    made = codegen.to_function(program(1, *modes, outputs=(Ref(4),)))

    def state() -> tuple:
        nesting = torch.autocast_increment_nesting() - 1
        torch.autocast_decrement_nesting()
        return torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.is_autocast_enabled("cpu"), nesting

    before = state()
    (result,) = made(torch.ones(2, 2))
    assert (result.dtype, result.is_inference(), state()) == (torch.bfloat16, True, before)
    with pytest.raises(RuntimeError):
        made(torch.ones(2, 3))
    assert state() == before


def test_gradients_are_turned_on_again_where_it_raises():
    """A graph that changes no other mode looks at none."""
    steps = (Step(torch._C._set_grad_enabled, (False,), {}), Step(torch.mm, (Ref(0), Ref(0)), {}))
    made = codegen.generate(program(1, *steps, outputs=(Ref(2),)), name="f")
    assert effects.GradMode in made.globals.values()
    with pytest.raises(RuntimeError):
        codegen.to_function(program(1, *steps, outputs=(Ref(2),)))(torch.ones(2, 3))
    assert torch.is_grad_enabled()


def test_odd_keywords_and_unhashable_targets():
    class Target(types.SimpleNamespace):
        __hash__ = None  # type: ignore[assignment]

        def __call__(self, **kwargs):
            return kwargs

    (got,) = codegen.to_function(program(1, Step(Target(), (), {"from": Ref(0), "x": 1}), outputs=(Ref(1),)))(2)
    assert got == {"from": 2, "x": 1}
