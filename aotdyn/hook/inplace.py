"""Stubs for a module that is imported already: its functions get other code, and stay the same objects."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import CodeType, FunctionType, ModuleType

from aotdyn import collecting, config
from aotdyn.hook import modules
from aotdyn.hook.attach import attach, log


def stub_module(module: ModuleType) -> int:
    """Put stubs into the functions of a module that exist now; how many.

    The code comes from the source file, so that names and digests are those
    of a module hooked as it loads; a function that isn't in it (the file has
    changed, or the function was made by exec) keeps its code.
    """
    from aotdyn.rewrite.digest import digest

    name, path = module.__name__, module.__file__ or ""
    try:
        with open(path, "rb") as file:
            source = file.read()
        ordinary = compile(source, path, "exec", dont_inherit=True)
        rewritten, board, _, count, orders = modules.rewrite(ordinary, name, source)
    except Exception as error:
        if config.current().strict and not isinstance(error, OSError | SyntaxError | ValueError):
            raise
        log.warning("aotdyn: %s is left to Python, since it can't be rewritten: %s", name, error)
        return 0
    table = dict(_pairs(ordinary, rewritten, digest))
    found = 0
    # Every function of the module refers to its namespace, wherever the function itself is kept.
    for function in collecting.referrers(module.__dict__):
        if not isinstance(function, FunctionType) or function.__globals__ is not module.__dict__:
            continue
        old = function.__code__
        if old.co_filename != path:
            continue
        new = table.get((old.co_qualname, digest(old)))
        if new is not None and len(new.co_freevars) == len(old.co_freevars):
            function.__code__ = new
            found += 1
    attach(board, name, count, orders)
    log.debug("%s: %d functions became stubs in place", name, found)
    return found


def _pairs(
    ordinary: CodeType, rewritten: CodeType, digest: Callable[[CodeType], str]
) -> Iterator[tuple[tuple[str, str], CodeType]]:
    """Old and new of each code object in two trees of the same form: ((qualname, digest), new)."""
    new = [constant for constant in rewritten.co_consts if isinstance(constant, CodeType)]
    old = [constant for constant in ordinary.co_consts if isinstance(constant, CodeType)]
    for before, after in zip(old, new, strict=True):
        yield (before.co_qualname, digest(before)), after
        yield from _pairs(before, after, digest)
