"""Builtin functions, text, numbers, the C standard library: each program plainly and compiled whole gives the same."""

# ruff: noqa: B009, B010, C405, C408, RUF016, RUF017, RUF057, SIM905
# ruff: noqa: UP003, UP018, UP030, UP031, UP032
# (the long ways of writing are what is tested)

from __future__ import annotations

import bisect
import dataclasses
import functools
import heapq
import math
import operator
import re
import types
from collections.abc import Callable
from typing import Any

import pytest
import torch

from .builtin_objects import Child, Color, Frozen, Number, Perm, Plain, assert_compiles_whole, raises

# Builtin functions


def looks(x):
    return len(x), len([x, x]), isinstance(x, torch.Tensor), isinstance(3, (int, str)), issubclass(bool, int), x + 1


def unions(x):
    return isinstance(3, int | str), isinstance(x, int | None), isinstance([], list | tuple), x * 2


def attributes(x):
    p = Plain(x)
    setattr(p, "b", 3)
    has = hasattr(p, "b"), hasattr(p, "zzz"), getattr(p, "zzz", 7), getattr(p, "b")
    del p.b
    delattr(p, "items")
    return has, hasattr(p, "b"), hasattr(p, "items"), p.a + 1


def kinds(x):
    return type(x) is torch.Tensor, type(3) is int, callable(len), callable(3), callable(Number(1)), x + 1


def texts(x):
    return (
        repr(3.5),
        repr("a"),
        str(None),
        repr([1, "b"]),
        f"{3:>4}",
        format(2.5, ".2f"),
        str(Number(3)),
        f"{Number(4)!r}",
        x,
    )


def texts_of_errors(x):
    return (
        str(ValueError("a")),
        repr(KeyError("k")),
        str(KeyError("k")),
        str(ValueError(1, 2)),
        str(ValueError()),
        x + 1,
    )


def iterating(x):
    it = iter([1, 2])
    counter = Number(0)
    return next(it), next(it), next(it, "end"), list(iter(counter, 4)), raises(lambda: next(iter([]))), x + 1


def anyall(x):
    return all([1, 2, 0]), any([0, "", 3]), all([]), any([]), all(v > 0 for v in [1, 2]), x + 1


def sums(x):
    return sum([x, x + 1]), sum([1, 2, 3]), sum([1.5], 2), sum([[1], [2]], []), raises(lambda: sum(["a"], ""))


def extremes(x):
    words = ["pear", "fig", "apple"]
    return (
        max(3, 1),
        min([4, 2]),
        max(words, key=len),
        min(words, key=lambda w: w[-1]),
        max([], default=None),
        raises(lambda: max([])),
        max(x.shape),
        x + 1,
    )


def arithmetic(x):
    return abs(-3), abs(x - 2), round(2.5), round(2.567, 2), divmod(7, 3), pow(2, 5), pow(2, 5, 7), pow(x, 2), round(7)


def arithmetic_of_objects(x):
    n = Number(-4)
    return (
        abs(n).value,
        round(n),
        int(n),
        float(n),
        [1, 2, 3][Number(1)],
        list(range(Number(2))),
        x + int(n),
    )


def divmod_tensor(x):
    return raises(lambda: divmod(x, 2)), x // 2


def sorting(x):
    pairs = [("b", x), ("a", x + 1), ("b", x + 2)]
    by = sorted(pairs, key=lambda p: p[0])
    down = sorted(pairs, key=operator.itemgetter(0), reverse=True)
    return (
        by,
        down,
        sorted([3, 1, 2]),
        sorted("hello"),
        [n.value for n in sorted([Number(3), Number(1)])],
        sorted({3, 1, 2}),
    )


def sorting_by_compare(x):
    return sorted([3, 1, 2], key=functools.cmp_to_key(lambda a, b: b - a)), x + 1


def ranges(x):
    r = range(2, 10, 3)
    return (
        list(r),
        len(r),
        5 in r,
        r[1],
        list(reversed(r)),
        r.index(5),
        r == range(2, 11, 3),
        raises(lambda: range(1, 2, 0)),
        x + len(r),
    )


def slices(x):
    s = slice(0, 2)
    return [1, 2, 3][s], s.start, x[:, s], slice(3) == slice(None, 3), x[0, slice(None, None, 2)]


def conversions(x):
    return (
        bool([]),
        int("12"),
        int("ff", 16),
        int(3.9),
        float("1.5"),
        float(2),
        complex(1, 2),
        str(12),
        bytes(3),
        int(),
        x + int("3"),
    )


def constructors(x):
    a = [x, 1]
    t = (x, 2)
    return (
        list(t),
        tuple(a),
        tuple(t) is t,
        dict([("a", x)], b=2),
        dict(a=1),
        list("ab"),
        set([1, 1, 2]),
        frozenset([3]),
        dict(),
    )


def characters(x):
    return chr(97), ord("b"), bin(5), hex(255), oct(8), ascii("é"), hash(3), hash((1, 2)), x + ord("a")


def conversions_that_raise(x):
    return (
        raises(lambda: int("x")),
        raises(lambda: float(None)),
        raises(lambda: len(3)),
        raises(lambda: [1, 2]["a"]),
        raises(lambda: [1][5]),
        raises(lambda: {}["k"]),
        raises(lambda: abs("a")),
        raises(lambda: iter(3)),
        raises(lambda: hash([])),
        raises(lambda: {[]: 1}),
        raises(lambda: isinstance(3, 4)),
        x + 1,
    )


# Text, numbers, math, re, operator


def strings(x):
    return (
        ",".join(["a", "b"]),
        "-".join(str(i) for i in range(3)),
        "a b".split(),
        "Hi".upper(),
        "x{}y{k}".format(1, k=2),
        "{0!r:>5}".format("q"),
        "%s=%d" % ("a", 3),
        "abc".replace("b", "z"),
        "abc".find("c"),
        "a.b.c".rpartition("."),
        "  s ".strip(),
        "abc".startswith(("a", "x")),
        "ab" in "cab",
        "ab" * 2,
        "abc"[::-1],
        "a" < "b",
        raises(lambda: ",".join([1])),
        x + len("abc"),
    )


def formatted(x):
    return "{} {:>6.2f} {name}".format(Number(2), 1.5, name=Number(3)), f"{Number(1)}|{x.dim()}|{x.dtype}", x + 1


def bytes_and_ints(x):
    return (
        b"ab".hex(),
        b"a" + b"b",
        (5).bit_length(),
        (3.0).is_integer(),
        int.from_bytes(b"\x01\x02", "big"),
        (6).to_bytes(2, "big"),
        x,
    )


def maths(x):
    return (
        math.sqrt(16),
        math.floor(2.7),
        math.ceil(2.1),
        math.pi,
        math.prod([1, 2, 3]),
        math.gcd(4, 6),
        math.isclose(1, 1 + 1e-12),
        math.log(8, 2),
        math.isnan(math.nan),
        raises(lambda: math.sqrt(-1)),
        x * math.sqrt(x.shape[-1]),
        math.prod([x, x]),
    )


def regular_expressions(x):
    m = re.match(r"(\w+)-(\d+)", "ab-12")
    return (
        m.group(1),
        int(m.group(2)) + x,
        re.sub("a", "b", "banana"),
        re.compile("n+").findall("anna"),
        re.split(",", "a,b"),
    )


def operators(x):
    return (
        operator.add(x, 1),
        operator.mul(2, 3),
        operator.getitem([1, 2], 1),
        operator.itemgetter(1, 0)([x, 4]),
        operator.attrgetter("a.b")(Plain(Frozen(x))) if False else operator.attrgetter("a")(Plain(3)),
        operator.methodcaller("split", ",")("a,b"),
        operator.contains([1], 1),
        operator.not_(0),
        operator.truth([]),
        operator.is_(None, None),
        operator.neg(x),
        operator.lt(1, 2),
        operator.index(Number(3)),
        operator.concat([1], [2]),
        functools.reduce(operator.add, [x, x, x]),
    )


# functools, heapq, bisect, enum, dataclasses, classes


def partials(x):
    p = functools.partial(operator.add, x)
    q = functools.partial(p, 2)
    r = functools.partial(dict, a=1)
    return p(1), q(), r(b=x), q.func is operator.add, r.keywords, q.args[1]


def reducing(x):
    return (
        functools.reduce(lambda a, b: a * b, [x, 2, 3]),
        functools.reduce(max, [3, 9, 2], 1),
        raises(lambda: functools.reduce(max, [])),
    )


def heaps(x):
    h = [5, 3, 8, 1]
    heapq.heapify(h)
    heapq.heappush(h, 2)
    out = [heapq.heappop(h) for _ in range(3)]
    s = [1, 3, 5]
    bisect.insort(s, 4)
    return h, out, s, bisect.bisect_left(s, 3), bisect.bisect(s, 3), x + 1


def enums(x):
    return (
        Color(2),
        Color["RED"],
        Color.RED is Color(1),
        Color.RED.value,
        Color.BLUE.name,
        len(Color),
        (Perm.R | Perm.W).value,
        list(Color),
        x,
    )


def enum_errors(x):
    return raises(lambda: Color(9)), x + 1


def classes(x):
    c = Child(2.0)
    d = Child.make(1.0)
    return c.run(x), d.scale, isinstance(d, Child), type(c).__name__, c.scale


def frozen(x):
    f = Frozen(x)
    g = dataclasses.replace(f, b=5)
    return f.b, g.a + g.b, raises(lambda: setattr(f, "b", 1))[0].__name__, [n.name for n in dataclasses.fields(Plain)]


def namespaces(x):
    n = types.SimpleNamespace(a=x, b=1)
    n.c = n.a + n.b
    return n.c


def bound_methods(x):
    append = [].append
    append(x)
    f = types.MethodType(lambda self, k: self.value * k, Number(3))
    return append.__self__, f(2), str.upper("a"), list.__len__([1]), dict.get({"a": x}, "a")


PROGRAMS = [
    looks, unions, attributes, kinds, texts, texts_of_errors, iterating, anyall, sums, extremes, arithmetic,
    arithmetic_of_objects, divmod_tensor, sorting, sorting_by_compare, ranges, slices, conversions, constructors,
    characters, conversions_that_raise, strings, formatted, bytes_and_ints, maths, regular_expressions, operators,
    partials, reducing, heaps, enums, enum_errors, classes, frozen, namespaces, bound_methods,
]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_same(program: Callable[..., Any]) -> None:
    assert_compiles_whole(program)
