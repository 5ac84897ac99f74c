"""Digest of a code object: equal for equal source in every process, whatever the file and the line it starts at.

Marshal's bytes depend on reference counts and interning, so the canonical
fields are hashed. Lines count from the function's first (the line table holds
differences already). Nested code enters by its own digest; a stub has its
original's, read from its dispatcher's name.
"""

from __future__ import annotations

import hashlib
import struct
import weakref
from types import CodeType
from typing import Any

from aotdyn.rewrite import names, originals

_known: dict[int, tuple[weakref.ref[CodeType], str]] = {}


def digest(code: CodeType) -> str:
    """20 hex digits that stand for `code`."""
    known = _known.get(id(code))
    if known is not None and known[0]() is code:
        return known[1]
    stub = originals.dispatcher_of(code)
    result = names.digest_in(stub)[0] if stub else _hash(code)
    key = id(code)
    _known[key] = weakref.ref(code, lambda _: _known.pop(key, None)), result
    return result


def _hash(code: CodeType) -> str:
    fields = (
        code.co_name,
        code.co_qualname,
        code.co_argcount,
        code.co_posonlyargcount,
        code.co_kwonlyargcount,
        code.co_flags,
        code.co_code,
        code.co_names,
        code.co_varnames,
        code.co_cellvars,
        code.co_freevars,
        code.co_linetable,
        code.co_exceptiontable,
        code.co_consts,
    )
    return hashlib.sha256(_bytes(fields, code.co_firstlineno)).hexdigest()[:20]


def _bytes(value: Any, first_line: int) -> bytes:
    """`value` as bytes that say its type and length, so that no two constants read alike."""
    kind = type(value)
    if kind is CodeType:
        data = f"{digest(value)} {value.co_firstlineno - first_line}".encode()
    elif kind is tuple:
        data = b"".join(_bytes(item, first_line) for item in value)
    elif kind is frozenset:
        data = b"".join(sorted(_bytes(item, first_line) for item in value))
    elif kind is str:
        data = value.encode("utf-8", "surrogatepass")
    elif kind is bytes:
        data = value
    elif kind is float:
        data = struct.pack("<d", value)
    elif kind is complex:
        data = struct.pack("<dd", value.real, value.imag)
    elif value is None or value is ... or kind in (int, bool):
        data = hex(value).encode() if kind is int else str(value).encode()
    else:
        raise TypeError(f"a code object holds a constant of type {kind.__name__}")
    return f"{kind.__name__}:{len(data)}:".encode() + data
