"""aotdyn: an ahead-of-time compiler for PyTorch programs.

The public names load at their first use, so that `import aotdyn` costs next to
nothing and brings neither torch nor a compiler.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aotdyn import config, errors
    from aotdyn.api import (
        allow_in_graph,
        compile,
        disable,
        graph_break,
        is_compiling,
        reset,
    )
    from aotdyn.hook.activate import install, uninstall
    from aotdyn.marks import mark_dynamic, mark_static, mark_unbacked, maybe_mark_dynamic
    from aotdyn.report.events import snapshot as stats

__version__ = "0.1.0"

__all__ = [
    "allow_in_graph",
    "compile",
    "config",
    "disable",
    "errors",
    "graph_break",
    "install",
    "is_compiling",
    "mark_dynamic",
    "mark_static",
    "mark_unbacked",
    "maybe_mark_dynamic",
    "reset",
    "stats",
    "uninstall",
]

_PUBLIC = {
    "allow_in_graph": ("aotdyn.api", "allow_in_graph"),
    "compile": ("aotdyn.api", "compile"),
    "config": ("aotdyn.config", ""),
    "disable": ("aotdyn.api", "disable"),
    "errors": ("aotdyn.errors", ""),
    "graph_break": ("aotdyn.api", "graph_break"),
    "install": ("aotdyn.hook.activate", "install"),
    "is_compiling": ("aotdyn.api", "is_compiling"),
    "mark_dynamic": ("aotdyn.marks", "mark_dynamic"),
    "mark_static": ("aotdyn.marks", "mark_static"),
    "mark_unbacked": ("aotdyn.marks", "mark_unbacked"),
    "maybe_mark_dynamic": ("aotdyn.marks", "maybe_mark_dynamic"),
    "reset": ("aotdyn.api", "reset"),
    "stats": ("aotdyn.report.events", "snapshot"),
    "uninstall": ("aotdyn.hook.activate", "uninstall"),
}
"Public name to module and attribute; an empty attribute is the module itself."


def __getattr__(name: str) -> Any:
    try:
        module, attribute = _PUBLIC[name]
    except KeyError:
        raise AttributeError(f"module 'aotdyn' has no attribute {name!r}") from None
    import importlib

    from aotdyn import collecting

    with collecting.put_off():
        loaded = importlib.import_module(module)
    value = getattr(loaded, attribute) if attribute else loaded
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
