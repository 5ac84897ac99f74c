"""Breaks in inlined callees, methods, properties, operators, closures and generators."""

# ruff: noqa: B008, B018, F821
# (what is written the long way is what is tested)

import collections.abc
import functools

import torch
from differential import loud as print
from differential import program

COUNT = 0
TABLE = {"calls": 0}


def noisy(value):
    print("noisy", type(value).__name__)
    return value


def one(x, k=1):
    y = x + k
    print("one", k)
    return y * 2


def two(x, k=1):
    y = one(x * 2, k) + 1
    z = one(y)
    return y + z


def three(x):
    found = [two(x, k) for k in (1, 2)]
    return sum(found) + two(found[0], k=3)


@program()
def one_deep(x):
    return one(x + 1) * 3


@program()
def two_deep(x):
    return two(x + 1) * 3 + one(x)


@program()
def three_deep(x):
    y = three(x)
    return y - three(x + 1)


@program()
def callee_in_a_loop(x):
    for i in range(3):
        x = one(x, i) + 1
    return x


@program()
def callee_with_a_loop(x):
    def inner(y, n):
        for i in range(n):
            y = y + i
            print(i)
        return y * 2

    return inner(x, 3) + inner(x, 2)


@program()
def recursion(x):
    def down(y, n):
        if not n:
            print("bottom")
            return y + 1
        z = down(y * 2, n - 1)
        print("up", n)
        return z + n

    return down(x, 3) * 2


@program()
def callee_by_keyword_and_star(x):
    args, kwargs = (x,), {"k": 4}
    return one(*args, **kwargs) + one(k=2, x=x) + two(*args, k=noisy(3))


@program()
def callee_with_defaults(x):
    def inner(y, scale=noisy(2), *, shift=x.sum()):
        print("inner")
        return y * scale + shift

    return inner(x), inner(x, 3), inner(x, shift=0), inner


# -- Closures ---------------------------------------------------------------------------------------------------------


@program()
def nonlocal_written(x):
    total = 0

    def add(n):
        nonlocal total
        total += n
        print("add", n)
        total = total + x.sum()
        return total

    a = add(1)
    print(total)
    b = add(2)
    return a, b, total


@program()
def nonlocal_in_a_loop(x):
    seen = []
    count = 0

    def step():
        nonlocal count, x
        count += 1
        x = x + count
        print(count)
        seen.append(x)

    for _ in range(3):
        step()
    return count, x, seen


@program()
def closure_returned(x):
    y = x + 1
    n = 0

    def inner(z):
        nonlocal n
        n += 1
        return y + z + n

    print("made")
    a = inner(1)
    n = 10
    return inner, a, inner(2), n


@program()
def closures_share_a_cell(x):
    value = x

    def get():
        return value

    def put(new):
        nonlocal value
        print("put")
        value = new

    put(value + 1)
    first = get()
    put(first * 2)
    return get(), first, get, put


@program()
def closures_made_in_a_loop(x):
    made = []
    for i in range(3):
        made.append(lambda y, k=i: y + k + i)
        print(i)
    return [f(x) for f in made]


@program()
def argument_is_a_cell(x):
    def inner():
        return x + 1

    x = x * 2
    print("changed")
    a = inner()
    x = a
    return inner(), x


@program()
def cell_emptied(x):
    y = x + 1

    def inner():
        return y

    print("before")
    a = inner()
    del y
    try:
        inner()
    except NameError as error:
        print(error)
        return a, str(error)


@program()
def decorated(x):
    def twice(f):
        @functools.wraps(f)
        def wrapped(*args, **kwargs):
            print("wrapped", f.__name__)
            return f(*args, **kwargs) * 2

        return wrapped

    @twice
    @twice
    def inner(y):
        "Doc."
        return y + 1

    return inner(x), inner.__name__, inner.__doc__, inner.__wrapped__.__wrapped__(x)


@program()
def partials(x):
    f = functools.partial(one, k=3)
    print("made")
    g = functools.partial(two, x + 1)
    return f(x), f(x, k=4), g(), f, g


@program()
def reduce_and_sorted(x):
    def add(a, b):
        print("add")
        return a + b

    total = functools.reduce(add, [x, x + 1, x + 2])
    order = sorted([3, 1, 2], key=lambda v: noisy(-v))
    return total, order, max([1, 5, 3], key=noisy), list(map(noisy, [x]))


# -- Methods, properties, operators -----------------------------------------------------------------------------------


class Base:
    kind = "base"

    def __init__(self, scale):
        self.scale = scale
        self.seen = []

    def run(self, x):
        self.seen.append(len(self.seen))
        print("run", self.kind)
        return x * self.scale

    @property
    def shifted(self):
        print("property")
        return self.scale + 1

    @shifted.setter
    def shifted(self, value):
        print("setter")
        self.scale = value - 1

    @property
    def quiet(self):
        return self.scale * 10

    @classmethod
    def make(cls, scale):
        print("make", cls.__name__)
        return cls(scale)

    @staticmethod
    def helper(x):
        print("helper")
        return x + 100

    def __add__(self, other):
        print("add")
        return other + self.scale

    __radd__ = __add__

    def __call__(self, x):
        print("call")
        return self.run(x) + 1

    def __getitem__(self, key):
        print("getitem", key)
        return self.scale + key

    def __len__(self):
        print("len")
        return 3

    def __bool__(self):
        print("bool")
        return True

    def __eq__(self, other):
        print("eq")
        return isinstance(other, Base) and self.scale == other.scale

    __hash__ = None

    def __contains__(self, item):
        print("contains")
        return item == self.scale

    def __getattr__(self, name):
        if name.startswith("virtual"):
            print("getattr", name)
            return self.scale
        raise AttributeError(name)


class Derived(Base):
    kind = "derived"

    def __init__(self, scale):
        print("derived")
        super().__init__(scale + 1)
        self.extra = scale

    def run(self, x):
        y = super().run(x + 1)
        print("behind super")
        return y + super().quiet


class Countdown:
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        print("iter")
        return self

    def __next__(self):
        if self.n == 0:
            raise StopIteration
        self.n -= 1
        print("next", self.n)
        return self.n


@program(lambda: (torch.ones(2, 3), Base(2)), keeps=True)
def methods(x, b):
    y = b.run(x) + 1
    return b.run(y), b


@program(lambda: (torch.ones(2, 3), Derived(2)), keeps=True)
def methods_with_super(x, d):
    return d.run(x) + d.run(x * 2), d


@program()
def new_instances(x):
    d = Derived.make(noisy(2))
    y = d.run(x)
    b = Base(3)
    print("made")
    b.other = d
    return y, d, b, b.run(x)


@program()
def properties(x):
    b = Base(2)
    y = x * b.shifted
    b.shifted = 7
    return y * b.shifted + b.quiet, b.scale


@program()
def operators(x):
    b = Base(2)
    y = (b + x) * 2
    z = x.sum().item() + b
    return y, z, b[3] + x, len(b) + x, (1 if b else 2), b == Base(2), 2 in b, Base.helper(x)


@program()
def callable_instance(x):
    b = Base(2)
    return b(x) + b(x + 1)


@program()
def virtual_attributes(x):
    b = Base(2)
    y = x + b.virtual_one
    print(getattr(b, "missing", None), hasattr(b, "virtual_two"))
    try:
        b.missing
    except AttributeError as error:
        return y, str(error)


@program()
def python_iterators(x):
    for n in Countdown(3):
        x = x + n
    a, b = Countdown(2)
    return x + a - b, list(Countdown(2)), [x * n for n in Countdown(2)]


@program()
def bound_methods_kept(x):
    b = Base(2)
    f = b.run
    print("bound")
    y = f(x)
    append = b.seen.append
    append("more")
    print("appended")
    append(y)
    return y, b.seen, f


# -- Generators -------------------------------------------------------------------------------------------------------


def quiet_generator(x, n):
    for i in range(n):
        yield x + i


def noisy_generator(x, n):
    for i in range(n):
        print("yields", i)
        yield x + i
    print("exhausted")
    return n


def delegating(x, n):
    got = yield from noisy_generator(x, n)
    yield x * got


@program()
def generator_consumed(x):
    return [y * 2 for y in quiet_generator(x, 3)], sum(quiet_generator(x, 2))


@program()
def generator_alive_across_a_break(x):
    for y in quiet_generator(x, 3):
        x = x + y
        print("body")
    return x


@program()
def breaks_in_a_generator(x):
    total = x
    for y in noisy_generator(x, 3):
        total = total + y
    return total


@program()
def delegation(x):
    return list(delegating(x, 2)), x + 1


@program()
def generator_returned(x):
    g = quiet_generator(x + 1, 3)
    print("made")
    return g, x * 2


@program()
def started_generator_returned(x):
    g = quiet_generator(x + 1, 3)
    first = next(g)
    print("started")
    return first * 2, g


@program()
def generator_expression_alive(x):
    x = x * 2
    g = (x * i for i in range(3))
    a = next(g)
    print("first")
    return a, next(g), list(g)


@program()
def generator_sent_and_closed(x):
    def echo():
        got = None
        try:
            while True:
                got = yield got
                print("got")
        finally:
            print("closed")

    g = echo()
    next(g)
    a = g.send(x + 1)
    b = g.send(a * 2)
    g.close()
    return a, b


@program()
def generator_made_before_graph(x):
    y = x + 1
    g = noisy_generator(y, 2)
    z = y * 2
    return [a + z for a in g]


# -- Globals and class attributes -------------------------------------------------------------------------------------


@program(calls=3)
def globals_written(x):
    global COUNT, MADE
    COUNT += 1
    y = x + COUNT
    print("count", COUNT)
    COUNT = COUNT * 2
    MADE = y * 2
    TABLE["calls"] += 1
    print(TABLE)
    TABLE["last"] = y
    return y + COUNT


@program(calls=3)
def global_deleted(x):
    global MADE
    MADE = x + 1
    print("made")
    y = MADE * 2
    del MADE
    print("deleted", "MADE" in globals())
    return y


@program(calls=3)
def class_attributes_written(x):
    Base.kind = Base.kind + "!"
    Base.total = x + 1
    y = Base.total * 2
    print(Base.kind)
    Derived.kind = "new"
    b = Base(2)
    return y, b.kind, b.total, Derived(1).kind


@program(calls=3)
def function_attributes_written(x):
    one.count = getattr(one, "count", 0) + 1
    y = x + one.count
    print(one.count)
    one.last = y
    return y * 2, one.count


def accumulates(x, into=[]):  # noqa: B006
    into.append(x.sum())
    print("into", len(into))
    return x + len(into), into


@program(calls=3)
def mutable_default(x):
    a, into = accumulates(x)
    return a * 2, into


@program()
def defaults_changed(x):
    def inner(y, k=1):
        return y * k

    a = inner(x)
    inner.__defaults__ = (5,)
    print("changed")
    return a, inner(x), inner


@program()
def class_made_inside(x):
    class Local:
        factor = 3

        def apply(self, y):
            print("apply")
            return y * self.factor

    made = Local()
    y = made.apply(x)
    made.factor = 4
    return y, made.apply(y)


@program()
def module_called(x):
    torch.manual_seed(1)
    m = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    print("made")
    with torch.no_grad():
        return m(x)


# -- Other namespaces -------------------------------------------------------------------------------------------------

TEXT = """
def elsewhere(x):
    y = x + FACTOR
    print("elsewhere", FACTOR)
    return y * FACTOR
"""


def namespace(factor, **more):
    """A namespace that is no module's, with a function in it."""
    made = {"FACTOR": factor, **more}
    exec(TEXT, made)
    return made["elsewhere"]


def two_namespaces():
    return torch.ones(3), namespace(2), namespace(3)


def misleading_namespaces():
    return torch.ones(3), namespace(2, __name__="math"), namespace(3, __name__=__name__)


@program(two_namespaces)
def functions_of_two_namespaces(x, f, g):
    y = f(x) + 1
    return g(y) * 2, f(y)


@program(misleading_namespaces)
def functions_of_misnamed_namespaces(x, f, g):
    y = f(x) + 1
    return g(y) * 2, f(y)


class Mapped(collections.abc.MutableMapping):
    """Methods of `_collections_abc`, whose globals aren't those of the module that they name."""

    def __init__(self):
        self.kept = {}

    def __getitem__(self, key):
        print("getitem", key)
        return self.kept[key]

    def __setitem__(self, key, value):
        print("setitem", key)
        self.kept[key] = value

    def __delitem__(self, key):
        del self.kept[key]

    def __iter__(self):
        return iter(self.kept)

    def __len__(self):
        return len(self.kept)


@program()
def mixin_methods(x):
    m = Mapped()
    m["a"] = x + 1
    m.update(b=x * 2)
    y = m.setdefault("c", x) + m.get("a") + m.get("z", 3)
    return y, m.pop("a"), m, "b" in m, list(m.items())
