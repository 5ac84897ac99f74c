"""Corners of the language: names that come and go, the text of things."""

# ruff: noqa: UP031, UP032
# (what is written the long way is what is tested)

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
