"""Programs after public bug reports against compilers and caches: one for each rule that they teach."""

import collections
import contextlib

import numpy
import torch
from differential import Turns, loud, program


def x():
    return torch.arange(6.0).reshape(2, 3) - 2


class Pair:
    def __init__(self, one):
        self.left, self.right = one, one if one is None else {}
        self.chosen = self.left


def _of_pair(points_left):
    pair = Pair({})
    pair.chosen = pair.left if points_left else pair.right
    return x(), pair


@program(Turns(lambda: _of_pair(True), lambda: _of_pair(False), lambda: _of_pair(True)), calls=3)
def branch_on_identity(x, pair):
    if pair.chosen is pair.left:
        pair.chosen["left"] = 1
        return x + 1
    pair.right["right"] = 2
    return x - 1


@program(lambda: (x(), collections.OrderedDict(a=1, b=2, c=3)))
def order_of_use(x, recent):
    y = x + recent["a"]
    recent.move_to_end("a")
    recent.popitem(last=False)
    return y


def _overlapping(apart):
    base = torch.arange(9.0).reshape(3, 3)
    return (base[:2], torch.arange(9.0).reshape(3, 3)[1:]) if apart else (base[:2], base[1:])


@program(Turns(lambda: _overlapping(True), lambda: _overlapping(False)), calls=2)
def change_seen_by_an_overlapping_input(a, b):
    a.mul_(2)
    return b + 1


@program()
def regions_under_an_ambient_dtype(x):
    seen = []
    before = torch.get_autocast_dtype("cpu")
    for dtype in (torch.bfloat16, torch.float16):
        torch.set_autocast_dtype("cpu", dtype)
        with torch.autocast("cpu"):
            seen.append(x @ x.t())
    torch.set_autocast_dtype("cpu", before)
    return seen


class Even(list):
    def append(self, item):
        if not item % 2:
            super().append(item)


@program()
def subclass_that_filters(x):
    kept = Even()
    for n in range(5):
        kept.append(n)
    return x + len(kept), kept


@program()
def name_of_a_comprehension_and_of_a_cell(x):
    def scaled():
        return [y * k for k in (2, 3)]

    y = x + 1
    told = [k for k in range(2)]  # noqa: C416
    loud(told)
    k = 5
    return [y + k for y in (x, x * 2)], scaled(), k


@program(lambda: (numpy.array([3.0, 1.0, 2.0]),))
def arrays_changed_by_their_methods(a):
    b = a * 2
    b.sort()
    c = b.copy()
    c.fill(b[0])
    a.partition(1)
    a.shape = (3, 1)
    return b, c, a.shape


_LOG = []


@contextlib.contextmanager
def _counted():
    _LOG.append("in")
    yield len(_LOG)
    _LOG.append("out")


@program()
def set_up_once(x):
    with _counted() as n:
        y = x + n
        loud("in the body")
        y = y * n
    return y, list(_LOG)


@program(lambda: (x().requires_grad_(),), backward=False)
def result_that_is_its_input(x):
    same = torch.nn.functional.dropout(x, 0.5, training=False).contiguous().to(torch.float32)
    with torch.no_grad():
        same.add_(1)
    return same is x, x * 2
