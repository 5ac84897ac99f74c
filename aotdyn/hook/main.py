"""Runs a script or module as `__main__`, as the interpreter does, with or without stubs.

After pymain_run_python (CPython's Modules/main.c) and runpy: what `sys.argv`,
`sys.path[0]`, `__file__`, `__spec__` and their kin are, is what they say.
"""

from __future__ import annotations

import importlib.util
import os
import pkgutil
import sys
from dataclasses import dataclass, field
from importlib.machinery import ModuleSpec, SourceFileLoader
from types import CodeType, FrameType, ModuleType
from typing import Any

from aotdyn.hook import modules

_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


class NotRunnable(Exception):
    """There is no such program; `code` is the exit status that Python gives."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


@dataclass
class Program:
    """What is run: a file and its code, and the names that its module starts with."""

    path: str
    code: CodeType
    names: dict[str, Any] = field(default_factory=dict)


def load_script(path: str, hooked: bool) -> Program:
    """Prepare a script, or a folder or zip file with a `__main__.py`; sets `sys.path[0]`.

    Raises:
        NotRunnable: there is no such file.
        SyntaxError: in the script.
    """
    if os.path.isdir(path) or _is_archive(path):
        return _load_container(path, hooked)
    full = os.path.abspath(path)
    try:
        with open(full, "rb") as file:
            source = file.read()
    except OSError as error:
        text = f"{sys.executable}: can't open file {full!r}: [Errno {error.errno}] {error.strerror}"
        raise NotRunnable(text, 2) from None
    _set_first_path(os.path.dirname(os.path.realpath(full)))
    loader = SourceFileLoader("__main__", full)
    names = {"__file__": full, "__loader__": loader, "__spec__": None, "__package__": None, "__cached__": None}
    return Program(full, _code(source, full, hooked), {**names, "__annotations__": {}})


def load_module(name: str, hooked: bool) -> Program:
    """Prepare what `python -m name` runs; imports the packages above it.

    Raises:
        NotRunnable: there is no such module, or it isn't one with code.
        SyntaxError: in the module.
    """
    _set_first_path(os.getcwd())
    spec = _find(name)
    return _from_spec(spec, hooked, spec.parent)


def run(program: Program, argv: list[str]) -> None:
    """Execute a program as `__main__`; what it raises comes out, with our frames in its traceback."""
    module = ModuleType("__main__")
    module.__dict__.update(program.names)
    module.__dict__["__builtins__"] = sys.modules["builtins"]
    sys.argv[:] = argv
    sys.modules["__main__"] = module
    exec(program.code, module.__dict__)


def trim(error: BaseException, program: Program | None) -> BaseException:
    """Drop our own frames, which stand above the program's, from an exception's traceback."""
    traceback = error.__traceback__
    while traceback is not None and not _is_program(traceback.tb_frame, program):
        traceback = traceback.tb_next
    return error.with_traceback(traceback)


def _is_program(frame: FrameType, program: Program | None) -> bool:
    if program is not None:
        return frame.f_code is program.code
    file = frame.f_code.co_filename
    return not file.startswith((_HERE, "<frozen "))


def _code(source: bytes, path: str, hooked: bool) -> CodeType:
    """The code of a program: one that isn't known by its path goes by the name that the same source had elsewhere."""
    name = f"__main__@{os.path.realpath(path)}"
    wherever = modules.by_digest("__main__", source)
    for key in (modules.by_digest(name, source), wherever) if hooked else ():
        if (code := modules.load(key, name, path)) is not None:
            return code
    ordinary = compile(source, path, "exec", dont_inherit=True)
    return modules.make(name, source, ordinary, wherever) if hooked else ordinary


def _is_archive(path: str) -> bool:
    import zipfile

    return os.path.isfile(path) and not path.endswith(".py") and zipfile.is_zipfile(path)


def _load_container(path: str, hooked: bool) -> Program:
    importer = pkgutil.get_importer(path)
    spec = importer.find_spec("__main__") if importer is not None else None
    if spec is None:
        raise NotRunnable(f"{sys.executable}: can't find '__main__' module in {os.path.abspath(path)!r}", 1)
    _set_first_path(os.path.abspath(path))
    return _from_spec(spec, hooked, "")


def _find(name: str) -> ModuleSpec:
    try:
        spec = importlib.util.find_spec(name)
    except ModuleNotFoundError as error:
        if error.name is None or not (name == error.name or name.startswith(error.name + ".")):
            raise
        text = f"Error while finding module specification for {name!r} ({type(error).__name__}: {error})"
        raise NotRunnable(f"{sys.executable}: {text}", 1) from None
    except ValueError as error:
        raise NotRunnable(f"{sys.executable}: {error}", 1) from None
    if spec is None:
        raise NotRunnable(f"{sys.executable}: No module named {name}", 1)
    if spec.submodule_search_locations is None:
        return spec
    try:
        return _find(f"{name}.__main__")
    except NotRunnable:
        text = f"No module named {name}.__main__; {name!r} is a package and cannot be directly executed"
        raise NotRunnable(f"{sys.executable}: {text}", 1) from None


def _from_spec(spec: ModuleSpec, hooked: bool, package: str | None) -> Program:
    loader: Any = spec.loader
    get_data = getattr(loader, "get_data", None)
    origin = spec.origin or ""
    if get_data is not None and origin.endswith(".py"):
        code = _code(get_data(origin), origin, hooked)
    else:
        found = loader.get_code(spec.name) if hasattr(loader, "get_code") else None
        if found is None:
            raise NotRunnable(f"{sys.executable}: No code object available for {spec.name}", 1)
        code = found
    names = {"__file__": origin, "__loader__": loader, "__spec__": spec, "__package__": package}
    return Program(origin, code, {**names, "__cached__": spec.cached, "__annotations__": {}})


def _set_first_path(folder: str) -> None:
    if not sys.flags.safe_path:
        sys.path[0] = folder
