"""Corners: what goes on around breaks in places where it is easily lost."""

# ruff: noqa: C408, PIE804, UP033
# (what is written the long way is what is tested)

import abc
import collections
import contextlib
import copy
import dataclasses
import functools
import itertools
import operator
import sys
import types
import weakref

import torch
from differential import loud as print
from differential import program

LIMIT = 3
SEEN = []


def noisy(value):
    print("noisy", type(value).__name__)
    return value


class Own(Exception):
    pass


# -- Exceptions, their links and lines --------------------------------------------------------------------------------


def inner_error(x, n):
    if n:
        return inner_error(
            x * 2,
            n - 1,
        )
    raise Own(
        "deep",
        n,
    )


@program()
def multi_line_calls(x):
    y = noisy(x + 1)
    return (
        inner_error(
            y,
            2,
        )
        + 1
    )


@program()
def error_seen_after_a_break(x):
    try:
        inner_error(x, 1)
    except Own as error:
        kept = error
        print("caught")
    y = x + len(kept.args)
    tb = kept.__traceback__
    names = []
    while tb is not None:
        names.append(tb.tb_frame.f_code.co_name)
        tb = tb.tb_next
    return y, names, kept.__cause__, kept.__context__, str(kept), repr(kept)


@program()
def error_links_after_a_break(x):
    try:
        try:
            raise KeyError("first")
        except KeyError as first:
            print("first")
            raise Own("second") from first
    except Own as second:
        kept = second
    print("kept")
    y = x * 2
    cause, context = kept.__cause__, kept.__context__
    return y, type(cause).__name__, cause is context, kept.__suppress_context__, cause.args


@program()
def raises_a_kept_error_again(x):
    errors = []
    for i in range(2):
        try:
            y = x + i
            print(i)
            if errors:
                raise errors[0]
            raise Own(i)
        except Own as error:
            errors.append(error)
            x = y * 2
    print(errors[0] is errors[1])
    raise errors[1]


@program()
def error_in_finally(x):
    try:
        try:
            y = x + 1
            print("body")
            raise KeyError("body")
        finally:
            y = y * 2
            print("finally")
            raise Own("finally")
    except Own as error:
        context = error.__context__
        return y, type(context).__name__, error.args


@program()
def nested_handlers_return(x):
    def attempt(n):
        try:
            y = x + n
            print("try", n)
            if n == 0:
                raise KeyError(n)
            return y
        except KeyError:
            print("handler")
            return attempt(n + 1) * 2
        finally:
            print("finally", n)

    return attempt(0)


@program()
def error_in_a_comprehension(x):
    def check(i):
        print("check", i)
        if i == 2:
            raise Own(i)
        return x + i

    try:
        return [check(i) for i in range(4)]
    except Own as error:
        return x, error.args


@program()
def error_groups(x):
    y = x + 1
    try:
        raise ExceptionGroup("group", [ValueError(1), KeyError(2)])
    except* ValueError as group:
        y = y * 2
        print(len(group.exceptions))
    except* KeyError:
        y = y * 3
    return y


@program()
def exc_info_in_callees(x):
    def current():
        print("current")
        return sys.exc_info()[0]

    before = current()
    try:
        raise Own("own")
    except Own:
        inside = current()
        y = x + 1
        again = current()
    return y, before, inside, again, current()


@program()
def sys_exit(x):
    try:
        y = x + 1
        sys.exit(3)
    except SystemExit as error:
        print(error.code)
        return y * 2


@program()
def error_after_in_place_and_break(x):
    x.add_(1)
    print("one")
    x.mul_(2)
    SEEN.append(len(SEEN))
    raise Own(x.shape[1])


@program()
def error_with_graph_and_python_writes(x):
    found = {}
    found["y"] = x + 1
    SEEN.append("a")
    x[0] = 7
    found["y"].relu_()
    return found["missing"]


@program(lambda: (torch.ones(2, 3), torch.tensor([0, 9])))
def graph_raises_after_writes(x, index):
    x.add_(1)
    SEEN.append("written")
    y = x * 2
    return torch.nn.functional.embedding(index, y)


@program(lambda: (torch.ones(2, 3), torch.tensor([0, 9])))
def graph_raises_in_try_after_writes(x, index):
    found = []
    try:
        x.add_(1)
        found.append(1)
        y = x[index]
        found.append(2)
    except IndexError:
        found.append(3)
        y = x * 2
    return y, found


@program(lambda: (torch.ones(2, 3), torch.tensor([0, 9])))
def graph_raises_after_random_numbers(x, index):
    y = x + torch.rand(2, 3)
    return y[index]


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


# -- Writes to what exists outside ------------------------------------------------------------------------------------


@program(lambda: (torch.ones(2), types.SimpleNamespace(n=0, items=[], t=torch.zeros(2))), calls=4, keeps=True)
def counters_in_an_object(x, state):
    state.n += 1
    if state.n % 2:
        state.items.append(state.n)
        print("odd", state.n)
    state.t += x * state.n
    state.last = state.t.clone()
    return state.t * 2, len(state.items)


@program(calls=4)
def globals_of_all_kinds(x):
    global LIMIT
    LIMIT += 1
    SEEN.append(LIMIT)
    print(len(SEEN))
    LIMIT -= 2
    SEEN[:] = SEEN[-2:]
    return x + LIMIT, list(SEEN)


@program(lambda: (torch.ones(2), [1, 2, 3]), keeps=True, calls=3)
def argument_list_rotates(x, items):
    items.append(items.pop(0))
    y = x * items[0]
    print(items)
    items[0], items[1] = items[1], items[0]
    return y + items[0]


@program(lambda: (lambda cell: (torch.ones(2), cell))([[]]), keeps=True, calls=3)
def nested_list_argument(x, cell):
    cell[0].append(x + len(cell[0]))
    print(len(cell[0]))
    old, cell[0] = cell[0], list(cell[0])
    return old is cell[0], cell[0][-1] * 2


@program(lambda: (lambda d: (torch.ones(2), d, d["in"]))({"in": {}}), keeps=True, calls=3)
def same_dict_by_two_paths(x, outer, inner):
    outer["in"]["k"] = x + len(inner)
    print(len(inner))
    inner["n"] = inner["k"] * 2
    return outer["in"]["n"] is inner["n"], inner is outer["in"]


@program(lambda: (lambda a, b: (a, b))([1], [2]), calls=1, graphs=False)
def swapped_lists(a, b):
    a, b = b, a
    a.append(3)
    print(a, b)
    b += a
    return a, b


@program(lambda: (lambda a: (torch.ones(2), a, a))([1]))
def same_list_twice(x, a, b):
    a.append(x)
    y = len(b) + x
    print(a is b)
    b.append(y)
    return len(a)


@program(lambda: (torch.ones(2), [1], [1]))
def equal_lists(x, a, b):
    a.append(x)
    y = len(b) + x
    print(a is b)
    b.append(y)
    return len(a)


class Tracked:
    total = 0

    def __init__(self):
        type(self).total += 1
        self.number = Tracked.total

    def __setattr__(self, name, value):
        SEEN.append(name)
        object.__setattr__(self, name, value)

    def __delattr__(self, name):
        SEEN.append("-" + name)
        object.__delattr__(self, name)


@program(calls=3)
def instances_counted(x):
    a = Tracked()
    print(a.number)
    b = Tracked()
    b.extra = x + 1
    y = b.extra * 2
    del b.extra
    print(SEEN)
    return y, a, b, Tracked.total


class Descriptor:
    def __set_name__(self, owner, name):
        self.name = "_" + name

    def __get__(self, obj, owner=None):
        if obj is None:
            return self
        print("get", self.name)
        return getattr(obj, self.name)

    def __set__(self, obj, value):
        print("set", self.name)
        setattr(obj, self.name, value)


class Described:
    value = Descriptor()

    def __init__(self, value):
        self.value = value

    @functools.cached_property
    def squared(self):
        print("squared")
        return self.value * self.value


@program()
def descriptors(x):
    d = Described(x + 1)
    y = d.value * 2
    d.value = y
    return d.squared + d.squared, d, d.__dict__.keys() >= {"squared"}


class Shape(abc.ABC):
    @abc.abstractmethod
    def area(self):
        """The area."""

    def twice(self):
        print("twice")
        return self.area() * 2


class Square(Shape):
    def __init__(self, side):
        self.side = side

    def area(self):
        return self.side * self.side


@program()
def abstract_classes(x):
    s = Square(x + 1)
    y = s.twice()
    try:
        Shape()
    except TypeError as error:
        return y, isinstance(s, Shape), type(error).__name__


class Meta(type):
    def __call__(cls, *args, **kwargs):
        print("meta call")
        made = super().__call__(*args, **kwargs)
        made.by_meta = True
        return made

    @property
    def label(cls):
        return cls.__name__ + "!"


class WithMeta(metaclass=Meta):
    def __new__(cls, value):
        print("new")
        return super().__new__(cls)

    def __init__(self, value):
        self.value = value


@program()
def metaclasses(x):
    m = WithMeta(x + 1)
    print(WithMeta.label)
    return m, m.value * 2


class Multiplied:
    def __init__(self, value):
        self.value = value

    def __mul__(self, other):
        if isinstance(other, Multiplied):
            return NotImplemented
        print("mul")
        return Multiplied(self.value * other)

    __rmul__ = __mul__

    def __imul__(self, other):
        print("imul")
        self.value = self.value * other
        return self

    def __lt__(self, other):
        print("lt")
        return self.value.sum() < other.value.sum()

    def __neg__(self):
        print("neg")
        return Multiplied(-self.value)

    def __enter__(self):
        print("enter")
        return self.value

    def __exit__(self, *error):
        print("exit")

    def __iter__(self):
        print("iter")
        yield self.value
        yield 2

    def __format__(self, spec):
        print("format", spec)
        return "formatted"

    def __index__(self):
        print("index")
        return 1


@program()
def operators_that_break(x):
    m = Multiplied(x + 1)
    n = 2 * m
    n *= 3
    a, b = -n
    with m as value:
        value = value + b
    first = sorted([m, n])[0]
    try:
        m * n
    except TypeError as error:
        text = str(error)
    return n, a, value, first is m, f"{m:>5}", x[m], [1, 2][m], text


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


# -- Tensors ----------------------------------------------------------------------------------------------------------


@program(lambda: (torch.ones(2, 3, requires_grad=True),))
def gradients_over_breaks(x):
    y = x * 2
    print("one")
    z = (y * y).sum()
    print(z.requires_grad)
    (g,) = torch.autograd.grad(z, x, create_graph=True)
    print("grad")
    g.sum().backward()
    return z.detach(), g.detach(), x.grad


@program(lambda: (torch.ones(2, 3, requires_grad=True),))
def detached_and_in_place(x):
    y = x.detach()
    z = x.clone()
    z += 1
    print(z.requires_grad)
    with torch.no_grad():
        x += 1
        print("in place")
    z.mul_(x)
    return y, z, x


@program()
def inference_mode(x):
    with torch.inference_mode():
        y = x + 1
        print(y.is_inference())
        z = y * 2
    return y.is_inference(), z.tolist(), x + 1


@program()
def view_chains(x):
    a = x.view(3, 2)
    b = a[1:]
    print("views")
    b.add_(10)
    c = b.t()
    print(x)
    c.zero_()
    return a, b, c, x


@program()
def resized_and_swapped(x):
    y = x.clone()
    y.resize_(2, 2)
    print(y.shape)
    y.fill_(3)
    z = y.set_(x.storage()) if noisy(0) else y
    return z is y, z


@program()
def out_arguments(x):
    out = torch.empty(2, 3)
    torch.add(x, 1, out=out)
    print(out)
    same = torch.mul(out, 2, out=out)
    return same is out, out


@program()
def splits_and_unbind(x):
    a, b, c = x.unbind(1)
    a.add_(1)
    print("unbound")
    parts = torch.split(x, 1)
    parts[0].mul_(2)
    return a, b, c, parts, x


@program()
def numbers_from_tensors(x):
    n = x.sum().item()
    k = int(n) % 3
    print(n, k)
    y = x.repeat(k + 1, 1)
    return y, y.shape, [float(v) for v in x[0]], x[0].tolist()


@program()
def tensor_truth(x):
    found = []
    for row in x:
        if (row > 0).any():
            found.append(row.max())
        elif not row.sum():
            found.append(row)
        else:
            found.append(None)
    return found, all(v is not None for v in found), any((row < 0).all() for row in x)


@program()
def shapes_in_python(x):
    a, b = x.shape
    shape = x.shape
    print(shape, a * b)
    y = x.view(*shape[::-1])
    return y, shape + (1,), torch.Size((a, b)) == shape, len(shape), shape.numel()


@program(lambda: (torch.nn.Linear(3, 3), torch.ones(2, 3)), keeps=True, calls=3)
def training_steps(m, x):
    torch.manual_seed(0)
    with torch.no_grad():
        for p in m.parameters():
            p.fill_(0.5)
    loss = m(x).pow(2).sum()
    print(loss.shape)
    loss.backward()
    with torch.no_grad():
        for p in m.parameters():
            p -= 0.1 * p.grad
    m.zero_grad()
    return loss.detach(), [p.detach().clone() for p in m.parameters()]


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layers = torch.nn.ModuleList([torch.nn.Linear(3, 3) for _ in range(2)])
        self.norm = torch.nn.BatchNorm1d(3)
        self.register_buffer("steps", torch.zeros(()))
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        self.steps += 1
        for i, layer in enumerate(self.layers):
            x = layer(x).relu()
            print("layer", i)
        return self.norm(x) * self.calls


@program(lambda: (Net(), torch.arange(6.0).reshape(2, 3)), keeps=True, calls=3)
def module_with_breaks(m, x):
    y = m(x)
    print(m.training)
    m.eval()
    z = m(y)
    m.train()
    return y.detach(), z.detach(), m.steps, m.calls, m.norm.running_mean


@program(lambda: (Net(), torch.arange(6.0).reshape(2, 3)), keeps=True, calls=2, durable=False)
def hooks_on_modules(m, x):
    found = []
    handle = m.layers[0].register_forward_hook(lambda mod, args, out: found.append(out.detach()) or out * 2)
    y = m(x)
    handle.remove()
    print(len(found))
    return y.detach(), found, m(x).detach()


def apart_then_overlapping(state=[0]):  # noqa: B006
    state[0] += 1
    base = torch.arange(8.0)
    return base[:4], base[4:] if state[0] % 2 else base[1:5], []


@program(apart_then_overlapping, calls=4)
def a_write_raises_for_how_its_operands_lie(a, b, seen):
    seen.append((a + b).sum())
    a.add_(b)
    seen.append("written")
    return a * 2


@program(apart_then_overlapping, calls=4)
def the_second_write_raises_for_it(a, b, seen):
    b.mul_(2)
    a.add_(b)
    return a * 2, b
