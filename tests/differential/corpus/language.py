"""Corners of the language: names that come and go, the text of things."""

# ruff: noqa: UP031, UP032
# (what is written the long way is what is tested)

import cmath
import collections
import dataclasses
import enum
import functools
import json
import math
import operator
import re
import types

import torch
from differential import program


class Plain:
    keep = 1


class Slotted:
    __slots__ = ("p", "q")


def function():
    pass


OBJECT, SLOTTED = Plain(), Slotted()


@program()
def attributes_that_come_and_go(x):
    OBJECT.n = 1
    del OBJECT.n
    SLOTTED.p = 3
    del SLOTTED.p
    Plain.m = 1
    del Plain.m
    function.a = 1
    del function.a
    return x + 1, hasattr(OBJECT, "n"), hasattr(SLOTTED, "p"), hasattr(Plain, "m"), hasattr(function, "a")


@program()
def globals_that_come_and_go(x):
    global NEW
    NEW = 7
    y = x + NEW
    del NEW
    return y


@program(lambda: (torch.ones(2), Plain(), {}))
def arguments_that_get_more(x, o, d):
    o.z = x + 1
    d["k"] = 2
    del o.z, d["k"]
    o.__dict__["w"] = 3
    del o.w
    o.e = 4
    return x * 2


@program()
def namespaces(x):
    n = types.SimpleNamespace(a=1, b=x)
    n.c = 5
    return n, n.b + n.c


class Shown:
    def __repr__(self):
        return "shown"


class Text(str):
    pass


class Told(str):
    def __str__(self):
        return "told"


class Number(int):
    pass


class Many(list):
    pass


@program(whole=True)
def text_of_things(x):
    inside = [1, Shown(), (Shown(),), {"k": Shown()}]
    inside.append(inside)
    named = {1: 2}
    named["d"] = named
    error = ValueError([Shown()], 3)
    return x + 1, repr(inside), str(inside), f"{named}", repr(error), str(error), [1.0, 2].__repr__(), repr(Many([1]))


@program(whole=True)
def formatted_things(x):
    found = []
    things = (
        *(KeyError("k"), ValueError(), ValueError("a", 1), OSError("o"), [1, 2], (1,), {"a": Shown()}),
        *(Shown(), Text("q"), Number(4), Told("z"), None, x.shape),
    )
    for each in things:
        found += [f"{each}", "{}".format(each), "%s" % (each,), str(each)]
        try:
            found.append(f"{each:>6}")
        except TypeError as error:
            found.append(str(error))
    return x + 1, found


P = types.MappingProxyType({"a": 1, "b": [2]})
PO = types.MappingProxyType(collections.OrderedDict(z=1, y=2))


class Color(enum.Enum):
    R = 1
    G = 2


@program(whole=True)
def outside(x):
    return (
        x + P["a"] + P["b"][0],
        len(P),
        list(P),
        dict(P),
        "a" in P,
        P.get("q", 3),
        list(P.items()),
        list(P.values()),
        P.copy(),
        {**P},
        P == {"a": 1, "b": [2]},
        P | {"c": 1},
        list(reversed(PO)),
        bool(P),
        P,
        list(PO.keys()),
        isinstance(P, types.MappingProxyType),
    )


@program(whole=True)
def made(x):
    d = {"a": 1}
    m = types.MappingProxyType(d)
    d["b"] = 2
    r = []
    try:
        m["c"] = 1
    except TypeError as e:
        r.append(str(e))
    try:
        types.MappingProxyType(3)
    except TypeError as e:
        r.append(str(e))
    try:
        m["zz"]
    except KeyError as e:
        r.append(str(e))
    return x + m["b"], m, len(m), repr(m), m == d, m == types.MappingProxyType(d), m != {}, r, f"{m}"


@program(whole=True)
def enums(x):
    return x + len(Color.__members__), list(Color.__members__), [c.value for c in Color.__members__.values()]


@program(whole=True)
def cm(x):
    return x + 1, cmath.sqrt(-1), cmath.exp(1j), cmath.phase(1j)


@program(whole=True)
def globs(x):
    globals()["NEW"] = 3
    return x + NEW, globals()["P"]["a"], "NEW" in globals()


@functools.singledispatch
def sd(a):
    return "obj"


@sd.register
def _(a: int):
    return "int"


@sd.register(list)
def _(a):
    return "list"


@sd.register
def _(a: torch.Tensor):
    return a + 1


@program(whole=True)
def single(x):
    return sd(x), sd(1), sd([1]), sd(1.5), sd(True)


class SDM:
    @functools.singledispatchmethod
    def f(self, a):
        return "o"

    @f.register
    def _(self, a: int):
        return "i"

    @f.register
    def _(self, a: torch.Tensor):
        return a * 2


@program(whole=True)
def single_method(x):
    s = SDM()
    return s.f(x), s.f(2), s.f("q")


class Fm:
    def __format__(self, spec):
        return f"<{spec}>"

    def __index__(self):
        return 2

    def __str__(self):
        return "Fm!"

    def __repr__(self):
        return "repr!"

    def __bytes__(self):
        return b"ab"

    def __int__(self):
        return 9

    def __float__(self):
        return 2.5

    def __complex__(self):
        return 1j

    def __round__(self, n=None):
        return ("r", n)

    def __trunc__(self):
        return 4

    def __floor__(self):
        return 5

    def __ceil__(self):
        return 6

    def __abs__(self):
        return 8

    def __divmod__(self, o):
        return ("dm", o)

    def __rdivmod__(self, o):
        return ("rdm", o)

    def __pow__(self, o, m=None):
        return ("pow", o, m)

    def __matmul__(self, o):
        return "mm"

    def __bool__(self):
        return False

    def __hash__(self):
        return 77

    def __dir__(self):
        return ["z", "y"]


@program(whole=True)
def formats(x):
    f = Fm()
    return (
        x + 1,
        f"{f:abc} {f} {f!r} {f!s:>6}",
        format(f, "q"),
        [1, 2, 3][f],
        "abc"[f],
        range(10)[f],
        hex(f),
        bin(f),
        operator.index(f),
    )


@program(whole=True)
def conversions(x):
    f = Fm()
    return (
        x + 1,
        int(f),
        float(f),
        complex(f),
        round(f),
        round(f, 2),
        math.trunc(f),
        math.floor(f),
        math.ceil(f),
        abs(f),
        divmod(f, 2),
        divmod(2, f),
        pow(f, 2, 3),
        f**2,
        f @ 2,
        bool(f),
        not f,
    )


@program()
def conversions2(x):
    f = Fm()
    return x + 1, bytes(f), hash(f), dir(f), {f: 1}.keys() == {f}


@program(whole=True)
def fattr(x):
    def f():
        pass

    f.__custom__ = 3
    f.__isabstractmethod__ = False

    @functools.wraps(f)
    def g():
        return f.__custom__

    return x + g(), g, g.__custom__


@program()
def dc(x):
    @dataclasses.dataclass
    class P:
        a: int

    return x + P(3).a


@program(whole=True)
def json_of_constants(x):
    read = json.loads('{"a": [1, 2.5, null, true, "s"]}')
    read["b"] = 3
    return x + read["a"][0], read, json.dumps(read), json.dumps({"b": 1, "a": (1, 2)}, sort_keys=True, indent=1)


@program()
def json_that_fails(x):
    y = x + 1
    try:
        json.loads("{")
    except json.JSONDecodeError as error:
        return y, error.pos, str(error)


PATTERN = re.compile("a")


@program(whole=True)
def matches_found(x):
    ends = [match.end() for match in PATTERN.finditer("banana", 2)]
    return x + 1, [match.start() for match in re.finditer("a", "banana")], ends
