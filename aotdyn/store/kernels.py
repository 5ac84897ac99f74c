"""Compiled kernels: a directory each, with a manifest that says what must be in it.

A kernel's directory is made beside its place and renamed into it, so it is
whole or absent; its files are never written again, since processes map them
into memory.

Annotations are evaluated as the classes are made: see `runtime.variant`.
"""

import errno
import os
import time
from collections.abc import Mapping
from hashlib import blake2b
from io import RawIOBase
from pathlib import Path
from types import MappingProxyType

import msgspec

from aotdyn.store import disk, origin
from aotdyn.store.integrity import Damaged, Kind, Signing, digest, distrust, seal, unseal
from aotdyn.store.layout import MANIFEST, valid_key

WAY = 5
"Directories from a kernel's own up to the layout's: kernel, its first digits, kernels, environment, version."


class File(msgspec.Struct, frozen=True, array_like=True):
    """One file of a kernel."""

    name: str
    size: int
    digest: str


class Manifest(msgspec.Struct, frozen=True):
    """What a kernel's directory holds, and the graph it was compiled from ("" if it belongs to none)."""

    files: tuple[File, ...]
    graph: str = ""
    about: dict[str, str] = {}
    "what its key stands for, in words"


_DECODER = msgspec.msgpack.Decoder(Manifest)


def manifest(directory: str, *, trust: bool, touch: bool = False, signing: Signing | None = None) -> Manifest | None:
    """A kernel's manifest, verified by itself; None where there is no kernel.

    Raises:
        Damaged: there is one that can't be believed.
        OSError: it can't be read.
    """
    data = disk.read(f"{directory}/{MANIFEST}", trust=trust, touch=touch)
    if data is None:
        if os.path.isdir(directory):
            raise Damaged("no manifest")
        return None
    return decode(unseal(Kind.MANIFEST, os.path.basename(directory), data, signing).payload)


def _check_way(directory: str) -> None:
    """Refuse a kernel in a directory of somebody else's: what was verified is mapped by its path a moment later."""
    for _ in range(WAY):
        if reason := distrust(os.stat(directory)):
            raise Damaged(f"{directory} is {reason}")
        directory = os.path.dirname(directory)


def decode(payload: bytes | memoryview) -> Manifest:
    """The manifest in verified bytes; Damaged where it isn't one."""
    try:
        return _DECODER.decode(payload)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise Damaged(f"not a manifest: {error}") from error


def verified(directory: str, *, trust: bool, touch: bool = False, signing: Signing | None = None) -> Manifest | None:
    """A kernel's manifest after every file in it was checked by owner, size and digest; errors as `manifest`."""
    found = manifest(directory, trust=trust, touch=touch, signing=signing)
    if found is not None and not trust:
        _check_way(directory)
    for file in found.files if found else ():
        if not valid_key(file.name):
            raise Damaged(f"{file.name!r} is no name for a file")
        try:
            with open(f"{directory}/{file.name}", "rb", buffering=0) as stream:
                info = os.fstat(stream.fileno())
                if not trust and (reason := distrust(info)):
                    raise Damaged(f"{file.name} is {reason}")
                if info.st_size != file.size:
                    raise Damaged(f"{file.name} has {info.st_size} bytes, where {file.size} are expected")
                if _digest(stream) != file.digest:
                    raise Damaged(f"digest of {file.name} doesn't match")
        except (FileNotFoundError, IsADirectoryError) as error:
            raise Damaged(f"{file.name} is missing") from error
    return found


def contents(files: Mapping[str, bytes | Path]) -> dict[str, bytes]:
    """A kernel's files in memory.

    Raises:
        ValueError: a name isn't a plain file name.
        OSError: a path can't be read.
    """
    for name in files:
        if not valid_key(name) or name == MANIFEST:
            raise ValueError(f"{name!r} can't be a kernel's file: letters, digits and ._@+-, not starting with a dot")
    return {name: data if isinstance(data, bytes) else data.read_bytes() for name, data in sorted(files.items())}


def save(
    directory: str,
    files: Mapping[str, bytes],
    graph: str = "",
    about: Mapping[str, str] = MappingProxyType({}),
    *,
    trust: bool,
    signing: Signing | None = None,
    told: bytes | None = None,
) -> None:
    """Store a kernel's files; what is already there stays if it is whole. `told` is another origin than this process.

    Raises:
        OSError: they can't be written.
        CacheError: they can't be signed.
    """
    listed = tuple(File(name, len(data), digest(data)) for name, data in files.items())
    payload = msgspec.msgpack.encode(Manifest(listed, graph, dict(about)), order="deterministic")
    now, told = time.time_ns(), origin.ours() if told is None else told
    sealed = seal(Kind.MANIFEST, os.path.basename(directory), payload, now, told, signing)
    publish(directory, sealed, files, trust=trust, signing=signing)


def publish(
    directory: str, sealed: bytes, files: Mapping[str, bytes], *, trust: bool, signing: Signing | None = None
) -> None:
    """Put files and their sealed manifest in a kernel's place; what is already there stays if it is whole.

    Raises:
        OSError: they can't be written.
    """
    made = disk.temporary(directory)
    disk.make_directory(made)
    try:
        for name, data in files.items():
            disk.write(f"{made}/{name}", data)
        disk.write(f"{made}/{MANIFEST}", sealed)
        _publish(made, directory, trust, signing)
    finally:
        if os.path.isdir(made):
            disk.remove(made)


def _publish(made: str, directory: str, trust: bool, signing: Signing | None) -> None:
    for last in (False, True):
        try:
            os.rename(made, directory)
            return
        except OSError as error:
            taken = error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR)
            if last or not taken:
                raise
        try:
            if verified(directory, trust=trust, signing=signing) is not None:
                return
        except Damaged:
            pass
        disk.remove(directory)


def _digest(stream: RawIOBase) -> str:
    whole = blake2b(digest_size=32)
    while block := stream.read(1 << 20):
        whole.update(block)
    return whole.hexdigest()
