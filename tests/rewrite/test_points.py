"""Continuations: each sample, broken at every instruction, does what plain Python does."""

from __future__ import annotations

import copy

import pytest

from tests.rewrite.fake_runtime import Stepper, installed, outcome
from tests.rewrite.samples import CASES


def arguments(function, args):
    return copy.deepcopy(args), {"c": 7} if "c" in function.__code__.co_varnames[: function.__code__.co_kwonlyargcount + 4] and function.__code__.co_kwonlyargcount else {}


@pytest.mark.parametrize(("function", "args"), CASES, ids=[f"{f.__name__}{i}" for i, (f, _) in enumerate(CASES)])
def test_every_instruction(function, args):
    def run(call, *front):
        values, keywords = arguments(function, args)
        before = [cell.cell_contents for cell in function.__closure__ or () if not empty(cell)]
        result = outcome(lambda: call(*front, *values, **keywords))
        for cell, value in zip([c for c in function.__closure__ or () if not empty(c)], before, strict=True):
            cell.cell_contents = value
        return repr(result), repr(vars(values[0])) if hasattr(values[0], "__dict__") else ""

    def empty(cell):
        try:
            cell.cell_contents
        except ValueError:
            return True
        return False

    with installed():
        plain = run(function)
        stepper = Stepper(function)
        assert run(stepper.run, 10**9) == plain
        steps = stepper.steps
        assert steps > 2
        for limit in range(min(steps, 400)):
            assert run(stepper.run, limit) == plain, f"native from step {limit} on"
