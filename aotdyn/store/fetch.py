"""What comes from the remote tier into the local store, and what goes there: the store's side of `remote`.

What comes is verified before it is written to its place here, by whatever
judges what lies here; a remote is believed as the local cache is, or less.
"""

from __future__ import annotations

import logging
import os

import msgspec

from aotdyn.errors import CacheError
from aotdyn.store import disk, kernels, records
from aotdyn.store.integrity import Damaged, Kind, Signing, digest, unseal
from aotdyn.store.layout import MANIFEST, RECORD, Layout, valid_key
from aotdyn.store.remote import Packed, Remote

log = logging.getLogger("aotdyn.store")

_PACKED = msgspec.msgpack.Decoder(Packed)

MOST = 1024
"Variants of one frame that are fetched at most."


class Second:
    """The remote tier of one environment."""

    def __init__(self, remote: Remote, layout: Layout, signing: Signing | None, trust: bool) -> None:
        self.remote = remote
        self.layout = layout
        self.signing = signing
        self.trust = trust

    def variants(self, key: str) -> bool:
        """Fetch what is stored of a frame. Whether anything came."""
        directory = self.layout.records(key)
        came = False
        for name in self.remote.names(self._there(directory))[:MOST]:
            if name.endswith(RECORD) and valid_key(name):
                data = self.remote.read(f"{self._there(directory)}/{name}")
                came |= data is not None and self._keep(Kind.RECORD, f"{directory}/{name}", f"{key}/{name}", data)
        return came

    def graph(self, key: str) -> bool:
        """Fetch a graph. Whether it came."""
        path = self.layout.graph(key)
        data = self.remote.read(self._there(path))
        return data is not None and self._keep(Kind.GRAPH, path, key, data)

    def kernel(self, key: str) -> bool:
        """Fetch a kernel. Whether it came."""
        directory = self.layout.kernel(key)
        data = self.remote.read(self._there(directory))
        if data is None:
            return False
        try:
            packed = _PACKED.decode(data)
            opened = unseal(Kind.MANIFEST, key, packed.manifest, self.signing)
            _same(kernels.decode(opened.payload), packed.files)
            kernels.publish(directory, packed.manifest, packed.files, trust=self.trust, signing=self.signing)
            return True
        except (Damaged, msgspec.MsgspecError, ValueError, RecursionError) as error:
            log.warning("aotdyn: ignored a damaged entry of the remote cache, %s: %s", self._there(directory), error)
        except OSError as error:
            log.debug("what came from the remote cache can't be kept: %s", error)
        return False

    def send(self, path: str) -> None:
        """Send a file, or a kernel's directory, that is stored here."""
        self.remote.write(self._there(path), lambda: _pack(path) if os.path.isdir(path) else _content(path))

    def _there(self, path: str) -> str:
        """The remote's name of a local path: below the environment."""
        return f"{os.path.basename(self.layout.base)}/{path[len(self.layout.base) + 1 :]}"

    def _keep(self, kind: int, path: str, name: str, data: bytes) -> bool:
        try:
            opened = unseal(kind, name, data, self.signing)
            if kind == Kind.RECORD:
                records.decode(opened.payload)
            disk.write(path, data)
            return True
        except Damaged as error:
            log.warning("aotdyn: ignored a damaged entry of the remote cache, %s: %s", self._there(path), error)
        except (OSError, CacheError) as error:
            log.debug("what came from the remote cache can't be kept: %s", error)
        return False


def _same(manifest: kernels.Manifest, files: dict[str, bytes]) -> None:
    """See that a packed kernel's files are those of its manifest."""
    listed = {file.name: (file.size, file.digest) for file in manifest.files}
    if not all(map(valid_key, files)) or listed != {name: (len(data), digest(data)) for name, data in files.items()}:
        raise Damaged("its files aren't those of its manifest")


def _content(path: str) -> bytes | None:
    try:
        return disk.read(path, trust=True, touch=False)
    except (Damaged, OSError):
        return None


def _pack(directory: str) -> bytes | None:
    """A kernel's directory as one object; None where it has gone."""
    try:
        names = os.listdir(directory)
        files = {name: _content(f"{directory}/{name}") for name in sorted(names)}
    except OSError:
        return None
    manifest = files.pop(MANIFEST, None)
    if manifest is None or None in files.values():
        return None
    return msgspec.msgpack.encode([manifest, files])
