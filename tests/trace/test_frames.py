"""Frames run plain Python as CPython does: the same results, exceptions, causes and contexts."""

from __future__ import annotations

import importlib.util
import pathlib

import pytest

from aotdyn.trace.control import Break
from aotdyn.trace.frame import Frame
from aotdyn.trace.values import Const


def beside(name):
    """The module `name`.py of this folder."""
    spec = importlib.util.spec_from_file_location(f"tests_trace_{name}", pathlib.Path(__file__).with_name(f"{name}.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


stub, programs = beside("stub"), beside("frame_programs")


@pytest.mark.parametrize(("function", "args"), programs.PROGRAMS, ids=[f.__name__ for f, _ in programs.PROGRAMS])
def test_runs_as_python_does(function, args):
    assert stub.traced(function, *args) == stub.plain(function, *args)


def frame_of(function, **values):
    """A frame of `function`, and its tracer."""
    t = stub.Tracer()
    namespace = t.value(function).globals
    return t, Frame(t, function.__code__, namespace, {name: Const(value) for name, value in values.items()}, {})


def twice(x):
    return (x + 1) * 2


def test_a_frame_starts_in_the_middle_with_a_stack():
    _, frame = frame_of(twice, x=0)
    multiply = [ins.offset for ins in frame.decoded.instructions if ins.opname == "BINARY_OP"][1]
    frame.start_at(multiply, [Const(5), Const(2)])
    assert frame.run().value == 10


def breaking(x):
    y = x + 1
    return breaks_here(y, key=2)


def breaks_here(y, key):
    async def waits():
        await y

    return waits()


def test_a_break_leaves_the_innermost_frame_in_place():
    t, frame = frame_of(breaking, x=1)
    with pytest.raises(Break):
        frame.run()
    inner = t.frame.caller
    assert (t.frame.code.co_name, inner.code.co_name) == ("waits", "breaks_here")
    assert inner.caller is frame
    assert inner.by_call
    assert frame.kw_names == ("key",)
    assert frame.line == breaking.__code__.co_firstlineno + 2
    assert len(frame.saved) == 4
    assert len(frame.stack) == 0
    assert frame.position < inner.position < t.frame.position


def guards(x):
    try:
        y = x + 1
    except KeyError as e:
        z = x - e
    return x * y * z


def test_guarded_by_a_handler():
    _, frame = frame_of(guards, x=1)
    found = []
    for frame.index, ins in enumerate(frame.decoded.instructions):  # noqa: B020
        if ins.opname == "BINARY_OP":
            found.append((ins.arg, frame.guarded()))
    assert found == [(0, True), (10, False), (5, False), (5, False)]


def test_a_bare_raise_may_mean_a_callers_exception():
    _, frame = frame_of(programs.raises_again)
    with pytest.raises(Break):
        frame.run()
