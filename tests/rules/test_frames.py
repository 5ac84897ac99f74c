"""Behind a break a frame goes on in blocks of its own code; where its code lacks one, in functions put in for it.

What both forms promise is tested in both, for functions under the hook and for
those of `compile`.
"""

from __future__ import annotations

import gc
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import aotdyn
from aotdyn.runtime import reached
from tests.rules import frame_programs as plain

FORMS = ("block", "function")
WAYS = ("hook", "compile")


@pytest.fixture(params=FORMS)
def form(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The form that continuations have."""
    monkeypatch.setenv("AOTDYN_CONTINUATIONS", request.param)
    return request.param


Get = Callable[[str], Callable[..., Any]]


def hooked(tmp_path: Path) -> Any:
    """The programs, imported through the hook as a module of their own."""
    from importlib import util

    from aotdyn.hook.loader import HookedSourceLoader

    name = f"frame_programs_{tmp_path.name}"
    file = tmp_path / f"{name}.py"
    file.write_text(Path(plain.__file__).read_text())
    loader = HookedSourceLoader(name, str(file))
    spec = util.spec_from_file_location(name, str(file), loader=loader)
    assert spec is not None
    module = util.module_from_spec(spec)
    sys.modules[name] = module
    HookedSourceLoader.exec_module(loader, module)
    return module


@pytest.fixture
def under_hook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The programs under the hook."""
    monkeypatch.setenv("AOTDYN_BACKEND", "eager")
    module = hooked(tmp_path)
    yield module
    del sys.modules[module.__name__]


@pytest.fixture(params=WAYS)
def get(request: pytest.FixtureRequest) -> Iterator[Get]:
    """Gives a program by name, compiled."""
    if request.param == "hook":
        module = request.getfixturevalue("under_hook")
        return lambda name: getattr(module, name)
    return lambda name: aotdyn.compile(getattr(plain, name), backend="eager")


def test_callers_are_those_of_plain_python(under_hook):
    for _ in range(3):
        plain.seen.clear()
        under_hook.seen.clear()
        results = [where.breaks_in_a_try(torch.ones(2)).tolist() for where in (plain, under_hook)]
        assert results[0] == results[1]
    assert under_hook.seen == plain.seen


def test_of_ours_only_the_trampoline_shows(get, monkeypatch):
    """In functions too, a callee sees but one frame more than in plain Python, between two of the frame's own."""
    monkeypatch.setenv("AOTDYN_CONTINUATIONS", "function")
    function = get("breaks_in_a_try")
    seen = function.__globals__["seen"]
    seen.clear()
    function(torch.ones(2))
    assert {entry for entry in seen if isinstance(entry, str)} == {"enter"}


def test_the_frame_stays_the_same(get):
    function = get("one_frame")
    seen = function.__globals__["seen"]
    for _ in range(2):
        seen.clear()
        function(torch.ones(2))
    assert len(seen) == 3
    assert len(set(map(id, seen))) == 1


def test_warnings_name_the_callers_line(get):
    with warnings.catch_warnings(record=True) as expected:
        warnings.simplefilter("always")
        plain.calls_what_warns(torch.ones(2))
    function = get("calls_what_warns")
    function(torch.ones(2))  # a frame without blocks shows twice
    for _ in range(2):
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            function(torch.ones(2))
        old = [each for each in found if str(each.message) == "old"]
        assert [each.lineno for each in old] == [each.lineno for each in expected]
        assert [each.filename for each in old] == [function.__code__.co_filename]


def deepest(function: Callable[..., Any]) -> int:
    """How deep a function recurses before Python has enough of it."""
    low, high = 1, 1000
    while high - low > 1:
        middle = (low + high) // 2
        try:
            function(torch.ones(2), middle)
        except RecursionError:
            high = middle
        else:
            low = middle
    return low


def test_breaks_take_no_more_of_the_stack(under_hook):
    under_hook.recurses(torch.ones(2), 2)
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(400)
    try:
        depths = deepest(plain.recurses), deepest(under_hook.recurses)
    finally:
        sys.setrecursionlimit(before)
    assert depths[1] > depths[0] * 0.8


@pytest.mark.usefixtures("form")
def test_ten_thousand_breaks(get):
    function = get("breaks_often")
    for _ in range(2):
        result, last = function(torch.zeros(2))
        assert result.tolist() == [10_000, 10_000]
        assert last == 9_999


@pytest.fixture
def _no_gc():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("form", "_no_gc")
def test_a_local_dies_where_the_user_deletes_it(get):
    function = get("local_dies_where_deleted")
    for _ in range(3):
        report: list[bool] = []
        function(torch.ones(2), report)
        assert report == [False, True]


@pytest.mark.usefixtures("form")
def test_cells_keep_their_identity(get):
    function = get("counts")
    for _ in range(3):
        log: list[Any] = []
        result, add = function(torch.zeros(1), log)
        assert log[0] is add
        assert (result.item(), add(10)) == (0 + 1 + 3 + 3, 13)


@pytest.mark.usefixtures("form")
def test_inner_breaks_with_and_try(get):
    expect: list[Any] = []
    value = plain.mixes(torch.ones(2), expect)
    function = get("mixes")
    for _ in range(3):
        log: list[Any] = []
        assert torch.equal(function(torch.ones(2), log), value)
        assert log == expect


class Log(list):
    """Notes whether an extent is set where something is appended."""

    def append(self, what: Any) -> None:
        super().append(reached.current.get() is not None)


@pytest.mark.usefixtures("form")
def test_the_extent_is_set_where_python_runs_and_nowhere_else():
    made = aotdyn.compile(plain.handles, backend="eager")
    for _ in range(3):
        log = Log()
        made(torch.ones(2), log)
        assert set(log) == {True}
        assert reached.current.get() is None


@pytest.mark.usefixtures("form")
def test_the_extent_ends_where_an_exception_leaves():
    made = aotdyn.compile(plain.lets_out, backend="eager")
    for _ in range(3):
        log = Log()
        with pytest.raises(ValueError, match=r"^$") as caught:
            made(torch.ones(2), log)
        assert [name for name, _ in plain.lines(caught.value)][1:] == ["lets_out", "raises"]
        assert set(log) == {True}
        assert reached.current.get() is None


@pytest.mark.usefixtures("form")
def test_threads_share_the_blocks(get):
    function = get("mixes")
    expect = plain.mixes(torch.ones(2), []).tolist()
    results = []

    def work():
        for _ in range(20):
            results.append(function(torch.ones(2), []).tolist())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [expect] * 80


def test_blocks_ask_again_behind_an_uninstall(under_hook):
    from aotdyn.hook import attach

    def calls() -> int:
        before = aotdyn.stats()["graph_calls"]
        assert under_hook.one_frame(torch.ones(2)).tolist() == [22, 22]
        return aotdyn.stats()["graph_calls"] - before

    assert calls() == calls() == 4
    attach.detach()
    try:
        assert calls() == 0
    finally:
        attach.reattach()
    assert calls() == 4


def test_torchdynamo_goes_through_blocks(under_hook):
    function = under_hook.mixes
    before = len(function.__code__.co_code)
    for _ in range(2):
        function(torch.ones(2), [])
    assert len(function.__code__.co_code) > before
    theirs = torch.compile(function, backend="eager")
    assert torch.equal(theirs(torch.ones(2), []), plain.mixes(torch.ones(2), []))
