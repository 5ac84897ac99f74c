from __future__ import annotations

import builtins
import collections
import gc
import traceback
import weakref

import pytest

from aotdyn.runtime import dispatch, helpers
from aotdyn.runtime.continuation import Continuation
from aotdyn.runtime.dispatch import Pending
from aotdyn.runtime.variant import FrameSpec

SPEC = FrameSpec("m", "f", "d", 4, ("x",))


def continuation(function, cells=()):
    spec = FrameSpec("m", "f", "d", 4, function.__code__.co_varnames, cells=cells)
    return Continuation("r", function.__code__, function.__globals__, spec)


def test_enter_loops():
    def step(n):
        return Pending((n - 1,), STEP[0]) if n else "done"

    STEP[:] = [continuation(step)]
    assert dispatch.enter((5000,), STEP[0]) == "done"


STEP: list = []


def test_cells_become_the_closure():
    def make():
        a, b = 1, 2

        def function(x, y, /):
            nonlocal a
            a += x
            return a, b, y

        return function

    made = make()
    k = continuation(made, made.__code__.co_freevars)
    assert k.made is None
    assert dispatch.enter((5, 7, *made.__closure__), k) == (6, 2, 7)
    assert made.__closure__[0].cell_contents == 6


def test_state_is_handed_on():
    class Thing:
        pass

    def function(x, y):
        seen = weakref.ref(x)
        del x
        gc.collect()
        return seen() is None

    hold = [Thing()]
    gone = dispatch.enter((hold.pop(), 1), continuation(function))
    assert gone


def test_fix_drops_our_frames_and_a_stub_that_entered():
    def broken(x):
        raise KeyError(x)

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
