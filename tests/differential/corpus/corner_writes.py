"""Corners of objects: writes to what exists outside, around breaks."""

# (what is written the long way is what is tested)

import abc
import functools
import types

import torch
from differential import loud as print
from differential import program

import aotdyn

LIMIT = 3
SEEN = []


def noisy(value):
    print("noisy", type(value).__name__)
    return value


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


class Key:
    pass


def one_or_two_keys(state=[0]):  # noqa: B006
    state[0] += 1
    first, second = Key(), Key()
    kept = {first: 1, second: 2}
    return torch.ones(2), first, second if state[0] % 2 else first, kept, (second, Key())[state[0] // 2 % 2]


@program(one_or_two_keys, calls=6)
def objects_as_keys(x, a, b, kept, asked):
    return x + len({a: 1, b: 2}) + len({a, b}), kept.get(asked), asked in kept, {a: 3}.get(b)


def with_or_without(state=[0]):  # noqa: B006
    state[0] += 1
    return torch.ones(2), {"a": Key()} if state[0] % 2 else {}


@program(with_or_without, calls=4)
def found_and_kept(x, table):
    found = table.get("a", x.shape)
    y = x + 1
    aotdyn.graph_break()
    return y * 2, type(found) is Key


@program(lambda: (torch.zeros(2, 3), {"a": 1}))
def a_bool_less_a_tensor_behind_changes(x, table):
    table["b"] = 0.5
    x[0] = 2
    return True - x


@program(lambda: (torch.zeros(2, 3), torch.ones(2, 3, dtype=torch.int64), {"a": 1}))
def integers_times_a_fraction_in_place_behind_changes(x, y, table):
    table["b"] = 0.5
    x[0] = 2
    y *= 2.5
    return x


@program(lambda: (torch.zeros(2, 3), {"a": 1}))
def bits_of_floats_behind_changes(x, table):
    try:
        table["b"] = 0.5
        x[0] = 2
        return x & 1
    except NotImplementedError as error:
        return str(error), x + 1
