"""The whole cache, all environments, as `python -m aotdyn cache` lists, verifies, clears and collects it."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from aotdyn.runtime.variant import FrameSpec, Variant
from aotdyn.store import disk, kernels, records
from aotdyn.store.environment import misdescribed, save_description
from aotdyn.store.integrity import MAGIC, Damaged, Kind, Opened, Signing, check_directory, check_root, located, unseal
from aotdyn.store.layout import (
    BESIDE,
    ENVIRONMENT,
    GRAPH,
    MANIFEST,
    MODULE,
    PROJECTS,
    RECORD,
    TEMPORARY,
    VERSION,
    WITHIN,
    beside,
    environment_name,
)

GRACE = 3600.0
"Seconds for which what nothing refers to, or a writer hasn't finished, is left alone."

FOLDERS = {"frames": "records", "graphs": "graphs", "rewritten modules": "modules", "kernels": "kernels"}
"What is stored, in words, and the folder that has it."


@dataclass(frozen=True)
class Stored:
    """A variant with its place on the disk."""

    path: str
    size: int
    created: int
    variant: Variant
    origin: bytes = b""


@dataclass
class Tally:
    """Number and size of entries."""

    entries: int = 0
    bytes: int = 0

    def add(self, size: int) -> None:
        """Count one entry."""
        self.entries += 1
        self.bytes += size


@dataclass
class Removed:
    """What was removed, by kind in words."""

    kinds: dict[str, Tally] = field(default_factory=dict)
    kept: list[str] = field(default_factory=list)
    "paths that could not be removed"

    def remove(self, kind: str, path: str) -> None:
        """Remove a file or directory, and account for it."""
        size = usage_of(path)
        if disk.remove(path):
            self.kinds.setdefault(kind, Tally()).add(size)
        else:
            self.kept.append(path)


class Environment:
    """One environment's part of a cache."""

    def __init__(self, path: str, trust: bool, signing: Signing | None = None) -> None:
        self.path = path
        self.key = os.path.basename(path)
        self.trust = trust
        self.signing = signing

    def description(self) -> dict[str, str]:
        """What the key stands for; empty where that isn't known."""
        try:
            read = json.loads(Path(self.path, ENVIRONMENT).read_bytes())
        except (OSError, ValueError):
            return {}
        return {str(name): str(value) for name, value in read.items()} if isinstance(read, dict) else {}

    def entries(self, kind: str) -> Iterator[str]:
        """Paths of the entries (`records`, `graphs`, `modules`, `kernels`), whole ones only."""
        for group in _listed(f"{self.path}/{kind}"):
            yield from _listed(group)

    def variants(self, damaged: list[tuple[str, str]] | None = None) -> Iterator[Stored]:
        """All stored variants, in the order they were stored within a frame; `damaged` takes paths and reasons."""
        for directory in self.entries("records"):
            found = []
            for path in _listed(directory):
                try:
                    stored = self._variant(path)
                except (Damaged, OSError) as error:
                    if damaged is not None:
                        damaged.append((path, str(error)))
                    continue
                if stored is not None:
                    found.append(stored)
            yield from sorted(found, key=lambda stored: (stored.created, stored.path))

    def _variant(self, path: str) -> Stored | None:
        if not path.endswith(RECORD):
            raise Damaged("not a file of the cache")
        data = disk.read(path, trust=self.trust, touch=False)
        if data is None:
            return None
        key = os.path.basename(os.path.dirname(path))
        opened = unseal(Kind.RECORD, f"{key}/{os.path.basename(path)}", data, self.signing)
        variant = records.decode(opened.payload)
        if records.frame_key(variant.spec) != key:
            raise Damaged("it is of another frame")
        return Stored(path, len(data), opened.created, variant, opened.origin)

    def graph(self, key: str) -> bytes | None:
        """A stored graph; None where there is none, or none that can be believed."""
        path = f"{self.path}/graphs/{key[:2]}/{key}{GRAPH}"
        try:
            data = disk.read(path, trust=self.trust, touch=False)
            return None if data is None else bytes(unseal(Kind.GRAPH, key, data, self.signing).payload)
        except (Damaged, OSError):
            return None

    def damaged(self) -> tuple[int, list[tuple[str, str]]]:
        """Check every file by schema and digest: how many entries are good, and the bad ones with the reason."""
        bad: list[tuple[str, str]] = []
        good = 0
        for stored in self.variants(bad):
            graph = stored.variant.graph
            if graph is None or os.path.exists(f"{self.path}/graphs/{graph[:2]}/{graph}{GRAPH}"):
                good += 1
            else:
                bad.append((stored.path, f"its graph {graph} isn't there"))
        if (reason := self.misdescribed()) is not None:
            bad.append((f"{self.path}/{ENVIRONMENT}", reason))
        for folder, kind, suffix in (("graphs", Kind.GRAPH, GRAPH), ("modules", Kind.MODULE, MODULE)):
            for path in self.entries(folder):
                try:
                    data = disk.read(path, trust=self.trust, touch=False)
                    if data is not None:
                        self._schema(
                            kind, unseal(kind, os.path.basename(path).removesuffix(suffix), data, self.signing)
                        )
                        good += 1
                except (Damaged, OSError) as error:
                    bad.append((path, str(error)))
        for path in self.entries("kernels"):
            try:
                good += kernels.verified(path, trust=self.trust, signing=self.signing) is not None
            except (Damaged, OSError) as error:
                bad.append((path, str(error)))
        return good, bad

    def _schema(self, kind: int, opened: Opened) -> None:
        """Raise Damaged for what has the right digest, and isn't what its kind says."""
        if kind == Kind.GRAPH:
            from aotdyn.graph import data

            try:
                data.check(bytes(opened.payload))
            except (ValueError, RecursionError) as error:
                raise Damaged(f"not a graph: {error}") from error

    def misdescribed(self) -> str | None:
        """What is wrong with the file that says what the environment is; None where it is good."""
        return misdescribed(f"{self.path}/{ENVIRONMENT}")

    def renew(self, words: dict[str, str]) -> str | None:
        """Write the file that says what the environment is, and answer its path; None where it can't be written."""
        path = f"{self.path}/{ENVIRONMENT}"
        try:
            save_description(path, words)
        except OSError:
            return None
        return path

    def collect(self, unused: float, removed: Removed) -> None:
        """Remove what wasn't used for `unused` seconds, then what nothing refers to any more."""
        now = time.time()
        for path in self.entries("records"):
            if _age(path, now) > unused:
                removed.remove("frames", path)
        for path in self.entries("modules"):
            if _age(path, now) > unused:
                removed.remove("rewritten modules", path)
        used = {stored.variant.graph for stored in self.variants()}
        for path in self.entries("graphs"):
            if os.path.basename(path).removesuffix(GRAPH) not in used and _age(path, now) > GRACE:
                removed.remove("graphs", path)
        for path in self.entries("kernels"):
            # Kernels of variants that live in one process alone are referred to by nothing stored: use keeps them.
            age, graph = _age(f"{path}/{MANIFEST}", now), self._kernel_graph(path)
            if graph not in used and age > (2 * disk.DAY if graph else unused):
                removed.remove("kernels", path)
        empty = not any(next(self.entries(folder), None) for folder in FOLDERS.values())
        if empty and _age(self.path, now) > GRACE:
            removed.remove("environments", self.path)

    def _kernel_graph(self, path: str) -> str | None:
        """Key of the graph that a kernel was compiled from."""
        try:
            found = kernels.manifest(path, trust=self.trust)
        except (Damaged, OSError):
            return "damaged"
        return found.graph if found else None


class Inventory:
    """All environments under one root.

    Raises:
        CacheError: as `Store` does.
    """

    def __init__(self, root: Path | str, trust: bool = False, signing: Signing | None = None) -> None:
        self.root = located(Path(root))
        self.trust = trust
        self.signing = signing
        check_directory(self.root)
        if not trust:
            check_root(self.root, Path(root))

    @property
    def base(self) -> str:
        """The directory of all environments."""
        return f"{self.root}/{VERSION}"

    def environments(self) -> list[Environment]:
        """The environments that have something stored. What else lies where they do isn't the cache's."""
        return [Environment(path, self.trust, self.signing) for path in _listed(self.base) if is_ours(path)]

    def size(self) -> int:
        """Bytes of all that is stored."""
        return sum(usage_of(environment.path) for environment in self.environments())

    def foreign(self) -> list[str]:
        """Paths of what lies where environments do, and isn't the cache's."""
        return [path for name in _names(self.base) if not beside(name) and not is_ours(path := f"{self.base}/{name}")]

    def leftovers(self) -> Iterator[str]:
        """What killed writers left a while ago, among the cache's own."""
        now = time.time()
        for name in _names(self.base):
            path = f"{self.base}/{name}"
            if TEMPORARY in name and beside(name) and _age(path, now) > GRACE:
                yield path
        for environment in self.environments():
            yield from disk.leftovers(environment.path, GRACE)

    def clear(self) -> Removed:
        """Remove everything that aotdyn stored under the root, and nothing else there."""
        removed = Removed()
        for environment in self.environments():
            for kind, folder in FOLDERS.items():
                for path in environment.entries(folder):
                    removed.remove(kind, path)
            removed.remove("environments", environment.path)
        if "environments" in removed.kinds or self._notes():
            for name in _names(self.base):
                if name in BESIDE or (TEMPORARY in name and beside(name)):
                    disk.remove(f"{self.base}/{name}")
        try:
            os.rmdir(self.base)
        except OSError:
            pass  # it isn't there, or holds what is somebody else's
        return removed

    def _notes(self) -> bool:
        """Whether what lies beside environments, where there is none, is a cache's: by what one of its files holds."""
        return _is_number(f"{self.base}/{BESIDE[0]}") or _is_sealed(f"{self.base}/{PROJECTS}")

    def bound(self, limit: int, removed: Removed | None = None) -> int:
        """Evict down to `limit` bytes: see `evict.bound`. What is left, in bytes."""
        from aotdyn.store import evict

        return evict.bound(self, limit, Removed() if removed is None else removed)

    def gc(self, unused: float, limit: int | None = None) -> Removed:
        """Remove what killed writers left, what wasn't used for `unused` seconds, what nothing refers to.

        Then what is over `limit` bytes.
        """
        removed = Removed()
        for path in self.leftovers():
            removed.remove("leftovers", path)
        for environment in self.environments():
            environment.collect(unused, removed)
        if limit is not None:
            self.bound(limit, removed)
        return removed


def usage_of(path: str) -> int:
    """Bytes of a file, or of all files below a directory."""
    if not os.path.isdir(path):
        try:
            return os.lstat(path).st_size
        except OSError:
            return 0
    return sum(usage_of(os.path.join(folder, name)) for folder, _, files in os.walk(path) for name in files)


def readable(size: float) -> str:
    """A size for people: `1.4 MiB`."""
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"


def frame_name(spec: FrameSpec) -> str:
    """`module.qualname`, with the offset behind it where it isn't the function's start."""
    return f"{spec.module}.{spec.qualname}" + (f" +{spec.offset}" if spec.offset else "")


def is_ours(path: str) -> bool:
    """Whether a directory is an environment's: by its name, and by what it says it is, or has nothing else in it."""
    if not environment_name(os.path.basename(path)) or not os.path.isdir(path):
        return False
    if misdescribed(f"{path}/{ENVIRONMENT}") is None:
        return True
    try:
        return all(name.partition(TEMPORARY)[0] in WITHIN for name in os.listdir(path))
    except OSError:
        return False


def _is_number(path: str) -> bool:
    """Whether a file holds the size that a cache was measured to have."""
    try:
        return os.path.getsize(path) < 30 and Path(path).read_bytes().isdigit()
    except OSError:
        return False


def _names(directory: str) -> list[str]:
    try:
        return sorted(os.listdir(directory))
    except OSError:
        return []


def _listed(directory: str) -> list[str]:
    return [f"{directory}/{name}" for name in _names(directory) if TEMPORARY not in name]


def _age(path: str, now: float) -> float:
    try:
        return now - os.stat(path).st_mtime
    except OSError:
        return 0.0


def _is_sealed(path: str) -> bool:
    """Whether a file begins as those of a cache do."""
    try:
        with open(path, "rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False
