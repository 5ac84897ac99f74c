"""Corners: what goes on around breaks in places where it is easily lost."""

# ruff: noqa: C408, PIE804, UP033
# (what is written the long way is what is tested)

import collections
import contextlib
import copy
import dataclasses
import functools
import itertools
import operator
import types
import weakref

import torch
from differential import loud as print
from differential import program


def noisy(value):
    print("noisy", type(value).__name__)
    return value


# -- Stack values across breaks ---------------------------------------------------------------------------------------


@program()
def deep_stack(x):
    return [x, (x + 1, {"k": [x * 2, noisy(1), {noisy(2)}]}, x[noisy(0)]), noisy("s") + "t", x.sum() + noisy(3)]


@program()
def method_on_the_stack(x):
    return x.add(noisy(1)).mul(noisy(2)).reshape(-1, noisy(1))


@program()
def keyword_names_on_the_stack(x):
    return dict(a=x, b=noisy(1), c=x + noisy(2)), torch.sum(x, dim=noisy(0), keepdim=bool(noisy(1)))


@program()
def conditional_on_the_stack(x):
    return [x, x + 1 if noisy(1) else 2, noisy(0) or x, noisy(0) and x, not noisy(x.sum()) > 0]


@program()
def loop_inside_an_expression(x):
    return x + sum([noisy(i) for i in range(2)]) + max(noisy(i) for i in (1, 2))


@program(durable=False)
def super_in_a_with_in_a_loop(x):
    class A:
        def f(self, y):
            print("A.f")
            return y + 1

    class B(A):
        def f(self, y):
            for _ in range(2):
                with contextlib.nullcontext():
                    y = super().f(y) * 2
            return y

    return B().f(x)


@program()
def iterator_on_the_stack_below_a_call(x):
    found = []
    for a in [1, 2]:
        for b, c in zip([3, 4], iter([5, 6])):
            found.append([a, b, noisy(c), x + a])
    return found


@program()
def interleaved_iterators(x):
    a = iter([1, 2, 3, 4])
    b = map(operator.add, a, [10, 20])
    found = [next(b)]
    print("first")
    found.append(next(a))
    found += list(b)
    print("rest")
    return found, list(a), x + found[0]


@program()
def iterators_of_all_kinds_kept(x):
    made = [
        enumerate([1, 2, 3]),
        zip([1, 2], "ab"),
        map(str, [1, 2]),
        filter(None, [0, 1, 2]),
        reversed([1, 2, 3]),
        itertools.chain([1], [2]),
        itertools.islice(range(9), 1, 8, 2),
        itertools.repeat(x, 3),
        itertools.accumulate([1, 2, 3]),
        itertools.pairwise([1, 2, 3]),
        itertools.starmap(pow, [(2, 3), (3, 2)]),
        itertools.zip_longest([1, 2], [3]),
        itertools.combinations([1, 2, 3], 2),
        iter({"a": 1, "b": 2}.items()),
        iter(range(3)),
        iter("abc"),
        iter((1, 2)),
        itertools.groupby([1, 1, 2]),
        itertools.takewhile(bool, [1, 0, 1]),
        itertools.dropwhile(bool, [1, 0, 1]),
        itertools.compress([1, 2, 3], [1, 0, 1]),
        itertools.count(5, 2),
        itertools.cycle([1, 2]),
    ]
    firsts = [next(each) for each in made[:17]]
    print("firsts")
    seconds = [next(each, "end") for each in made[:17]]
    return [repr(each) for each in firsts if not isinstance(each, torch.Tensor)], seconds, x + 1


# -- Functions --------------------------------------------------------------------------------------------------------


def with_everything(a, b=1, /, c=2, *args, d, e=5, **kwargs):
    print("called", sorted(kwargs))
    return a * b + c + sum(args) + d + e


@program()
def argument_kinds(x):
    y = with_everything(x, d=4)
    y = with_everything(y, 2, 3, 4, 5, d=6, f=7)
    y = with_everything(*[y, 1], **{"d": 2, "c": 3})
    try:
        with_everything(x)
    except TypeError as error:
        return y, str(error)


@program()
def functions_made_and_changed(x):
    def f(y, k=1, *, m=2):
        "Docs."
        return y * k + m

    f.tag = noisy("tag")
    g = types.FunctionType(f.__code__, f.__globals__, "g", (5,))
    print(f.__name__, f.__defaults__, f.__kwdefaults__, f.__doc__)
    f.__kwdefaults__ = {"m": 10}
    return f(x), f, f.tag, g.__name__


@program()
def closures_over_loop_variables(x):
    made = [lambda y: y + i for i in range(3)]
    print("made")
    return [f(x) for f in made]


@program(graphs=False)
def closure_cell_shared_with_a_generator(x):
    n = 0

    def count():
        nonlocal n
        while n < 3:
            n += 1
            yield x + n

    g = count()
    first = next(g)
    print(n)
    n = 1
    return first, list(g), n


@program()
def recursive_closure(x):
    def fact(n):
        print("fact", n)
        return x if n == 0 else fact(n - 1) * n

    return fact(3), fact


@program()
def caches(x):
    @functools.lru_cache(maxsize=None)
    def cached(n):
        print("computed", n)
        return n * 2

    y = x + cached(2) + cached(2)
    print(cached.cache_info().currsize)
    return y * cached(3)


@program()
def single_dispatch(x):
    @functools.singledispatch
    def show(value):
        print("any")
        return x

    @show.register
    def _(value: int):
        print("int")
        return x + value

    return show("a") + show(2)


@program()
def operators_as_functions(x):
    get, call = operator.itemgetter(1), operator.methodcaller("add", 2)
    print(get)
    y = call(x) * 2
    return get([1, y]), operator.attrgetter("shape")(y), functools.partialmethod


@program(graphs=False)
def copies(x):
    found = {"a": [x, {"b": 1}]}
    shallow = copy.copy(found)
    print("copied")
    deep = copy.deepcopy(found)
    deep["a"][1]["b"] = 2
    return found, shallow, deep, shallow["a"] is found["a"]


@program()
def weak_references(x):
    class Thing:
        pass

    thing = Thing()
    ref = weakref.ref(thing)
    y = x + 1
    print(ref() is thing)
    thing.y = y
    return ref().y * 2


@program()
def lifetimes(x):
    class Dies:
        def __init__(self, name):
            self.name = name

        def __del__(self):
            print("dies", self.name)

    a = Dies("a")
    y = x + 1
    print("before")
    del a
    print("after")
    b = Dies("b")
    b = None
    print("end")
    return y * 2, b


@program()
def conditional_expressions_in_defaults(x):
    pairs = collections.OrderedDict()
    for key in "abc":
        pairs.setdefault(key, []).append(noisy(key))
        pairs.move_to_end("a")
    return list(pairs.items()), x + len(pairs)


@dataclasses.dataclass(order=True)
class Job:
    priority: int
    name: str = dataclasses.field(compare=False, default="job")
    parts: list = dataclasses.field(default_factory=list, repr=False, compare=False)

    def __post_init__(self):
        print("post", self.name)
        self.parts.append(self.priority)


@program()
def data_class_features(x):
    jobs = [Job(3), Job(1, "first"), Job(2)]
    jobs.sort()
    y = x + jobs[0].priority
    print([repr(job) for job in jobs])
    return y, jobs, dataclasses.asdict(jobs[0]), Job(1) < Job(2), dataclasses.astuple(jobs[1])
