"""Which compiler modules this process has because of us: the account behind `compiler_modules_imported`.

The rule: a module counts as ours if the nearest frame outside torch and
importlib, where it was first imported, is aotdyn's.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import FrameType, ModuleType

WATCHED = ("torch._dynamo", "torch._inductor", "sympy", "libcst")

_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_BETWEEN = tuple(
    os.path.dirname(os.__file__) + os.sep + name for name in ("importlib", "functools.py", "contextlib.py")
)
_importer: dict[str, bool] = {}


class _Watcher:
    """A meta path finder that finds nothing and notes who asks for a watched module first."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name in WATCHED and name not in _importer:
            _importer[name] = _is_ours(sys._getframe(1))
        return None


_watcher = _Watcher()


def watch() -> None:
    """Start watching; what is loaded by now isn't ours. Cheap, and harmless when called again."""
    if _watcher in sys.meta_path:
        return
    for name in WATCHED:
        if name in sys.modules:
            _importer.setdefault(name, False)
    sys.meta_path.insert(0, _watcher)


def ours() -> list[str]:
    """Those of WATCHED that are in `sys.modules` because of us."""
    return [name for name in WATCHED if _importer.get(name) and name in sys.modules]


def _is_ours(frame: FrameType | None) -> bool:
    while frame is not None:
        file = frame.f_code.co_filename
        module = frame.f_globals.get("__name__") or ""
        between = file.startswith(("<frozen importlib", *_BETWEEN)) or module == "torch" or module.startswith("torch.")
        if not between and not file.endswith(_ON_BEHALF):
            return file.startswith(_HERE)
        frame = frame.f_back
    return False


_ON_BEHALF = tuple(os.path.join("aotdyn", *path) for path in (("hook", "finder.py"), ("graph", "native.py")))
"The hook's finder asks the other finders for whoever imports, and functions of graphs call torch's for the program."
