"""Lists, mappings, sets and iterators: each program plainly and compiled whole gives the same."""

# ruff: noqa: B018, C416, C417
# (the long ways of writing are what is tested)

from __future__ import annotations

import collections
import functools
import itertools
import operator
from collections.abc import Callable
from typing import Any

import pytest

import aotdyn
from aotdyn import api

from .builtin_objects import MyDict, MyList, Plain, Point, X, assert_compiles_whole, assert_same, raises

# Lists, tuples, deques


def lists(x):
    a = [x]
    a.append(x + 1)
    a.extend([x * 2, 3])
    a.insert(0, "s")
    a.insert(-1, 7)
    popped = a.pop(), a.pop(0)
    del a[-2]
    a += [1, 2]
    a *= 2
    a.reverse()
    return a, popped, len(a), a[1:3], a[-1], a.copy(), [1, 2, 1].count(1), [1, 2, 1].index(1, 1)


def list_edits(x):
    a = [1, 2, 3, 4, 5]
    a[1:3] = [x, x + 1, 9]
    a[0] = "first"
    del a[-1]
    del a[0:1]
    b = [5, 3, 4]
    b.sort()
    c = [x, 2, "b"]
    c.sort(key=lambda v: str(type(v).__name__), reverse=True)
    a.clear  # read, not called
    return a, b, c, 3 in b, x is a[0]


def list_errors(x):
    return (
        raises(lambda: [].pop()),
        raises(lambda: [1].pop(4)),
        raises(lambda: [1].remove(3)),
        raises(lambda: [1].index(3)),
        raises(lambda: [1] + (2,)),
        raises(lambda: (1,).index(4)),
        x + 1,
    )


def tuples(x):
    t = (x, 1) + (2,)
    return (
        t * 2,
        t[1:].index(1),
        t[1:].count(2),
        t[::-1],
        t == (x, 1, 2),
        (1, 2) < (1, 3),
        (1,) < (1, 2),
        [1, 2] == [1, 2],
        (1, 2) != [1, 2],
    )


def named_tuples(x):
    p = Point(x, y=2)
    q = p._replace(y=3)
    a, b = q
    return p, q, a + b, p.x + p.y, p._asdict(), Point._make([1, 2]), p._fields, isinstance(p, tuple)


def deques(x):
    d = collections.deque([x, 1])
    d.append(2)
    d.appendleft(x + 1)
    left, right = d.popleft(), d.pop()
    d.extend([5, 6])
    d.extendleft([7, 8])
    d.rotate(1)
    return d, left, right, len(d), d[0], 8 in d, list(reversed(d))


def bounded_deques(x):
    d = collections.deque(maxlen=2)
    for i in range(4):
        d.append(x + i)
    return list(d)


def list_subclasses(x):
    m = MyList([x])
    m.append(x)
    m.extend([1, 2])
    return m.total(), len(m), m[0], isinstance(m, list), list(m), [v for v in m]


# Mappings and sets


def dicts(x):
    d = {"a": x, "b": 2}
    d["c"] = x + 1
    d.update({"b": 5}, e=6)
    d.setdefault("z", x * 2)
    popped = d.pop("a"), d.pop("nope", None), d.popitem()
    del d["b"]
    return (
        d,
        popped,
        d.get("c"),
        d.get("q", 1),
        "c" in d,
        len(d),
        list(d),
        d.copy(),
        dict.fromkeys(["u", "v"], 0),
        d | {"k": 1},
    )


def dict_views(x):
    d = {"a": x, "b": x + 1}
    keys, values, items = d.keys(), d.values(), d.items()
    d["c"] = x * 2
    return (
        list(keys),
        list(values),
        [k for k, _ in items],
        len(keys),
        "c" in keys,
        list(reversed(d)),
        sorted(keys & {"a", "q"}),
    )


def dict_view_sets(x):
    d = {"a": 1, "b": 2}
    return sorted(d.keys() - {"a"}), sorted(d.keys() | {"z"}), d.keys() == {"a", "b"}, ("a", 1) in d.items(), x + 1


def dict_loops(x):
    total = x
    for key, value in {"a": 1, "b": 2}.items():
        total = total + value * len(key)
    for value in {"a": x, "b": x}.values():
        total = total + value
    return total, {k: v * x for k, v in {"p": 1, "q": 2}.items()}


def dict_errors(x):
    def grow():
        d = {"a": 1}
        for key in d:
            d[key + "x"] = 2

    return raises(lambda: {}.popitem()), raises(lambda: {}.pop("k")), raises(lambda: dict([1])), raises(grow), x + 1


def ordered_dicts(x):
    d = collections.OrderedDict(a=x, b=2)
    d["c"] = 3
    d.move_to_end("a")
    d.move_to_end("c", last=False)
    first = d.popitem(last=False)
    return d, first, list(d), d == collections.OrderedDict(d), list(reversed(d))


def default_dicts(x):
    d = collections.defaultdict(list)
    d["a"].append(x)
    d["a"].append(1)
    d["b"]
    n = collections.defaultdict(int, z=4)
    n["k"] += 2
    return d, n, "c" in d, d.get("c"), len(n)


def counters(x):
    c = collections.Counter("abca")
    c.update("aa")
    return c["a"], c["q"], sorted(c.items()), sum(c.values()), x + c["b"]


def dict_subclasses(x):
    d = MyDict(a=x)
    d["b"] = 1
    return d["a"], d["b"], d["zz"], "zz" in d, len(d), d.get("zz"), list(d.items())


def instance_dicts(x):
    p = Plain(x)
    p.__dict__["extra"] = 3
    return p.extra, "a" in p.__dict__, vars(p)["a"] + 1, p.__dict__.get("nope", 5)


def sets(x):
    s = {1, 2}
    s.add(3)
    s.discard(9)
    s.remove(1)
    s.update([7, 8], (9,))
    u = s | {20}
    i = s & {2, 3}
    total = sum({10, 20, 30}), max({"a", "b"}), any({0, 9}), sorted({"q", "p"})
    return (
        total,
        s,
        u,
        i,
        s - {2},
        s ^ {2, 50},
        3 in s,
        len(s),
        i <= s,
        s.isdisjoint({0}),
        s.union([99]),
        frozenset(s),
        x + len(s),
    )


def set_order(x):
    out = []
    for i in {3, 1, 2}:
        out.append(x + i)
    return out, list({5, 0})


def exceptions(x):
    def several():
        raise KeyError("k", 1)

    error = OSError("gone")
    return raises(several), str(error), error.args, isinstance(error, Exception), x + 1


def set_errors(x):
    return raises(lambda: set().pop()), raises(lambda: {1}.remove(2)), raises(lambda: {[]}), x + 1


# Iterators


def zips(x):
    return (
        list(zip([1, 2, 3], "ab", strict=False)),
        [a * b for a, b in zip([x, x + 1], [2, 3], strict=True)],
        raises(lambda: list(zip([1], [1, 2], strict=True))),
        raises(lambda: list(zip([1, 2], [1], strict=True))),
        list(zip()),
        dict(zip(["a", "b"], [x, 1], strict=True)),
    )


def enumerates(x):
    return (
        [(i, v) for i, v in enumerate([x, x * 2], start=3)],
        list(enumerate("ab")),
        list(map(lambda a, b: a + b, [x, 1], [2, 3])),
    )


def filters(x):
    return list(filter(None, [0, 1, "", 2])), list(filter(lambda v: v > 1, [1, 2, 3])), list(map(str, [1, 2])), x + 1


def reverses(x):
    return list(reversed([1, x])), list(reversed((1, 2))), list(reversed("ab")), list(reversed({"a": 1, "b": 2})), x + 1


def live_iterators(x):
    a = zip([x, 1], [2, 3], strict=False)
    next(a)
    b = enumerate([5, 6, 7])
    next(b)
    c = map(operator.neg, [1, 2])
    d = reversed([1, 2, 3])
    next(d)
    e = iter({"k": 1, "m": 2})
    next(e)
    return a, b, c, d, e, x + 1


def counts(x):
    c = itertools.count(5, 2)
    cycle = itertools.cycle([1, 2])
    return next(c), next(c), [next(cycle) for _ in range(5)], list(itertools.repeat(x, 2)), list(itertools.islice(c, 3))


def chains(x):
    return (
        list(itertools.chain([x], (1, 2), "a")),
        list(itertools.chain.from_iterable([[1], [2, 3]])),
        list(itertools.islice(range(10), 2, 8, 3)),
        list(itertools.starmap(pow, [(2, 3), (3, 2)])),
        list(itertools.takewhile(lambda v: v < 3, [1, 2, 5, 1])),
        list(itertools.dropwhile(lambda v: v < 3, [1, 2, 5, 1])),
        list(itertools.filterfalse(lambda v: v % 2, range(5))),
        list(itertools.pairwise([x, 1, 2])),
        list(itertools.compress("abc", [1, 0, 1])),
    )


def combinatorics(x):
    return (
        list(itertools.product([1, 2], "ab")),
        list(itertools.product([0, 1], repeat=2)),
        list(itertools.permutations([x, 1, 2], 2)),
        list(itertools.combinations([1, 2, 3], 2)),
        list(itertools.combinations_with_replacement("ab", 2)),
        list(itertools.accumulate([x, x, x])),
        list(itertools.accumulate([1, 2, 3], operator.mul, initial=10)),
        list(itertools.zip_longest([1, 2], [x], fillvalue=0)),
    )


def tees(x):
    a, b = itertools.tee([x, 1])
    return next(a), list(b), list(a), [(k, list(g)) for k, g in itertools.groupby([1, 1, 2, 1])]


PROGRAMS = [
    lists, list_edits, list_errors, tuples, named_tuples, deques, bounded_deques, list_subclasses, dicts,
    dict_views, dict_view_sets, dict_loops, dict_errors, ordered_dicts, default_dicts, counters, dict_subclasses,
    instance_dicts, sets, set_order, exceptions, set_errors, zips, enumerates, filters, reverses, live_iterators,
    counts, chains, combinatorics, tees,
]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_same(program: Callable[..., Any]) -> None:
    assert_compiles_whole(program)


def outside_containers(x, items, table, numbers, queue, partial):
    items.append(x)
    items[0] = table["a"]
    table["new"] = len(items)
    table.pop("b", None)
    numbers.add(4)
    queue.appendleft(numbers and 1)
    return partial(x), list(table), 4 in numbers, sorted(numbers), queue[0]


def test_effects_on_arguments() -> None:
    def arguments() -> list[Any]:
        return [[1, 2], {"a": 5, "b": 6}, {1, 2}, collections.deque([0], maxlen=2), functools.partial(operator.mul, 3)]

    compiled = api.compile(outside_containers, backend="eager", fullgraph=True)
    for _ in range(2):
        plain, traced = arguments(), arguments()
        assert_same(outside_containers(X, *plain), compiled(X, *traced))
        assert_same(plain[:4], traced[:4])


def breaking_loop(x):
    total = x
    for i, (a, b) in enumerate(zip([1, 2, 3], reversed([x, x + 1, x + 2]), strict=True)):
        aotdyn.graph_break()
        total = total + a * b * i
    return total


def breaking_itertools(x):
    out = []
    for a, b in itertools.islice(itertools.pairwise(itertools.chain([x], range(5))), 1, 4):
        aotdyn.graph_break()
        out.append(a + b)
    for value in itertools.accumulate([x, 1, 2]):
        aotdyn.graph_break()
        out.append(value)
    return out


def breaking_dict_loop(x):
    out = []
    for key, value in {"a": x, "b": 2}.items():
        aotdyn.graph_break()
        out.append((key, value))
    for value in map(lambda v: v * 2, filter(None, [0, 1, 2])):
        aotdyn.graph_break()
        out.append(x + value)
    return out


@pytest.mark.parametrize("program", [breaking_loop, breaking_itertools, breaking_dict_loop], ids=lambda f: f.__name__)
def test_iterators_across_breaks(program: Callable[..., Any]) -> None:
    compiled = api.compile(program, backend="eager")
    for _ in range(2):
        assert_same(program(X.clone()), compiled(X.clone()))
