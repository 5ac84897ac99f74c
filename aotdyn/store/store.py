"""The cache as the runtime sees it: whatever is wrong with the disk, a call gets a hit or a miss."""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from aotdyn.errors import CacheError
from aotdyn.runtime.variant import FrameSpec, Variant
from aotdyn.store import disk, environment, kernels, leases, origin, records
from aotdyn.store.integrity import (
    LIMIT,
    Damaged,
    Kind,
    Opened,
    Signing,
    Untrusted,
    check_root,
    located,
    remedy,
    seal,
    unseal,
)
from aotdyn.store.layout import RECORD, Layout, valid_key

if TYPE_CHECKING:
    from aotdyn.config import Options
    from aotdyn.store.claims import Claim
    from aotdyn.store.fetch import Second
    from aotdyn.store.remote import Remote

CLAIM_SECONDS = 60.0
"How long a process waits for another that compiles the same, where no options say."

MISSES = 4
"How many reasons are kept for a frame."

log = logging.getLogger("aotdyn.store")

_told: set[object] = set()
"Roots that can't be used, which is said once in a process."


class Store:
    """Variants, graphs, rewritten modules and kernels of one environment under one root.

    The disk never makes a call fail: what can't be read is a miss, what can't be
    written isn't stored. A damaged file gives one log line and is removed. The
    first failure to write gives one warning, and ends writing for this store.
    Safe to share between threads and over a fork.

    Args:
        root: the cache's directory, created when something is first stored; None: nothing is kept.
        options_key: what `config.options_key` gives for the options, or the options themselves; None: all defaults.
        readonly: never write, touch or remove anything.
        trust: skip the checks of owners and permissions.
        signing: who signs, and whose signatures are believed; None: signatures aren't looked at.
        limit: bytes that the whole root may take; what wasn't used for longest is evicted.
        remote: a second tier, asked for what isn't here, and sent what is stored.

    Raises:
        CacheError: another user could put code into this cache (see `integrity.check_root`).
    """

    def __init__(
        self,
        root: Path | None,
        options_key: Options | str | None = None,
        readonly: bool = False,
        trust: bool = False,
        signing: Signing | None = None,
        limit: int = 4 << 30,
        remote: Remote | None = None,
    ) -> None:
        self.root = None if root is None else located(root)
        self._named = root
        self.environment = environment.environment_key(options_key)
        self.trust = trust
        self._options = options_key
        self._signing = signing
        self._limit = limit
        self._writes = self.root is not None and not readonly
        self._prepared = self._described = False
        self._layout = Layout(self.root or Path(), self.environment)
        if self.root is not None and not trust:
            check_root(self.root, root)
        self._second: Second | None = None
        if remote is not None and self.root is not None and not readonly:
            from aotdyn.store.fetch import Second

            self._second = Second(remote, self._layout, signing, trust)

    def __repr__(self) -> str:
        return f"Store({str(self.root) if self.root else None!r}, environment={self.environment!r})"

    @property
    def writable(self) -> bool:
        """Whether something stored now would be kept, as far as is known."""
        return self._writes

    # Variants

    def load(self, spec: FrameSpec) -> list[Variant]:
        """All variants stored for a frame, in the order they were stored."""
        if self.root is None:
            return []
        key = records.frame_key(spec)
        found = self._load(spec, key)
        if not found and self._second is not None and self._prepare() and self._second.variants(key):
            found = self._load(spec, key)
        if found and self._writes:
            disk.renew(self._layout.records(key))
            leases.account(self._layout.base).loaded(key)
            if not self._described:
                with contextlib.suppress(OSError):  # it isn't needed for anything but telling
                    self._describe()
        return found

    def _load(self, spec: FrameSpec, key: str) -> list[Variant]:
        """What is stored here for a frame."""
        directory = self._layout.records(key)
        try:
            names = os.listdir(directory)
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            self._unreadable(directory, error)
            return []
        found = []
        for name in names:
            if not name.endswith(RECORD):
                continue
            path = f"{directory}/{name}"
            opened = self._read(Kind.RECORD, path, f"{key}/{name}", touch=False)
            if opened is None:
                continue
            try:
                variant = records.decode(opened.payload)
                if variant.spec != spec:
                    raise Damaged("it is of another frame")
            except Damaged as error:
                self._damaged(path, error)
                continue
            found.append((opened.created, name, variant))
        found.sort(key=lambda item: item[:2])
        return [variant for _, _, variant in found]

    def save(self, variant: Variant) -> bool:
        """Store a variant; the same one stored before counts as stored. Whether the next process will find it.

        A variant that rests on facts of this process alone is refused.

        Raises:
            CacheError: a field holds something that isn't data: a mistake in what made the variant.
        """
        if not self._writes or variant.process_local or variant.locals:
            return False
        try:
            payload = records.encode(variant)
            key, name = records.frame_key(variant.spec), records.identity(variant) + RECORD
        except (TypeError, ValueError, OverflowError) as error:
            where = f"{variant.spec.module}.{variant.spec.qualname}"
            raise CacheError(f"a variant of {where} can't be stored, since it holds more than data: {error}") from error
        return self._write(Kind.RECORD, f"{self._layout.records(key)}/{name}", f"{key}/{name}", payload)

    def note_miss(self, spec: FrameSpec, reason: str) -> None:
        """Keep why none of a frame's stored variants fitted a call: the last few are what `--why-miss` prints."""
        if self.root is None or not self._writes:
            return
        path = f"{self._layout.base}/misses/{records.frame_key(spec)}"
        try:
            with open(path, encoding="utf-8") as file:
                known = file.read(1 << 16).splitlines()
        except (OSError, ValueError):
            known = []
        line = f"{int(time.time())}\t{' '.join(reason.split())[:500]}"
        try:
            disk.write(path, "\n".join([line, *known][:MISSES]).encode())
        except OSError:
            pass

    def prune(self, spec: FrameSpec, variant: Variant) -> bool:
        """Remove a stored variant, as one whose digests no longer hold. Whether there was one."""
        if not self._writes:
            return False
        return disk.remove(f"{self._layout.records(records.frame_key(spec))}/{records.identity(variant)}{RECORD}")

    # Graphs and rewritten modules

    def graph(self, key: str) -> bytes | None:
        """A stored graph, None if there is none."""
        found = self._payload(Kind.GRAPH, self._layout.graph(key), key)
        if (
            found is None
            and self._second is not None
            and valid_key(key)
            and self._prepare()
            and self._second.graph(key)
        ):
            found = self._payload(Kind.GRAPH, self._layout.graph(key), key)
        return found

    def save_graph(self, key: str, data: bytes) -> bool:
        """Store a graph under its key; store it before the variant that names it. Whether it is stored."""
        return self._write(Kind.GRAPH, self._layout.graph(_checked(key)), key, data)

    def module(self, key: str) -> memoryview | None:
        """Code of a rewritten module, None if there is none. The key says whose, and how it is known to be current."""
        if self.root is None or not valid_key(key):
            return None
        opened = self._read(Kind.MODULE, self._layout.module(key), key, touch=self._writes)
        return None if opened is None else opened.payload

    def save_module(self, key: str, data: bytes | memoryview) -> bool:
        """Store the code of a rewritten module. Whether it is stored."""
        return self._write(Kind.MODULE, self._layout.module(_checked(key)), key, data)

    # Kernels

    def kernel_path(self, key: str) -> Path | None:
        """Directory of a stored kernel, every file in it verified just now; None if there is none."""
        if self.root is None or not valid_key(key):
            return None
        directory = self._layout.kernel(key)
        try:
            found = self._verified(directory)
            if found is None and self._second is not None and self._prepare() and self._second.kernel(key):
                found = self._verified(directory)
        except Damaged as error:
            self._damaged(directory, error)
            return None
        except OSError as error:
            self._unreadable(directory, error)
            return None
        if found is not None and self._writes:
            leases.account(self._layout.base).holds(key)
        return None if found is None else Path(directory)

    def drop_kernel(self, key: str) -> None:
        """Remove a kernel that turned out to be of no use here, so that another can take its place."""
        if self._writes and self.root is not None and valid_key(key):
            disk.remove(self._layout.kernel(key))

    def save_kernel(
        self, key: str, files: Mapping[str, bytes | Path], graph: str = "", about: Mapping[str, str] | None = None
    ) -> Path | None:
        """Store a kernel's files, by plain name, as bytes or copied from a path; its directory, or None if it isn't.

        With `graph`, the key of the graph it was compiled from, the kernel is
        collected once no variant names that graph. `about` says what its key
        stands for, to be told why another doesn't fit.

        Raises:
            ValueError, OSError: a name that can't be a file's, or a path that can't be read.
        """
        directory = self._layout.kernel(_checked(key))
        contents = kernels.contents(files)
        if not self._prepare():
            return None
        try:
            kernels.save(directory, contents, graph, about or {}, trust=self.trust, signing=self._signing)
        except (OSError, CacheError) as error:
            self._unwritable(directory, error)
            return None
        leases.account(self._layout.base).holds(key)
        self._grown(sum(map(len, contents.values())))
        if self._second is not None:
            self._second.send(directory)
        return Path(directory)

    def _verified(self, directory: str) -> kernels.Manifest | None:
        """A kernel's manifest, all of it verified; errors as `kernels.manifest`."""
        try:
            return kernels.verified(directory, trust=self.trust, touch=self._writes, signing=self._signing)
        except Untrusted:
            raise
        except Damaged:  # or removed, and perhaps made anew, while it was read
            return kernels.verified(directory, trust=self.trust, touch=self._writes, signing=self._signing)

    def _grown(self, size: int) -> None:
        from aotdyn.store import usage

        usage.grown(str(self.root), size, self._limit)

    def claim(self, key: str, wait: float | None = None) -> AbstractContextManager[Claim]:
        """Claim the making of the kernel `key` for the length of a `with` block, which always runs.

        Where another process has the claim, it is waited for until the kernel
        is there (`done`), the other is gone, or `wait` seconds are over
        (None: the option `claim_seconds`); whoever doesn't hold the claim
        then makes the kernel all the same. See `store.claims`.
        """
        from aotdyn.store import claims

        if wait is None:
            wait = getattr(self._options, "claim_seconds", CLAIM_SECONDS)
        if not valid_key(key) or not self._prepare():
            return nullcontext(claims.Claim(""))
        directory = self._layout.kernel(key)
        return claims.claim(self._layout.claim(key), lambda: os.path.isdir(directory), wait)

    def take_claim(self, key: str) -> bool:
        """Claim the making of the kernel `key` until `release_claim`; False where another process is at it."""
        from aotdyn.store import claims

        longest = getattr(self._options, "claim_seconds", CLAIM_SECONDS)
        return not valid_key(key) or not self._prepare() or claims.take(self._layout.claim(key), longest)

    def release_claim(self, key: str) -> None:
        """Let others make the kernel `key`, if they still need to."""
        from aotdyn.store import claims

        if valid_key(key):
            claims.release(self._layout.claim(key))

    # What they share

    def _payload(self, kind: int, path: str, key: str) -> bytes | None:
        if self.root is None or not valid_key(key):
            return None
        opened = self._read(kind, path, key, touch=self._writes)
        return None if opened is None else bytes(opened.payload)

    def _read(self, kind: int, path: str, name: str, touch: bool) -> Opened | None:
        try:
            data = disk.read(path, trust=self.trust, touch=touch)
            return None if data is None else unseal(kind, name, data, self._signing)
        except Damaged as error:
            self._damaged(path, error)
        except OSError as error:
            self._unreadable(path, error)
        return None

    def _write(self, kind: int, path: str, name: str, payload: bytes | memoryview) -> bool:
        if not self._prepare():
            return False
        if len(payload) > LIMIT:
            log.warning("aotdyn: not stored, since %d bytes are over the limit of %d: %s", len(payload), LIMIT, path)
            return False
        try:
            if not self._whole(kind, path, name):
                told = b"" if kind == Kind.MODULE else origin.ours()
                data = seal(kind, name, payload, time.time_ns(), told, self._signing)
                disk.write(path, data)
                self._grown(len(data))
                if self._second is not None and kind != Kind.MODULE:  # a module is made as fast as it is fetched
                    self._second.send(path)
        except (OSError, CacheError) as error:
            self._unwritable(path, error)
            return False
        return True

    def _whole(self, kind: int, path: str, name: str) -> bool:
        """Whether a file is there already, and good: what nobody has read since it was damaged is written anew."""
        try:
            data = disk.read(path, trust=self.trust, touch=False)
            return data is not None and bool(unseal(kind, name, data, self._signing))
        except (Damaged, OSError):
            disk.remove(path)
            return False

    def _prepare(self) -> bool:
        """Make the environment's directory before the first write. Whether writing goes on."""
        if not self._writes or (self._prepared and os.path.isdir(self._layout.base)):
            return self._writes
        try:
            disk.make_directory(self._layout.base)
            if self.root is not None and not self.trust:
                check_root(self.root, self._named)  # someone else may have made it since
            self._describe()
            disk.renew(self._layout.base)
            self._prepared = True
        except (OSError, CacheError) as error:
            self._unwritable(self._layout.base, error)
        return self._writes

    def _describe(self) -> None:
        """See, once, that the file that says what the environment is can be read; else write it.

        Raises:
            OSError: it can't be written.
        """
        path = self._layout.description()
        wrong = environment.misdescribed(path)
        if wrong is not None:
            known = os.path.exists(path)
            environment.save_description(path, environment.describe(self._options))
            if known:
                log.warning("aotdyn: made anew: %s, which was damaged: %s", path, wrong)
        self._described = True

    def _damaged(self, path: str, error: Damaged) -> None:
        if isinstance(error, Untrusted):
            if (self.root, "untrusted") not in _told:
                _told.add((self.root, "untrusted"))
                log.warning("aotdyn: not read: %s: %s; nor is what else is so in %s", path, error, self.root)
            return
        gone = self._writes and disk.remove(path)
        log.warning("aotdyn: ignored%s a damaged cache entry, %s: %s", " and removed" if gone else "", path, error)

    def _unreadable(self, path: str, error: OSError) -> None:
        if self.root not in _told:
            _told.add(self.root)
            log.warning("aotdyn: the cache at %s can't be read (%s: %s); entries that can't count as missing%s",
                        self.root, os.path.relpath(path, self.root), error.strerror, _hint(error, True))  # fmt: skip

    def _unwritable(self, path: str, error: Exception) -> None:
        self._writes = False
        if self.root not in _told:
            _told.add(self.root)
            reason = getattr(error, "strerror", None) or str(error)
            log.warning("aotdyn: the cache at %s can't be written (%s: %s); this process stores nothing%s",
                        self.root, os.path.relpath(path, self.root), reason, _hint(error, False))  # fmt: skip


def _hint(error: Exception, reading: bool) -> str:
    """What to do about it, behind a sentence; empty where the error's own words say it."""
    told = remedy(error, reading) if isinstance(error, OSError) else ""
    return f"\n  hint: {told}" if told else ""


def configured(root: Path | None, options: Options | str | None, trust: bool) -> Store:
    """The store at `root`, signing and bounded as the process's options say.

    Raises:
        CacheError: it is refused.
    """
    from aotdyn import config
    from aotdyn.store import signing

    current = config.current()
    keys = signing.Keys(current.cache_sign, signing.folder(current))
    second = None
    if current.cache_remote:
        from aotdyn.store.remote import remote

        second = remote(current.cache_remote, current.cache_remote_timeout)
    return Store(root, options, trust=trust, signing=keys, limit=current.cache_limit << 20, remote=second)


def opened(root: Path | None, options: Options | str | None, trust: bool) -> Store:
    """The store at `root`; where that is refused, one that keeps nothing, and one warning a process says why."""
    try:
        return configured(root, options, trust)
    except CacheError as error:
        if root not in _told:
            _told.add(root)
            log.warning("aotdyn: %s\n  until then nothing is cached", error)
        return Store(None, options)


def _checked(key: str) -> str:
    if not valid_key(key):
        raise ValueError(f"{key!r} can't be a key: up to 200 letters, digits and ._@+-, not starting with a dot")
    return key
