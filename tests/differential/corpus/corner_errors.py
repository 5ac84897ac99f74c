"""Corners of exceptions: their links and lines around breaks."""

# (what is written the long way is what is tested)

import sys

import torch
from differential import loud as print
from differential import program

SEEN = []


def noisy(value):
    print("noisy", type(value).__name__)
    return value


class Own(Exception):
    pass


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


def turns(values):
    yield from values


@program()
def a_cell_is_emptied_twice(x):
    held = x

    def inner(a):
        nonlocal held
        for _ in turns(range(3)):
            a.add_(1)
            del held
        held = a
        return a * held

    try:
        return inner(x)
    except NameError as error:
        return str(error), x


@program()
def an_empty_cell_is_read_and_dropped(x):
    held = x

    def inner(a):
        nonlocal held
        for _ in turns(range(3)):
            a.add_(1)
            held  # noqa: B018
            if a.sum() > 5:
                del held
        return a * 2

    try:
        return inner(x)
    except NameError as error:
        return str(error), x


def outside(a):
    return a.index_select(1, torch.tensor([7]))


def written_first(a):
    a.add_(1)
    return [outside(each) for each in (a, a)]


@program()
def an_operator_fails_in_an_inlined_frame_behind_a_write(x):
    return written_first(x)


@program()
def an_operator_fails_in_a_method_of_a_local_class_object(x):
    class Local:
        @property
        def picked(self):
            x.add_(1)
            return (lambda a: outside(a))(x)

    return x + 1, Local().picked
