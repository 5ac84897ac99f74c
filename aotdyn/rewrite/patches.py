"""Stubs that `compile()` makes, kept as what they change of the original's code.

A code's digest leaves out its file and its first line, and so do the tables
that a stub changes: they count from that line. So one patch makes the stub of
all equal codes, wherever they stand. Making it takes the assembler, applying
it a tenth of the time.
"""

from __future__ import annotations

import marshal
from hashlib import blake2b
from types import CodeType
from typing import Protocol

from aotdyn.rewrite import names
from aotdyn.rewrite.digest import digest

Patch = tuple[bytes, bytes, bytes, tuple[str, ...], int]
"Instructions, lines, exception table, the names behind the dispatcher's, depth of the stack."


class Kept(Protocol):
    """What a store does for rewritten code."""

    def module(self, key: str) -> memoryview | None:
        """What is stored under a key."""

    def save_module(self, key: str, data: bytes) -> bool:
        """Store it."""


def applied(code: CodeType, dispatcher: str, patch: Patch) -> CodeType:
    """The stub of `code`."""
    data, locations, regions, behind, depth = patch
    return code.replace(
        co_code=data,
        co_linetable=locations,
        co_exceptiontable=regions,
        co_names=(*code.co_names, dispatcher, *behind),
        co_stacksize=max(code.co_stacksize, depth),
    )


class Stubbing:
    """The stub of a function's code: by the patch that a store has, or made, and its patch stored.

    Args:
        code: the original.
        module: whose it is: a bundle of a package takes its patches along.
        store: None: nothing is kept.
    """

    def __init__(self, code: CodeType, module: str, store: Kept | None) -> None:
        self.code = code
        self.module = module
        self.store = store
        named = f"stub\0{names.FORM}\0{module}\0{digest(code)}"
        self.key = blake2b(named.encode(), digest_size=16).hexdigest()
        self.patch = self._kept()

    def _kept(self) -> Patch | None:
        blob = None if self.store is None else self.store.module(self.key)
        if blob is None:
            return None
        try:
            patch, key, _ = marshal.loads(blob)
        except (ValueError, EOFError, TypeError):
            return None  # made anew
        return patch if key == self.key else None

    def obstacle(self) -> str:
        """Why the code can't be a stub; an empty string if it can."""
        if self.patch is not None:
            return ""
        from aotdyn.rewrite import stubs

        return stubs.eligible(self.code)

    def stub(self, dispatcher: str) -> CodeType:
        """The stub that asks a dispatcher."""
        if self.patch is not None:
            return applied(self.code, dispatcher, self.patch)
        from aotdyn.rewrite import stubs

        made = stubs.stub(self.code, dispatcher)
        behind = made.co_names[len(self.code.co_names) + 1 :]
        patch = (made.co_code, made.co_linetable, made.co_exceptiontable, behind, made.co_stacksize)
        if self.store is not None and applied(self.code, dispatcher, patch) == made:
            self.store.save_module(self.key, marshal.dumps((patch, self.key, self.module)))
        return made
