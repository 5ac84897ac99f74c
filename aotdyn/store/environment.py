"""Which stored entries a process may use at all, and where the cache lies by default."""

from __future__ import annotations

import importlib.util
import os
import sys
from functools import cache
from hashlib import blake2b
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING

from aotdyn.store.layout import FORMAT

if TYPE_CHECKING:
    from aotdyn.config import Options


@cache
def torch_version() -> bytes:
    """What torch writes about itself: the bytes of `torch/version.py` (version, git commit, CUDA, ROCm).

    Read as a file, so that code rewritten before the app imports torch is
    found under the same key as what is traced later. Empty without torch.
    """
    loaded = sys.modules.get("torch")
    folder = os.path.dirname(getattr(loaded, "__file__", None) or "")
    if not folder:
        try:
            spec = PathFinder.find_spec("torch") or importlib.util.find_spec("torch")
        except (ImportError, ValueError):
            spec = None
        if spec is None or spec.origin is None:
            return b""
        folder = os.path.dirname(spec.origin)
    try:
        return Path(folder, "version.py").read_bytes()
    except OSError:
        return getattr(loaded, "__version__", "").encode()


def options_key(options: Options | str | None) -> str:
    """The part of an environment's key that options give: their `tracing_key()`; a string is that already."""
    return options if isinstance(options, str) else options.tracing_key() if options else ""


def environment_key(options: Options | str | None = None) -> str:
    """Digest, as 16 hex digits, of what all entries of an environment share.

    That is Python (version, bytecode, platform), torch, the record format and
    the options that change tracing (see `options_key`).
    """
    whole = blake2b(digest_size=8)
    for part in (repr(_python()).encode(), torch_version(), str(FORMAT).encode(), options_key(options).encode()):
        whole.update(len(part).to_bytes(8, "big") + part)
    return whole.hexdigest()


def save_description(path: str, words: dict[str, str]) -> None:
    """Write an `environment.json` with what `describe` says.

    Raises:
        OSError: it can't be written.
    """
    import json

    from aotdyn.store import disk  # here, as keys are asked for long before anything is written

    disk.write(path, json.dumps(words, indent=1).encode())


def misdescribed(path: str) -> str | None:
    """What is wrong with an `environment.json`; None where it says what it should."""
    import json

    try:
        read = json.loads(Path(path).read_bytes())
    except FileNotFoundError:
        return "it is missing, so nobody can tell what this environment is"
    except (OSError, ValueError) as error:
        return f"it can't be read: {error}"
    if not isinstance(read, dict) or not {"python", "torch", "format"} <= read.keys():
        return "it doesn't say what this environment is"
    return None


def describe(options: Options | str | None = None) -> dict[str, str]:
    """The same in words, for `environment.json`."""
    version = {}
    for line in torch_version().decode(errors="replace").splitlines():
        name, equals, value = line.partition("=")
        if equals:
            version[name.partition(":")[0].strip()] = value.strip().strip("'\"")
    return {
        "python": f"{sys.implementation.name} {'.'.join(map(str, sys.version_info[:3]))} on {sys.platform}",
        "torch": version.get("__version__", "none"),
        "torch commit": version.get("git_version", ""),
        "format": str(FORMAT),
        "options": options_key(options),
    }


def _python() -> tuple[object, ...]:
    return (
        *sys.version_info,
        sys.implementation.cache_tag,
        importlib.util.MAGIC_NUMBER.hex(),
        sys.platform,
        sys.maxsize,
    )


def default_dir() -> Path | None:
    """The cache's directory: AOTDYN_CACHE_DIR, else the options', else the user's cache directory; None: nowhere."""
    if named := os.environ.get("AOTDYN_CACHE_DIR"):
        return Path(named).expanduser()
    from aotdyn import config

    if configured := config.current().cache_dir:
        return Path(configured).expanduser()
    return user_cache_dir()


def user_cache_dir() -> Path | None:
    """platformdirs' answer for `aotdyn`; on Linux without importing it (6 ms)."""
    if sys.platform == "linux":
        base = os.environ.get("XDG_CACHE_HOME", "").strip() or os.path.expanduser("~/.cache")
        return Path(base, "aotdyn") if os.path.isabs(base) else None
    import platformdirs

    return platformdirs.user_cache_path("aotdyn")
