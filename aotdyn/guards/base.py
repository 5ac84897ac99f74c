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
        value = self.memo.get(source, _UNREAD)
        if value is _UNREAD:
            value = self.memo[source] = source._read(self)
        return value


_UNREAD: Any = object()


class _Kept(weakref.ref["Source"]):
    """A source that is known by what it is for as long as it lives."""

    __slots__ = ("identity",)

    identity: tuple[Any, ...]


_interned: dict[tuple[Any, ...], _Kept] = {}
"As a WeakValueDictionary, in a third of the time: a warm start makes a thousand sources of one large model."


def _forget(kept: Any) -> None:
    identity = kept.identity
    if _interned.get(identity) is kept:
        del _interned[identity]


class Source:
    """One way to reach an object: a step from `bases` (none for a root) by `key`."""

    __slots__ = ("__weakref__", "bases", "depth", "key")
    kind: ClassVar[str]

    bases: tuple[Source, ...]
    key: Any
    depth: int

    @classmethod
    def _make(cls, bases: tuple[Source, ...], key: Any = None) -> Any:
        identity = (cls, bases, key if type(key) is str else constants.token(key))
        known = _interned.get(identity)
        found = None if known is None else known()
        return cls._new(identity, bases, key) if found is None else found

    @classmethod
    def _new(cls, identity: tuple[Any, ...], bases: tuple[Source, ...], key: Any) -> Source:
        """The source of this identity, which nobody has; another thread's where that was faster."""
        made = object.__new__(cls)
        _set_bases(made, bases)
        _set_key(made, key)
        _set_depth(made, bases[0].depth + 1 if len(bases) == 1 else 1 + max((base.depth for base in bases), default=0))
        kept = _Kept(made, _forget)
        kept.identity = identity
        first = _interned.setdefault(identity, kept)
        if first is not kept:  # another thread's, or one whose source has just gone
            if (found := first()) is not None:
                return found
            _interned[identity] = kept
        return made

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


_set_bases, _set_key, _set_depth = (vars(Source)[name].__set__ for name in ("bases", "key", "depth"))
