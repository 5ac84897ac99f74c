"""`with`: context managers of all kinds, their exits, and what they suppress."""

# ruff: noqa: RET504
# (what is written the long way is what is tested)

import contextlib

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


class Manager:
    def __init__(self, name, swallow=False):
        self.name, self.swallow, self.log = name, swallow, []

    def __enter__(self):
        print("enter", self.name)
        return self

    def __exit__(self, cls, value, tb):
        print("exit", self.name, cls and cls.__name__, value and value.args, tb is None)
        self.log.append(cls)
        return self.swallow


class Quiet:
    def __init__(self, log):
        self.log = log

    def __enter__(self):
        self.log.append("enter")
        return self.log

    def __exit__(self, cls, value, tb):
        self.log.append(cls)
        return cls is KeyError


@contextlib.contextmanager
def managed(log):
    log.append("before")
    try:
        yield log
    except ValueError as error:
        log.append(error.args[0])
        raise
    finally:
        log.append("after")


@contextlib.contextmanager
def noisy_manager(log):
    print("before")
    try:
        yield log
    finally:
        print("after")


@program()
def in_with(x):
    with Manager("a") as m:
        x = x + 1
        print("in with", m.name)
        x = x * 2
    return x, m


@program()
def in_quiet_with(x):
    log = []
    with Quiet(log):
        x = x + 1
        print("in with")
        x = x * 2
    return x, log


@program()
def with_that_swallows(x):
    with Manager("a", swallow=True):
        x = x + 1
        fails(x)
        x = x * 1000
    return x * 2


@program()
def quiet_with_that_swallows(x):
    log = []
    with Quiet(log):
        x = x + 1
        print("break")
        raise KeyError("k")
    return x * 2, log


@program()
def with_that_does_not_swallow(x):
    log = []
    try:
        with Quiet(log):
            x = x + 1
            print("break")
            raise ValueError("v")
    except ValueError as error:
        return x * 2, log, error.args


@program()
def nested_withs(x):
    with Manager("a") as a, Manager("b", swallow=True) as b:
        x = x + 1
        print("inside")
        with Manager("c"):
            fails(x)
    return x, a, b


@program()
def with_in_a_loop(x):
    log = []
    for i in range(3):
        with Quiet(log):
            x = x + i
            print(i)
            if i == 1:
                continue
            x = x * 2
            if i == 2:
                break
    return x, log


@program()
def with_and_return(x):
    log = []
    with Quiet(log), Manager("m"):
        x = x + 1
        print("inside")
        return x * 2, log


@program()
def generator_manager(x):
    log = []
    with managed(log) as same:
        x = x + 1
        print("inside")
        x = x * 2
    return x, log, same is log


@program()
def generator_manager_without_break(x):
    log = []
    with managed(log):
        x = x + 1
    return x, log


@program()
def generator_manager_with_error(x):
    log = []
    try:
        with managed(log):
            x = x + 1
            fails(x)
    except ValueError as error:
        return x * 2, log, error.args


@program()
def noisy_generator_manager(x):
    log = []
    with noisy_manager(log):
        x = x + 1
        log.append(x)
    return x, log


@program()
def no_grad(x):
    w = torch.ones(3, requires_grad=True)
    y = x * w
    with torch.no_grad():
        a = w * 2
        print(torch.is_grad_enabled())
        b = w * 3
    c = w * 4
    print(torch.is_grad_enabled())
    return y, a, b, c


@program()
def nested_grad_modes(x):
    w = torch.ones(3, requires_grad=True)
    with torch.no_grad():
        a = w * 2
        with torch.enable_grad():
            b = w * 2
            print(torch.is_grad_enabled())
            c = w * 3
        print(torch.is_grad_enabled())
        d = w + a
    return a, b, c, d, w + 1


@program()
def no_grad_and_an_error(x):
    w = torch.ones(3, requires_grad=True)
    try:
        with torch.no_grad():
            a = w * 2
            print("inside")
            fails(a)
    except ValueError:
        print(torch.is_grad_enabled())
    return w * 2, a


@program()
def no_grad_and_an_error_uncaught(x):
    with torch.no_grad():
        a = x * 2
        print("inside")
        fails(a)


@program()
def no_grad_decorated(x):
    w = torch.ones(3, requires_grad=True)

    @torch.no_grad()
    def inner(y):
        z = y * 2
        print(torch.is_grad_enabled())
        return z * w

    return inner(x), w * x


@program()
def set_grad_enabled(x):
    w = torch.ones(3, requires_grad=True)
    before = torch.is_grad_enabled()
    torch.set_grad_enabled(False)
    a = w * 2
    print(torch.is_grad_enabled())
    torch.set_grad_enabled(before)
    return a, w * 3


@program()
def autocast(x):
    w = torch.ones(3, 3)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        a = x @ w
        print(a.dtype)
        b = a @ w.to(a.dtype)
        with torch.autocast("cpu", enabled=False):
            c = x @ w
            print(c.dtype)
            d = c @ w
    return a, b, c, d, x @ w


@program()
def no_grad_loop(x):
    w = torch.ones(3, requires_grad=True)
    found = []
    for i in range(3):
        with torch.no_grad():
            found.append(w * i)
            print(i)
        found.append(w + i)
    return found


@program()
def exit_stack(x):
    log = []
    with contextlib.ExitStack() as stack:
        stack.enter_context(Quiet(log))
        x = x + 1
        print("inside")
        stack.callback(log.append, "callback")
        x = x * 2
    return x, log


@program()
def suppress(x):
    with contextlib.suppress(ValueError, KeyError):
        x = x + 1
        fails(x)
    with contextlib.nullcontext(x) as same:
        print("null")
        x = same * 2
    return x


@program()
def enter_raises(x):
    class Bad:
        def __enter__(self):
            raise Own("enter")

        def __exit__(self, *args):
            print("never")

    y = x + 1
    try:
        with Bad():
            y = y * 1000
    except Own as error:
        print(error)
    return y


@program()
def exit_raises(x):
    class Bad:
        def __enter__(self):
            return self

        def __exit__(self, cls, value, tb):
            print("exit")
            raise Own("exit")

    y = x + 1
    with Bad():
        fails(y)


@program()
def lock_held(x):
    import threading

    lock = threading.Lock()
    with lock:
        y = x + 1
        print(lock.locked())
        y = y * 2
    return y, lock.locked()
