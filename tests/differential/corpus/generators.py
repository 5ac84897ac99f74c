"""Generators that come from outside: not started, on their way, used up; what StopIteration carries."""

# (what is written the long way is what is tested)

import torch
from differential import loud, program

LOG = []


def count(x, n):
    for i in range(n):
        LOG.append(i)
        yield x * i
    return "end"


class Holder:
    pass


def expr():
    x = torch.ones(2, 3)
    w = 3
    return x, (x * w + i for i in range(3))


def func():
    x = torch.ones(2, 3)
    return x, count(x, 3)


def started():
    x, g = func()
    next(g)
    return x, g


def held():
    x, g = func()
    h = Holder()
    h.g = g
    return x, h


def done():
    x, g = func()
    list(g)
    return x, g


@program(expr, calls=3, whole=True)
def summed(x, g):
    return sum(g) + x


@program(func, calls=3, whole=True)
def looped(x, g):
    for each in g:
        x = x + each
    return x, list(g)


@program(func, calls=3)
def partly(x, g):
    a = next(g)
    y = x + a
    return y, next(g)


@program(func, calls=3)
def broken(x, g):
    for each in g:
        x = x + each
        loud(1)
    return x


@program(started, calls=3)
def on_its_way(x, g):
    for each in g:
        x = x + each
    return x


@program(held, calls=3, whole=True)
def on_object(x, h):
    return torch.stack(list(h.g)).sum(0) + x


@program(done, calls=3)
def exhausted(x, g):
    return x + len(list(g)), next(g, None)


@program(func, calls=3, whole=True)
def untouched(x, g):
    return x + 1


@program(func, calls=3, whole=True)
def passed(x, g):
    return x + 1, g


@program(func, calls=3)
def stops(x, g):
    y = x + 1
    r = None
    try:
        while True:
            y = y + next(g)
    except StopIteration as e:
        r = e.value
    return y, r


@program(func, calls=3, whole=True)
def zipped(x, g):
    return [a + b for a, b in zip(g, [x, x, x, x])], list(g)


@program(func, calls=3)
def zipped_short(x, g):
    y = x + 1
    return [a + b for a, b in zip([y, y], g)], list(g)


def bad(x):
    yield x + 1
    raise KeyError("k")


@program(lambda: (torch.ones(2), bad(torch.ones(2))), calls=3)
def raising(x, g):
    y = x + 1
    try:
        for e in g:
            y = y + e
    except KeyError as e:
        return y, str(e), list(g)


@program(lambda: (torch.ones(2), count(torch.ones(2), 2)), calls=3)
def delegated(x, g):
    def inner():
        r = yield from g
        yield r

    return x + 1, list(inner())


@program(lambda: (torch.ones(2), count(torch.ones(2), 2)), calls=3)
def closed(x, g):
    g.close()
    return x + 1, list(g)


def two():
    x = torch.ones(2)
    k = [1]

    def change():
        k[0] += 1

    c = 1

    def setc():
        nonlocal c
        c = 5

    return x, (x * c for _ in range(2)), setc


@program(two, calls=3)
def variable_changes(x, g, setc):
    y = x + 1
    setc()
    return sum(g) + y


class It:
    def __next__(self):
        raise StopIteration(7)


@program(whole=True)
def values_of_stops(x):
    def g():
        yield 1
        return 5

    i = g()
    r = [next(i)]
    for it in (i, It()):
        try:
            next(it)
        except StopIteration as e:
            r.append((e.value, e.args))
    r.append(next(It(), "d"))
    try:
        next(object())
    except TypeError as e:
        r.append(str(e))
    try:
        next([1])
    except TypeError as e:
        r.append(str(e))
    return x + 1, r
