from __future__ import annotations

import ast
import gc
import weakref

import msgspec
import pytest
import torch

from aotdyn.guards import globalstate, kinds, tensors
from aotdyn.guards import sources as S
from aotdyn.rewrite.lower import compile_lowered, lower
from aotdyn.runtime import binding
from aotdyn.runtime.variant import FrameSpec, ResumePoint, Variant
from tests.runtime.stub import variant

X, Y = S.Arg(0, "x"), S.Arg(1, "y")


def run(v, args, graph=None, continuation=None, globals=None, count=None):
    def lowering(v):
        lowered = lower(v, "f", "app.py", 7)
        return compile_lowered(lowered), lowered.pool

    stored = msgspec.msgpack.decode(msgspec.msgpack.encode(v), type=Variant)
    stored.locals = v.locals
    host = binding.Host(lambda inputs: graph, continuation or (lambda p, g: None), lambda: run.__code__, lowering)
    bound = binding.bind(stored, args, globals or {}, host, lambda *a: ("miss", *a))
    if count is not None:
        count.append(bound.calls)
    return bound.function


def two_tensors(**more):
    guards = [(X, "TENSOR", tensors.metadata(T)), (Y, "TENSOR", tensors.metadata(T))]
    guards.append((None, "GLOBAL", globalstate.snapshot()))
    return variant(("x", "y"), guards, [X, Y], [("out", 0, 0), ("return", -1, 0)], **more)


T = torch.ones(4, 3)


def test_two_tensors():
    count: list = []
    f = run(two_tensors(), (T, T.clone()), lambda x, y: (x + y,), count=count)
    value, k = f(T, T.clone())
    assert k is None
    assert torch.equal(value, T + T)
    assert f(T, 3) == ("miss", T, 3)
    assert f(T, T) == ("miss", T, T)
    assert next(count[0]) == 1


def test_code_is_the_users_place():
    f = run(two_tensors(), (T, T.clone()), lambda x, y: (x + y,))
    assert (f.__code__.co_filename, f.__code__.co_firstlineno, f.__code__.co_name) == ("app.py", 7, "f")
    assert {line for _, _, line in f.__code__.co_lines()} <= {7, None}


def test_prints_as_python():
    text = lower(two_tensors(), "f", "app.py", 7).text()
    assert ast.parse(text)
    assert "def f(a0, a1, /):" in text
    assert not {"type", "len", "tuple"} & {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}


def test_guards_stand_before_what_reads_through_them():
    class Trap:
        def __getattr__(self, name):
            raise AssertionError("read before its guard")

    class Box:
        def __init__(self, n):
            self.n = n

    n = S.Attr(X, "n")
    # The guard on the base comes last in the variant, and is checked first.
    path = tensors.class_path(Box)
    v = variant(("x",), [(n, "CONST", 3), (X, "TYPE", path)], [], [("source", 0, n), ("return", -1, 0)], None)
    f = run(v, (Box(3),))
    assert f(Box(3)) == (3, None)
    assert f(Trap())[0] == "miss"
    assert f(Box(4))[0] == "miss"


def test_errors_of_reads_are_misses_and_errors_of_the_graph_are_not():
    def fails(x):
        raise KeyError("graph")

    item = S.Item(X, "t")
    v = variant(("x",), [(item, "TENSOR", tensors.metadata(T))], [item], [("out", 0, 0), ("return", -1, 0)])
    f = run(v, ({"t": T},), fails)
    assert f({})[0] == "miss"
    with pytest.raises(KeyError, match="graph") as caught:
        f({"t": T})
    assert caught.value.__context__ is None


def test_miss_has_no_exception_around_it():
    def next_(*args):
        raise ValueError

    v = variant(("x",), [(S.Item(X, 0), "CONST", 1)], [], [("const", 0, None), ("return", -1, 0)], None)
    f = run(v, ([1],))
    f.__globals__["knext"] = next_
    with pytest.raises(ValueError) as caught:
        f([])
    assert caught.value.__context__ is None


def test_graph_gives_way():
    def raises(x, y):
        raise ValueError

    assert run(two_tensors(gives_way=True), (T, T.clone()), raises)(T, T.clone()) is None
    with pytest.raises(ValueError):
        run(two_tensors(), (T, T.clone()), raises)(T, T.clone())


def test_leave():
    v = two_tensors(leave="not worth it")
    f = run(v, (T, T.clone()))
    assert f(T, T.clone()) is None
    assert f(T, 1)[0] == "miss"


def test_same_tensor_twice():
    guards = [(X, "TENSOR", tensors.metadata(T)), (Y, "TENSOR", tensors.metadata(T)), (Y, "SAME", X)]
    v = variant(("x", "y"), guards, [X], [("out", 0, 0), ("return", -1, 0)])
    f = run(v, (T, T), lambda x: (x + 1,))
    assert f(T, T)[1] is None
    assert f(T, T.clone())[0] == "miss"


def test_foreign_tracers_are_seen_on_hits():
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.proxy_tensor import make_fx

    f = run(two_tensors(), (T, T.clone()), lambda x, y: (x + y,))
    g = run(variant((), [], [], [("const", 0, 1), ("return", -1, 0)], None), ())
    seen = []
    other = T.clone()
    make_fx(lambda x: (seen.extend([f(T, other)[0], g()[0]]), x + 1)[1])(T)
    with FakeTensorMode():
        seen.extend([f(T, other)[0], g()[0]])
    torch.func.vmap(lambda x: (seen.extend([f(x, other)[0], g()[0]]), x)[1])(torch.ones(2, 4, 3))
    assert len(seen) == 6
    assert all(isinstance(each, str) for each in seen)
    assert g() == (1, None)


def test_every_instruction():
    out = S.Item(X, "out")
    steps = [
        ("source", 0, X),
        ("const", 1, 2),
        ("const", 2, ["tuple", [1, 2]]),
        ("import", 3, "builtins", "max"),
        ("call", 4, 3, [1, 1], {}),
        ("helper", 5, "make_cell"),
        ("call", 6, 5, [4], {}),
        ("getattr", 7, 6, "cell_contents"),
        ("binary", 8, "*", 7, 1),
        ("binary", 9, "<", 7, 8),
        ("tuple", 10, [1, 2]),
        ("list", 11, [1, 8]),
        ("set", 12, []),
        ("set", 13, [1]),
        ("const", 14, "out"),
        ("dict", 15, [[14, 11]]),
        ("setitem", -1, 0, 14, 15),
        ("getitem", 16, 0, 14),
        ("delitem", -1, 16, 14),
        ("import", 17, "types", "SimpleNamespace"),
        ("call", 18, 17, [], {"a": 1}),
        ("setattr", -1, 18, "b", 9),
        ("delattr", -1, 18, "a"),
        ("globals", 19, -1),
        ("local", 20, 0),
        ("code", 21, -1, []),
        ("out", 22, 0),
        ("const", 23, None),
        ("const", 24, ["..."]),
        ("tuple", 25, [8, 9, 10, 11, 12, 13, 16, 18, 19, 20, 21, 22, 23, 24]),
        ("return", -1, 25),
    ]
    v = variant(("x",), [(out, "CONST", 5)], [], steps, locals=["mine"])
    g = {"name": 1}
    x = {"out": 5}
    value, k = run(v, (x,), lambda: ("o",), globals=g)(x)
    assert k is None
    assert value[:7] == (4, True, (2, (1, 2)), [2, 4], set(), {2}, {})
    assert vars(value[7]) == {"b": True}
    assert value[8] is g
    assert value[9:] == ("mine", run.__code__, "o", None, ...)
    assert x == {"out": {}}


def test_resume():
    frame = FrameSpec("m", "f", "d", 10, ("x",))
    point = ResumePoint("r", frame, 12, False, ())
    steps = [("out", 0, 0), ("tuple", 1, [0]), ("continuation", 2, 0), ("resume", -1, 0, 1)]
    v = variant(("x",), [(X, "TENSOR", tensors.metadata(T))], [X], steps, resumes=[point])
    state, k = run(v, (T,), lambda x: (x * 2,), continuation=lambda p, g, c: ("k", p))(T)
    assert k == ("k", 0)
    assert torch.equal(state[0], T * 2)


def test_nothing_is_held():
    f = run(two_tensors(), (T, T.clone()), lambda x, y: (x + y,))
    a, b = T.clone(), T.clone()
    refs = [weakref.ref(a), weakref.ref(b)]
    f(a, b)
    del a, b
    gc.collect()
    assert [ref() for ref in refs] == [None, None]


def test_bad_data_is_refused():
    with pytest.raises(ValueError, match="bogus"):
        lower(variant((), [], [], [("bogus", 0)], None), "f", "app.py", 1)
    with pytest.raises(ValueError, match="doesn't end"):
        lower(variant((), [], [], [("const", 0, 1)], None), "f", "app.py", 1)


class Layer:
    def forward(self):
        return 1


def test_a_class_is_read_once():
    def of_layer(i):
        owner = S.Item(X, i)
        cls = S.TypeOf(owner)
        forward = S.ClassAttr(cls, "forward")
        return [
            (owner, "TYPE", tensors.class_path(Layer)),
            (forward, "FUNCTION", kinds.function_data(Layer.forward, {})),
            (S.Attr(forward, "__defaults__"), "CONST", None),
        ]

    guards = [guard for i in range(3) for guard in of_layer(i)]
    v = variant(("x",), guards, [], [("const", 0, 1), ("return", -1, 0)], None)
    text = ast.unparse(lower(v, "f", "app.py", 7).tree)
    assert [text.count(part) for part in ("'forward'", "__code__", "__defaults__")] == [1, 1, 1]
    f = run(v, ([Layer(), Layer(), Layer()],))
    assert f([Layer(), Layer(), Layer()]) == (1, None)
    assert f([Layer(), Layer(), 3])[0] == "miss"
    other = type("Layer", (), {"forward": Layer.forward, "__module__": Layer.__module__})
    assert f([Layer(), Layer(), other()])[0] == "miss"
    with pytest.raises(binding.BindingMiss, match="two classes"):
        run(v, ([Layer(), Layer(), other()],))
