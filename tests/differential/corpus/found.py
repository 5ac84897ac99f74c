"""What random programs found (`tests/fuzz`): one program for each rule that was broken."""

# ruff: noqa: B007

import collections
import contextlib
import functools

import torch
from differential import Turns, program
from differential import loud as print

LOG = []


def x():
    return torch.arange(6.0).reshape(2, 3) - 2


# -- Facts that nobody looks at, and that decide all the same ----------------------------------------------------------


@program(Turns(lambda: (x(), {"a": 1}), lambda: (x(), {"a": 1, "b": 1}), lambda: (x(), {"a": 1})), calls=3)
def key_that_is_there_and_not_read(x, d):
    y = x + 1
    d.setdefault("b", 2)
    return y, d


@program(Turns(lambda: (x(), {"a": 1}), lambda: (x(), {})), calls=2)
def item_read_for_nothing(x, d):
    y = x + 1
    d["a"]
    return y


@program(lambda: (x(), {"a": 1}))
def dict_updated_with_nothing(x, d):
    d |= {}
    d.update()
    return x + 1, d


# -- Generators --------------------------------------------------------------------------------------------------------


def cleaning(value):
    try:
        yield value
        yield value * 2
    finally:
        LOG.append("cleaned")


@program()
def generator_dropped_with_something_to_clean_up(x):
    waiting = cleaning(x + 1)
    y = next(waiting) * 2
    LOG.append("before")
    return y


@program()
def generator_dropped_by_a_break(x):
    for y in cleaning(x + 1):
        print("found")
        break
    LOG.append("behind")
    return y * 2


@program(graphs=False)
def generator_that_goes_with_the_exception(x):
    waiting = cleaning(x)
    y = next(waiting) + 1
    try:
        LOG[7] + y
    except IndexError:
        raise KeyError("k")  # noqa: B904


# -- Iterators over a break --------------------------------------------------------------------------------------------


@program()
def deque_iterator_over_a_break(x):
    waiting = collections.deque([x, x + 1, x + 2], 4)
    for each in waiting:
        x = x + each
        print("each")
    return x


@program()
def deque_that_turns_while_it_is_iterated_over(x):
    waiting = collections.deque([1, 2, 3], 4)
    for each in waiting:
        x = x + each
        waiting.rotate(1)
    return x


@program(graphs=False)
def deque_whose_items_are_replaced_while_it_is_iterated_over(x):
    waiting = collections.deque([1, 2, 3], 4)
    total = 0
    for i, each in enumerate(waiting):
        total += each
        waiting[-1] = i
    return x + total, waiting


@program()
def slice_as_a_key(x):
    try:
        {"a": 1}[1:]
    except TypeError as error:
        return x + 1, str(error)


@program()
def reduced_by_a_polyfill(x):
    total = functools.reduce(lambda a, b: a + b, [x, x * 2])
    return total + functools.reduce(lambda a, b: a * b, (1, 2, 3), 0)


# -- Functions and exceptions ------------------------------------------------------------------------------------------


def double(x):
    return x * 2


def logged(f):
    @functools.wraps(f)
    def call(*args):
        LOG.append(f.__name__)
        return f(*args)

    return call


@program()
def wrapper_that_shares_its_annotations(x):
    f = logged(double)
    y = f(x + 1)
    print("f")
    return y, f


@program()
def raised_in_a_handler_of_a_group(x):
    y = x + 1
    try:
        LOG.append(y)
        raise ExceptionGroup("g", [ValueError(1), KeyError("k")])
    except* ValueError:
        LOG.append(y * 2)
    except* KeyError:
        raise IndexError("i")  # noqa: B904


@contextlib.contextmanager
def managed(value):
    LOG.append("begin")
    try:
        yield value
    finally:
        LOG.append("end")


@program()
def traceback_set_by_a_context_manager(x):
    with contextlib.ExitStack() as stack:
        stack.callback(LOG.append, 1)
        with managed(x + 1) as y:
            LOG.append(y)
            raise ValueError(1)
