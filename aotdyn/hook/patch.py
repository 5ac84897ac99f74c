"""Under `run`, a program's calls of `torch.compile` become calls of `aotdyn.compile`.

The attribute on torch is replaced once torch is imported; `nn.Module.compile`
and `torch.compiler.compile` look it up at their call, and follow.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

from aotdyn.hook.finder import activate, finder


def patch_torch_compile() -> None:
    """Replace `torch.compile`, now or as soon as torch is imported."""
    if "torch" in sys.modules:
        _replace()
    else:
        finder.after_import["torch"] = _replace
        activate()


def _replace() -> None:
    import torch

    original = torch.compile
    if not hasattr(original, "__aotdyn_original__"):
        torch.compile = _made_ours(original)


def restore_torch_compile() -> None:
    """Take the replacement back."""
    finder.after_import.pop("torch", None)
    torch = sys.modules.get("torch")
    original = getattr(getattr(torch, "compile", None), "__aotdyn_original__", None)
    if torch is not None and original is not None:
        torch.compile = original  # type: ignore[attr-defined]


def _made_ours(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def compile(model: Any = None, **options: Any) -> Any:
        import aotdyn

        for name in options.keys() - _KNOWN:
            options.pop(name)
        return aotdyn.compile(model, **options)

    compile.__aotdyn_original__ = original  # type: ignore[attr-defined]
    return compile


_KNOWN = frozenset(("fullgraph", "dynamic", "backend", "mode", "options", "disable"))
"What aotdyn.compile takes; other arguments of torch's steer torch's own tracer."
