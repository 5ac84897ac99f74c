"""Functions that break and look around, for test_frames."""

from __future__ import annotations

import sys
import warnings
import weakref

import torch

import aotdyn

seen: list = []


def look():
    """Notes its callers, up to the first that isn't of this file: function and line."""
    frame = sys._getframe(1)
    while frame.f_code.co_filename == __file__:
        seen.append((frame.f_code.co_qualname, frame.f_lineno))
        frame = frame.f_back
    seen.append(frame.f_code.co_name)


def note():
    """Notes its caller's frame."""
    seen.append(sys._getframe(1))


def breaks_in_a_try(x):
    y = x + 1
    for i in range(3):
        try:
            look()
            y = y * 2
            if i == 1:
                raise KeyError(i)
        except KeyError:
            look()
            y = y - 1
        finally:
            y = y + i
    return y


def one_frame(x):
    for _ in range(3):
        x = x + 1
        note()
        x = x * 2
    return x


def warns(x):
    x = x + 1
    warnings.warn("old", DeprecationWarning, stacklevel=2)
    return x * 2


def calls_what_warns(x):
    y = x * 3
    y = warns(y)
    return y + 1


def recurses(x, n):
    x = x + 1
    aotdyn.graph_break()
    return recurses(x, n - 1) * 1 if n else x


def breaks_often(x):
    for i in range(10_000):  # noqa: B007
        x = x + 1
        aotdyn.graph_break()
    return x, i


class Held:
    pass


def local_dies_where_deleted(x, report):
    held = Held()
    ref = weakref.ref(held)
    aotdyn.graph_break()
    report.append(ref() is None)
    x = x + 1
    del held
    aotdyn.graph_break()
    report.append(ref() is None)
    return x


def counts(x, log):
    total = 0

    def add(n):
        nonlocal total
        total += n
        return total

    log.append(add)
    for i in range(3):
        x = x + add(i)
        aotdyn.graph_break()
    return x + total, add


def mixes(x, log):
    y = inner(x, log) + 1
    aotdyn.graph_break()
    with torch.no_grad():
        z = inner(y, log)
        aotdyn.graph_break()
        log.append(torch.is_grad_enabled())
    try:
        z = inner(z, None)
    except AttributeError as error:
        log.append((str(error), lines(error)))
    return z * 2


def inner(x, log):
    x = x * 2
    aotdyn.graph_break()
    log.append(sys.exc_info()[0])
    return x + 1


def lines(error):
    """Functions and lines of a traceback."""
    found, entry = [], error.__traceback__
    while entry is not None:
        found.append((entry.tb_frame.f_code.co_qualname, entry.tb_lineno))
        entry = entry.tb_next
    return found


def tells(log):
    log.append("called")


def raises(log):
    log.append("raises")
    raise ValueError


def handles(x, log):
    x = x + 1
    tells(log)
    try:
        x = x * 2
        raises(log)
    except ValueError:
        tells(log)
    return x


def lets_out(x, log):
    x = x + 1
    raises(log)
    return x
