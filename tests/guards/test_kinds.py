"""Every kind, three ways: the data on the value that it was made of, the data and the generated test on others."""

from __future__ import annotations

import collections
import math
import types
from typing import Any

import pytest
import torch

from aotdyn.guards import constants, globalstate, kinds, shapes, tensors
from aotdyn.guards import sources as S
from aotdyn.guards.checks import object_data
from aotdyn.rewrite.lower import compile_lowered, lower
from aotdyn.runtime import binding, explain
from tests.runtime.stub import variant

X = S.Arg(0, "x")


def code_of(v):
    lowered = lower(v, "f", "app.py", 3)
    return compile_lowered(lowered), lowered.pool


HOST = binding.Host(lambda inputs: None, lambda point, globals: None, lambda: None, code_of)


def holds(kind: str, expected: Any, made_of: Any, other: Any, source: S.Source | None = X, also: list = ()) -> bool:
    """Whether a guard bound on one object holds for another, by the generated test; agrees with the data."""
    v = variant(("x",), [*also, (source, kind, expected)], [], [("const", 0, 1), ("return", -1, 0)], graph=None)
    bound = binding.bind(v, (made_of,), {}, HOST, lambda x: "miss")
    fast = bound.function(other) != "miss"
    slow = not explain.explain_miss(v, (other,), {})
    assert fast <= slow, (kind, expected, other)
    return fast


def test_another_function_at_the_path_itself(monkeypatch):
    source = S.Attr(S.Module("math"), "sqrt")
    fact = (source, "OBJECT", object_data(math.sqrt, ("math", "sqrt")))
    v = variant(("x",), [fact], [], [("const", 0, 1), ("return", -1, 0)], graph=None)
    assert not explain.explain_miss(v, (0,), {})
    for other in (math.sin, lambda x: x):
        monkeypatch.setattr(math, "sqrt", other)
        assert explain.explain_miss(v, (0,), {})


def path(obj):
    return [obj.__module__, obj.__qualname__]


def f(x):
    return x


class Sub(dict):
    def __len__(self):
        raise AssertionError

    __contains__ = __iter__ = __len__


@pytest.mark.parametrize(
    ("kind", "expected", "made_of", "fits", "others"),
    [
        ("TYPE", ["builtins", "dict"], {}, [{1: 2}], [Sub(), [], 1]),
        ("CONST", None, None, [None], [0, False]),
        ("CONST", True, True, [True], [1, 1.0]),
        ("CONST", 1, 1, [1], [True, 1.0, 2]),
        ("CONST", 1000, 1000, [int("1000")], [1000.0, 1001]),
        ("CONST", "ab", "ab", ["".join("ab")], ["b", b"ab", None]),
        ("CONST", 1.5, 1.5, [float("1.5")], [1, float("nan")]),
        ("CONST", -0.0, -0.0, [float("-0.0")], [0.0, 0]),
        ("CONST", constants.encode(math.nan), math.nan, [math.nan], [1.0, -math.nan]),
        ("CONST", constants.encode((1, 2)), (1, 2), [(1, 2)], [(1, 2.0), [1, 2], torch.Size([1, 2])]),
        ("CONST", constants.encode(torch.float32), torch.float32, [torch.float], [torch.float64]),
        ("CONST", constants.encode(torch.device("cpu")), torch.device("cpu"), [torch.device("cpu")], ["cpu"]),
        ("OBJECT", object_data(math.sqrt, ("math", "sqrt")), math.sqrt, [math.sqrt], [math.sin]),
        ("OBJECT", object_data(torch, ("torch", "")), torch, [torch], [math]),
        ("LEN", 2, [1, 2], [[3, 4]], [[1], []]),
        ("LEN", 2, Sub(a=1, b=2), [Sub(c=1, d=2)], [Sub()]),
        ("KEYS", ["a", "b"], {"a": 1, "b": 2}, [{"a": 0, "b": 0}], [{"b": 1, "a": 2}, {"a": 1}, {}]),
        ("KEYS", [1], {1: 1}, [{1: 1}], [{True: 1}, {1.0: 1}]),
        ("KEYS", ["a"], Sub(a=1), [Sub(a=1)], [Sub(b=1)]),
        ("KEYS", ["a"], collections.OrderedDict(a=1), [collections.OrderedDict(a=1)], [collections.OrderedDict()]),
        ("HAS", "a", {"a": 1}, [{"a": 1, "b": 2}], [{}]),
        ("LACKS", "a", {}, [{"b": 2}], [{"a": 1}]),
        ("LACKS", "a", Sub(), [Sub(b=2)], [Sub(a=1)]),
        ("NOATTR", "zap", f, [len], []),
        ("NOATTR", "upper", 1, [2], ["a"]),
        ("MRO", [path(int), path(object)], int, [int], [bool]),
        ("TRUTH", True, [1], [[2]], [[]]),
        ("TRUTH", False, [], [{}], [[1]]),
        ("CLASS", path(Sub), Sub, [Sub], [dict]),
    ],
)
def test_kind(kind, expected, made_of, fits, others):
    for other in [made_of, *fits]:
        assert holds(kind, expected, made_of, other), other
    for other in others:
        assert not holds(kind, expected, made_of, other), other


def test_exact_dict_needs_no_method_calls():
    also = [(X, "TYPE", ["builtins", "dict"])]
    assert holds("HAS", "a", {"a": 1}, {"a": 2}, also=also)
    assert not holds("LACKS", "a", {}, {"a": 2}, also=also)
    assert not holds("KEYS", ["a"], {"a": 2}, {"a": 2, "b": 1}, also=also)
    assert not holds("LEN", 1, {"a": 2}, {"a": 2, "b": 1}, also=also)


def test_function_by_code():
    def make(n):
        return lambda x: x + n

    expected = kinds.function_data(make(1), {})
    assert expected[3] == __name__
    assert holds("FUNCTION", expected, make(1), make(2))
    assert not holds("FUNCTION", expected, make(1), f)
    assert not holds("FUNCTION", expected, make(1), len)


def test_function_by_namespace():
    def copy(globals):
        return types.FunctionType(f.__code__, globals)

    expected = kinds.function_data(f, {})
    assert not holds("FUNCTION", expected, f, copy({}))
    assert holds("FUNCTION", expected, f, copy(globals()))
    nowhere = copy({})
    assert kinds.function_data(nowhere, {})[3] is None
    assert kinds.function_data(nowhere, nowhere.__globals__)[3] == ""


T = torch.ones(4, 3)


@pytest.mark.parametrize(
    ("other", "same"),
    [
        (torch.zeros(4, 3), True),
        (torch.zeros(5, 3), False),
        (torch.zeros(4, 3, dtype=torch.float64), False),
        (torch.zeros(3, 4).t(), False),
        (torch.zeros(4, 3, requires_grad=True), False),
        (torch.nn.Parameter(torch.zeros(4, 3)), False),
        (torch.zeros(4, 3).to_sparse(), False),
        (torch.zeros(4, 3, device="meta"), False),
        (torch.zeros(16)[4:].view(4, 3), True),
        (None, False),
    ],
)
def test_tensor(other, same):
    assert holds("TENSOR", tensors.metadata(T), T, other) == same
    if other is not None and not same:
        v = variant(("x",), [(X, "TENSOR", tensors.metadata(T))], [], [], graph=None)
        assert explain.explain_miss(v, (other,), {})[0].startswith("`x")


def test_tensor_dynamic():
    expected = tensors.metadata(T, dynamic=[0])
    assert expected["shape"] == [None, 3]
    assert holds("TENSOR", expected, T, torch.zeros(7, 3))
    assert not holds("TENSOR", expected, T, torch.zeros(7, 4))
    inner = tensors.metadata(T, dynamic=[1])
    assert inner["stride"] == [None, 1]
    assert holds("TENSOR", inner, T, torch.zeros(4, 9))
    assert not holds("TENSOR", inner, T, torch.zeros(9, 4).t())
    assert holds("TENSOR", tensors.metadata(T, offset=True), T, torch.zeros(4, 3))
    assert not holds("TENSOR", tensors.metadata(T, offset=True), T, torch.zeros(16)[4:].view(4, 3))


def test_conj_and_neg_bits():
    c = torch.zeros(4, dtype=torch.complex64)
    assert not holds("TENSOR", tensors.metadata(c), c, c.conj())


def test_vmap_and_grad_levels_are_seen():
    with torch.no_grad():
        torch.func.vmap(lambda t: (check(t), t)[1])(torch.ones(2, 4, 3))
    torch.func.grad(lambda t: (check(t), t.sum())[1])(T)


def check(t):
    assert not holds("TENSOR", tensors.metadata(T), T, t)


def test_shape():
    expected = {"expr": "s0 % 2 == 0 and 2 < s0 <= max(s1, 8)", "names": {"s0": [0, "size", 0], "s1": [0, "stride", 0]}}
    also = [(X, "TENSOR", tensors.metadata(T, dynamic=[0, 1]))]

    def fits(t):
        return holds("SHAPE", expected, T, t, source=None, also=also)

    assert fits(torch.zeros(8, 3))
    assert not fits(torch.zeros(7, 3))
    assert not fits(torch.zeros(10, 3))
    assert fits(torch.zeros(10, 12))
    with pytest.raises(ValueError, match="Attribute"):
        shapes.parse("s0.__class__")
    with pytest.raises(ValueError, match="Call"):
        shapes.parse("open('x')")


def test_same_and_distinct():
    y = S.Arg(1, "y")

    def run(kind, made_of, args):
        v = variant(("x", "y"), [(X, kind, y)], [], [("const", 0, 1), ("return", -1, 0)], graph=None)
        return binding.bind(v, made_of, {}, HOST, lambda *a: "miss").function(*args) != "miss"

    a, b = [], []
    assert run("SAME", (a, a), (b, b))
    assert not run("SAME", (a, a), (a, b))
    assert run("DISTINCT", (a, b), (b, a))
    assert not run("DISTINCT", (a, b), (b, b))


@pytest.mark.parametrize(
    ("context", "fact"),
    [
        (torch.no_grad, "grad mode"),
        (torch.inference_mode, "grad enabled"),
        (lambda: torch.autocast("cpu"), "autocast"),
        (lambda: torch.device("meta"), "function modes"),
        (lambda: torch.autograd.graph.save_on_cpu(), "saved tensor hooks"),
        (lambda: torch.overrides.BaseTorchFunctionMode(), "function modes"),
    ],
)
def test_global_state(context, fact):
    expected = globalstate.snapshot()
    v = variant((), [(None, "GLOBAL", expected)], [], [("const", 0, 1), ("return", -1, 0)], graph=None)
    run = binding.bind(v, (), {}, HOST, lambda: "miss").function
    assert run() == (1, None)
    with context():
        assert run() == "miss"
        assert explain.explain_miss(v, (), {})
    assert run() == (1, None)


@pytest.mark.parametrize("name", globalstate.FACTS)
def test_facts_are_constants(name):
    expected = globalstate.snapshot([name])
    assert globalstate.difference(expected) is None
    v = variant((), [(None, "GLOBAL", expected)], [], [("const", 0, 1), ("return", -1, 0)], graph=None)
    assert binding.bind(v, (), {}, HOST, lambda: "miss").function() == (1, None)


def test_sentences():
    t = torch.zeros(9, 3)
    v = variant(("x",), [(X, "TENSOR", tensors.metadata(T))], [], [], graph=None)
    assert explain.explain_miss(v, (t,), {}) == ["`x.shape[0]` was 4, is 9"]
    v = variant(("x",), [(S.Item(X, "n"), "CONST", 3)], [], [], graph=None)
    assert explain.explain_miss(v, ({"n": 4},), {}) == ["`x['n']` was 3, is 4"]
    assert explain.explain_miss(v, ({},), {}) == ["`x['n']` isn't there in this call"]


def test_recursion_error_is_no_miss():
    class Deep(dict):
        def __eq__(self, other):
            raise RecursionError

        def __getattribute__(self, name):
            raise RecursionError

    v = variant(("x",), [(S.Attr(X, "a"), "CONST", 3)], [], [], graph=None)
    with pytest.raises(RecursionError):
        explain.explain_miss(v, (Deep(),), {})


def test_keys_are_told_as_they_were_and_are():
    expected = kinds.encode_keys({"small": 1, 2: 1})
    reason = kinds.KINDS["KEYS"].describe("sizes", expected, {"big": 1}, None)
    assert reason == "`list(sizes)` was ['small', 2], is ['big']"
