"""One line on stderr for a user who waits for kernels: rewritten in place on a terminal, else printed now and then."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator

WIDTH = 20

EVERY = 30.0
"Seconds between two lines where nothing can be rewritten."

quiet = False
"Whether the user wants to hear nothing of this."


@contextlib.contextmanager
def line(title: str) -> Iterator[Callable[..., None]]:
    """Give a function that is told how many are done, of how many, and at what one is."""
    terminal = is_terminal()
    start = last = time.monotonic()
    shown = ""
    if not terminal:
        write(title + "\n")

    def say(done: int, total: int, what: str = "") -> None:
        nonlocal shown, last
        about = f": {what}" if what else ""
        now = time.monotonic()
        if terminal:
            text = f"\r{title}: {bar(done, total)} {left(done, total, now - start)}{about}"
            if text != shown:
                shown = text
                write(f"{text}\x1b[K")
        elif now - last >= EVERY:
            last = now
            write(f"aotdyn: {done} of {total} done, {left(done, total, now - start)}{about}\n")

    try:
        yield say
    finally:
        if terminal:
            write("\r\x1b[K")


def bar(done: int, total: int) -> str:
    """What is done, as a bar and in numbers."""
    full = WIDTH * done // max(total, 1)
    return f"[{'#' * full}{'.' * (WIDTH - full)}] {done}/{total}"


def left(done: int, total: int, seconds: float) -> str:
    """How long it has taken, and how long it may take still."""
    guess = f", about {seconds / done * (total - done):.0f} s left" if done and done < total else ""
    return f"{seconds:.0f} s{guess}"


def is_terminal() -> bool:
    """Whether somebody may be looking at stderr."""
    try:
        return sys.stderr.isatty()
    except (AttributeError, ValueError):
        return False


def write(text: str) -> None:
    """Write to stderr, wherever that leads: nothing of the program's hangs on it."""
    if quiet:
        return
    with contextlib.suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(text)
        sys.stderr.flush()
