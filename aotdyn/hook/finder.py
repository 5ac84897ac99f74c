"""The meta path finder: finds what the others find, and puts a hooking loader in where the module is selected."""

from __future__ import annotations

import sys
import zipimport
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec, SourceFileLoader
from types import ModuleType

from aotdyn.hook.attach import log
from aotdyn.hook.loader import HookedSourceLoader, HookedZipLoader
from aotdyn.hook.select import Selection, never


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
        if name in self.after_import:
            return self._watched(name, path, target)
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

    def _watched(self, name: str, path: Sequence[str] | None, target: ModuleType | None) -> ModuleSpec | None:
        spec = self._next(name, path, target)
        loader = None if spec is None else spec.loader
        if loader is not None:
            execute = loader.exec_module

            def exec_module(module: ModuleType) -> None:
                execute(module)
                if (action := self.after_import.pop(name, None)) is not None:
                    action()

            loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


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
