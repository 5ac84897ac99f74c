"""Exceptions that a handler of a signal raised while aotdyn was at work: they are the program's, and go on to it.

A handler runs between any two instructions of the main thread, so a time limit
or a wish to stop may come out of the tracer, an operator on fake tensors or a
compiler. It says nothing of what was at work there. May import: the standard
library.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from types import FrameType


def hand_on(error: BaseException) -> None:
    """Raise what a signal's handler raised, if that is what an error is, or was made from; else do nothing."""
    found: BaseException | None = error
    while found is not None:
        if of_a_handler(found):
            raise found
        found = found.__cause__


def of_a_handler(error: BaseException) -> bool:
    """Whether an exception comes out of a handler: a frame that was handed a signal and the frame that it interrupts.

    See the library reference, `signal.signal`: "the handler is called with two
    arguments: the signal number and the current stack frame".
    """
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        given = list(_arguments(traceback.tb_next.tb_frame))
        for number, frame in zip(given, given[1:], strict=False):
            if isinstance(number, int) and frame is traceback.tb_frame:
                return True
        traceback = traceback.tb_next
    return False


def _arguments(frame: FrameType) -> Iterator[object]:
    """What a frame was called with, those of `*args` one by one."""
    code = frame.f_code
    count = code.co_argcount + code.co_kwonlyargcount
    local = frame.f_locals
    for name in code.co_varnames[:count]:
        yield local.get(name)
    if code.co_flags & inspect.CO_VARARGS:
        rest = local.get(code.co_varnames[count])
        yield from rest if isinstance(rest, tuple) else ()
