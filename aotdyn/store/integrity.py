"""What makes a file of the cache believable: an envelope with a digest, and permissions.

An envelope is a header, a payload and what is told of it: its origin, a
signature. The digest in the header covers the kind of content, the format, the
time, the logical name (so a file moved to another's place doesn't pass for
it), the payload and the origin. It guards against damage, not against an
attacker: code in the cache is trusted as `__pycache__` is, because nobody but
its owner can write there, or because a key that is trusted signed it.
"""

from __future__ import annotations

import os
import stat
import struct
from hashlib import blake2b
from pathlib import Path
from typing import Protocol
from zlib import crc32

import msgspec

from aotdyn.errors import CacheError
from aotdyn.store.layout import FORMAT

MAGIC = b"aotdyn\r\n"
"First bytes of every file; the line end shows a copy in text mode."

LIMIT = 256 << 20
"Largest payload that is read or written, in bytes."

TOLD = 4096
"Most bytes that are told of a payload."

_BLOCK = struct.Struct(">4sI")
_ORIGIN, _SIGNATURE = b"orig", b"sign"
_HEADER = struct.Struct(">8sBHQQ32s")
HEADER_SIZE = _HEADER.size


class Kind:
    """What an envelope holds, by number; no Enum, which each start would make in 0.2 ms."""

    RECORD, GRAPH, MODULE, MANIFEST, PROJECTS = range(1, 6)


class Damaged(Exception):
    """A file isn't what its place says; str() gives the reason. Stays inside this room: a reader sees a miss."""


class Untrusted(Damaged):
    """A file may be whole, but nobody whom this user trusts has signed it. It isn't read, and stays."""


class Opened(msgspec.Struct, frozen=True):
    """A verified envelope: when it was stored (ns since the epoch), what is in it, and who stored it, as JSON."""

    created: int
    payload: memoryview
    origin: bytes = b""


class Signing(Protocol):
    """Who signs what is stored, and whose signatures are believed: see `store.signing`."""

    def sign(self, message: bytes) -> bytes:
        """The public key and its signature; empty where nothing is signed."""

    def judge(self, block: bytes, message: bytes) -> None:
        """Raise Untrusted or Damaged unless content under this block (empty: unsigned) may be read."""


def digest(data: bytes | memoryview, size: int = 32) -> str:
    """Hex digest of bytes."""
    return blake2b(data, digest_size=size).hexdigest()


def _seal(kind: int, name: str, created: int, payload: bytes | memoryview, origin: bytes) -> bytes:
    whole = blake2b(struct.pack(">BHQ", kind, FORMAT, created), digest_size=32)
    encoded = name.encode()
    whole.update(struct.pack(">I", len(encoded)) + encoded)
    # Every hooked import reads a module's code, as often as it would a .pyc, which nothing guards: a checksum finds
    # damage there at a quarter of the cost.
    whole.update(struct.pack(">I", crc32(payload)) if kind == Kind.MODULE else payload)
    whole.update(origin)
    return whole.digest()


def _message(kind: int, sealed: bytes, payload: bytes | memoryview) -> bytes:
    """What is signed: the digest, and all of a payload of which that knows the checksum alone."""
    strong = blake2b(payload, digest_size=32).digest() if kind == Kind.MODULE else b""
    return b"aotdyn signed " + sealed + strong


def seal(
    kind: int,
    name: str,
    payload: bytes | memoryview,
    created: int,
    origin: bytes = b"",
    signing: Signing | None = None,
) -> bytes:
    """The envelope of `payload` under the logical `name`.

    Raises:
        ValueError: the payload is over `LIMIT`.
    """
    if len(payload) > LIMIT:
        raise ValueError(f"{len(payload)} bytes are over the cache's limit of {LIMIT} for one file")
    sealed = _seal(kind, name, created, payload, origin)
    made = _HEADER.pack(MAGIC, kind, FORMAT, created, len(payload), sealed) + bytes(payload)
    if origin:
        made += _BLOCK.pack(_ORIGIN, len(origin)) + origin
    if signing is not None and (block := signing.sign(_message(kind, sealed, payload))):
        made += _BLOCK.pack(_SIGNATURE, len(block)) + block
    return made


def unseal(kind: int, name: str, data: bytes, signing: Signing | None = None) -> Opened:
    """The content of an envelope, verified; signatures aren't looked at without `signing`.

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
        raise Damaged(f"content of kind {found}, where {kind} is expected")
    payload = memoryview(data)[HEADER_SIZE : HEADER_SIZE + length]
    if len(payload) != length:
        raise Damaged(f"{len(payload)} bytes of content, where {length} are expected")
    origin, block = (b"", b"") if len(data) == HEADER_SIZE + length else _told(data[HEADER_SIZE + length :])
    if _seal(found, name, created, payload, origin) != seen:
        raise Damaged("digest doesn't match")
    if signing is not None:
        signing.judge(block, _message(kind, seen, payload) if block else b"")
    return Opened(created, payload, origin)


def _told(data: bytes) -> tuple[bytes, bytes]:
    """Origin and signature behind a payload."""
    if len(data) > TOLD:
        raise Damaged(f"{len(data)} bytes too long")
    found: dict[bytes, bytes] = {}
    place = 0
    for expected in (_ORIGIN, _SIGNATURE):
        if place + _BLOCK.size <= len(data):
            tag, size = _BLOCK.unpack_from(data, place)
            if tag == expected:
                found[tag] = data[place + _BLOCK.size : place + _BLOCK.size + size]
                place += _BLOCK.size + size
    if place != len(data) or not all(found.values()):
        raise Damaged("what stands behind its content isn't aotdyn's")
    return found.get(_ORIGIN, b""), found.get(_SIGNATURE, b"")


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


ANYWAY = "or use this one all the same with `--trust-cache` or AOTDYN_CACHE_TRUST=1"


def located(named: Path) -> Path:
    """Where a cache lies, links followed. It need not exist; but a link to nothing isn't made to lead somewhere.

    Such a link is mostly a disk that isn't mounted, where a directory would hide what is mounted later.

    Raises:
        CacheError: the path goes through a link that leads nowhere.
    """
    there = Path(os.path.abspath(named))
    while not os.path.lexists(there) and there != there.parent:
        there = there.parent
    if there.is_symlink() and not there.exists():
        raise CacheError(
            f"the cache directory is reached by {there}, a symbolic link to {os.readlink(there)}, which isn't there",
            where=str(named),
            hint="make what the link leads to (is its disk mounted?), or name another directory with AOTDYN_CACHE_DIR",
        )
    return Path(os.path.realpath(named))


def check_directory(root: Path) -> None:
    """Refuse a cache whose path is that of something else than a directory, or goes through such. It need not exist.

    Raises:
        CacheError: says what it is, and what to do.
    """
    there = root
    while not os.path.exists(there) and there != there.parent:
        there = there.parent
    if not os.path.isdir(there):
        where = "the cache directory" if there == root else f"{there}, above the cache directory,"
        raise CacheError(f"{where} is a file, and no directory", where=str(root), hint=DIRECTORY)


DIRECTORY = "name a directory with `--cache` or AOTDYN_CACHE_DIR, or move the file away"

OWN = "name a directory of your own with `--cache` or AOTDYN_CACHE_DIR"


def remedy(error: OSError, reading: bool) -> str:
    """What to do where the disk refuses to read, or to write, a cache."""
    import errno

    if error.errno in (errno.ENOTDIR, errno.EEXIST):
        return f"a file is in the way: {DIRECTORY}"
    if error.errno in (errno.EACCES, errno.EPERM) and reading:
        return f"its owner can let others read it by `chmod -R a+rX`; or {OWN}"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"make room on the disk, as `python -m aotdyn cache gc` does; or {OWN}"
    return "" if reading else f"{OWN} to have it stored"


def _check_link(path: Path) -> None:
    """Refuse a symbolic link of somebody else's on the way to the cache: it can be made to lead elsewhere."""
    try:
        info = os.lstat(path)
    except OSError:
        return
    if stat.S_ISLNK(info.st_mode) and not _mine(info.st_uid):
        raise CacheError(
            f"the way to the cache goes through {path}, a symbolic link of another user (id {info.st_uid})",
            where=str(path),
            hint=f"name a directory of your own with AOTDYN_CACHE_DIR, {ANYWAY}",
        )


def check_root(root: Path, named: Path | None = None) -> None:
    """Refuse a cache in which another user could put code.

    `root` is resolved; it need not exist. It must belong to this user or to
    the system's; neither it nor a directory above it may be writable by group
    or others, unless sticky as /tmp is. The same goes for the directories
    that the links on the way from `named` to it lie in.

    Raises:
        CacheError: names the directory and the fix.
    """
    if not hasattr(os, "geteuid"):
        return
    way = [] if named is None else [Path(os.path.abspath(named)), *Path(os.path.abspath(named)).parents]
    for path in way:
        _check_link(path)
    for directory in dict.fromkeys((root, *root.parents, *way[1:])):
        try:
            info = os.stat(directory)
        except OSError:
            continue
        if directory == root and not _mine(info.st_uid):
            raise CacheError(
                f"the cache directory belongs to another user (id {info.st_uid}), who could put code into it",
                where=str(root),
                hint=f"name a directory of your own with AOTDYN_CACHE_DIR, {ANYWAY}",
            )
        shared = info.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        if shared and stat.S_ISDIR(info.st_mode) and (directory == root or not info.st_mode & stat.S_ISVTX):
            raise CacheError(
                "other users can write to "
                + ("the cache directory" if directory == root else f"{directory}, above the cache directory,")
                + f" (mode {stat.S_IMODE(info.st_mode):o}), and could put code into it",
                where=str(root),
                hint=f"run `chmod go-w {directory}`, name another directory with AOTDYN_CACHE_DIR, {ANYWAY}",
            )
