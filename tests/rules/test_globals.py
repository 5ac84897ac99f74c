"""One code object in several namespaces: each call reads the globals of its own frame."""

from __future__ import annotations

import types
from typing import Any

import torch

import aotdyn
from aotdyn.report import events

X = torch.arange(3.0)
SCALE = 2.0


def helper(x):
    return x * SCALE


def through_a_global(x):
    return helper(x) + 1


def copy_of(function: types.FunctionType, **changed: Any) -> types.FunctionType:
    """The same code over other globals."""
    return types.FunctionType(function.__code__, {**function.__globals__, **changed}, function.__name__)


def graphs() -> int:
    return events.snapshot()["graph_calls"]


def test_a_callee_in_another_namespace(monkeypatch):
    compiled = aotdyn.compile(through_a_global, backend="eager")
    for _ in range(2):
        assert torch.equal(compiled(X), X * 2 + 1)
    before = graphs()
    monkeypatch.setitem(globals(), "helper", copy_of(helper, SCALE=5.0))
    for _ in range(2):
        assert torch.equal(compiled(X), X * 5 + 1)
    monkeypatch.undo()
    assert torch.equal(compiled(X), X * 2 + 1)
    assert graphs() == before + 3


def test_a_copy_reached_by_a_break():
    here = copy_of(helper)
    there = copy_of(helper, SCALE=7.0)

    def chooses(x, f):
        y = x + 1
        aotdyn.graph_break()
        return next(map(f, [y]))

    compiled = aotdyn.compile(chooses, backend="eager")
    for f, scale in ((here, 2), (there, 7), (here, 2), (there, 7)):
        assert torch.equal(compiled(X, f), (X + 1) * scale)


MODULE = """
import torch
WEIGHT = torch.full((3,), {weight})
SCALE = {scale}

def helper(x):
    return x + SCALE

def forward(x):
    return helper(x * WEIGHT)
"""

PROGRAM = """
import sys, types
import torch
import aotdyn

aotdyn.install("again")
import again
old = again.forward
X = torch.ones(3)

def graphs(function):
    before = aotdyn.stats()["graph_calls"]
    value = function(X)[0].item()
    return value, aotdyn.stats()["graph_calls"] - before

print("first", graphs(old), graphs(old))
stored = again.__file__
# A copy of the function in a namespace of its own, before and after the module's own.
copied = types.FunctionType(old.__code__, dict(vars(again), WEIGHT=torch.full((3,), 100.0)))
print("copy", graphs(copied)[0], graphs(old)[0])
again.SCALE = 2
print("changed", graphs(old)[0])

del sys.modules["again"]
import again
again.WEIGHT = torch.full((3,), 30.0)
again.SCALE = 3
for _ in range(2):
    print("anew", graphs(again.forward), "old", graphs(old)[0])
print("copy", graphs(copied)[0])
print(aotdyn.stats()["traced"], file=sys.stderr)
"""


def test_a_module_loaded_anew(project):
    project.write("again.py", MODULE.format(weight=10.0, scale=1))
    script = project.write("program.py", PROGRAM)
    expected = [
        "first (11.0, 1) (11.0, 1)",
        "copy 101.0 11.0",
        "changed 12.0",
        "anew (33.0, 1) old 12.0",
        "anew (33.0, 1) old 12.0",
        "copy 102.0",
    ]
    traced = []
    for _ in ("cold", "warm"):
        done = project.python(str(script))
        assert (done.returncode, done.stdout.splitlines()) == (0, expected), done.stderr
        traced.append(int(done.stderr))
    assert traced[0] > 0
    assert traced[1] == 0
