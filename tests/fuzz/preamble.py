"""The module around a generated program: classes, functions and globals that its statements use.

Templates stand in it too (see `grammar`): no two programs have the same helpers.
"""

from __future__ import annotations

HEADER = """
import collections, contextlib, copy, dataclasses, enum, functools, itertools, math, operator, sys
from typing import NamedTuple

import torch
import aotdyn
from differential import Turns, program

LOG = []
COUNT = 0
TABLE = {"a": 1}
COUNTS = collections.defaultdict(int)


class Own(Exception):
    def __init__(self, code, text):
        super().__init__(code, text)
        self.code = code


class Pair(NamedTuple):
    a: object
    b: int = 2


class Color(enum.Enum):
    RED = 1
    GREEN = 2
    BLUE = 3


class Level(enum.IntFlag):
    LOW = 1
    HIGH = 2


class Vec:
    def __init__(self, x):
        self.x = x

    def __add__(self, other):
        return Vec(self.x + other.x) if isinstance(other, Vec) else NotImplemented

    def __rmul__(self, other):
        return Vec(other * self.x)

    def __eq__(self, other):
        return Vec(True) if isinstance(other, Vec) and self.x is other.x else NotImplemented

    def __bool__(self):
        return self.x != 0

    def __format__(self, spec):
        return f"<{self.x:{spec}}>"


class Bounded:
    def __set_name__(self, owner, name):
        self.name = "_" + name

    def __get__(self, instance, owner):
        return self if instance is None else getattr(instance, self.name, 0)

    def __set__(self, instance, value):
        LOG.append(self.name)
        setattr(instance, self.name, min(value, 5))


class Gauge:
    amount = Bounded()
    level = Bounded()

    def __setattr__(self, name, value):
        object.__setattr__(self, name, value)


gauge = Gauge()
MODULE = sys.modules[__name__]


class Manager:
    def __init__(self, swallow):
        self.swallow = swallow

    def __enter__(self):
        LOG.append("enter")
        return self

    def __exit__(self, cls, value, tb):
        LOG.append(cls and cls.__name__)
        return self.swallow and cls is ValueError


@contextlib.contextmanager
def managed(value):
    LOG.append("begin")
    try:
        yield value
    except KeyError as error:
        LOG.append(repr(error))
    finally:
        LOG.append("end")


class Box:
    made = 0
    level = 1

    def __init__(self, value):
        self.value = value
        self.count = 0
        self.items = []

    @classmethod
    def make(cls, value):
        cls.made += 1
        return cls(value)

    @property
    def doubled(self):
        return self.value * 2

    @doubled.setter
    def doubled(self, value):
        self.count += 1
        self.value = value * 2

    def put(self, value):
        self.value, old = value, self.value
        return old

    @functools.cached_property
    def cached(self):
        LOG.append("cached")
        return self.count + 1

    def same(self):
        return self

    def apply(self, a):
        <method tensor=a int=self.count list=self.items val=self.value>
        return a * self.level + <small>

    def __call__(self, a):
        self.count += 1
        return a + self.count

    def __add__(self, other):
        return type(self)(self.value + other) if type(self) is Box else Box(self.value + other)

    def __iadd__(self, other):
        self.items.append(other)
        return self

    def __len__(self):
        return len(self.items) + <small>

    def __contains__(self, n):
        return n == self.count or n in (1, 2)

    def __iter__(self):
        yield self.count
        yield from self.items[:3]

    def __getitem__(self, i):
        return self.items[i]

    def __setitem__(self, i, value):
        self.items[i:i + 1] = [value]

    def __eq__(self, other):
        return isinstance(other, Box) and self.count == other.count

    def __lt__(self, other):
        return self.count < other.count

    def __hash__(self):
        return self.count

    def __repr__(self):
        return f"{type(self).__name__}({self.count})"


class Sub(Box):
    level = 2

    def __init__(self, value, extra):
        super().__init__(value)
        self.extra = extra

    def apply(self, a):
        <method tensor=a int=self.extra list=self.items>
        return super().apply(a) - self.extra

    def __getattr__(self, name):
        if name == "missing":
            return self.count + 1
        raise AttributeError(name)


@dataclasses.dataclass
class Data:
    x: int
    items: list = dataclasses.field(default_factory=list)
    total: int = dataclasses.field(init=False)

    def __post_init__(self):
        self.total = self.x + len(self.items)

    def box(self):
        return Box(self.items[0] if self.items else self.x)


@dataclasses.dataclass(frozen=True, order=True)
class Frozen:
    x: int
    y: int = 1

    def sum(self):
        return self.x + self.y


class Slotted:
    __slots__ = ("value",)

    def __init__(self, value):
        self.value = value

    @property
    def twice(self):
        return self.value * 2


class Countdown:
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        return self

    def __next__(self):
        if self.n <= 0:
            raise StopIteration
        self.n -= 1
        return self.n


class Swap:
    def __init__(self, box, value):
        self.box, self.value = box, value

    def __enter__(self):
        self.old = self.box.put(self.value)
        return self.box

    def __exit__(self, *error):
        self.box.put(self.old)


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(2, 3))
        self.register_buffer("seen", torch.zeros(2, 3))
        self.count = 0

    def forward(self, a):
        <method tensor=a int=self.count>
        self.seen.add_(1)
        return a * self.weight.detach() + self.seen

    @staticmethod
    def shared(a):
        return a.abs() + <small>


layer = Layer()


def helper(a, n=<small>):
    <method tensor=a int=n list=LOG dict=TABLE>
    return a * 2 + n


def double(a):
    return a * 2


def scaled(k):
    def by(a):
        return a * k
    return by


def compose(f, g):
    return lambda a: f(g(a))


def logged(f):
    @functools.wraps(f)
    def call(*args, **kwargs):
        LOG.append(f.__name__)
        return f(*args, **kwargs)
    return call


def recurse(a, n):
    if n <= 0:
        return a
    return recurse(a + n, n - 1) * 0.5


@functools.lru_cache
def memoised(n):
    return n * 2


def counter():
    n = 0

    def tick():
        nonlocal n
        n += 1
        return n
    return tick


def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)


def count_to(n):
    i = 0
    while i < n:
        yield i
        i += 1


def delegating(values):
    last = yield from values
    LOG.append(last)


def echo(values):
    total = 0
    for value in values:
        total += value
    return total


def written(a):
    a.add_(1)
    return a


def spill(a, b):
    a[0] = 1
    LOG.append(len(LOG))
    b.add_(1)
    return a


@functools.singledispatch
def chosen(value):
    return 1


@chosen.register(int)
def _(value):
    return value + 1


@chosen.register(torch.Tensor)
def _(value):
    return value * 2


def spread(a, *rest, k, **named):
    return a * k + len(rest) + sum(named.values())


def total(*values):
    return sum(values)


def steps(n):
    try:
        for i in range(n):
            yield i
    finally:
        LOG.append("steps")


def raise_if(yes):
    if yes:
        raise KeyError("raised")


def caught(f):
    try:
        return f()
    except (LookupError, TypeError, ValueError, StopIteration) as error:
        return type(error).__name__


def noisy(value):
    print("noisy", type(value).__name__)
    return value


def bump(n):
    global COUNT
    COUNT += n


def remember(value, kept):
    kept.append(value)
    LOG.append(len(kept))


"""

ARGUMENTS = (
    "(torch.arange(6.0).reshape(2, 3) - 2, torch.ones(2, 3), 1, [1, 2], {'a': 3}, Box(2))",
    "(torch.arange(6.0).reshape(2, 3) - 2, torch.ones(2, 3), 1, [1, 2], {'a': 3}, Box(2))",
    "(torch.arange(6.0).reshape(2, 3) * 0.5, -torch.ones(2, 3), 1, [1, 2], {'a': 3}, Box(2))",
    "(torch.arange(6.0).reshape(2, 3) - 2, torch.ones(2, 3), 2, [1, 2], {'a': 3}, Box(2))",
    "(torch.arange(6.0).reshape(2, 3) - 2, torch.ones(2, 3), 1, [3], {'b': 3}, Sub(1, 2))",
    "(torch.arange(6.0).reshape(2, 3) - 2, torch.ones(2, 3, dtype=torch.float64), 0, [1, 2], {'a': 3}, Box(2))",
    "(torch.arange(6.0).reshape(3, 2).t() - 2, torch.ones(1, 3).expand(2, 3).clone(), 1, [], {}, Box(None))",
    "(lambda a: (a, a, 1, [a, 2], {'a': a}, Box(a)))(torch.ones(2, 3))",
    "(lambda a: (a[:2], a[:2], 1, [a], {'a': 3}, Box(2)))(torch.arange(9.0).reshape(3, 3))",
)

MAIN = """
@program(Turns(
<arguments>,
), calls=<calls>, graphs=False, durable=<durable>)
def generated(t0, t1, n0, l0, d0, b0):
    global COUNT
    n1, f0, s0, l1, u0, q0, p0 = 2, 0.5, 'ab', l0, {1, 2}, collections.deque([1, 2, 3], 4), (1, t0)
    d1, b1, g0, x0, w, it, ticks = {'a': t0, 'b': n0}, Sub(t1, 1), double, t0, None, iter(l1), count_to(2)
    <tensor!> = <tensor.> + <tensor>
    <block main>
    return t0, t1, n0, n1, f0, s0, l0, l1, d0, d1, u0, q0, p0, b0, b1, g0, COUNT
"""

NAMES = {
    "tensor": ["t0", "t1"],
    "int": ["n0", "n1", "COUNT"],
    "float": ["f0"],
    "str": ["s0"],
    "list": ["l0", "l1"],
    "dict": ["d0", "d1"],
    "set": ["u0"],
    "deque": ["q0"],
    "tuple": ["p0"],
    "obj": ["b0", "b1"],
    "fn": ["g0"],
    "val": ["x0"],
}
"""The names in the generated function, by kind."""

NONLOCAL = "nonlocal t0, t1, n0, n1, f0, s0, l0, l1, d0, d1, u0, q0, p0, b0, b1, g0, x0, w, it, ticks"
