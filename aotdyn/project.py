"""The [tool.aotdyn] table of a pyproject.toml, and the cache's note of what one says.

tomllib takes 3 ms to load and to parse a file, a tenth of a warm start. So a
cache has a file of notes: under the path of a pyproject.toml that speaks of
aotdyn the digest of its content, and its table. A note of other content is
none.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import msgspec

from aotdyn.errors import CacheError, ConfigError

MANY = 32
"Files that are noted; the one that was noted first goes."


class Note(msgspec.Struct, frozen=True, array_like=True):
    """What a file said: a digest of its bytes, its table (None: it has none)."""

    content: str
    table: dict[str, Any] | None


def nearest(start: Path, cache: str | None) -> tuple[Path, dict[str, Any]] | None:
    """The nearest pyproject.toml with a [tool.aotdyn] table, from `start` upwards, and the table.

    Args:
        cache: root of the cache that has the notes, if there is one.

    Raises:
        ConfigError: a file that has such a table can't be read.
    """
    for folder in (start, *start.parents):
        path = folder / "pyproject.toml"
        table = _table(path, cache)
        if table is not None:
            return path, table
    return None


def _table(path: Path, cache: str | None) -> dict[str, Any] | None:
    try:
        data = path.read_bytes()
    except OSError:
        return None
    if b"aotdyn" not in data:
        return None
    if cache is None:
        return _parsed(path, data)
    from aotdyn.store.integrity import digest

    notes = Notes(cache)
    content = digest(data, 16)
    found = notes.known.get(str(path))
    if found is None or found.content != content:
        found = Note(content, _parsed(path, data))
        notes.add(str(path), found)
    return found.table


def _parsed(path: Path, data: bytes) -> dict[str, Any] | None:
    import tomllib

    try:
        table = tomllib.loads(data.decode()).get("tool", {}).get("aotdyn")
    except (ValueError, AttributeError) as error:
        if b"[tool.aotdyn" not in data:
            return None
        raise ConfigError(f"pyproject.toml can't be read: {error}", where=str(path), hint="mend the file") from None
    return table if isinstance(table, dict) else None


class Notes:
    """The notes in a cache, by path. Where they can't be read there are none, where they can't be written none are."""

    def __init__(self, cache: str) -> None:
        from aotdyn.store import disk
        from aotdyn.store.integrity import Damaged, Kind, unseal
        from aotdyn.store.layout import PROJECTS, VERSION

        self._root = Path(cache)
        self._path = f"{cache}/{VERSION}/{PROJECTS}"
        self.known: dict[str, Note] = {}
        try:
            data = disk.read(self._path, trust=False, touch=False)
            if data is not None:
                opened = unseal(Kind.PROJECTS, PROJECTS, data)
                self.known = msgspec.msgpack.decode(opened.payload, type=dict[str, Note])
        except (OSError, Damaged, msgspec.MsgspecError):
            pass  # the next note makes it anew

    def add(self, path: str, note: Note) -> None:
        """Keep a note, if it is the same once it was read again: TOML has dates and large numbers."""
        from aotdyn.store import disk
        from aotdyn.store.integrity import Kind, check_root, located, seal
        from aotdyn.store.layout import PROJECTS

        self.known.pop(path, None)
        kept = dict([*self.known.items(), (path, note)][-MANY:])
        try:
            payload = msgspec.msgpack.encode(kept)
            if msgspec.msgpack.decode(payload, type=dict[str, Note]) != kept:
                return
            check_root(located(self._root), self._root)
            disk.write(self._path, seal(Kind.PROJECTS, PROJECTS, payload, time.time_ns()))
        except (OSError, TypeError, ValueError, OverflowError, CacheError, msgspec.MsgspecError):
            pass
