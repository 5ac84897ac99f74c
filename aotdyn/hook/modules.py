"""The rewritten code of a module: from the store, or made and stored.

A module's record is marshalled: the rewritten code and the names of its dispatchers. The
original code of its functions lies in a second record, read only when a tracer
wants it. Both are keyed by the module's name, its source's digest and what
else decides about its bytecode.
"""

from __future__ import annotations

import contextlib
import marshal
import sys
import threading
from collections.abc import Iterator
from hashlib import blake2b
from types import CodeType
from typing import Any

from aotdyn import config
from aotdyn.hook.attach import attach, log
from aotdyn.report import events

_store: tuple[Any, Any] | None = None
_busy = threading.local()


def load(name: str, source: bytes, path: str) -> CodeType | None:
    """The stored code of module `name`, its dispatchers attached; None where there is none.

    Args:
        name: the module's name; `__main__@<file>` for a program.
        source: the file's content.
        path: the file, for the code objects.
    """
    with _at_work() as free:
        return _load(shared_store(), module_key(name, source), name, path) if free else None


def make(name: str, source: bytes, ordinary: CodeType) -> CodeType:
    """Code of a module with a stub for each function, made from its ordinary code, stored, its dispatchers attached."""
    with _at_work() as free:
        if not free:
            return ordinary
        try:
            with events.phase("rewrite"):
                rewritten, originals = rewrite(ordinary, name)
                _save(shared_store(), module_key(name, source), rewritten, originals)
            register(originals)
            attach(name, originals)
            return rewritten
        except Exception as error:
            if config.current().strict:
                raise
            reason = f"{type(error).__name__}: {error}"
            log.warning("aotdyn: %s is left to Python, since it can't be rewritten: %s", name, reason)
            return ordinary


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


def rewrite(ordinary: CodeType, name: str) -> tuple[CodeType, dict[str, CodeType]]:
    """Rewritten code of a module, and the original code of its functions by dispatcher."""
    from aotdyn.rewrite import stubs as rewriting

    rewritten, infos = rewriting.stub_tree(ordinary, name)
    return rewritten, {info.dispatcher: info.code for info in infos}


def register(originals: dict[str, CodeType]) -> None:
    """Make original code known to whoever wants to trace."""
    from aotdyn.rewrite import originals as table

    for dispatcher, code in originals.items():
        table.register(dispatcher, code)


def module_key(name: str, source: bytes) -> str:
    """The store's key of a module's record."""
    whole = blake2b(f"{name}\0{sys.flags.optimize}\0".encode(), digest_size=16)
    whole.update(source)
    return whole.hexdigest()


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
    from aotdyn.errors import CacheError
    from aotdyn.store.store import Store

    if root is None:
        return None
    try:
        return Store(root, tracing_key, trust=trust)
    except CacheError as error:
        log.warning("aotdyn: nothing is cached: %s", error)
        return None


def _load(store: Any, key: str, name: str, path: str) -> CodeType | None:
    blob = None if store is None else store.module(key)
    if blob is None:
        return None
    try:
        code, dispatchers = marshal.loads(blob)
    except (ValueError, EOFError, TypeError) as error:
        log.warning("aotdyn: a stored module isn't one, it is made anew: %s: %s", name, error)
        return None
    _fix_filename(code, path)
    from aotdyn.rewrite import originals

    originals.register_later(dispatchers, _Originals(store, key, name, path))
    attach(name, dispatchers)
    return code


def _save(store: Any, key: str, code: CodeType, originals: dict[str, CodeType]) -> None:
    # The originals first: where the module's record is, they are too.
    if store is not None and store.save_module(f"{key}.o", marshal.dumps(originals)):
        store.save_module(key, marshal.dumps((code, tuple(originals))))


class _Originals:
    """The original code of a stored module's functions, read at the first question."""

    def __init__(self, store: Any, key: str, name: str, path: str) -> None:
        self._source = (store, key, name, path)
        self._codes: dict[str, CodeType] | None = None

    def __call__(self, dispatcher: str) -> CodeType:
        if self._codes is None:
            store, key, name, path = self._source
            blob = store.module(f"{key}.o")
            codes = _remade(store, key, name, path) if blob is None else marshal.loads(blob)
            for code in codes.values():
                _fix_filename(code, path)
            self._codes = codes
        return self._codes[dispatcher]


def _remade(store: Any, key: str, name: str, path: str) -> dict[str, CodeType]:
    """Original code that the cache has lost, or that was damaged there, made from the source file again.

    Raises:
        LookupError: the source isn't any more what was loaded.
    """
    try:
        with open(path, "rb") as file:
            source = file.read()
    except OSError:
        source = b""
    if module_key(name, source) != key:
        raise LookupError(f"the cache lost the original code of {path}, whose source has changed")
    rewritten, codes = rewrite(compile(source, path, "exec", dont_inherit=True), name)
    _save(store, key, rewritten, codes)
    return codes


def _fix_filename(code: CodeType, path: str) -> None:
    """Write where the source lies now into stored code, as importlib does for a .pyc (`_compile_bytecode`)."""
    import _imp

    if code.co_filename != path:
        _imp._fix_co_filename(code, path)  # type: ignore[attr-defined]
