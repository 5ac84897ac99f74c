"""Small programs of plain Python: what frames must run as CPython does. (Not a test module: pytest rewrites those.)"""

from __future__ import annotations

PROGRAMS = []


def program(*args):
    def declare(function):
        PROGRAMS.append((function, args))
        return function

    return declare


# -- Stack, variables, containers -------------------------------------------------------------------------------------


@program(3, 4)
def arithmetic(a, b):
    a += b
    a <<= 2
    return a * b - a // b, a % b, -a, ~a, not a, a is b, a is not b, a < b <= 10, a**2, a / b, a & b | a ^ b


@program((1, 2, 3))
def displays(x):
    d = {"a": 1, "b": 2, "c": x[0]}
    return [*x, 4], (*x, 5), {**d}, [i * 2 for i in x if i > 1], {i: i for i in x}, x[1:], x[::-1], sorted({*x, 9})


@program((1, 2, 3, 4))
def unpacking(x):
    a, *b, c = x
    (d, e), f = (a, b[0]), c
    return a, b, c, d, e, f


@program((1, 2))
def too_few(x):
    a, b, c = x
    return a


@program((1, 2, 3, 4))
def too_many(x):
    a, b, c = x
    return a


@program((1,))
def too_few_starred(x):
    a, b, *c = x
    return a


@program(3)
def not_iterable(x):
    a, b = x
    return a


@program(1)
def unbound(x):
    if not x:
        y = 1
    return y


@program(1)
def deleted(x):
    del x
    return x  # noqa: F821


@program(1)
def empty_cell(x):
    def inner():
        return y

    if not x:
        y = 1
    return inner()


@program(1)
def own_empty_cell(x):
    def inner():
        return y  # noqa: F821

    y = 1
    del y
    return y  # noqa: F821


@program(5)
def closures(x):
    total = 0

    def add(n, *, by=x, times=1):
        nonlocal total
        total += n * by * times
        return total

    add(1)
    add(2, by=3)
    return add(n=3, times=2), total, x


@program(2)
def undefined(x):
    return no_such_name + x  # noqa: F821


@program(7)
def formats(x):
    return f"{x:03d} {x!r} {'a'!s:>4} {x}" + f"{x:{x}}" + f"{x=}"


# -- Control ----------------------------------------------------------------------------------------------------------


@program(10)
def loops(n):
    found = []
    for i in range(n):
        if i % 2:
            continue
        if i == 8:
            break
        found.append(i)
    else:
        found.append("no break")
    while n and not n < 3:
        n -= 1
    return found, n, n or 5, n and 6, None if n is None else 1


@program(None)
def nones(x):
    y = [] if x is None else [1]
    while x is None:
        x = 0
    return y, x


# -- Calls ------------------------------------------------------------------------------------------------------------


def many(a, /, b, c=3, *rest, d, e=5, **more):
    return a, b, c, rest, d, e, more


@program(1)
def calls(x):
    args, kwargs = (x, 2), {"d": 4}
    return many(1, 2, d=4), many(*args, **kwargs), many(*args, 3, 4, 5, **kwargs, f=6), many(1, b=2, d=3)


@program(1)
def missing(x):
    return many(x)


@program(1)
def twice(x):
    return many(x, 2, **{"d": 4}, **{"d": 5})  # noqa: PIE804


@program(1)
def star_of_int(x):
    return many(*x, d=1)


@program(1)
def double_star_of_int(x):
    return many(1, 2, **x)


@program(3)
def recursion(n):
    return n * recursion(n - 1) if n else 1


# -- Exceptions -------------------------------------------------------------------------------------------------------


@program(1)
def catches(x):
    found = []
    try:
        raise ValueError("a", x)
    except (KeyError, ValueError) as e:
        found.append(e.args)
    finally:
        found.append("finally")
    try:
        [][x]
    except IndexError:
        found.append("index")
    else:
        found.append("else")
    return found


@program(1)
def uncaught(x):
    try:
        raise KeyError(x)
    except ValueError:
        return 0


@program(1)
def contexts(x):
    try:
        try:
            raise KeyError(x)
        except KeyError:
            raise ValueError("second")  # noqa: B904
    except ValueError:
        {}[x]


@program(1)
def causes(x):
    try:
        raise KeyError(x)
    except KeyError as e:
        raise ValueError from e


@program(1)
def from_none(x):
    try:
        raise KeyError(x)
    except KeyError:
        raise ValueError("x") from None


@program(1)
def bare_raise(x):
    try:
        raise KeyError(x)
    except KeyError:
        try:
            raise ValueError
        except ValueError:
            pass
        raise


def raises_again():
    raise


@program(1)
def bare_raise_elsewhere(x):
    try:
        raise KeyError(x)
    except KeyError:
        raises_again()


@program(1)
def not_an_exception(x):
    raise x


@program(1)
def catching_an_int(x):
    try:
        raise KeyError
    except x:
        return 1


@program(1)
def finally_returns(x):
    for i in range(3):
        try:
            raise KeyError(x)
        finally:
            if i == 1:
                return i  # noqa: B012
            continue  # noqa: B012
    return None


@program(0)
def asserts(x):
    assert x, "message"


# -- with -------------------------------------------------------------------------------------------------------------


class Manager:
    def __init__(self, log, swallow):
        self.log, self.swallow = log, swallow

    def __enter__(self):
        self.log.append("enter")
        return self

    def __exit__(self, cls, value, tb):
        self.log.append((cls is None, tb is None))
        return self.swallow


@program(1)
def withs(x):
    log = []
    with Manager(log, False) as m, Manager(log, True):
        log.append(m.swallow)
        raise KeyError(x)
    for _ in range(2):
        with Manager(log, True):
            break
    return log


@program(1)
def with_raises(x):
    with Manager([], False):
        raise KeyError(x)


@program(1)
def with_an_int(x):
    with x:
        pass


# -- Generators -------------------------------------------------------------------------------------------------------


def count(n):
    got = []
    try:
        for i in range(n):
            got.append((yield i))
    except KeyError as e:
        got.append(("caught", e.args))
        yield "after"
    finally:
        got.append("finally")
    return got


@program(3)
def generators(n):
    g = count(n)
    first = next(g)
    sent = g.send("s")
    thrown = g.throw(KeyError, "k")
    try:
        g.send(None)
    except StopIteration as e:
        return first, sent, thrown, e.value, [*g], [*count(n)]


def delegates(n):
    got = yield from count(n)
    yield got
    got = yield from (i for i in range(n))
    yield got
    return (yield from [1, 2])


@program(2)
def delegation(n):
    g = delegates(n)
    first = next(g)
    return first, g.send(5), g.throw(KeyError("k")), [*g], sum(x for x in range(n))


def stops():
    yield 1
    raise StopIteration("early")


@program(1)
def stop_inside(x):
    return [*stops()]


def swallows():
    try:
        yield 1
    except GeneratorExit:
        yield 2


@program(1)
def ignores_exit(x):
    g = swallows()
    next(g)
    g.close()


@program(1)
def closes(x):
    g = delegates(3)
    next(g)
    g.close()
    g.close()
    fresh = count(2)
    fresh.close()
    return [*g], [*fresh]


@program(1)
def sends_too_early(x):
    count(2).send(1)


def reraises_context():
    try:
        raise KeyError("inner")
    except KeyError:
        yield 1
        raise ValueError("from the generator")  # noqa: B904


@program(1)
def generator_contexts(x):
    g = reraises_context()
    next(g)
    try:
        raise IndexError("outer")
    except IndexError:
        next(g)


def bare_in_generator():
    yield 1
    raise


@program(1)
def generator_sees_its_resumers_exception(x):
    g = bare_in_generator()
    next(g)
    try:
        raise IndexError("outer")
    except IndexError:
        next(g)


# -- match ------------------------------------------------------------------------------------------------------------


class Point:
    __match_args__ = ("x", "y")

    def __init__(self, x, y):
        self.x, self.y = x, y


def matched(v):
    match v:
        case {"k": k, **rest}:
            return "mapping", k, rest
        case [1, *rest]:
            return "sequence", rest
        case Point(0, y=y):
            return "point", y
        case Point(x, y):
            return "any point", x, y
        case str(s) | bytes(s):
            return "text", s
        case int() if v > 3:
            return "big"
        case 1 | 2:
            return "small"
        case _:
            return "rest"


@program(1)
def matches(x):
    return [
        matched(each)
        for each in ({"k": 1, "l": 2}, {"l": 1}, [1, 2, 3], (2,), Point(0, 1), Point(1, 2), "s", b"b", 5, 2, 3)
    ]


@program(1)
def too_many_sub_patterns(x):
    match Point(x, x):
        case Point(1, 2, 3):
            return 0


# -- Imports ----------------------------------------------------------------------------------------------------------


@program(4)
def imports(x):
    import math
    from math import pi

    return math.pi == pi


# -- More of exceptions and generators --------------------------------------------------------------------------------


@program(1)
def context_is_set_anew(x):
    first = KeyError("first")
    try:
        try:
            raise first
        except KeyError:
            raise ValueError("second")  # noqa: B904
    except ValueError:
        raise first  # noqa: B904  the cycle first -> second -> first is cut


@program(1)
def called_functions_see_the_context(x):
    def fail():
        raise ValueError("in the callee")

    try:
        raise KeyError(x)
    except KeyError:
        fail()


@program(1)
def cause_of_a_wrong_type(x):
    raise KeyError from x


@program(1)
def the_name_is_deleted_behind_except(x):
    try:
        raise KeyError(x)
    except KeyError:
        pass
    return e  # noqa: F821


@program(1)
def exit_raises(x):
    class_log = []

    def inner():
        with Failing(class_log):
            raise KeyError(x)

    inner()


class Failing(Manager):
    def __init__(self, log):
        self.log = log

    def __exit__(self, cls, value, tb):
        raise ValueError("in __exit__")


class Countdown:
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        return self

    def __next__(self):
        if not self.n:
            raise StopIteration("the end")
        self.n -= 1
        return self.n


def relays(n):
    got = yield from Countdown(n)
    yield got


@program(3)
def iterators_in_python(n):
    a, b, c = Countdown(n)
    return [*relays(n)], [*Countdown(n)], a, b, c


@program(3)
def throws_into_an_iterator_without_throw(n):
    g = relays(n)
    next(g)
    g.throw(KeyError("k"))


@program(1)
def throws_into_a_fresh_generator(x):
    g = count(2)
    try:
        g.throw(KeyError, "k")
    except KeyError:
        return next(g, "exhausted")


def yields_in_except():
    try:
        raise KeyError("own")
    except KeyError:
        yield 1
        yield 2


@program(1)
def a_waiting_generator_keeps_its_exception_to_itself(x):
    g = yields_in_except()
    next(g)
    raise ValueError("no context")


@program((3, 4))
def zipped_generators(x):
    def pairs():
        for a in x:
            for b in (yield a) or ():  # noqa: UP028
                yield b

    return [(a, b) for a, b in zip(pairs(), pairs(), strict=True)]
