"""What leaves compiled code: the program's exceptions, with the user's lines and no others."""

from __future__ import annotations

import contextlib
import traceback

import pytest
import torch

import aotdyn

HERE = __file__


@contextlib.contextmanager
def region():
    yield


class Needs:
    def __init__(self, cls):
        self.cls = cls


def raises_in_with(x):
    y = x + 1
    with region():
        y = y * 2
        made = Needs()
        return made, y


def raises_deep(x):
    return _deeper(x + 1, 2)


def _deeper(x, depth):
    if depth == 0:
        y = x.sum().item()
        return [y][3]
    return _deeper(x + 1, depth - 1)


def wrong_shapes(x):
    y = x * 2
    return y @ torch.ones(7)


def asserts(x):
    assert x.shape[0] == 7, f"got {x.shape[0]}"
    return x


def after_mutation(x):
    x.add_(1)
    index = (x * 0 + 100).long()
    return torch.nn.functional.embedding(index, torch.ones(3, 2))


def raises_from_handler(x):
    y = x + 1
    try:
        _fails(y)
    except KeyError as error:
        y = y + float(y.sum())
        raise ValueError("again") from error


def _fails(y):
    raise KeyError(y.ndim)


def reraises_after_break(x):
    try:
        _fails(x + 1)
    except KeyError:
        print("handled", x.sum().item())
        raise


def from_generator(x):
    return sum(_items(x))


def _items(x):
    yield x
    yield x + 1
    raise LookupError("no more")


PROGRAMS = [
    raises_in_with,
    raises_deep,
    wrong_shapes,
    asserts,
    after_mutation,
    raises_from_handler,
    reraises_after_break,
    from_generator,
]


def told(error: BaseException | None) -> object:
    """Type, text and lines of an exception and of what it came from; nothing of ours among the lines."""
    if error is None:
        return None
    entries = traceback.extract_tb(error.__traceback__)
    assert not [entry for entry in entries if "/aotdyn/aotdyn/" in entry.filename or entry.name == "enter"], entries
    lines = [(entry.name, entry.lineno) for entry in entries if entry.filename == HERE and entry.name != "observed"]
    return type(error), str(error).splitlines()[0], lines, told(error.__cause__), told(error.__context__)


def observed(function):
    x = torch.ones(3)
    try:
        function(x)
    except Exception as error:
        return told(error), x.tolist()
    return None


@pytest.mark.parametrize("function", PROGRAMS, ids=lambda f: f.__name__)
def test_lines_are_the_users(function, capsys):
    plain = observed(function)
    assert plain is not None
    compiled = aotdyn.compile(function, backend="eager")
    for _ in range(2):
        assert observed(compiled) == plain


def exit_sees(x, seen):
    class Manager:
        def __enter__(self):
            return self

        def __exit__(self, cls, value, tb):
            seen.append((cls, value.args, [line for _, line, _, _ in traceback.extract_tb(tb)]))
            return True

    y = x + 1
    with Manager():
        _fails(y)
    return y * 2


def test_exit_is_handed_the_traceback():
    plain, compiled = [], []
    exit_sees(torch.ones(2), plain)
    aotdyn.compile(exit_sees, backend="eager")(torch.ones(2), compiled)
    assert compiled == plain


class Method:
    def forward(self, x):
        x[0] = 1
        x.index_fill_(1, torch.tensor([3]), 2)
        return x


def nested():
    def inner(x):
        x[0] = 1
        x.index_fill_(1, torch.tensor([3]), 2)
        return x

    return inner


RAISING = [Method().forward, nested(), lambda x: x.add_(1).index_fill_(1, torch.tensor([3]), 2)]


@pytest.mark.parametrize("function", RAISING)
def test_a_graph_that_raises_bears_the_functions_own_name(function):
    def entries(called):
        with pytest.raises(IndexError) as raised:
            called(torch.ones(2, 3))
        return [(each.name, each.lineno) for each in traceback.extract_tb(raised.value.__traceback__)][1:]

    compiled = aotdyn.compile(function, backend="eager")
    assert [entries(compiled), entries(compiled)] == [entries(function)] * 2
