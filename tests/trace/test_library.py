"""The standard library under the tracer: warnings, regular expressions, typing, threads, classes; whole graphs."""

from __future__ import annotations

import copy
import inspect
import re
import threading
import typing
import warnings

import pytest
import torch

import aotdyn

from .results import same

T = typing.TypeVar("T")
X = torch.linspace(-2, 2, 6).reshape(2, 3)
FUNCTIONS = frozenset((torch.add, torch.sin))
LOCAL = threading.local()


class Text(str):
    """Text of a class of its own."""


class Version:
    """What keeps its pattern in the class."""

    pattern = re.compile(r"(\d+)\.(\d+)")

    def __init__(self, text):
        self.parts = tuple(map(int, self.pattern.match(text).groups()))


TEXT = Text("2.13")


def helper(x):
    warnings.warn("the caller's line", stacklevel=2)
    warnings.warn("this line", DeprecationWarning)  # noqa: B028
    return x * 2


def warns(x):
    y = helper(x)
    if x.shape[0] > 1:
        warnings.warn(f"shape {x.shape[0]}", RuntimeWarning)  # noqa: B028
    return y + 1


def catches_nothing(x):
    with warnings.catch_warnings(record=True):
        return x.sin()


def filters(x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        y = x.sin()
    return y + 1


def versions(x):
    found = Version(TEXT)
    return found.parts >= (2, 0), re.findall("[0-9]", TEXT), Version.pattern == None, x + 1  # noqa: E711


def annotates(x):
    def apply(f: typing.Callable[[T], T], y: T, z: typing.Optional[T] = None) -> T:  # noqa: UP045
        return f(y)

    return apply(torch.sin, x), typing.List[int]  # noqa: UP006


def signature(x):
    found = inspect.signature(helper)
    bound = found.bind(x)
    return found, bound.arguments["x"] + 1, bound.signature is found


def keys_of_both(x):
    a, b = {"a": x, "b": x + 1}, {"b": x * 2, "c": x * 3}
    return [(a.get(k), b.get(k)) for k in a.keys() | b.keys()]


def set_of_operators(x):
    return [f(x, 1) if f is torch.add else f(x) for f in (torch.add, torch.sin, torch.cos) if f in FUNCTIONS]


def own_thread(x):
    LOCAL.x = x
    LOCAL.count = getattr(LOCAL, "count", 0) + 1
    return LOCAL.x + 1, LOCAL.count, hasattr(LOCAL, "y")


WHOLE = [
    warns, catches_nothing, filters, versions, annotates, signature, keys_of_both, set_of_operators, own_thread,
]  # fmt: skip


def run(f, *args):
    """What a call gives, and what it warns of: text, class, file and line."""
    LOCAL.__dict__.clear()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        result = f(*copy.deepcopy(args))
    return result, [(str(each.message), each.category, each.filename, each.lineno) for each in told]


@pytest.mark.parametrize("f", WHOLE, ids=lambda f: f.__name__)
def test_whole_graph(f):
    compiled = aotdyn.compile(f, backend="eager", fullgraph=True)
    for _ in range(2):
        same(run(f, X), run(compiled, X))


def counts_warnings(x):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        warnings.warn("told")  # noqa: B028
        y = x.sin()
    return y, len(told)


def test_who_looks_at_warnings_has_python_issue_them():
    compiled = aotdyn.compile(counts_warnings, backend="eager")
    for _ in range(2):
        same(run(counts_warnings, X), run(compiled, X))


def test_warnings_that_raise():
    compiled = aotdyn.compile(warns, backend="eager")
    same(run(warns, X), run(compiled, X))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="the caller's line"):
            compiled(X)


def test_threads_have_their_own():
    compiled = aotdyn.compile(own_thread, backend="eager", fullgraph=True)
    run(compiled, X)
    found = []
    thread = threading.Thread(target=lambda: found.append(compiled(X)))
    thread.start()
    thread.join()
    assert found[0][1:] == (1, False)
    assert compiled(X)[1] == 2


def test_subclasses():
    class Base:
        pass

    class One(Base):
        pass

    def f(x):
        classes = Base.__subclasses__()
        return x + len(classes), classes

    compiled = aotdyn.compile(f, backend="eager", fullgraph=True)
    same(f(X), compiled(X))
    assert compiled(X)[1] is not compiled(X)[1]

    class Two(Base):
        pass

    same(f(X), compiled(X))
    assert compiled(X)[1] == [One, Two]
