"""Which modules are hooked: patterns of names, and the folder of the program that is run."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from fnmatch import fnmatchcase
from functools import lru_cache

# fmt: off
NEVER = frozenset((
    "aotdyn", "torch", "torchgen", "functorch", "triton",
    # what aotdyn needs
    "bytecode", "libcst", "msgspec", "platformdirs", "yaml",
    # what torch needs
    "filelock", "fsspec", "jinja2", "markupsafe", "mpmath", "networkx", "sympy", "typing_extensions",
    # what runs before the app
    "_distutils_hack", "pip", "pkg_resources", "setuptools", "sitecustomize", "usercustomize", "wheel",
    # what watches the app
    "coverage", "debugpy", "pydevd",
))
# fmt: on
"Top-level modules that are never hooked, whatever is asked for."

_ADMIN_FOLDERS = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")


class Selection:
    """A set of modules.

    A pattern is `pkg` (the module and all below it), `pkg.*` (all below it), a
    glob over the dotted name, or `*`: every module of the app and of
    site-packages. The standard library is hooked only where it is named.
    Modules in NEVER aren't hooked at all.

    Args:
        packages: patterns of what to hook.
        exclude: patterns of what not to hook; they win.
        folder: hook what lies in this folder, too, installed packages aside.
        program: the top package of the program that is run, where it is in one.
    """

    def __init__(
        self,
        packages: Iterable[str] = (),
        exclude: Iterable[str] = (),
        folder: str | None = None,
        program: str = "",
    ) -> None:
        self.program = program
        self.packages = tuple(packages)
        self.exclude = tuple(exclude)
        self.folder = None if folder is None else os.path.join(os.path.realpath(folder), "")
        self.named = lru_cache(maxsize=None)(self._named)

    def __repr__(self) -> str:
        return f"Selection({self.packages!r}, exclude={self.exclude!r}, folder={self.folder!r})"

    def excluded(self, name: str) -> bool:
        """Whether a module may not be hooked."""
        return never(name) or any(matches(pattern, name) for pattern in self.exclude)

    def _named(self, name: str) -> bool:
        return not self.excluded(name) and any(matches(pattern, name) for pattern in self.packages)

    def of_the_program(self, name: str) -> bool:
        """Whether a module is of the top package of the program that is run."""
        return bool(self.program) and name.partition(".")[0] == self.program

    def by_place(self, name: str) -> bool:
        """Whether it depends on a module's place if it is hooked: then ask `placed` once that is known."""
        return self.folder is not None and not is_standard(name) and not self.excluded(name)

    def placed(self, origin: str | None) -> bool:
        """Whether a source file lies in the folder."""
        if self.folder is None or not origin:
            return False
        path = _real(origin)
        inside = path.startswith(self.folder) and not any(part in path for part in _ADMIN_FOLDERS)
        return inside and not path.startswith(_standard_folder())


def never(name: str) -> bool:
    """Whether a module isn't hooked, whatever is asked for."""
    return name.partition(".")[0] in NEVER


def matches(pattern: str, name: str) -> bool:
    """Whether a module's dotted name fits a pattern."""
    if pattern == "*":
        return name != "__main__" and not is_standard(name)
    if name == pattern or name.startswith(pattern + "."):
        return True
    return any(sign in pattern for sign in "*?[") and fnmatchcase(name, pattern)


def is_standard(name: str) -> bool:
    """Whether a module is of the standard library."""
    return name.partition(".")[0] in sys.stdlib_module_names


def program_folder(script: str) -> str:
    """The folder that belongs to a script: that of its outermost package, or its own."""
    folder = os.path.dirname(os.path.realpath(script))
    while _is_package(folder) and _is_package(os.path.dirname(folder)):
        folder = os.path.dirname(folder)
    return folder


def _is_package(folder: str) -> bool:
    return os.path.isfile(os.path.join(folder, "__init__.py"))


def _real(path: str) -> str:
    """A file's path without links, as os.path.realpath; that of a folder is looked up once for all its modules."""
    folder, name = os.path.split(path)
    return os.path.realpath(path) if os.path.islink(path) else os.path.join(_real_folder(folder), name)


@lru_cache(maxsize=1024)
def _real_folder(path: str) -> str:
    return os.path.realpath(path)


@lru_cache(maxsize=1)
def _standard_folder() -> str:
    return os.path.join(os.path.realpath(os.path.dirname(os.__file__)), "")  # sysconfig takes milliseconds to say it
