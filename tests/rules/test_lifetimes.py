"""Lifetimes: nothing of ours holds an object of the program across a break, or after the call."""

from __future__ import annotations

import gc
import os
import tempfile
import weakref

import numpy as np
import pytest
import torch

import aotdyn


class Holder:
    pass


def alive_across_break(x, report):
    held = Holder()
    held.tensor = x + 1
    ref = weakref.ref(held)
    tensor = weakref.ref(held.tensor)
    aotdyn.graph_break()
    report.append((ref() is None, tensor() is None))
    y = held.tensor * 2
    del held
    aotdyn.graph_break()
    report.append((ref() is None, tensor() is None))
    return y + 1


def catches_a_wrong_shape(held):
    try:
        return held.tensor + torch.ones(3, 5)
    except RuntimeError:
        return held.tensor * 2


def resized_array():
    z = np.array([3, 1, 2])
    z.resize(2, 2)
    return z.tolist()


@pytest.fixture
def _no_gc():
    import torch._dynamo  # noqa: F401  fx.wrap, called while it loads, leaves a cycle that holds all frames below

    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("_no_gc")
def test_values_die_as_in_plain_python(capsys):
    plain: list = []
    alive_across_break(torch.ones(2), plain)
    compiled = aotdyn.compile(alive_across_break, backend="eager")
    for _ in range(2):
        report: list = []
        compiled(torch.ones(2), report)
        assert report == plain


@pytest.mark.usefixtures("_no_gc")
def test_arguments_die_with_the_call(capsys):
    compiled = aotdyn.compile(alive_across_break, backend="eager")
    for _ in range(2):
        x = torch.ones(2)
        ref = weakref.ref(x)
        compiled(x, [])
        del x
        assert ref() is None


@pytest.mark.usefixtures("_no_gc")
@pytest.mark.usefixtures("_no_gc")
def test_arguments_die_with_a_call_that_caught_an_error_of_torch():
    compiled = aotdyn.compile(catches_a_wrong_shape, backend="eager")
    for _ in range(2):
        held = Holder()
        held.tensor = torch.ones(2, 3)
        refs = [weakref.ref(held), weakref.ref(held.tensor)]
        assert compiled(held).equal(torch.full((2, 3), 2.0))
        del held
        assert [ref() for ref in refs] == [None, None]


def test_an_array_with_one_owner_is_resized():
    compiled = aotdyn.compile(resized_array, backend="eager")
    assert compiled() == compiled() == resized_array()


def argument_dies_behind_break(held, ref, report):
    y = held.tensor + 1
    del held
    aotdyn.graph_break()
    report.append(ref() is None)
    return y * 2


@pytest.mark.usefixtures("_no_gc")
def test_an_argument_dies_where_the_user_deletes_it(capsys):
    def call(function):
        report: list = []
        held = [Holder()]
        held[0].tensor = torch.ones(2)
        ref = weakref.ref(held[0])
        function(held.pop(), ref, report)
        return report

    compiled = aotdyn.compile(argument_dies_behind_break, backend="eager")
    for _ in range(2):
        assert call(compiled) == call(argument_dies_behind_break) == [True]


def directory_outlives_its_name(x):
    directory = tempfile.TemporaryDirectory()
    path = directory.name
    x = x + 1
    aotdyn.graph_break()
    y = x * 2
    return os.path.isdir(path), y


def weakly_held(x):
    held = Holder()
    ref = weakref.ref(held)
    x = x + 1
    aotdyn.graph_break()
    return ref() is not None, x


@pytest.mark.usefixtures("_no_gc")
@pytest.mark.parametrize("form", ["block", "function"])
@pytest.mark.parametrize("function", [directory_outlives_its_name, weakly_held])
def test_a_local_that_nobody_reads_lives_on(function, form, monkeypatch, capsys):
    monkeypatch.setenv("AOTDYN_CONTINUATIONS", form)
    compiled = aotdyn.compile(function, backend="eager")
    assert [compiled(torch.ones(2))[0] for _ in range(3)] == [True] * 3


def test_what_a_call_is_noted_of_keeps_none_of_its_arguments() -> None:
    class Bag:
        pass

    def f(x: torch.Tensor, bag: Bag) -> torch.Tensor:
        return x + 1

    compiled = aotdyn.compile(f, backend="eager")
    compiled(
        torch.ones(1), Bag()
    )  # the first trace imports modules of torch that keep the frames they are imported from
    gc.collect()
    gc.disable()
    try:
        for size in (2, 3, 4):
            bag = Bag()
            gone = weakref.ref(bag)
            compiled(torch.ones(size), bag)
            del bag
            assert gone() is None
    finally:
        gc.enable()
