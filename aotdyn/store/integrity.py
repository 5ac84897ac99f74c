"""What makes a file of the cache believable: an envelope with a digest, and permissions.

An envelope is a header and a payload. The digest in the header covers the
kind of content, the format, the time, the logical name (so a file moved to
another's place doesn't pass for it) and the payload. It guards against damage,
not against an attacker: code in the cache is trusted as `__pycache__` is,
because nobody but its owner can write there.
"""

from __future__ import annotations

import os
import stat
import struct
from enum import IntEnum
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from aotdyn.errors import CacheError
from aotdyn.store.layout import FORMAT

MAGIC = b"aotdyn\r\n"
"First bytes of every file; the line end shows a copy in text mode."

LIMIT = 256 << 20
"Largest payload that is read or written, in bytes."

_HEADER = struct.Struct(">8sBHQQ32s")
HEADER_SIZE = _HEADER.size


class Kind(IntEnum):
    """What an envelope holds."""

    RECORD = 1
    GRAPH = 2
    MODULE = 3
    MANIFEST = 4


class Damaged(Exception):
    """A file isn't what its place says; str() gives the reason. Stays inside this room: a reader sees a miss."""


class Opened(NamedTuple):
    """A verified envelope: when it was stored (ns since the epoch), and what is in it."""

    created: int
    payload: memoryview


def digest(data: bytes | memoryview, size: int = 32) -> str:
    """Hex digest of bytes."""
    return blake2b(data, digest_size=size).hexdigest()


def _seal(kind: int, name: str, created: int, payload: bytes | memoryview) -> bytes:
    whole = blake2b(struct.pack(">BHQ", kind, FORMAT, created), digest_size=32)
    encoded = name.encode()
    whole.update(struct.pack(">I", len(encoded)) + encoded)
    # Every hooked import reads a module's code, as often as it would a .pyc, which nothing guards: a checksum finds
    # damage there at a quarter of the cost.
    whole.update(struct.pack(">I", crc32(payload)) if kind == Kind.MODULE else payload)
    return whole.digest()


def seal(kind: Kind, name: str, payload: bytes | memoryview, created: int) -> bytes:
    """The envelope of `payload` under the logical `name`.

    Raises:
        ValueError: the payload is over `LIMIT`.
    """
    if len(payload) > LIMIT:
        raise ValueError(f"{len(payload)} bytes are over the cache's limit of {LIMIT} for one file")
    return _HEADER.pack(MAGIC, kind, FORMAT, created, len(payload), _seal(kind, name, created, payload)) + bytes(
        payload
    )


def unseal(kind: Kind, name: str, data: bytes) -> Opened:
    """The content of an envelope, verified.

    Raises:
        Damaged: anything about it is wrong.
    """
    if len(data) < HEADER_SIZE:
        raise Damaged(f"only {len(data)} bytes long")
    magic, found, version, created, length, seen = _HEADER.unpack_from(data)
    if magic != MAGIC:
        raise Damaged("not a file of aotdyn")
    if version != FORMAT:
        raise Damaged(f"format {version}, where {FORMAT} is expected")
    if found != kind:
        raise Damaged(f"content of kind {found}, where {kind.value} is expected")
    payload = memoryview(data)[HEADER_SIZE:]
    if len(payload) != length:
        raise Damaged(f"{len(payload)} bytes of content, where {length} are expected")
    if _seal(found, name, created, payload) != seen:
        raise Damaged("digest doesn't match")
    return Opened(created, payload)


def _mine(uid: int) -> bool:
    return uid in (os.geteuid(), 0)


def distrust(info: os.stat_result) -> str | None:
    """Why a file of the cache can't be believed given its owner and mode; None where it can."""
    if not hasattr(os, "geteuid"):
        return None
    if not _mine(info.st_uid):
        return f"owned by user {info.st_uid}"
    if info.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return "writable by others"
    return None


def check_root(root: Path) -> None:
    """Refuse a cache in which another user could put code.

    `root` is resolved; it need not exist. It must belong to this user or to
    the system's; neither it nor a directory above it may be writable by group
    or others, unless sticky as /tmp is.

    Raises:
        CacheError: names the directory and the fix.
    """
    if not hasattr(os, "geteuid"):
        return
    for directory in (root, *root.parents):
        try:
            info = os.stat(directory)
        except OSError:
            continue
        if directory == root and not _mine(info.st_uid):
            raise CacheError(
                f"the cache directory belongs to another user (id {info.st_uid}), who could put code into it",
                where=str(root),
                hint="name a directory of your own with AOTDYN_CACHE_DIR, or set AOTDYN_CACHE_TRUST=1 to use this one",
            )
        shared = info.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        if shared and stat.S_ISDIR(info.st_mode) and (directory == root or not info.st_mode & stat.S_ISVTX):
            raise CacheError(
                "other users can write to "
                + ("the cache directory" if directory == root else f"{directory}, above the cache directory,")
                + f" (mode {stat.S_IMODE(info.st_mode):o}), and could put code into it",
                where=str(root),
                hint=f"run `chmod go-w {directory}`, name another directory with AOTDYN_CACHE_DIR, "
                "or set AOTDYN_CACHE_TRUST=1 to use this one",
            )
