"""Python objects under the tracer: enumerations, tuples' subclasses, functions' attributes, generic aliases."""

from __future__ import annotations

import collections
import collections.abc
import contextlib
import enum
import functools
import inspect
import threading
import typing
from typing import Any

import pytest
import torch

import aotdyn

from .results import same

X = torch.arange(6.0).reshape(2, 3)
T = typing.TypeVar("T")


def agrees(f: Any, *args: Any, fullgraph: bool = True) -> Any:
    """Run plainly and compiled, twice: results are equal; the last is returned."""
    compiled = aotdyn.compile(f, backend="eager", fullgraph=fullgraph)
    for _ in range(2):
        plain, result = f(*args), compiled(*args)
        same(result, plain)
    return result


def test_members_of_a_local_enumeration():
    class Color(enum.Enum):
        RED = 1
        BLUE = 2

    def f(x, color):
        table = {Color.RED: x + 1, Color.BLUE: x - 1}
        aotdyn.graph_break()
        return table[color] if color is not Color.RED else x * 2

    compiled = aotdyn.compile(f, backend="eager")
    for color in (Color.RED, Color.BLUE, Color.RED):
        torch.testing.assert_close(compiled(X, color), f(X, color))


def test_an_enumeration_made_again_is_another():
    def make():
        class Color(enum.Enum):
            RED = 1

        return Color

    first, second = make(), make()

    def f(x, color):
        return x + 1 if color is first.RED else x - 1

    compiled = aotdyn.compile(f, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(X, first.RED), X + 1)
    torch.testing.assert_close(compiled(X, second.RED), X - 1)
    torch.testing.assert_close(compiled(X, first.RED), X + 1)


class Pair(typing.NamedTuple):
    a: Any
    b: Any


class Open(Pair):
    """A named tuple with an instance dict."""

    def total(self):
        return self.a + self.b


class Indexed(Pair):
    __slots__ = ()

    def __getitem__(self, index):  # type: ignore[override]
        return Indexed(self.a * index, self.b * index)


def test_attributes_of_a_named_tuple_subclass():
    def f(x):
        pair = Open(x, x + 1)
        pair.extra = x * 2
        return pair.total() + pair.extra, pair[0], len(pair)

    agrees(f, X)


def test_a_named_tuple_with_its_own_subscript():
    def f(x, pair):
        return pair[2].a + pair.b + x

    agrees(f, X, Indexed(X, X + 1))


def test_wraps_inside_of_the_graph():
    def f(x):
        def inner(y: torch.Tensor) -> torch.Tensor:
            return y + 1

        inner.mark = 2

        @functools.wraps(inner)
        def outer(y):
            return inner(y) * outer.mark

        return outer(x), outer.__name__, list(outer.__dict__), sorted(outer.__annotations__)

    agrees(f, X)


class Bag:
    def __init__(self) -> None:
        self.x = 1
        self.y = 2


def test_attributes_as_a_dict():
    def f(x, bag):
        bag.z = 3
        copy = dict(vars(bag))
        return x * sum(v for _, v in vars(bag).items()), list(bag.__dict__.keys()), copy

    agrees(f, X, Bag())


def test_facts_of_code():
    def f(x):
        def g(a, b=1):
            return a

        return x + g.__code__.co_argcount, inspect.isgeneratorfunction(g), g.__code__.co_varnames

    agrees(f, X)


def test_generic_aliases():
    def f(x):
        def g(a: collections.abc.Callable[[T], Any], b: list[int]) -> dict[str, torch.Tensor]:
            return a(x) + b[0]

        return g(torch.sin, [1])

    agrees(f, X)


def test_an_alias_leaves_the_graph():
    def f(x):
        return x + 1, list[int], dict[str, int]

    compiled = aotdyn.compile(f, backend="eager", fullgraph=True)
    assert compiled(X)[1:] == (list[int], dict[str, int])


def test_fromkeys():
    def f(x):
        plain = dict.fromkeys(["a", "b"])
        ordered = collections.OrderedDict.fromkeys(("a",), value=x)
        return plain, ordered["a"] + 1, collections.defaultdict.fromkeys("ab", 2)["b"]

    agrees(f, X)


def test_a_generator_that_leaves_the_frame():
    def numbers(x):
        yield x
        yield x + 1

    def f(x):
        y = x * 2
        return numbers(y)

    compiled = aotdyn.compile(f, backend="eager")
    for plain, result in zip(f(X), compiled(X), strict=True):
        torch.testing.assert_close(result, plain)
    assert inspect.isgenerator(compiled(X))


def test_a_local_function_allowed_in_the_graph_is_of_this_process():
    def secret(x):
        return x * 3

    torch._dynamo.allow_in_graph(secret)

    def f(x):
        return secret(x) + 1

    agrees(f, X)


@torch.jit.script_if_tracing
def scripted(x, scale: float = 2.0):
    return x * scale


def test_functions_for_torchscript():
    def f(x):
        y = torch.jit.annotate(torch.Tensor, scripted(x))
        return torch.jit._unwrap_optional(y) + 1

    agrees(f, X)


def test_facts_of_the_process():
    def f(x):
        if torch.autograd._is_checkpoint_valid() and not torch._C._is_any_autocast_enabled():
            x = x + 1
        return x if torch._C._are_functorch_transforms_active() else x * 2

    agrees(f, X)


class Loud:
    def __bool__(self):
        return 1.5


def test_truth_of_another_type_raises():
    def f(x, loud):
        return x + 1 if loud else x

    compiled = aotdyn.compile(f, backend="eager")
    with pytest.raises(TypeError, match="__bool__ should return bool, returned float"):
        compiled(X, Loud())


class Text(str):
    def __str__(self) -> str:
        return "other"


def test_text_of_a_subclass_of_str():
    def f(x, text):
        return x + len(text), text.upper(), list(text), text.split("-")

    agrees(f, X, Text("a-b"))
    compiled = aotdyn.compile(f, backend="eager", fullgraph=True)
    assert compiled(X, Text("c-d"))[1] == "C-D"


def test_thread_local_attributes():
    local = threading.local()

    def f(x, local):
        local.x = x
        return x + 1, local.x

    agrees(f, X, local, fullgraph=False)
    assert local.x is X


def test_legacy_tensor_classes():
    def f(x):
        y = x.type(torch.HalfTensor)
        return isinstance(x, torch.FloatTensor), isinstance(y, torch.FloatTensor), isinstance(y, torch.HalfTensor), y

    agrees(f, X)


def test_result_type_follows_the_default_dtype():
    def f(x):
        return torch.result_type(torch.tensor(1), 1.0), x + 1

    compiled = aotdyn.compile(f, backend="eager", fullgraph=True)
    assert compiled(X)[0] is torch.float32
    torch.set_default_dtype(torch.float64)
    try:
        assert compiled(X)[0] is torch.float64
    finally:
        torch.set_default_dtype(torch.float32)


def test_a_module_compiled_again():
    module = torch.nn.Linear(3, 2)
    again = aotdyn.compile(aotdyn.compile(module, backend="eager"), backend="eager")
    torch.testing.assert_close(again(X), module(X))


def test_cells_that_nobody_keeps_are_no_outputs():
    graphs = []

    def backend(gm, inputs):
        graphs.append(gm)
        return gm

    def f(x, keep):
        y = x + 1

        def g():
            return y * 2

        return (g(), g) if keep else g()

    compiled = aotdyn.compile(f, backend=backend, fullgraph=True)
    torch.testing.assert_close(compiled(X, False), (X + 1) * 2)
    result, g = compiled(X, True)
    torch.testing.assert_close(result, g())
    assert [len(next(iter(gm.graph.find_nodes(op="output"))).args[0]) for gm in graphs] == [1, 2]


def test_modes_alone_make_no_graph():
    graphs = []

    def backend(gm, inputs):
        graphs.append(gm)
        return gm

    def f(x):
        torch._C._set_grad_enabled(False)
        return x.shape

    compiled = aotdyn.compile(f, backend=backend, fullgraph=True)
    with torch.enable_grad():
        assert compiled(X) == X.shape
        assert not torch.is_grad_enabled()
    assert not graphs


class Marked:
    mark = 5


def test_a_class_as_a_dict():
    def f(x, marked):
        own = type(marked).__dict__
        return x + own["mark"] if "mark" in own and "other" not in own else x, own.get("missing", 3)

    compiled = aotdyn.compile(f, backend="eager", fullgraph=True)
    same(compiled(X, Marked()), f(X, Marked()))
    Marked.other = 1  # type: ignore[attr-defined]
    try:
        same(compiled(X, Marked()), f(X, Marked()))
    finally:
        del Marked.other  # type: ignore[attr-defined]


def test_a_named_tuple_made_inside():
    def f(x):
        pair = collections.namedtuple("pair", ["a", "b", "c"], defaults=[2])
        made = pair(x, b=x + 1)
        return made.a + made[1] * made.c, pair, made

    compiled = aotdyn.compile(f, backend="eager", fullgraph=True)
    (plain, _, _), (result, cls, made) = f(X), compiled(X)
    torch.testing.assert_close(result, plain)
    assert type(made) is cls
    assert (cls.__name__, cls.__module__, cls._fields) == ("pair", __name__, ("a", "b", "c"))
    assert compiled(X)[1] is not cls


def test_flags_of_backends():
    def f(x):
        return x + 1 if torch.backends.cuda.matmul.allow_tf32 else x - 1

    agrees(f, X)


def test_the_address_of_an_object():
    def f(x, bag, address):
        return x + 1 if id(bag) == address else x - 1

    compiled = aotdyn.compile(f, backend="eager", fullgraph=True)
    one, two = Bag(), Bag()
    torch.testing.assert_close(compiled(X, one, id(one)), X + 1)
    torch.testing.assert_close(compiled(X, two, id(one)), X - 1)
    torch.testing.assert_close(compiled(X, one, id(one)), X + 1)


class Powers:
    def power(self, x, n, *, plus=0):
        return x**n + plus

    @classmethod
    def named(cls, x, n):
        return x * n, cls.__name__

    @staticmethod
    def scaled(x, n):
        return x * n

    square = functools.partialmethod(power, n=2, plus=1)
    of_class = functools.partialmethod(named, n=3)
    plain = functools.partialmethod(scaled, X)


def test_partial_methods():
    def f(x, powers):
        return powers.square(x), powers.of_class(x)[0], powers.plain(3), Powers().square(x, plus=2)

    agrees(f, X, Powers())


def test_a_partial_method_that_leaves_the_frame():
    def f(x, powers):
        return x + 1, powers.square

    powers = Powers()
    _, method = aotdyn.compile(f, backend="eager", fullgraph=True)(X, powers)
    assert type(method) is functools.partial
    assert method.__self__ is powers
    assert torch.equal(method(X), powers.square(X))


def test_exit_stacks():
    def f(x):
        done = []
        with contextlib.ExitStack() as stack:
            stack.enter_context(torch.no_grad())
            stack.callback(done.append, 1)
            y = x * 2
        return y, done, torch.is_grad_enabled()

    compiled = aotdyn.compile(f, backend="eager", fullgraph=True)
    plain, traced = f(X), compiled(X)
    assert torch.equal(plain[0], traced[0])
    assert plain[1:] == traced[1:]
    try:
        raise ValueError
    except ValueError:
        assert aotdyn.compile(f, backend="eager")(X)[1:] == plain[1:]
