"""What all sources share: interning, memoised reads, and what a prologue offers them."""

from __future__ import annotations

import ast
import weakref
from collections.abc import Sequence
from typing import Any, ClassVar, Protocol

from aotdyn.guards import constants


class Scope(Protocol):
    """What a prologue under construction offers to `Source.expr`."""

    def arg(self, index: int) -> ast.expr:
        """The `index`-th argument of the dispatcher."""

    def value(self, source: Source) -> ast.expr:
        """The object at another source, already read."""

    def pool(self, op: str, *args: Any) -> ast.expr:
        """A cell that binding fills by `Recipe(op, args)`."""

    def index(self, source: Source) -> int:
        """Index of the source in the variant's table."""


class Env:
    """What sources are read from: one call's arguments, the entry's globals, the variant's local objects.

    Reads are memoised, so that each object is seen once however many guards look at it.
    """

    def __init__(
        self,
        args: Sequence[Any],
        globals: dict[str, Any],
        locals: Sequence[Any] | None = None,
        sources: Sequence[Source] = (),
    ) -> None:
        self.args = args
        self.globals = globals
        self.locals = locals or ()
        self.sources = sources
        self.memo: dict[Source, Any] = {}

    def read(self, source: Source) -> Any:
        """The object at `source`; raises whatever the read raises."""
        try:
            return self.memo[source]
        except KeyError:
            pass
        value = self.memo[source] = source._read(self)
        return value


_interned: weakref.WeakValueDictionary[tuple, Source] = weakref.WeakValueDictionary()


class Source:
    """One way to reach an object: a step from `bases` (none for a root) by `key`."""

    __slots__ = ("__weakref__", "bases", "depth", "key")
    kind: ClassVar[str]

    bases: tuple[Source, ...]
    key: Any
    depth: int

    @classmethod
    def _make(cls, bases: tuple[Source, ...], key: Any = None) -> Any:
        identity = (cls, bases, constants.token(key))
        found = _interned.get(identity)
        if found is None:
            found = object.__new__(cls)
            depth = 1 + max((base.depth for base in bases), default=0)
            for name, value in (("bases", bases), ("key", key), ("depth", depth)):
                object.__setattr__(found, name, value)
            found = _interned.setdefault(identity, found)
        return found

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError("sources are immutable")

    def __reduce__(self) -> Any:
        return type(self)._make, (self.bases, self.key)

    @property
    def base(self) -> Source | None:
        """The source that this one is a step from; None for a root."""
        return self.bases[0] if self.bases else None

    @property
    def late(self) -> bool:
        """Whether it is read behind the guards alone: a number is drawn for it."""
        return any(base.late for base in self.bases)

    def read(self, env: Env) -> Any:
        """The object at this source."""
        return env.read(self)

    def _read(self, env: Env) -> Any:
        raise NotImplementedError

    def expr(self, scope: Scope) -> ast.expr:
        """The expression by which a prologue reads the object, from the bases that `scope` has read."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self}>"

    @classmethod
    def _decode(cls, bases: tuple[Source, ...], data: Any) -> Source:
        """The source whose SourceData holds `data` as key."""
        return cls._make(bases, data)

    def _encode_key(self) -> Any:
        return self.key
