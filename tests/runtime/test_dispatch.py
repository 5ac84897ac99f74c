from __future__ import annotations

import builtins
import collections
import dis
import gc
import inspect
import marshal
import sys
import traceback
import weakref

import pytest
import torch

import aotdyn
from aotdyn.rewrite import points
from aotdyn.runtime import dispatch, helpers
from aotdyn.runtime.continuation import Continuation
from aotdyn.runtime.dispatch import Pending
from aotdyn.runtime.variant import FrameSpec

SPEC = FrameSpec("m", "f", "d", 4, ("x",))


def continuation(function):
    """One whose function `function(state, k)` was written by hand."""
    return Continuation("r", function.__code__, function.__globals__, SPEC, "r", {})


def test_enter_loops():
    def step(state, k):
        return Pending((state[0] - 1,), k) if state[0] else "done"

    assert dispatch.enter((5000,), continuation(step)) == "done"


def test_cells_are_those_of_the_state():
    def make():
        a, b = 1, 2

        def function(x, y):
            nonlocal a
            a += x
            return a, b, y

        return function

    made = make()
    code = made.__code__
    load = next(ins.offset for ins in dis.get_instructions(code) if ins.opname == "LOAD_DEREF")
    point = points.resume_point(code, "m", code.co_qualname, "0" * 20, load, ("x", "y"), "")
    host = marshal.loads(point.code)
    k = Continuation(point.name, host, globals(), point.frame, points.label_in(host, point), {})
    dispatch.install_runtime()
    for a in (6, 11):
        assert dispatch.enter((5, 7, *made.__closure__), k) == (a, 2, 7)
        assert made.__closure__[0].cell_contents == a


def test_state_is_handed_on():
    class Thing:
        pass

    def function(state, k):
        x, _ = state
        seen = weakref.ref(x)
        del x, state
        gc.collect()
        return seen() is None

    hold = [Thing()]
    gone = dispatch.enter((hold.pop(), 1), continuation(function))
    assert gone


def test_fix_drops_our_frames_and_a_stub_that_entered():
    def broken(state, k):
        raise KeyError(state)

    def stub(x):
        try:
            dispatch.enter((x,), continuation(broken))
        except KeyError as exc:
            dispatch.fix(exc)
            return exc

    shown = [frame.name for frame in traceback.extract_tb(stub(1).__traceback__)]
    assert shown == ["broken"]


def test_fix_keeps_a_stub_whose_dispatcher_raised():
    def users():
        raise KeyError

    def stub():
        try:
            generated()
        except KeyError as exc:
            dispatch.fix(exc)
            return exc

    exec("def generated(): users()", space := {"knext": None, "users": users})
    generated = space["generated"]
    assert [frame.name for frame in traceback.extract_tb(stub().__traceback__)] == ["stub", "users"]


def test_install():
    name = "__aotdyn_d_test_install"
    dispatch.install(name, len)
    assert getattr(builtins, name) is len
    dispatch.uninstall(name)
    dispatch.uninstall(name)
    assert not hasattr(builtins, name)


def test_foreign_tracer_is_quiet():
    assert dispatch.foreign_tracer() is False


def test_make_function():
    def model(a, b=2, *, c=3):
        return a, b, c, cell

    cell = 9
    made = helpers.make_function(
        model.__code__, globals(), "g", "C.g", (5,), {"c": 6}, (helpers.make_cell(7),), {"a": int}, "doc", {"mark": 1}
    )
    assert made(1) == (1, 5, 6, 7)
    assert (made.__name__, made.__qualname__, made.__doc__, made.mark) == ("g", "C.g", "doc", 1)
    assert made.__annotations__ == {"a": int}


def test_cells():
    cell = helpers.make_cell()
    with pytest.raises(ValueError):
        _ = cell.cell_contents
    helpers.set_cell(cell, 1)
    assert cell.cell_contents == 1
    helpers.clear_cell(cell)
    helpers.clear_cell(cell)
    with pytest.raises(ValueError):
        _ = cell.cell_contents


def test_containers_change_in_place():
    items, d, s, q = [1], {"a": 1}, {1}, collections.deque([1], maxlen=5)
    helpers.replace_list(items, [2, 3])
    helpers.replace_dict(d, [("c", 1), ("b", 2)])
    helpers.replace_set(s, [4])
    helpers.replace_list(q, [1, 2])
    assert (items, list(d), s, list(q)) == ([2, 3], ["c", "b"], {4}, [1, 2])
    o = collections.OrderedDict(a=1)
    helpers.replace_dict(o, {"z": 1, "y": 2})
    o.move_to_end("z")
    assert list(o) == ["y", "z"]


class Named(collections.namedtuple("Named", "a b")):
    pass


class Strange(dict):
    def __init__(self):
        raise AssertionError

    __setitem__ = __new__ = __init__


def test_new_objects():
    assert helpers.new_tuple(Named, (1, 2)) == Named(1, 2)
    assert type(helpers.new_tuple(Named, (1, 2))) is Named
    made = helpers.new_dict(Strange, {"a": 1})
    assert type(made) is Strange
    assert dict(made) == {"a": 1}
    assert type(helpers.new_scalar(type("I", (int,), {}), 3)) is not int
    error = helpers.new_exception(KeyError, (1,))
    assert error.args == (1,)


def test_iterators():
    assert list(helpers.sequence_iterator_at([1, 2, 3], 1)) == [2, 3]
    assert list(helpers.sequence_iterator_at((1, 2), None)) == []
    assert list(helpers.sequence_iterator_at(range(5), 3)) == [3, 4]
    assert list(helpers.reversed_at([1, 2, 3], 1)) == [2, 1]
    assert list(helpers.reversed_at([1, 2, 3], -1)) == []
    assert list(helpers.dict_iterator_at({1: 2, 3: 4}, 1, "items")) == [(3, 4)]
    assert list(helpers.accumulate_from(iter([3]), None, 3, True)) == [6]
    assert list(helpers.zip_longest_filled(0, [1], [2, 3])) == [(1, 2), (0, 3)]


def test_a_call_at_the_end_of_the_stack_leaves_no_exception_handled(own_cache):
    """There is no room for the repair of a traceback either, at some of the depths where a call fails."""

    @aotdyn.compile(backend="eager")
    def compiled(x):
        return x.sin() + 1

    def deep(n, x):
        return compiled(x) if n == 0 else deep(n - 1, x)

    x = torch.ones(2)
    compiled(x)
    before, failed = sys.getrecursionlimit(), 0
    sys.setrecursionlimit(len(inspect.stack(0)) + 150)
    try:
        for n in range(100, 150):
            try:
                deep(n, x)
            except RecursionError:
                failed += 1
            if sys.exc_info() != (None, None, None):
                break
    finally:
        sys.setrecursionlimit(before)
    assert sys.exc_info() == (None, None, None), n
    assert 0 < failed < 50
