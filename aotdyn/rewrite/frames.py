"""What a dispatcher is told of the frame that asks it, and its name: all that a start needs whose stubs are kept."""

from __future__ import annotations

import hashlib
from types import CodeType

from aotdyn.rewrite import digest as digests
from aotdyn.rewrite import names, originals
from aotdyn.runtime.variant import FrameSpec

VARARGS, VARKEYWORDS = 0x4, 0x8


def parameters(code: CodeType) -> tuple[str, ...]:
    """Names of all arguments in `co_varnames` order, with those of `*args` and `**kwargs`."""
    count = code.co_argcount + code.co_kwonlyargcount
    count += bool(code.co_flags & VARARGS) + bool(code.co_flags & VARKEYWORDS)
    return code.co_varnames[:count]


def spec_of(code: CodeType, module: str) -> FrameSpec:
    """What the dispatcher at the start of `code` (a stub or an original) is handed.

    A stub's spec has the digest of its dispatcher's name, with the order among equal functions.
    """
    stubbed = originals.dispatcher_of(code)
    digest = "".join(names.digest_in(stubbed)) if stubbed else digests.digest(code)
    cells = code.co_cellvars + code.co_freevars
    return FrameSpec(module, code.co_qualname, digest, params=parameters(code), cells=cells)


def dispatcher_name(spec: FrameSpec, extent: str = "") -> str:
    """Name in builtins of the dispatcher of `spec`: of a function's start, or of what follows a break."""
    if not spec.offset:
        return names.dispatcher_name(spec.qualname, spec.digest, extent, spec.module)
    start = names.dispatcher_name(spec.qualname, spec.digest, "", spec.module)
    name = f"{start}_{spec.offset}_{hashed(spec.params, spec.stack)[:8]}"
    return f"{name}@{extent}" if extent else name


def hashed(*what: object) -> str:
    """A digest of plain values, the same in every process."""
    return hashlib.sha256(repr(what).encode()).hexdigest()[:20]
