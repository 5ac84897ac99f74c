"""`doctor`: whether this environment has what aotdyn needs, and what it would do here."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
from collections.abc import Iterator
from pathlib import Path

import aotdyn
from aotdyn import config
from aotdyn.cli.parsing import Parser
from aotdyn.errors import AotdynError
from aotdyn.hook import startup
from aotdyn.report.plural import counted

NEEDED = ("torch", "bytecode", "libcst", "msgspec", "platformdirs")


def main(argv: list[str]) -> int:
    """Print a line for each thing looked at; 1 if one of them is bad."""
    Parser(
        prog="python -m aotdyn doctor",
        description="Says whether this environment has what aotdyn needs, and what aotdyn would do here.",
    ).parse_args(argv)
    bad = False
    for name, value, fine in _findings():
        print(f"{'ok ' if fine else 'BAD'} {name:10} {value}")
        bad |= not fine
    return int(bad)


def _findings() -> Iterator[tuple[str, str, bool]]:
    yield "aotdyn", aotdyn.__version__, True
    yield "python", f"{platform.python_version()} ({sys.executable})", sys.version_info[:2] == (3, 11)
    for name in NEEDED:
        try:
            version = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            yield name, "missing: pip install " + name, False
            continue
        fine = name != "torch" or version.startswith("2.13.")
        yield name, version if fine else f"{version}, where 2.13 is needed", fine
    try:
        options = config.current()
    except AotdynError as error:
        yield "options", str(error), False
        return
    yield "compiler", config.cxx_compiler() or "none found, so the backend `eager` is used", True
    yield "backend", options.backend or ("inductor" if config.cxx_compiler() else "eager"), True
    yield "cache", *_cache()
    if options.cache_sign:
        yield "signing", *_signing(options)
    if options.cache_remote:
        yield "remote", f"{options.cache_remote}, worth {options.cache_remote_timeout:g} s", True
    hooked = os.environ.get("AOTDYN_PACKAGES") or "nothing, AOTDYN_PACKAGES isn't set"
    yield "activated", f"yes, hooks {hooked}" if startup.active() else "no", True
    if options.disable:
        yield "disabled", "by AOTDYN_DISABLE or pyproject.toml: nothing is compiled", True


def _cache() -> tuple[str, bool]:
    from aotdyn.store.store import Store

    root = config.cache_root()
    if root is None:
        return "none, nothing is kept", True
    try:
        Store(root, trust=config.current().cache_trust)
    except AotdynError as error:
        return str(error), False
    if not _writable(root):
        return f"{root} can't be written", False
    size, files = _size(root)
    return f"{root} ({counted(files, 'file')}, {size / 1e6:.1f} MB)", True


def _signing(options: config.Options) -> tuple[str, bool]:
    from aotdyn.store import signing

    keys = signing.Keys(True, signing.folder(options))
    try:
        keys.sign(b"")
        return f"trusts {counted(len(keys.trusted()), 'key')}, in {keys.where}", True
    except AotdynError as error:
        return str(error), False


def _writable(root: Path) -> bool:
    folder = root
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)


def _size(root: Path) -> tuple[int, int]:
    size = files = 0
    for folder, _, names in os.walk(root):
        for name in names:
            try:
                size += os.lstat(os.path.join(folder, name)).st_size
                files += 1
            except OSError:
                pass
    return size, files
