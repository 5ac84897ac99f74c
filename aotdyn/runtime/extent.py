"""Extents: with which backend and options what is stubbed compiles.

The hook is the extent that is always on; each `compile()` has one of its own,
and its dispatchers are told apart by its number.
"""

from __future__ import annotations

import itertools
from typing import Any

import msgspec

_numbers = itertools.count(1)


class Extent(msgspec.Struct, eq=False):
    """`number` is "" for the hook, else distinct in this process. `backend` None is the configured default."""

    backend: Any = None
    backend_options: dict[str, Any] = {}
    fullgraph: bool = False
    dynamic: bool | None = None
    number: str = ""
    thrifty: bool = False
    "trace only calls that meet tensors"
    sparing: str = ""
    "the terms of `runtime.thrift`; empty: whatever is called is traced"

    @classmethod
    def new(cls, **options: Any) -> Extent:
        """The extent of one `compile()`."""
        return cls(number=str(next(_numbers)), **options)


HOOK = Extent(thrifty=True)
PROGRAM = Extent(thrifty=True, sparing="program")
PACKAGES = Extent(thrifty=True, sparing="packages")
