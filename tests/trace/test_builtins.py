"""Builtins, containers, iterators, the C standard library: each program plainly and compiled whole gives the same."""

# ruff: noqa: B009, B010, B018, C405, C408, C416, C417, RUF016, RUF017, RUF057, SIM905
# ruff: noqa: UP003, UP008, UP018, UP030, UP031, UP032
# (the long ways of writing are what is tested)

from __future__ import annotations

import bisect
import collections
import dataclasses
import enum
import functools
import heapq
import itertools
import math
import operator
import re
import types
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch

import aotdyn

api = pytest.importorskip("aotdyn.api")

X = torch.arange(6.0).reshape(2, 3)


def assert_same(a: Any, b: Any) -> None:
    """Equal in type, structure and value; tensors exactly."""
    if isinstance(a, type(itertools.count())) or hasattr(a, "__next__"):
        assert type(a) is type(b)
        a, b = list(a), list(b)
    assert type(a) is type(b), (a, b)
    if isinstance(a, torch.Tensor):
        torch.testing.assert_close(a, b, rtol=0, atol=0)
    elif isinstance(a, (list, tuple, collections.deque)):
        assert len(a) == len(b), (a, b)
        for x, y in zip(a, b, strict=True):
            assert_same(x, y)
    elif isinstance(a, dict):
        assert list(a) == list(b)
        for key in a:
            assert_same(a[key], b[key])
    else:
        assert a == b or (a != a and b != b), (a, b)


def raises(f: Callable[[], Any]) -> tuple[type, str]:
    """The class and message of what `f` raises (traced into, too)."""
    try:
        f()
    except Exception as error:
        return type(error), str(error)
    return type(None), ""


class Color(enum.Enum):
    RED = 1
    BLUE = 2


class Perm(enum.Flag):
    R = 1
    W = 2


class Point(NamedTuple):
    x: Any
    y: Any


@dataclasses.dataclass(frozen=True)
class Frozen:
    a: Any
    b: int = 2


@dataclasses.dataclass
class Plain:
    a: Any
    items: list = dataclasses.field(default_factory=list)


class Number:
    def __init__(self, value: int) -> None:
        self.value = value

    def __int__(self) -> int:
        return self.value

    def __float__(self) -> float:
        return float(self.value)

    def __index__(self) -> int:
        return self.value

    def __abs__(self) -> Number:
        return Number(abs(self.value))

    def __round__(self, digits: int = 0) -> int:
        return self.value + digits

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Number) and self.value == other.value

    def __lt__(self, other: Number) -> bool:
        return self.value < other.value

    def __hash__(self) -> int:
        return self.value

    def __str__(self) -> str:
        return f"N{self.value}"

    def __repr__(self) -> str:
        return f"Number({self.value})"

    def __len__(self) -> int:
        return self.value

    def __call__(self) -> int:
        self.value += 1
        return self.value


class Base:
    def __init__(self, scale: float) -> None:
        self.scale = scale

    def run(self, x: Any) -> Any:
        return x * self.scale

    @classmethod
    def make(cls, x: float) -> Base:
        return cls(x)


class Child(Base):
    def __init__(self, scale: float) -> None:
        super().__init__(scale + 1)

    def run(self, x: Any) -> Any:
        return super().run(x) + super(Child, self).run(x)

    @classmethod
    def make(cls, x: float) -> Base:
        return super().make(x * 2)

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)


class MyList(list):
    def total(self) -> Any:
        return sum(self)

    def append(self, item: Any) -> None:
        super().append(item * 2)


class MyDict(dict):
    def __missing__(self, key: Any) -> Any:
        return key * 2


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
    characters, conversions_that_raise, lists, list_edits, list_errors, tuples, named_tuples, deques, bounded_deques,
    list_subclasses, dicts, dict_views, dict_view_sets, dict_loops, dict_errors, ordered_dicts, default_dicts, counters,
    dict_subclasses, instance_dicts, sets, set_order, exceptions, set_errors, strings, formatted,
    bytes_and_ints, maths, regular_expressions,
    operators, zips, enumerates, filters, reverses, live_iterators, counts, chains, combinatorics, tees, partials,
    reducing, heaps, enums, enum_errors, classes, frozen, namespaces, bound_methods,
]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_same(program: Callable[..., Any]) -> None:
    compiled = api.compile(program, backend="eager", fullgraph=True)
    expected = program(X.clone())
    assert_same(expected, compiled(X.clone()))
    assert_same(program(X.clone()), compiled(X.clone()))


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
