from __future__ import annotations

import logging
import sys
import threading

import pytest
import torch

from aotdyn import config, errors
from aotdyn.guards import globalstate, tensors
from aotdyn.guards import sources as S
from aotdyn.guards.checks import object_data
from aotdyn.runtime import binding, entry
from aotdyn.runtime.variant import FrameSpec
from tests.runtime.stub import Cold, code, variant

X, N = S.Arg(0, "x"), S.Arg(1, "n")
T = torch.ones(4)
SPEC = FrameSpec("tests.app", "f", "0" * 20, params=("x", "n"))


def for_n(x, n):
    """A variant that holds for one `n`."""
    guards = [(X, "TENSOR", tensors.metadata(x)), (N, "CONST", n), (None, "GLOBAL", globalstate.snapshot())]
    return variant(("x", "n"), guards, [X], [("out", 0, 0), ("return", -1, 0)])


@pytest.fixture(autouse=True)
def no_trace_function():
    before = sys.gettrace()
    sys.settrace(None)
    yield
    sys.settrace(before)


@pytest.fixture
def make(monkeypatch):
    def make(trace=for_n, graph=lambda x: (x + 1,), stored=()):
        cold = Cold(trace, graph)
        cold.stored = list(stored)
        monkeypatch.setitem(sys.modules, "aotdyn.runtime.cold", cold)
        import aotdyn.runtime

        monkeypatch.setattr(aotdyn.runtime, "cold", cold, raising=False)
        published: list = []
        made = entry.Entry("__aotdyn_d_test", SPEC, None, {}, code, published.append)
        made.install()
        return made, cold, lambda *args: published[-1](*args)

    return make


def test_first_call_traces_and_the_next_does_not(make):
    e, cold, call = make()
    assert torch.equal(call(T, 1)[0], T + 1)
    assert torch.equal(call(T, 1)[0], T + 1)
    assert cold.traced == len(cold.saved) == 1
    assert cold.saved[0].code
    assert e.graph_calls() == e.graph_calls() == 2


def test_stored_variants_are_bound(make):
    _, first, call = make()
    call(T, 1)
    call(T, 2)
    e, cold, call = make(stored=first.saved)
    for n in (2, 1, 2, 1):
        assert call(T, n) is not None
    assert cold.traced == 0
    assert e.graph_calls() == 4


def test_order_of_use(make):
    e, cold, call = make()
    call(T, 1)
    call(T, 2)
    assert e.lines[0].variant is cold.saved[1]
    call(T, 1)
    call(T, 1)
    assert e.lines[0].variant is cold.saved[0]
    assert e.misses == 2


def test_rearming_instead_of_tracing(make):
    made = []

    def equal():
        return lambda: 1

    def of_class(x, n):
        guards = [(N, "OBJECT", object_data(equal(), ("tests_app_reloaded", "f")))]
        made.append(1)
        return variant(("x", "n"), guards, [X], [("out", 0, 0), ("return", -1, 0)])

    import types

    module = sys.modules["tests_app_reloaded"] = types.ModuleType("tests_app_reloaded")
    try:
        e, _, call = make(of_class)
        module.f = old = equal()
        assert call(T, old)
        module.f = new = equal()
        assert call(T, new)
        assert call(T, new)
        assert made == [1]
        assert len(e.lines) == 1
        assert e.graph_calls() == 3
    finally:
        del sys.modules["tests_app_reloaded"]


def test_limit(make, caplog):
    e, cold, call = make()
    with config.overrides(recompile_limit=2), caplog.at_level(logging.WARNING):
        answers = [call(T, n) for n in (1, 2, 3, 4, 5, 1, 2)]
    assert [answer is not None for answer in answers] == [True, True, False, False, False, True, True]
    assert cold.traced == 2
    assert len(caplog.records) == 1
    assert "`n` was 1 and 2, is 3" in caplog.text
    with config.overrides(recompile_limit=1, fail_on_recompile_limit_hit=True):
        _, _, call = make()
        call(T, 1)
        with pytest.raises(errors.RecompileLimitError):
            call(T, 2)


@pytest.mark.parametrize(
    ("first", "second", "hint"),
    [(1, 2, "A number that varies"), (1.5, 2.5, "A number that varies"), (True, False, "A flag makes a variant")],
)
def test_the_hint_is_of_what_varies(make, caplog, first, second, hint):
    _, _, call = make()
    with config.overrides(recompile_limit=1), caplog.at_level(logging.WARNING):
        assert call(T, first) is not None
        assert call(T, second) is None
    (record,) = caplog.records
    told = record.getMessage()
    assert " has 1 variant, as many as recompile_limit allows" in told
    assert hint in told
    assert ("A number" in told) == ("A number" in hint)
    assert "AOTDYN_RECOMPILE_LIMIT" in told


def test_what_thrift_decided_ends_where_there_is_none(make):
    given_up = for_n(T, 2)
    given_up.rest, given_up.thrifty, given_up.leave = True, True, "enough"
    e, cold, call = make(stored=[given_up])
    cold.saved.append(given_up)
    assert call(T, 2) is not None
    assert (cold.traced, e.rests) == (1, [])
    assert given_up not in cold.saved


def test_leave_alone_is_a_variant(make):
    def leave(x, n):
        v = for_n(x, n)
        v.leave, v.graph = "boring", None
        return v

    e, cold, call = make(leave)
    assert [call(T, 1), call(T, 1)] == [None, None]
    assert cold.traced == 1


def test_failures_of_ours_go_to_the_door(make):
    def trace(x, n):
        raise ZeroDivisionError

    _, cold, call = make(trace)
    assert call(T, 1) is None
    assert isinstance(cold.failures[0], ZeroDivisionError)

    def full(x, n):
        raise errors.GraphBreakError("no")

    _, _, call = make(full)
    with pytest.raises(errors.GraphBreakError):
        call(T, 1)
    assert not entry.tracing.active


def test_no_trace_in_a_trace_or_another_thread(make):
    answers = []

    def trace(x, n):
        answers.append(call(x, n))
        thread = threading.Thread(target=lambda: answers.append(call(x, n)))
        thread.start()
        thread.join()
        return for_n(x, n)

    _, cold, call = make(trace)
    assert call(T, 1) is not None
    assert answers == [None, None]
    assert cold.traced == 1


def test_foreign_tracers(make):
    from torch.fx.experimental.proxy_tensor import make_fx

    _, cold, call = make()
    make_fx(lambda x: (call(T, 1), x + 1)[1])(T)
    assert torch.func.vmap(lambda x: x if call(x, 1) is None else x + 5)(torch.zeros(2, 4)).sum() == 0
    torch.jit.trace(lambda x: x + 1 if call(x, 1) is None else x, T, check_trace=False)
    assert cold.traced == 0


def test_trace_functions(make):
    e, cold, call = make()
    call(T, 1)
    sys.settrace(lambda *args: None)
    try:
        with config.overrides(strict=False):
            assert call(T, 1) is None
        with config.overrides(strict=True), pytest.raises(errors.AotdynError, match="trace function"):
            call(T, 1)
    finally:
        sys.settrace(None)
    assert call(T, 1) is not None


def test_threads_count_change_rearms(make):
    e, cold, call = make()
    call(T, 1)
    threads = torch.get_num_threads()
    torch.set_num_threads(threads + 1)
    try:
        assert call(T, 1) is not None
        assert cold.traced == 1
    finally:
        torch.set_num_threads(threads)


def test_process_local_variants_are_not_saved(make):
    def local(x, n):
        v = for_n(x, n)
        v.process_local = ["an object"]
        return v

    _, cold, call = make(local)
    assert call(T, 1)
    assert cold.saved == []


def test_forget(make):
    e, cold, call = make()
    call(T, 1)
    e.forget()
    assert e.lines == []
    assert call(T, 1)
    assert cold.traced == 2
    assert e.explain((T, 5)) == ["`n` was 1, is 5"]


def test_binding_miss_names_the_guard():
    v = for_n(T, 1)
    host = binding.Host(None, None, None, None)
    with pytest.raises(binding.BindingMiss, match="was 1, is 2") as caught:
        binding.bind(v, (T, 2), {}, host, None)
    assert caught.value.guard == 1
