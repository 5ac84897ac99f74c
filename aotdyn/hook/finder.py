"""The meta path finder: finds what the others find, and puts a hooking loader in where the module is selected."""

from __future__ import annotations

import sys
import zipimport
from collections.abc import Callable, Sequence
from importlib.machinery import ExtensionFileLoader, ModuleSpec, SourceFileLoader, SourcelessFileLoader
from types import ModuleType

from aotdyn.hook import importing
from aotdyn.hook.attach import log
from aotdyn.hook.loader import HookedSourceLoader, HookedZipLoader, watch
from aotdyn.hook.select import Selection, never

WATCHED = (SourceFileLoader, SourcelessFileLoader, ExtensionFileLoader)
"Loaders, one for each module, of which it is told when they have executed theirs."


class Finder:
    """Asks the finders behind it on `sys.meta_path` and changes the spec's loader.

    Only the standard loaders of source files and zip files are replaced: what
    has no source (extension modules, lone .pyc files, namespace packages) and
    what another tool loads its own way is passed on as it is.
    """

    def __init__(self) -> None:
        self.selections: list[Selection] = []
        self.after_import: dict[str, Callable[[], None]] = {}
        "What to do when a module has just been imported, by its name."

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = self._selected(name, path, target)
        if name not in self.after_import and importing.under_way():
            return spec
        return self._watched(name, spec or self._next(name, path, target))

    def _selected(self, name: str, path: Sequence[str] | None, target: ModuleType | None) -> ModuleSpec | None:
        """The spec of a module that is hooked, or may be; None for others."""
        if never(name):  # most of what a program of torch's imports
            return None
        selected = any(selection.named(name) for selection in self.selections)
        placed = () if selected else tuple(s for s in self.selections if s.by_place(name))
        if not selected and not placed:
            return None
        spec = self._next(name, path, target)
        if spec is None or spec.loader is None:
            return spec
        if selected or any(selection.placed(spec.origin) for selection in placed):
            self._hook(spec)
        return spec

    def _next(self, name: str, path: Sequence[str] | None, target: ModuleType | None) -> ModuleSpec | None:
        finders = list(sys.meta_path)
        behind = finders[finders.index(self) + 1 :] if self in finders else []
        for finder in behind:
            find = getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find is not None else None
            if spec is not None:
                return spec
        return None

    def _hook(self, spec: ModuleSpec) -> None:
        loader = spec.loader
        if type(loader) is SourceFileLoader:
            spec.loader = HookedSourceLoader(loader.name, loader.path)
        elif type(loader) is zipimport.zipimporter:
            spec.loader = HookedZipLoader(f"{loader.archive}/{loader.prefix}".rstrip("/"))
        else:
            log.debug("%s isn't hooked: it is loaded by %s", spec.name, type(loader).__name__)

    def _watched(self, name: str, spec: ModuleSpec | None) -> ModuleSpec | None:
        """A spec whose import is told of: the outermost of several, or one that something waits for."""
        if spec is not None and isinstance(spec.loader, WATCHED):
            watch(spec.loader, lambda: self.after_import.pop(name, _nothing)())
        return spec


def _nothing() -> None:
    """What most imports are followed by."""


finder = Finder()
"The one of this process."


def activate() -> None:
    """Put the finder in front, once."""
    if finder not in sys.meta_path:
        sys.meta_path.insert(0, finder)


def deactivate() -> None:
    """Take it away if nobody needs it."""
    if finder in sys.meta_path and not finder.selections and not finder.after_import:
        sys.meta_path.remove(finder)
