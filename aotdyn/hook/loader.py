"""Loaders that run a module's rewritten code.

They are the ordinary loaders with another `get_code` for the import system
alone: everybody else (runpy, coverage, modulefinder) gets the ordinary code,
and the ordinary .pyc stays as it is. `__file__`, `__cached__`, resources and
sources are those of the class above.
"""

from __future__ import annotations

import sys
import zipimport
from collections.abc import Callable
from importlib.machinery import SourceFileLoader
from types import CodeType, FunctionType, ModuleType
from typing import Any

from aotdyn.hook import importing, modules

_EXEC = SourceFileLoader.exec_module.__code__


def _in_importlib(function: FunctionType) -> FunctionType:
    """Give a function importlib's file name.

    The import system cuts its own frames out of a traceback by their file name
    (import.c, remove_importlib_frames); one of ours between them would stay,
    and show in the traceback of each error that a hooked module raises while
    it is loaded.
    """
    function.__code__ = function.__code__.replace(co_filename="<frozen importlib._bootstrap_external>")
    return function


class HookedSourceLoader(SourceFileLoader):
    """Loads a source file with stubs."""

    @_in_importlib  # type: ignore[arg-type]
    def get_code(self, fullname: str) -> CodeType | None:
        if sys._getframe(1).f_code is not _EXEC:
            return super().get_code(fullname)
        path = self.get_filename(fullname)
        place = modules.by_place(fullname, path)
        code = modules.load(place, fullname, path)
        if code is None:
            source = self.get_data(path)
            code = modules.load(modules.by_digest(fullname, source), fullname, path)
            if code is None and not modules.fits(fullname):
                return super().get_code(fullname)
            if code is None:
                return modules.make(fullname, source, self._ordinary(fullname, path, source, place), place)
            modules.keep(place, fullname, source)
        return code

    @_in_importlib  # type: ignore[arg-type]
    def _ordinary(self, fullname: str, path: str, source: bytes, place: str) -> CodeType:
        """The code of a source without stubs: that of its .pyc, where this is sure to be of what was read."""
        code = super().get_code(fullname) if modules.has_followed(path, place) else None
        if code is None or modules.by_place(fullname, path) != place:
            code = self.source_to_code(source, path)
        return code


class HookedZipLoader(zipimport.zipimporter):
    """Loads a module from a zip file with stubs, where its source is there."""

    @_in_importlib  # type: ignore[arg-type]
    def get_code(self, fullname: str) -> CodeType | None:
        path = self.get_filename(fullname)
        if sys._getframe(1).f_code is not _EXEC or not path.endswith(".py"):
            return super().get_code(fullname)
        source = self.get_data(path)
        code = modules.load(modules.by_digest(fullname, source), fullname, path)
        if code is None and not modules.fits(fullname):
            return super().get_code(fullname)
        return code or modules.make(fullname, source, super().get_code(fullname))


def watch(loader: Any, then: Callable[[], None]) -> None:
    """Have a loader's next execution of its module collect little garbage, and call `then` behind it."""
    own = vars(loader).copy()  # another tool may have put an `exec_module` there as well

    @_in_importlib  # type: ignore[arg-type]
    def exec_module(module: ModuleType) -> None:
        del loader.exec_module
        vars(loader).update(own)
        begun = importing.begin()
        try:
            loader.exec_module(module)
        finally:
            if begun:
                importing.end()
        then()

    loader.exec_module = exec_module
