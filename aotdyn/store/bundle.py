"""Bundles: what is stored in one file, to be taken to another machine or path.

A bundle is a zip file without compression: MANIFEST.json says what is in it
(each entry's size and digest, the environments in words), SIGNATURE may sign
the manifest. It holds contents, not envelopes: no times, no origins, no places
of sources, all in order, so that one cache always gives the same bytes.

Importing believes nothing: sizes and digests are checked before an entry is
read by its schema, keys are computed again, and nothing in it is run.
"""

from __future__ import annotations

import io
import json
import marshal
import os
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from aotdyn.errors import CacheError
from aotdyn.graph.data import check
from aotdyn.runtime.variant import FrameSpec, Variant
from aotdyn.store import disk, kernels, origin, records
from aotdyn.store.environment import describe, save_description
from aotdyn.store.integrity import (
    LIMIT,
    OWN,
    Damaged,
    Kind,
    check_directory,
    check_root,
    digest,
    located,
    remedy,
    seal,
    unseal,
)
from aotdyn.store.inventory import FOLDERS, Environment, Inventory, Stored, is_ours
from aotdyn.store.layout import MODULE, RECORD, Layout, valid_key
from aotdyn.store.signing import Keys

NAME, SIGNATURE = "MANIFEST.json", "SIGNATURE"
FORM = 1
"Raise it when a bundle's form changes."

MANIFEST_LIMIT = 64 << 20


class NoBundle(Exception):
    """A file is something else; str() says what gave it away."""


class Item(msgspec.Struct, frozen=True):
    """An entry of the manifest. `order` is that of a frame's variants; `graph` and `about` are a kernel's."""

    name: str
    size: int
    digest: str
    order: int = 0
    graph: str = ""
    about: dict[str, str] = {}


class Contents(msgspec.Struct, frozen=True):
    """A bundle's manifest. `environments` is by key, what each stands for."""

    form: int
    environments: dict[str, dict[str, str]]
    entries: list[Item]


class Entry(NamedTuple):
    """What goes into a bundle."""

    item: Item
    data: bytes


def export(inventory: Inventory, file: Path, packages: list[str], keys: Keys, force: bool = False) -> dict[str, int]:
    """Write what is stored for this Python and torch to `file`; how many entries of each kind.

    Args:
        packages: only functions of these modules and packages, and what follows them; empty: all.
        force: write over a file that is no bundle.

    Raises:
        CacheError: nothing fits, or the file can't be written, or is something else.
    """
    _check_target(file, force)
    here = describe()
    environments, entries = {}, []
    for environment in inventory.environments():
        words = environment.description()
        if any(words.get(name) != here[name] for name in ("python", "torch", "torch commit", "format")):
            continue
        found = list(_entries(environment, packages))
        if found:
            environments[environment.key] = words
            entries += found
    if not entries:
        what = f"of {', '.join(packages)} " if packages else ""
        raise CacheError(f"nothing {what}is stored for this Python and torch", where=str(inventory.root),
                         hint="run the program first; `cache ls` lists what is there")  # fmt: skip
    entries.sort(key=lambda entry: entry.item.name)
    manifest = _encode(Contents(FORM, environments, [entry.item for entry in entries]))
    files = {NAME: manifest}
    if block := keys.sign(_signed(manifest)):
        files[SIGNATURE] = block
    files |= {entry.item.name: entry.data for entry in entries}
    try:
        disk.write(str(file), _zipped(files), _usual_mode())
    except OSError as error:
        raise CacheError(f"the bundle can't be written: {error.strerror}", where=str(file),
                         hint="name a file in a directory that you may write to") from None  # fmt: skip
    return _counts(entry.item for entry in entries)


def _check_target(file: Path, force: bool) -> None:
    """Refuse to write a bundle where that would destroy something else, or where no folder is.

    Raises:
        CacheError: says which, and what to do.
    """
    folder = os.path.dirname(os.path.abspath(file))
    if os.path.isdir(file):
        raise CacheError("the bundle can't be written: there is a directory of that name", where=str(file),
                         hint="name a file")  # fmt: skip
    if not os.path.isdir(folder):
        raise CacheError(f"the bundle can't be written: there is no directory {folder}", where=str(file),
                         hint="make it first, or name another file")  # fmt: skip
    if os.path.lexists(file) and not force and not _is_bundle(file):
        raise CacheError("there is a file of that name already, which is no bundle", where=str(file),
                         hint="name another file, or write over this one with `--force`")  # fmt: skip


def _usual_mode() -> int:
    """The mode of any file that a program writes: a bundle is made to be taken along, by other users as well."""
    mask = os.umask(0o077)
    os.umask(mask)
    return 0o666 & ~mask


def _is_bundle(file: Path) -> bool:
    """Whether a file has a bundle's manifest, of whatever form."""
    try:
        with zipfile.ZipFile(file) as archive:
            read = json.loads(_read_entry(archive, NAME, MANIFEST_LIMIT))
    except (OSError, Damaged, zipfile.BadZipFile, EOFError, ValueError, KeyError, RuntimeError, NotImplementedError):
        return False
    return isinstance(read, dict) and {"form", "environments", "entries"} <= read.keys()


def _encode(contents: Contents) -> bytes:
    return json.dumps(msgspec.to_builtins(contents), indent=1, sort_keys=True).encode()


def _signed(manifest: bytes) -> bytes:
    return b"aotdyn bundle " + bytes.fromhex(digest(manifest))


def _zipped(files: dict[str, bytes]) -> bytes:
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_STORED) as archive:
        for name, data in files.items():
            info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            info.create_system, info.external_attr = 3, 0o600 << 16
            archive.writestr(info, data)
    return whole.getvalue()


def _entries(environment: Environment, packages: list[str]) -> Iterator[Entry]:
    """What is stored in an environment for these packages, damaged entries aside."""
    graphs = set()
    orders: dict[FrameSpec, int] = {}
    for stored in _chosen(environment, packages):
        variant = stored.variant
        order = orders[variant.spec] = orders.get(variant.spec, -1) + 1
        name = f"{environment.key}/records/{records.frame_key(variant.spec)}/{records.identity(variant)}"
        yield _entry(name, records.encode(variant), order=order)
        if variant.graph is not None:
            graphs.add(variant.graph)
    for graph in graphs:
        if (data := environment.graph(graph)) is not None:
            yield _entry(f"{environment.key}/graphs/{graph}", data)
    yield from _modules(environment, packages)
    for path in environment.entries("kernels"):
        try:
            found = kernels.verified(path, trust=environment.trust, signing=environment.signing)
        except (Damaged, OSError):
            continue
        if found is None or not (found.graph in graphs or (not found.graph and not packages)):
            continue
        key = os.path.basename(path)
        for one in found.files:
            data = Path(path, one.name).read_bytes()
            yield _entry(f"{environment.key}/kernels/{key}/{one.name}", data, graph=found.graph, about=found.about)


def _entry(name: str, data: bytes, **more: Any) -> Entry:
    return Entry(Item(name, len(data), digest(data), **more), data)


def _chosen(environment: Environment, packages: list[str]) -> list[Stored]:
    """The variants of functions in these packages, and of what may follow them, in the order they were stored."""
    everything = list(environment.variants())
    if not packages:
        return everything
    frames: dict[FrameSpec, list[Variant]] = {}
    for stored in everything:
        frames.setdefault(stored.variant.spec, []).append(stored.variant)
    waiting = [spec for spec in frames if _within(spec.module, packages)]
    wanted: set[FrameSpec] = set()
    while waiting:
        spec = waiting.pop()
        if spec not in wanted:
            wanted.add(spec)
            waiting += [end for one in frames.get(spec, ()) for point in one.resumes for end in point.exits]
    return [stored for stored in everything if stored.variant.spec in wanted]


def _within(module: str, packages: list[str]) -> bool:
    module = module.partition("@")[0]
    return any(module == each or module.startswith(each + ".") for each in packages)


def _modules(environment: Environment, packages: list[str]) -> Iterator[Entry]:
    """Rewritten modules by the digest of their source, programs' wherever it lies: a place means nothing elsewhere."""
    for path in environment.entries("modules"):
        key = os.path.basename(path).removesuffix(MODULE)
        try:
            data = disk.read(path, trust=environment.trust, touch=False)
            payload = None if data is None else unseal(Kind.MODULE, key, data, environment.signing).payload
            _, board, module, *_ = marshal.loads(payload) if payload is not None else (None, "", "")
        except (Damaged, OSError, ValueError, EOFError, TypeError):
            continue
        lasting = key in board or module.startswith("__main__@")
        if payload is not None and lasting and (not packages or _within(module, packages)):
            yield _entry(f"{environment.key}/modules/{key}", bytes(payload))


def import_(root: Path, file: Path, keys: Keys, trust: bool = False) -> dict[str, int]:
    """Store what a bundle holds under `root`; how many entries of each kind.

    Raises:
        CacheError: the bundle is damaged, or not signed by a key that is trusted; then nothing is stored.
    """
    root = located(root)
    check_directory(root)
    if not trust:
        check_root(root)
    try:
        with _opened(file) as archive:
            contents = _read(archive, keys)
            found = [(item, _data(archive, item)) for item in contents.entries]
            told = origin.encode(bundle=file.name, digest=digest(_read_entry(archive, NAME, MANIFEST_LIMIT), 8))
    except OSError as error:
        raise CacheError(f"the bundle can't be read: {error.strerror or error}", where=str(file),
                         hint="name a file that `aotdyn cache export FILE` has written") from None  # fmt: skip
    except NoBundle as error:
        raise CacheError(f"the file isn't an aotdyn bundle: {error}", where=str(file),
                         hint="name a file that `aotdyn cache export` has written, whole") from None  # fmt: skip
    except (Damaged, zipfile.BadZipFile, EOFError, ValueError, KeyError, RuntimeError, NotImplementedError) as error:
        raise CacheError(f"the bundle can't be used: {error}", where=str(file),
                         hint="export it again, or fetch it anew") from None  # fmt: skip
    try:
        for key, words in contents.environments.items():
            _describe(Layout(root, key), words)
        _store(root, found, keys, told, trust)
    except OSError as error:
        raise CacheError(f"the cache can't be written: {error.strerror}", where=str(root),
                         hint=remedy(error, False) or OWN) from None  # fmt: skip
    return _counts(contents.entries)


def _opened(file: Path) -> zipfile.ZipFile:
    """The file as an archive with a manifest.

    Raises:
        NoBundle, OSError: it isn't one, or can't be read.
    """
    try:
        archive = zipfile.ZipFile(file)
    except zipfile.BadZipFile:
        raise NoBundle("it is no archive, or was cut short") from None
    if NAME not in archive.namelist():
        archive.close()
        raise NoBundle(f"it is an archive without {NAME}")
    return archive


def _read(archive: zipfile.ZipFile, keys: Keys) -> Contents:
    """The manifest, its signature judged and its form checked."""
    manifest = _read_entry(archive, NAME, MANIFEST_LIMIT)
    block = _read_entry(archive, SIGNATURE, 4096) if SIGNATURE in archive.namelist() else b""
    keys.judge(block, _signed(manifest))
    try:
        contents = msgspec.json.decode(manifest, type=Contents)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise Damaged(f"its manifest isn't one: {error}") from None
    if contents.form != FORM:
        raise Damaged(f"it has form {contents.form}, where {FORM} is known")
    if not all(len(key) == 16 and valid_key(key) for key in contents.environments):
        raise Damaged("an environment's key isn't one")
    names = [item.name for item in contents.entries]
    if len(set(names)) != len(names):
        raise Damaged("it has an entry twice")
    for item in contents.entries:
        environment, folder, *rest = item.name.split("/")
        good = environment in contents.environments and folder in FOLDERS.values() and all(map(valid_key, rest))
        if not good or len(rest) != (2 if folder in ("records", "kernels") else 1) or item.size < 0:
            raise Damaged(f"{item.name!r} is no entry's name")
    return contents


def _read_entry(archive: zipfile.ZipFile, name: str, limit: int) -> bytes:
    info = archive.getinfo(name)
    if info.compress_type != zipfile.ZIP_STORED or info.file_size > limit:
        raise Damaged(f"{name} is compressed or too large")
    with archive.open(info) as stream:
        return stream.read(limit)


def _data(archive: zipfile.ZipFile, item: Item) -> bytes:
    """An entry's bytes, of the size and digest that the manifest says."""
    data = _read_entry(archive, item.name, LIMIT)
    if len(data) != item.size or digest(data) != item.digest:
        raise Damaged(f"{item.name} is damaged")
    folder = item.name.split("/")[1]
    if folder == "graphs":
        check(data)
    if folder == "records":
        _, _, frame, name = item.name.split("/")
        variant = records.decode(data)
        if records.frame_key(variant.spec) != frame or records.identity(variant) != name:
            raise Damaged(f"{item.name} is another frame's, or another variant")
    return data


def _describe(layout: Layout, words: dict[str, str]) -> None:
    if os.path.lexists(layout.base) and not is_ours(layout.base):
        raise CacheError("what lies where the bundle's environment belongs isn't the cache's", where=layout.base,
                         hint="move it away, or import into another directory with `--cache`")  # fmt: skip
    disk.make_directory(layout.base)
    if not os.path.exists(layout.description()):
        save_description(layout.description(), words)


def _store(root: Path, found: list[tuple[Item, bytes]], keys: Keys, told: bytes, trust: bool) -> None:
    """Write entries to their places: what a variant names before the variant."""
    now = time.time_ns()
    libraries: dict[tuple[str, str], dict[str, bytes]] = {}
    about: dict[tuple[str, str], Item] = {}
    later = []
    for item, data in found:
        environment, folder, *rest = item.name.split("/")
        layout = Layout(root, environment)
        if folder == "kernels":
            libraries.setdefault((environment, rest[0]), {})[rest[1]] = data
            about[environment, rest[0]] = item
        elif folder == "graphs":
            _write(Kind.GRAPH, layout.graph(rest[0]), rest[0], data, now, told, keys)
        elif folder == "modules":
            _write(Kind.MODULE, layout.module(rest[0]), rest[0], data, now, b"", keys)
        else:
            later.append((layout, rest, item, data))
    for (environment, key), files in libraries.items():
        item = about[environment, key]
        where = Layout(root, environment).kernel(key)
        kernels.save(where, files, item.graph, item.about, trust=trust, signing=keys, told=told)
    for layout, (frame, name), item, data in later:
        name += RECORD
        path = f"{layout.records(frame)}/{name}"
        _write(Kind.RECORD, path, f"{frame}/{name}", data, now + item.order, told, keys)


def _write(kind: int, path: str, name: str, data: bytes, created: int, told: bytes, keys: Keys) -> None:
    try:
        if (known := disk.read(path, trust=False, touch=True)) is not None:
            unseal(kind, name, known, keys)
            return
    except (Damaged, OSError):
        disk.remove(path)
    disk.write(path, seal(kind, name, data, created, told, keys))


def _counts(items: Any) -> dict[str, int]:
    words = {folder: kind for kind, folder in FOLDERS.items()}
    found: dict[str, set[str]] = {kind: set() for kind in FOLDERS}
    for item in items:
        _, folder, first, *rest = item.name.split("/")
        found[words[folder]].add(first if folder != "records" else "/".join((first, *rest)))
    return {("variants" if kind == "frames" else kind): len(names) for kind, names in found.items()}
