"""Functions for the stepper: `CASES` are (function, arguments, keywords)."""

# Odd on purpose: each does what some instruction or handler needs.
# ruff: noqa: B012, B018, B904, C416, E731, F821

from __future__ import annotations

import sys
from types import FunctionType


class Manager:
    def __init__(self, swallow=False, log=None):
        self.swallow, self.log = swallow, log if log is not None else []

    def __enter__(self):
        self.log.append("in")
        return self

    def __exit__(self, kind, value, traceback):
        self.log.append(kind and kind.__name__)
        return self.swallow


def straight(a, b=2, *rest, c=3, **more):
    d = a * b + c
    e = -d, not d, ~int(d), [*rest, d], {**more, "d": d}
    del d
    f = f"{a!r:>5}{b}" + str(e[0])
    a, *mid, z = [a, b, c, 4]
    return e, f, mid, z, sorted(more, reverse=True, key=lambda k: k), {a, z}, e[1:3], a is z, a in mid


def posonly(a, /, b, *, c):
    return max(a, b, c, key=abs), print.__name__, str.join("-", ["a", "b"])


def loops(n):
    total = 0
    for i in range(n):
        for j in (x * i for x in range(3)):
            if j > 4 or (i == 7 and not j):
                continue
            total += j
        else:
            total += 100
        while i:
            i -= 1
            if i == 1:
                break
    return total


def logic(a, b, c):
    x = (a and b) or c
    y = a or (b and c)
    z = a if b is None else c
    if a is not None and b is not None:
        x = 3
    while c is not None:
        c = None
    while b is None:
        b = 4
    return x, y, z, a < 3 < 5


def withs(swallow, fail):
    log = []
    for i in range(2):
        with Manager(swallow, log) as m, Manager(False, m.log):
            log.append(i)
            if fail:
                raise KeyError(i)
            if i:
                return log
    return log, "end"


def caught(x):
    try:
        y = 1 // x
    except ZeroDivisionError as exc:
        y = type(sys.exception()).__name__, str(exc)
        try:
            {}["no"]
        except KeyError as inner:
            y += (type(inner.__context__).__name__,)
        y += (type(sys.exception()).__name__,)
        for c in "ab":
            y += (c,)
    except TypeError:
        y = "type"
        raise
    else:
        y = y, "else"
    finally:
        z = "finally"
    return y, z


def chained(x):
    try:
        try:
            return [1, 2][x]
        except IndexError as exc:
            raise ValueError("outer") from exc
        finally:
            x = None
    except ValueError:
        raise RuntimeError("last")


def reraised(x):
    try:
        try:
            x.nothing
        except AttributeError:
            try:
                x.less
            finally:
                x = 1
    except AttributeError as exc:
        return str(exc), str(exc.__context__)


def return_in_handler(x):
    for i in [1, 2]:
        try:
            raise KeyError(x)
        except KeyError as e:
            return i, str(e)
        finally:
            x.append(3)


def finally_swallows(x):
    for _ in range(3):
        try:
            x += 1
            1 / 0
        finally:
            break
    return x


def uncaught(x):
    y = [x]
    return y[0] + len(x.keys(), *y)


def unbound(x):
    if x:
        y = 1
    return y


def cells(a, b):
    total = 0

    def add(n):
        nonlocal total
        total += n * a
        return total

    for i in range(b):
        add(i)
    a = 100
    add(1)
    inc = lambda: a + i + total
    return inc(), [a + q for q in range(2)], dict.fromkeys("ab", total), {a for _ in "ab"}


def unbound_cell(x):
    if x:
        y = 1
    return (lambda: y), y


def outer(q):
    def inner(x):
        nonlocal q
        q += x
        del x
        return q, w

    if q > 5:
        w = 3
    return inner


class Base:
    def value(self, x):
        return x + 1


class Derived(Base):
    def value(self, x):
        return super().value(x) * 2

    def celled(self, x):
        f = lambda: self
        return super().value(x) + f().value(x), __class__.__name__


def statements(obj):
    import os.path as p
    from os import path, sep

    global _changed
    _changed = obj
    obj.x = {"k": [1, 2]}
    obj.x["k"][1] += 5
    del obj.x["k"][0]
    obj.y = obj.x["k"]
    del obj.x
    assert obj, "message"
    args, kw = (1,), {"base": 3}
    return p.join("a", "b"), sep, path is p, obj.y, int(*("12",), **kw), max(*args, 2), _changed is obj


def asserts(obj):
    assert obj, f"{obj}?"


def matching(x):
    match x:
        case [1, *rest]:
            return "list", rest
        case {"k": v, **others}:
            return v, others
        case str() | int(real=3):
            return "text", x
        case Manager(swallow=s):
            return s
    return None


def makes_class(n):
    class Local(Base):
        size = n

        def value(self, x: int = n) -> int:
            return super().value(x) + n

    return Local().value(), Local.size


def deleted(a, b):
    del a
    c = [b for b in range(b)]
    try:
        return a
    except UnboundLocalError as e:
        return str(e), c


def slices(x):
    a, (b, c) = x
    a[1:3:2] = [9, 8][:1]
    return a[::-1], b @ c if isinstance(b, Manager) else b**c, x[0] == a != b


class Plain:
    pass


def rarer(a, b):
    global _gone
    _gone = +a
    del _gone
    c = {"x": a, "y": b}
    d = {**c, "z": 1}, {*b, a, *b}, (*b, a), [a in b, a not in b, b is not a]
    del b[0]
    e = lambda: c
    del c
    x, y, (z, *w) = 1, *b, (4, 5, 6)
    return d, x, y, z, w, f"{a:{x}}", e.__kwdefaults__


def unpacks(f):
    return dict(a=1, **f)


def inner_code(function, name):
    """The comprehension `name` in a function, as a function of its iterator."""
    return FunctionType(next(c for c in function.__code__.co_consts if getattr(c, "co_name", "") == name), globals())


class Again:
    """An iterator that a deepcopy starts anew."""

    def __init__(self, values):
        self.values = list(values)

    def __iter__(self):
        return self

    def __next__(self):
        if not self.values:
            raise StopIteration
        return self.values.pop(0)


def comprehensions():
    [q * 2 for q in "ab" if q]
    {q: r for q in "ab" for r in q}
    {q for q in "ab"}


def fails_late(obj):
    obj.x = 1
    obj.y.z = 2


CASES = [
    (straight, (1,), {}),
    (straight, (1, 2, 3, 4), {"z": 1, "c": 5}),
    (posonly, (1, -5), {"c": 7}),
    (loops, (9,), {}),
    (logic, (0, None, 3), {}),
    (logic, (1, 2, None), {}),
    (withs, (True, True), {}),
    (withs, (False, True), {}),
    (withs, (False, False), {}),
    (caught, (0,), {}),
    (caught, (1,), {}),
    (caught, ("a",), {}),
    (chained, (1,), {}),
    (chained, (7,), {}),
    (reraised, (Plain(),), {}),
    (return_in_handler, ([],), {}),
    (finally_swallows, (1,), {}),
    (uncaught, ({"a": 1},), {}),
    (unbound, (0,), {}),
    (cells, (2, 4), {}),
    (unbound_cell, (0,), {}),
    (outer(9), (2,), {}),
    (outer(1), (2,), {}),
    (Derived.value, (Derived(), 3), {}),
    (Derived.celled, (Derived(), 3), {}),
    (statements, (Plain(),), {}),
    (asserts, (0,), {}),
    (matching, ([1, 2, 3],), {}),
    (matching, ({"k": 1, "l": 2},), {}),
    (matching, (3,), {}),
    (matching, (Manager(7),), {}),
    (makes_class, (4,), {}),
    (deleted, (1, 3), {}),
    (rarer, (1, [2, 3, 4]), {}),
    (unpacks, ({"b": 2},), {}),
    (unpacks, ({"a": 2},), {}),
    (inner_code(comprehensions, "<listcomp>"), (Again(["a", ""]),), {}),
    (inner_code(comprehensions, "<dictcomp>"), (Again(["ab", "c"]),), {}),
    (inner_code(comprehensions, "<setcomp>"), (Again(["ab", 0]),), {}),
    (fails_late, (Plain(),), {}),
    (slices, (([1, 2, 3, 4], (2, 5)),), {}),
]
