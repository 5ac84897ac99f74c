"""What random programs found (`tests/fuzz`): one program for each rule that was broken."""

# ruff: noqa: B007

import collections
import contextlib
import functools
import operator

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


# -- What was written and is gone again --------------------------------------------------------------------------------


class Holder:
    level = 1

    def __init__(self):
        self.first, self.second = 1, 2


class Derived(Holder):
    own = 3


@program(lambda: (x(), Holder()))
def attribute_set_and_deleted(x, h):
    y = x + 1
    h.extra = y
    del h.extra
    del h.first
    h.first = y
    return y, list(vars(h))


@program()
def class_attribute_set_and_deleted(x):
    y = x + 1
    Derived.level = y
    del Derived.level
    del Derived.own
    Derived.own = 4
    return y, Derived.level


@program()
def global_set_and_deleted(x):
    global FRESH
    FRESH = x + 1
    del FRESH
    FRESH = x + 2
    return FRESH


def _delete(what):
    try:
        what()
    except Exception as error:
        return type(error).__name__, str(error)


def _missing_of_class():
    del Derived.level


def _missing_of_module():
    del torch.nothing_of_this_name


def _missing_in_namespace():
    del globals()["nothing"]


def _missing_of_function():
    del _delete.nothing


@program()
def deletions_of_what_is_not_there(x):
    y = x * 2
    return y + 1, [_delete(each) for each in (_missing_of_class, _missing_of_module, _missing_in_namespace)]


@program()
def deletion_from_a_function(x):
    y = x * 2
    _delete.kept = y
    del _delete.kept
    return y, _delete(_missing_of_function)


# -- An item that was the same object by chance ------------------------------------------------------------------------


@program(Turns(lambda: (x(), {"a": 3}), lambda: (lambda a: (a, {"a": a}))(x()), lambda: (x(), {"a": 3})), calls=3)
def item_replaced_by_what_it_was(x, d):
    e = {"a": x, "b": 1}
    y = x + 1
    print(len(d))
    e |= d
    return y, e


# -- Iterators over what was changed before ----------------------------------------------------------------------------


@program(lambda: (x(), collections.deque([1, 2, 3]), {"a": 1}, [1]))
def iterated_behind_a_change(x, q, d, items):
    y = x + 1
    q.rotate(1)
    d["b"] = 2
    items.extend((2, 3))
    for i, k, j in zip(q, d, reversed(items)):
        print(i, k, j)
        y = y * i
    return y


# -- Writes that memory forbids ----------------------------------------------------------------------------------------


def _subtract_turned(x, log):
    log.append(1)
    x -= x.view(3, 2).t()
    log.append(2)


@program(lambda: (x(), [], Holder()))
def written_and_read_by_another_view(x, log, h):
    x.add_(1)
    h.first = 3
    _subtract_turned(x, log)
    h.first = 4


@program(lambda: (x(), [1]))
def written_twice_in_one_place(x, log):
    x[0] = 1
    log.clear()
    x[:1].expand(2, 3).add_(1)


@program(graphs=True, whole=True)
def neighbours_in_memory(x):
    y = x + 1
    y[0].add_(y[1])
    y[:, :2].mul_(y[:, 1:])
    y[:1].expand(2, 3).fill_(2)
    return y


# -- Operators that no operand takes -----------------------------------------------------------------------------------


class Declines:
    def __add__(self, other):
        return NotImplemented

    __radd__ = __iadd__ = __mul__ = __imul__ = __or__ = __add__


class Welcomes:
    def __radd__(self, other):
        return "radd", other

    def __rmul__(self, other):
        return "rmul", other


class Listed(list):
    pass


class Number(int):
    pass


def _operands():
    return [
        None,
        1,
        2.5,
        "a",
        [1],
        (1,),
        {1},
        {"a": 1},
        Declines(),
        Listed([1]),
        Number(2),
        collections.deque([1]),
        len,
    ]


def _tried(operate, a, b):
    try:
        return operate(a, b)
    except TypeError as error:
        return str(error)


@program()
def refused_in_place(x):
    y = x + 1
    told = []
    for name in ("iadd", "isub", "imul", "imatmul", "ior", "ipow"):
        told += [_tried(getattr(operator, name), a, b) for a in _operands() for b in (None, "b", [2], Declines())]
    return y, told


@program()
def refused(x):
    y = x + 1
    told = []
    for name in ("add", "sub", "mul", "or_", "pow", "lt"):
        told += [_tried(getattr(operator, name), a, b) for a in _operands() for b in (None, "b", [2], Declines())]
    return y, told


@program()
def refused_by_a_statement(x):
    y, n = x + 1, None
    try:
        n += 1
    except TypeError as error:
        return y, str(error)


@program()
def sequence_gives_way_to_the_right(x):
    a = [1]
    b = a
    a += Welcomes()
    return x + 1, a, b, [1] * Welcomes(), (1,) + Welcomes(), 2 * Number(2), Number(2) * [1]


@program(lambda: (x(), collections.OrderedDict(a=1), collections.defaultdict(int, b=2)))
def dicts_of_the_right_class(x, ordered, counted):
    plain = {"a": 0, "c": 3}
    return x + 1, plain | ordered, ordered | plain, plain | counted, counted | plain, collections.Counter("a") | ordered


@program()
def an_exception_is_no_sequence(x):
    told = [_tried(operator.add, (1,), ValueError(1)), _tried(operator.iadd, [1], ValueError(1))]
    return x + 1, told, (1,) + torch.Size([1])


@program(lambda: (x(), collections.deque([1, 2], 2)))
def deques_in_place(x, q):
    kept = q
    q += (3,)
    return x + 1, q is kept, q, q * 2, q + q, 2 * q


@program()
def traceback_taken_off(x):
    y = x + 1
    try:
        x.add_(y)
        raise KeyError("k")
    except KeyError as error:
        kept = error
    raise kept.with_traceback(None)


# -- Identity of numbers that vary ------------------------------------------------------------------------------------


@program(Turns(*[functools.partial(lambda n: (x(), n, {"a": 1, "b": 2}), n) for n in (3, 2, 1, 4, 2)]), calls=5)
def a_small_int_is_that_of_its_value(x, n, d):
    y = x + n
    return y * 2 if n is len(d) else y - 1


@program(Turns(*[functools.partial(lambda n: (x(), n), n) for n in (0.5, 0.25, 0.75)]), calls=3)
def a_float_is_no_int_and_not_none(x, n):
    y = x * n
    return (y + 1 if n is not None else y), n is True, n is x


# -- Containers that change while they are iterated -------------------------------------------------------------------


def letters(n):
    return functools.partial(lambda: (x(), {letter: i for i, letter in enumerate("abc"[:n])}))


@program(Turns(letters(1), letters(2), letters(3)), calls=3)
def a_dict_that_shrinks_is_told(x, d):
    for _ in d:
        d.popitem()
        x = x + 1
    return x


@program(Turns(letters(1), letters(2), letters(3)), calls=3)
def a_dict_that_shrinks_behind_a_break(x, d):
    print("round")
    for _ in d:
        d.popitem()
        x = x + 1
    return x


@program(Turns(letters(1), letters(2), letters(3)), calls=3, graphs=False)
def a_dict_that_shrinks_around_a_break(x, d):
    for _ in d:
        d.popitem()
        x = x + 1
        print("round")
        x = x * 2
    return x


@program(Turns(letters(1), letters(2), letters(3)), calls=3, graphs=False)
def a_dict_with_other_keys_is_pythons(x, d):
    for key in d:
        del d[key]
        d["new" + key] = 1
        x = x + 1
    return x


@program(Turns(lambda: (x(), {1, 2}), lambda: (x(), {3})), calls=2, graphs=False)
def a_set_with_other_items_is_pythons(x, s):
    for item in s:
        s.discard(item)
        s.add(item + 10 if item < 5 else item)
        x = x + 1
    return x


# -- Writes that no version counter shows -----------------------------------------------------------------------------


@program(lambda: (x(), torch.ones(2)), calls=2)
def write_through_data_before_an_error(x, w):
    w.data.add_(1)
    return w * 2, x.index_select(1, torch.tensor([3]))


@program(lambda: (x(), torch.ones(2)), calls=2)
def writes_through_data_and_otherwise_before_an_error(x, w):
    w.data.add_(1)
    LOG.append(len(w))
    x.mul_(2)
    return x.index_select(1, torch.tensor([3]))


@program(lambda: (torch.ones(2, 3),))
def deques_that_change_under_iterators(x):
    x = x * 2
    found = []
    for change in (lambda q: q.rotate(3), lambda q: q.append(q.pop()), lambda q: q.reverse(), lambda q: q.rotate(0)):
        for direction in (iter, reversed):
            queue = collections.deque([1, 2, 3])
            iterator = direction(queue)
            next(iterator)
            change(queue)
            try:
                found.append(next(iterator))
            except RuntimeError as error:
                found.append(str(error))
    return x + 1, found
