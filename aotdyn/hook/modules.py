"""The rewritten code of a module: from the store, or made and stored.

A record is marshalled code whose functions are stubs, with what their switchboard needs. It is found in two ways.

By *digest*, under a key of the module's name and its source. That is always right, and finds the record of a project
that was moved or copied; but the source must be read.

By *place*, under a key of what the file system says of the source file: path, number, size, times of modification and
of change. Whoever writes to a file moves its time of change, which no program can set; so the file that has these
facts is the file that was read, if its last change was a while ago then (the clock of file systems moves in steps,
and two writes within one look alike). So a warm import costs one look at the source file and one file to read, as a
plain one does. A .pyc is believed for size and time of modification, in seconds, alone.
"""

from __future__ import annotations

import _imp
import contextlib
import importlib.util
import marshal
import os
import sys
import threading
import time
from collections.abc import Iterator
from hashlib import blake2b
from types import CodeType
from typing import Any

from aotdyn import config
from aotdyn.hook.attach import attach, log, of_the_program
from aotdyn.report import events
from aotdyn.rewrite import names

SETTLED = 2.0
"Seconds after which a file's time of change tells a new write from the last one; file systems count in up to two."

_FORM = f"4.{names.FORM}"
"Raise it when records get another form; for that of stubs there is `names.FORM`."

_store: tuple[Any, Any] | None = None
_busy = threading.local()
_known: set[str] = set()
"Keys of what was found in the store."


def load(key: str, name: str, path: str) -> CodeType | None:
    """The stored code of a module, its dispatchers attached; None where there is none.

    Args:
        key: what `by_place` or `by_digest` gives.
        name: the module's name; `__main__@<file>` for a program.
        path: the source file, for the code objects.
    """
    if not key or getattr(_busy, "flag", False):
        return None
    _busy.flag = True
    try:
        store = shared_store()
        blob = None if store is None else store.module(key)
        if blob is None:
            return None
        _known.add(key)
        code, *facts = marshal.loads(blob)
        attach(*facts)
    except (ValueError, EOFError, TypeError) as error:
        log.warning("aotdyn: a stored module isn't one, it is made anew: %s: %s", name, error)
        return None
    finally:
        _busy.flag = False
    if code.co_filename != path:  # as importlib does for a .pyc (`_compile_bytecode`)
        _imp._fix_co_filename(code, path)  # type: ignore[attr-defined]
    return code


def fits(name: str) -> bool:
    """Whether the policy has time for the stubs of a module that isn't stored: see `runtime.thrift`."""
    from aotdyn.runtime import thrift

    return of_the_program(name) or thrift.may_rewrite(name, bool(_known))


def make(name: str, source: bytes, ordinary: CodeType, other: str = "") -> CodeType:
    """Code of a module with a stub for each function, made from its ordinary code, stored, its dispatchers attached.

    With `other`, a key by its place or one that doesn't say where it lies, it is found by that as well, by its name
    here.
    """
    with _at_work() as free:
        if not free:
            return ordinary
        try:
            with events.phase("rewrite"):
                rewritten = rewrite(ordinary, name, source)
                _save([key for key in (by_digest(name, source), other) if key], rewritten)
            attach(*rewritten[1:])
            return rewritten[0]
        except Exception as error:
            if config.current().strict:
                raise
            reason = f"{type(error).__name__}: {error}"
            log.warning("aotdyn: %s is left to Python, since it can't be rewritten: %s", name, reason)
            return ordinary


Rewritten = tuple[CodeType, str, str, int, dict[int, str]]
"The code, and what `attach` is told: the switchboard's name, the module's, how many stubs, orders."


def rewrite(ordinary: CodeType, name: str, source: bytes) -> Rewritten:
    """The rewritten code of a module, and what there is to attach."""
    from aotdyn.rewrite import stubs as rewriting
    from aotdyn.rewrite import switchboard

    board = switchboard.board_name(name, by_digest(name, source))
    code, made = rewriting.stub_tree(ordinary, name, board)
    return code, board, name, len(made), {i: info.order for i, info in enumerate(made) if info.order}


def by_digest(name: str, source: bytes) -> str:
    """The store's key of a module's record, by its source."""
    whole = blake2b(f"{_FORM}\0{name}\0{sys.flags.optimize}\0".encode(), digest_size=16)
    whole.update(source)
    return whole.hexdigest()


def by_place(name: str, path: str) -> str:
    """The same by where the source lies; empty where that is no proof of what is in it."""
    if os.name != "posix":
        return ""  # elsewhere st_ctime isn't the time of change
    try:
        facts = os.stat(path)
    except OSError:
        return ""
    if time.time() - facts.st_ctime < SETTLED:
        return ""
    numbers = f"{facts.st_ino} {facts.st_size} {facts.st_mtime_ns} {facts.st_ctime_ns}"
    whole = f"{_FORM}\0{name}\0{sys.flags.optimize}\0{path}\0{numbers}"
    return blake2b(whole.encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()


def has_followed(path: str, place: str) -> bool:
    """Whether the .pyc of a source was written after the last change of the source: then it is of what is there now.

    By itself a .pyc says the size of its source and the second of its change, which whoever writes to it may set back.
    """
    if not place:
        return False
    try:
        return os.stat(importlib.util.cache_from_source(path)).st_mtime_ns > os.stat(path).st_ctime_ns
    except (OSError, NotImplementedError):
        return False


def keep(place: str, name: str, source: bytes) -> None:
    """Let the record of a source be found by its place from now on: `by_place` as it was before the source was read."""
    store = shared_store()
    if place and store is not None and store.writable and (blob := store.module(by_digest(name, source))) is not None:
        store.save_module(place, blob)


def choose_store() -> None:
    """Take the store that the options name now: once at each `install`, for reading the options takes its time."""
    global _store
    options = config.current()
    key = (config.cache_root(), options.tracing_key(), options.cache_trust)
    if _store is None or _store[0] != key:
        _store = (key, _open(*key))


def shared_store() -> Any:
    """The store of rewritten modules; None where nothing is kept."""
    if _store is None:
        choose_store()
    assert _store is not None
    return _store[1]


def _open(root: Any, tracing_key: str, trust: bool) -> Any:
    from aotdyn.store.store import opened

    store = None if root is None else opened(root, tracing_key, trust)
    return None if store is None or store.root is None else store


@contextlib.contextmanager
def _at_work() -> Iterator[bool]:
    """False where this thread is in here already: what we import ourselves meanwhile isn't hooked."""
    free = not getattr(_busy, "flag", False)
    _busy.flag = True
    try:
        yield free
    finally:
        if free:
            _busy.flag = False


def _save(keys: list[str], rewritten: Rewritten) -> None:
    from aotdyn.rewrite import compact

    store = shared_store()
    if store is not None:
        data = compact.dumps(rewritten)
        for key in keys:
            store.save_module(key, data)
