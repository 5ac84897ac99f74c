"""Reading and writing whole files: bounded reads, and writes that appear by one rename or not at all."""

from __future__ import annotations

import os
import shutil
import stat
import time
from collections.abc import Iterator

from aotdyn.store.integrity import HEADER_SIZE, LIMIT, Damaged, distrust
from aotdyn.store.layout import TEMPORARY

DAY = 24 * 3600.0

RENEWED = 900.0
"Seconds for which a file's time of use isn't renewed. A time in the future, of a clock that jumped, is at once."


def temporary(path: str) -> str:
    """A name beside `path` that no other writer uses."""
    return f"{path}{TEMPORARY}{os.getpid()}-{os.urandom(4).hex()}"


def make_directory(path: str) -> None:
    """Create a directory and what is missing above it, all for this user only."""
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        if not os.path.isdir(path):
            raise
    except FileNotFoundError:
        above = os.path.dirname(path)
        if above in (path, ""):
            raise
        if not os.path.isdir(above):
            make_directory(above)
        # Somebody else may have made what was missing above. Where no directories are taken, as in /proc, this fails.
        os.makedirs(path, 0o700, exist_ok=True)


def read(path: str, *, trust: bool, touch: bool, limit: int = HEADER_SIZE + LIMIT) -> bytes | None:
    """Content of a file, None where there is none.

    With `touch` its time of modification is renewed now and then: that is how
    `gc` knows what is in use.

    Raises:
        Damaged: too big, not a regular file, or writable by somebody else (unless `trust`).
        OSError: it is there and can't be read.
    """
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0))
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        info = os.fstat(handle)
        if not stat.S_ISREG(info.st_mode):
            raise Damaged("not a regular file")
        if info.st_size > limit:
            raise Damaged(f"{info.st_size} bytes, where {limit} are allowed")
        if not trust and (reason := distrust(info)):
            raise Damaged(reason)
        data = os.read(handle, info.st_size + 1)
        while len(data) < info.st_size and (more := os.read(handle, info.st_size + 1 - len(data))):
            data += more
    finally:
        os.close(handle)
    if touch:
        renew(path, info)
    return data


def renew(path: str, info: os.stat_result | None = None) -> None:
    """Say that a path is in use, at most every RENEWED seconds; failing is no failure."""
    try:
        if abs(time.time() - (info or os.stat(path)).st_mtime) > RENEWED:
            os.utime(path)
    except OSError:
        pass


def write(path: str, data: bytes, mode: int = 0o600) -> None:
    """Put a whole file in its place, for this user only where no other `mode` is given.

    Readers see the old state or the new one. There is no fsync: after a power
    failure a file may be short, and its digest then makes it a miss.
    """
    try:
        _write(path, data, mode)
    except FileNotFoundError:  # its directory was removed meanwhile
        _write(path, data, mode)


def _write(path: str, data: bytes, mode: int) -> None:
    made = temporary(path)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    try:
        handle = os.open(made, flags, mode)
    except FileNotFoundError:
        make_directory(os.path.dirname(path))
        handle = os.open(made, flags, mode)
    try:
        with open(handle, "wb", buffering=0) as file:
            view = memoryview(data)
            while view:
                view = view[file.write(view) :]
        os.replace(made, path)
    except BaseException:
        _unlink(made)
        raise


def remove(path: str) -> bool:
    """Remove a file or a directory with all in it; a directory goes out of sight at once. Whether it is gone."""
    if not os.path.isdir(path) or os.path.islink(path):
        return _unlink(path)
    hidden = temporary(path)
    try:
        os.rename(path, hidden)
    except OSError:
        return False
    shutil.rmtree(hidden, ignore_errors=True)
    return True


def _unlink(path: str) -> bool:
    try:
        os.unlink(path)
    except OSError:
        return False
    return True


def leftovers(base: str, older: float) -> Iterator[str]:
    """What killed writers left under `base` more than `older` seconds ago, outermost first."""
    limit = time.time() - older
    for directory, folders, files in os.walk(base):
        for name in [*folders, *files]:
            if TEMPORARY not in name:
                continue
            path = os.path.join(directory, name)
            try:
                old = os.lstat(path).st_mtime < limit
            except OSError:
                continue
            if old:
                yield path
        folders[:] = [name for name in folders if TEMPORARY not in name]
