"""Breaks and exceptions: in try, except, else and finally, in callees and their callers, in with blocks."""

# ruff: noqa: F821
# (what is written the long way is what is tested)

import torch
from differential import loud as print
from differential import program


def noisy(value):
    print("noisy", type(value).__name__)
    return value


class Own(Exception):
    def __init__(self, text, code=0):
        super().__init__(text)
        self.code = code


def fails(x, error=ValueError):
    y = x + 1
    print("about to fail")
    raise error("failed", tuple(y.shape))


def fails_deep(x):
    y = x * 2
    return fails(y) + 1


# -- try --------------------------------------------------------------------------------------------------------------


@program()
def in_try(x):
    try:
        x = x + 1
        print("in try")
        x = x * 2
    except ValueError:
        x = x - 1000
    return x


@program()
def in_else_and_finally(x):
    try:
        x = x + 1
    except ValueError:
        x = x - 1000
    else:
        print("else")
        x = x * 2
    finally:
        print("finally")
        x = x + 3
    return x * 2


@program()
def in_except(x):
    try:
        x = x + 1
        raise Own("own", 5)
    except Own as error:
        x = x + error.code
        print("caught", error, error.code)
        x = x * 2
    return x


@program()
def in_nested_except(x):
    try:
        raise KeyError("outer")
    except KeyError as outer:
        x = x + 1
        print("outer")
        try:
            raise ValueError("inner")
        except ValueError as inner:
            x = x * 2
            print("inner", inner.__context__ is outer)
            x = x + 3
        print("back", outer)
        x = x * 5
    return x


@program()
def in_except_without_name(x):
    import sys

    try:
        raise KeyError("k")
    except KeyError:
        x = x + 1
        print("caught", sys.exc_info()[0])
        x = x * 2
    print("after", sys.exc_info()[0])
    return x


@program()
def in_finally_with_exception(x):
    try:
        x = x + 1
        raise ValueError(x.shape[0])
    finally:
        print("finally")
        x.add_(1)


@program()
def in_finally_with_return(x):
    try:
        return x + 1
    finally:
        print("finally")
        x.mul_(2)


@program()
def finally_overrides(x):
    for i in range(3):
        try:
            x = x + i
            if i == 1:
                raise ValueError
            print(i)
        except ValueError:
            print("caught")
            continue
        finally:
            x = x * 2
            print("finally", i)
    return x


@program()
def raised_below_and_caught_above(x):
    try:
        y = fails_deep(x)
    except ValueError as error:
        y = x - 1
        print(error)
    return y * 2


@program()
def raised_below_and_not_caught(x):
    y = x * 2
    try:
        return fails_deep(y)
    except KeyError:
        return y


@program()
def raised_by_the_break(x):
    y = x + 1
    try:
        z = y @ y
    except RuntimeError as error:
        z = y * 2
        print(type(error).__name__)
    return z


@program()
def raised_by_the_break_uncaught(x):
    y = x + 1
    z = y * 2
    return z @ z


@program()
def raised_by_python(x):
    y = x + 1
    return y + {}["missing"]


@program()
def raised_by_python_after_a_break(x):
    y = x + 1
    print("break")
    z = y * 2
    return z + [1, 2][x.shape[0] + 5]


@program()
def raise_from(x):
    y = x + 1
    try:
        fails(y, KeyError)
    except KeyError as error:
        print("caught")
        raise Own("own", 3) from error
    return y


@program()
def raise_from_none(x):
    try:
        fails(x, KeyError)
    except KeyError:
        print("caught")
        raise Own("none") from None


@program()
def raise_in_handler(x):
    try:
        fails(x, KeyError)
    except KeyError:
        y = x + 1
        print("caught")
        raise Own(str(y.shape))  # noqa: B904


@program()
def bare_raise(x):
    try:
        fails(x)
    except ValueError as error:
        error.args += ("more",)
        print("again")
        raise


@program()
def bare_raise_traced(x):
    try:
        y = x + 1
        raise Own("own")
    except Own:
        y = y * 2
        print("again")
        y = y + 1
        raise


@program()
def exceptions_returned(x):
    try:
        fails(x, Own)
    except Own as error:
        error.note = x + 1
        kept = error
    print("kept")
    return kept, Own("new", 7), x * 2


@program()
def tuple_of_classes(x):
    found = []
    for cls in (KeyError, Own, ValueError):
        try:
            print(cls.__name__)
            raise cls("e")
        except (KeyError, Own) as error:
            x = x + 1
            found.append(error.args)
            print("first")
        except ValueError:
            x = x * 2
            print("second")
            found.append("value")
    return x, found


@program()
def breaks_in_except_clause(x):
    try:
        raise KeyError("k")
    except noisy(ValueError):
        return 0
    except noisy(KeyError) as error:
        return x + 1, error.args


@program()
def loop_in_except(x):
    try:
        fails(x)
    except ValueError as error:
        for i in range(3):
            x = x + i
            print(i, error.args[0])
    return x


@program()
def try_in_loop(x):
    errors = []
    for i in range(4):
        try:
            x = x + 1
            if i % 2:
                fails(x)
            print("fine")
        except ValueError as error:
            errors.append(error)
            print("caught", i)
            x = x * 2
        else:
            x = x - 3
            print("else")
        finally:
            x = x + 10
    return x, len(errors), [e.__context__ for e in errors]


@program()
def error_name_is_deleted(x):
    try:
        fails(x)
    except ValueError as error:
        print(error)
    try:
        return error
    except UnboundLocalError as missing:
        print("unbound")
        return x + 1, str(missing)


@program()
def in_place_before_an_error(x):
    x.add_(1)
    y = x * 2
    raise Own(str(y.shape))


@program()
def in_place_before_a_torch_error(x):
    x.add_(1)
    x.view(7)


@program()
def attribute_written_before_an_error(x):
    noisy.last = x + 1
    print("written")
    found = [x]
    found.append(x * 2)
    noisy.found = found
    raise Own("after")


@program()
def index_error_on_data(x):
    y = torch.tensor([0, 7])
    try:
        z = x[y]
    except IndexError as error:
        z = x + 1
        print(error)
    return z


@program()
def index_error_on_data_uncaught(x):
    y = x + 1
    return y[torch.tensor([0, 7])]


@program()
def stop_iteration(x):
    it = iter([x])
    next(it)
    try:
        next(it)
    except StopIteration as error:
        print(error.value)
        return x + 1
    return 0


@program()
def context_chain_over_breaks(x):
    try:
        try:
            try:
                raise KeyError("a")
            finally:
                x = x + 1
                print("one")
        except KeyError:
            print("two")
            raise ValueError("b")  # noqa: B904
    except ValueError as error:
        print("three")
        raise Own("c", int(x.shape[0])) from error


def fails_behind_a_branch(a, fail):
    if a.sum() > 1:
        a = a + 2
    if fail:
        raise KeyError("behind")
    return a * 2


@program(lambda: (torch.ones(2, 3), True))
def returned_call_fails_and_its_handler_reads(x, fail):
    try:
        return fails_behind_a_branch(x, fail)
    except KeyError as error:
        return str(error), x


@program(lambda: (torch.ones(2, 3), True))
def nested_call_fails_and_its_handler_reads(x, fail):
    kept = x + 1
    try:
        with torch.no_grad():
            return fails_behind_a_branch(x, fail), None
    except KeyError as error:
        return str(error), kept, x
    finally:
        print(kept.sum())
