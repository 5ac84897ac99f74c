"""What a signal's handler raises while a call is traced or compiled goes to the program, and decides nothing."""

from __future__ import annotations

import functools
import signal

import pytest
import torch

import aotdyn
from aotdyn import interrupted
from aotdyn.report import events


class Stop(Exception):
    """A time limit of the program's."""


class Leave(KeyboardInterrupt):
    """A wish to stop."""


WANTED = []
"""What the next run of the operator on fake tensors is interrupted by."""


@torch.library.custom_op("aotdyn_tests::interrupted", mutates_args=())
def slow(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@slow.register_fake
def _(x):
    if WANTED:
        signal.raise_signal(signal.SIGUSR1)
    return torch.empty_like(x)


@pytest.fixture
def handler():
    def stop(number, frame):
        raise WANTED.pop()("time is up")

    before = signal.signal(signal.SIGUSR1, stop)
    yield stop
    signal.signal(signal.SIGUSR1, before)
    WANTED.clear()


def f(x):
    try:
        return slow(x + 1)
    except ValueError:
        return x


@pytest.mark.parametrize("kind", [Stop, Leave])
def test_while_an_operator_runs_on_fake_tensors(own_cache, handler, kind):
    compiled = aotdyn.compile(f, backend="eager", fullgraph=True)
    x = torch.ones(2)
    WANTED.append(kind)
    with pytest.raises(kind, match="time is up") as caught:
        compiled(x)
    assert type(caught.value) is kind
    before = events.snapshot()
    assert torch.equal(compiled(x), f(x))
    after = events.snapshot()
    assert after["traced"] == before["traced"] + 1
    assert after["graph_calls"] == before["graph_calls"] + 1
    assert after["left_alone"] == before["left_alone"]


def test_while_a_backend_compiles(own_cache, handler):
    def backend(module, inputs):
        if WANTED:
            signal.raise_signal(signal.SIGUSR1)
        return module

    compiled = aotdyn.compile(lambda x: x * 3, backend=backend)
    WANTED.append(Stop)
    with pytest.raises(Stop):
        compiled(torch.ones(2))
    assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 3.0))


class Limit:
    """A handler that is a method, and takes itself away before it raises."""

    def __init__(self, before):
        self.before = before

    def over(self, number, frame):
        signal.signal(signal.SIGUSR1, self.before)
        raise Stop

    def any(self, *given):
        self.over(*given)


def of_a_handler(handler) -> bool:
    before = signal.signal(signal.SIGUSR1, handler)
    try:
        signal.raise_signal(signal.SIGUSR1)
    except Exception as error:
        return interrupted.of_a_handler(error)
    finally:
        signal.signal(signal.SIGUSR1, before)
    raise AssertionError("nothing was raised")


def test_handlers_are_known_by_what_they_are_handed():
    before = signal.getsignal(signal.SIGUSR1)
    limit = Limit(before)
    assert of_a_handler(limit.over)
    assert of_a_handler(limit.any)
    assert of_a_handler(functools.partial(Limit.over, limit))
    assert of_a_handler(lambda number, frame: 1 // 0)


def test_other_errors_are_no_interruption():
    def fail(number, value):
        raise Stop

    for arguments in ((1, 2), (True, None)):
        with pytest.raises(Stop) as caught:
            fail(*arguments)
        assert not interrupted.of_a_handler(caught.value)
        interrupted.hand_on(caught.value)


def test_what_an_error_was_made_from_is_handed_on(handler):
    WANTED.append(Stop)
    with pytest.raises(Stop) as caught:
        signal.raise_signal(signal.SIGUSR1)
    made = RuntimeError("while something was at work")
    interrupted.hand_on(made)
    made.__cause__ = caught.value
    with pytest.raises(Stop):
        interrupted.hand_on(made)
