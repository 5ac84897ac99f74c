"""Why a stored function isn't used: `cache show --why-miss`.

Three things are asked. Is it stored under what this process is (Python, torch,
options)? Is the code that was captured the code there is now? What did the
last process that traced the function again find to be different? And for its
kernels: are machine, modes and settings those that they were compiled for?
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from importlib.machinery import PathFinder
from types import CodeType

from aotdyn.runtime.variant import Variant
from aotdyn.store import kernels
from aotdyn.store.environment import describe, environment_key
from aotdyn.store.integrity import Damaged
from aotdyn.store.inventory import Environment, Stored

Stores = list[tuple[Environment, list[Stored]]]
"The stored variants of a function, by environment."


def reasons(found: Stores, options: str) -> list[str]:
    """Sentences that say why variants would be missed here; one that says that nothing is known if there are none.

    Args:
        options: the part of the environment's key that the options give.
    """
    sentences = list(_environments(found, options))
    current = [pair for pair in found if pair[0].key == environment_key(options)]
    for environment, variants in current:
        sentences += _recorded(environment, variants)
        for stored in variants:
            sentences += _code(stored.variant)
            sentences += _kernels(environment, stored.variant)
    return list(dict.fromkeys(sentences)) or [
        "nothing is known that would make this a miss: it is stored for this environment, its code is as it was "
        "captured, and no process has traced it again since"
    ]


def _environments(found: Stores, options: str) -> Iterator[str]:
    """Where a function is stored for others alone: what tells them from this process."""
    here = describe(options)
    if any(environment.key == environment_key(options) for environment, _ in found):
        return
    for environment, _ in found:
        there = environment.description()
        words = [f"{name} {there.get(name) or 'none'!s} (here {here[name] or 'none'})"
                 for name in here if there.get(name, "") != here[name]]  # fmt: skip
        yield f"it is stored for another environment, {environment.key}: " + (
            ", ".join(words) or ("another build of the same Python or torch" if there else "which isn't described")
        )


def _recorded(environment: Environment, variants: list[Stored]) -> Iterator[str]:
    """What processes found that had to trace again though variants were stored."""
    for directory in dict.fromkeys(os.path.dirname(stored.path) for stored in variants):
        try:
            with open(f"{environment.path}/misses/{os.path.basename(directory)}", encoding="utf-8") as file:
                lines = file.read(1 << 16).splitlines()
        except (OSError, UnicodeDecodeError):
            continue
        for line in lines:
            when, _, reason = line.partition("\t")
            if when.isdecimal():
                stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(int(when)))
                yield f"it was traced again at {stamp}: {reason}"


def _code(variant: Variant) -> Iterator[str]:
    """The functions of a variant whose code isn't what was captured."""
    traced = [(variant.spec.module, variant.spec.qualname, variant.spec.digest)]
    traced += [(each.module, each.qualname, each.digest) for each in variant.inlined]
    for module, qualname, digest in dict.fromkeys(traced):
        path = _source(module)
        if path is None:
            if module.startswith("__main__@"):
                file = module.partition("@")[2]
                yield f"{file} isn't there any more: a program is known by its path, or by all of its source"
            continue
        now = _digests(path, qualname)
        if now is not None and not any(each == digest or digest.startswith(each + ".") for each in now):
            what = "has other code now" if now else "isn't defined any more"
            yield f"{module}.{qualname} {what} ({path}): it was captured as {digest[:8]}" + (
                f", is {', '.join(each[:8] for each in now)}" if now else ""
            )


def _source(module: str) -> str | None:
    """A module's source file, found without importing anything; None where there is none."""
    if module.startswith("__main__@"):
        path = module.partition("@")[2]
        return path if os.path.isfile(path) else None
    where = [os.getcwd(), *sys.path]
    spec = None
    for count in range(1, module.count(".") + 2):
        try:
            spec = PathFinder.find_spec(".".join(module.split(".")[:count]), where)
        except (ImportError, ValueError):
            return None
        if spec is None:
            return None
        where = list(spec.submodule_search_locations or [])
    return spec.origin if spec is not None and (spec.origin or "").endswith(".py") else None


def _digests(path: str, qualname: str) -> list[str] | None:
    """Digests of all functions of a name in a file; None where they can't be told."""
    from aotdyn.rewrite.digest import digest

    try:
        with open(path, "rb") as file:
            whole = compile(file.read(), path, "exec", dont_inherit=True)
    except (OSError, SyntaxError, ValueError):
        return None
    return [digest(code) for code in _codes(whole) if code.co_qualname == qualname]


def _codes(code: CodeType) -> Iterator[CodeType]:
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield each
            yield from _codes(each)


def _kernels(environment: Environment, variant: Variant) -> Iterator[str]:
    """For a graph with kernels of which none is for this process: what they were compiled for."""
    if variant.graph is None:
        return
    from aotdyn.backends import ambient

    here = ambient.about()
    differing = []
    for path in environment.entries("kernels"):
        try:
            found = kernels.manifest(path, trust=environment.trust)
        except (Damaged, OSError):
            continue
        if found is None or found.graph != variant.graph or not found.about:
            continue
        words = [_difference(name, found.about.get(name, ""), value) for name, value in here.items()
                 if found.about.get(name, "") != value]  # fmt: skip
        if not words:
            return
        differing.append(f"its kernel {os.path.basename(path)[:12]} was compiled for {', '.join(words)}")
    yield from differing


def _difference(name: str, there: str, here: str) -> str:
    if name != "processor":
        return f"{name} {there or 'none'} (here {here or 'none'})"
    lacking = sorted(set(there.split()) - set(here.split()))
    more = sorted(set(here.split()) - set(there.split()))
    words = [f"with {' '.join(lacking)}"] if lacking else []
    return "a processor " + " and ".join([*words, *([f"without {' '.join(more)}"] if more else [])])
