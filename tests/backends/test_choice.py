"""The faster of two ways stays, by medians of live calls; hooks for saved tensors never see a change."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from aotdyn.backends import choice


class Clock:
    """Time that moves as the ways say."""

    now = 0

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(choice, "clock", made)
    return made


class Cost(torch.autograd.Function):
    """An identity whose backward takes a while."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, clock: Clock, time: int) -> torch.Tensor:
        ctx.clock, ctx.time = clock, time
        return x * 1

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        ctx.clock.now += ctx.time
        return grad, None, None


def way(clock: Clock, calls: list[str], name: str, forward: list[int], backward: int = 0) -> Any:
    """A callable that takes the given times in turn."""

    def run(x: torch.Tensor) -> tuple[torch.Tensor]:
        clock.now += forward[calls.count(name) % len(forward)]
        calls.append(name)
        return (Cost.apply(x, clock, backward),)

    return run


def measured(clock: Clock, kernel: Any, eager: Any, steps: int, train: bool = False) -> tuple[list[str], list[Any]]:
    """What `steps` calls went, and the verdicts."""
    calls: list[str] = []
    verdicts: list[choice.Verdict] = []
    run = choice.Measured(
        way(clock, calls, "kernel", *kernel), lambda: way(clock, calls, "eager", *eager), verdicts.append
    )
    x = torch.ones(2, requires_grad=train)
    for _ in range(steps):
        (y,) = run(x)
        if train:
            y.sum().backward()
        clock.now += 1000
    return calls, verdicts


def test_the_ways_take_turns_and_the_faster_one_stays(clock):
    calls, verdicts = measured(clock, ([10],), ([14],), 20)
    assert calls[:8] == ["kernel", "eager", "eager", "kernel", "kernel", "eager", "eager", "kernel"]
    assert set(calls[12:]) == {"kernel"}
    assert [(each.way, each.eager, each.kernel) for each in verdicts] == [("kernel", 14e-9, 10e-9)]
    calls, verdicts = measured(clock, ([14],), ([10],), 20)
    assert set(calls[12:]) == {"eager"}
    assert [each.way for each in verdicts] == ["eager"]


def test_a_call_that_was_disturbed_decides_nothing(clock):
    calls, _ = measured(clock, ([10, 10, 900, 10, 10, 10],), ([14],), 30)
    assert set(calls[-5:]) == {"kernel"}
    calls, _ = measured(clock, ([10, 900, 900, 10, 900, 900, 10],), ([14],), 40)
    assert set(calls[-5:]) == {"kernel"}


def test_a_clear_difference_is_seen_after_three_calls_each_way(clock):
    calls, _ = measured(clock, ([10],), ([100],), 10)
    assert set(calls[8:]) == {"kernel"}


def test_a_backward_counts_with_its_forward(clock):
    calls, verdicts = measured(clock, ([10], 100), ([20], 30), 20, train=True)
    assert set(calls[-5:]) == {"eager"}
    assert verdicts[0].eager == pytest.approx(50e-9)
    assert verdicts[0].kernel == pytest.approx(110e-9)


def test_where_no_backward_comes_forwards_decide_in_the_end(clock):
    calls: list[str] = []
    run = choice.Measured(way(clock, calls, "kernel", [10]), lambda: way(clock, calls, "eager", [14]), lambda _: None)
    x = torch.ones(2, requires_grad=True)
    for _ in range(40):
        run(x)
    assert set(calls[-10:]) == {"kernel"}


def test_under_hooks_for_saved_tensors_calls_keep_their_way(clock):
    calls: list[str] = []
    run = choice.Measured(way(clock, calls, "kernel", [14]), lambda: way(clock, calls, "eager", [10]), lambda _: None)
    x = torch.ones(2)
    for _ in range(30):
        run(x)
        with torch.autograd.graph.saved_tensors_hooks(lambda each: each, lambda each: each):
            run(x)
    assert set(calls[1::2]) == {"kernel"}
    assert set(calls[-10::2]) == {"eager"}


def test_deterministic_algorithms_go_one_way(clock):
    torch.use_deterministic_algorithms(True)
    try:
        calls, verdicts = measured(clock, ([14],), ([10],), 30)
    finally:
        torch.use_deterministic_algorithms(False)
    assert set(calls) == {"kernel"}
    assert not verdicts
