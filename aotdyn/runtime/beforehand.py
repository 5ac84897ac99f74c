"""What is known of a function's arguments before it is traced: the sizes that vary.

They come from the table `[[tool.aotdyn.shapes]]`, and from what other calls
have shown: where an argument of a module's `forward` is handed through from
outside, a size of it that moves under one caller is known to all, in this
process and in later ones. That is stored as a variant of a frame that never
runs, at offset -1 of the function's code.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from aotdyn.guards.sources import Arg, SourceTable, decode_sources
from aotdyn.runtime.moved import Moved, merge
from aotdyn.runtime.variant import FrameSpec, Inlined, Variant

if TYPE_CHECKING:
    from aotdyn.config import Options
    from aotdyn.store.store import Store

Range = tuple[int | None, int | None]
Told = Mapping[str, Mapping[int, Range]]
"""By name of an argument: its dimensions that vary, each with its range; none of an int that does."""

_NOWHERE = -1
_lock = threading.Lock()
_learnt: dict[tuple[str, tuple[str, str, str]], Moved] = {}
"By environment of the store and function: what was learnt, or read from the store."


def expected(options: Options, store: Store) -> Callable[[str, str, str], Told]:
    """What is known of a function's arguments, asked by module, qualified name and digest."""
    table: dict[tuple[str, str], dict[str, dict[int, Range]]] = {}
    for row in options.shapes:
        module, _, qualname = row.function.partition(":")
        dims = table.setdefault((module, qualname), {}).setdefault(row.argument, {})
        if row.dimension is not None:
            dims[row.dimension] = (row.min, row.max)
    learns = options.automatic_dynamic_shapes

    def of(module: str, qualname: str, digest: str) -> Told:
        told = table.get(("__main__" if module.startswith("__main__@") else module, qualname), {})
        if not learns or not forwards(module, qualname):
            return told
        found = {name: dict(dims) for name, dims in told.items()}
        for source, dims in _known(store, (module, qualname, digest)).items():
            if isinstance(source, Arg):
                known = found.setdefault(source.name, {})
                for dim in dims:
                    known.setdefault(dim, (None, None))
        return found

    return of


def nothing(module: str, qualname: str, digest: str) -> Told:
    """Where nothing is known."""
    return {}


def forwards(module: str, qualname: str) -> bool:
    """Whether what moves for a function is kept for its other callers: it is the call of a module of the program's.

    Of torch's own layers it isn't: what one model does with a `Linear` says nothing of the next.
    """
    return qualname.rpartition(".")[2] == "forward" and module.partition(".")[0] != "torch"


def note(variant: Variant, moved: Moved, store: Store) -> None:
    """Remember for the functions that a variant went through which of their arguments have moved."""
    if not variant.handed or not moved:
        return
    sources = decode_sources(variant.sources)
    for function, name, row in variant.handed:
        dims = moved.get(sources[row])
        if dims is not None:
            _remember(store, function, name, dims)


def forget() -> None:
    """Drop what is in memory."""
    with _lock:
        _learnt.clear()


def _known(store: Store, function: tuple[str, str, str]) -> Moved:
    key = store.environment, function
    with _lock:
        found = _learnt.get(key)
        if found is None:
            found = _learnt[key] = {}
            for variant in store.load(_spec(function)):
                sources = decode_sources(variant.sources)
                merge(found, {sources[row]: frozenset(dims) for row, dims in variant.moving})
    return found


def _remember(store: Store, function: Inlined, name: str, dims: frozenset[int]) -> None:
    key = (function.module, function.qualname, function.digest)
    known, source = _known(store, key), Arg(0, name)
    if known.get(source, None) is not None and dims <= known[source]:
        return
    with _lock:
        merge(known, {source: dims})
        table = SourceTable()
        rows = [
            (table.add(each), sorted(those)) for each, those in sorted(known.items(), key=lambda item: str(item[0]))
        ]
    store.save(Variant(_spec(key), table.rows, [], [], None, [], moving=rows, leave="sizes that vary"))


def _spec(function: tuple[str, str, str]) -> FrameSpec:
    return FrameSpec(*function, offset=_NOWHERE)
