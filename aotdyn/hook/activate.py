"""`aotdyn.install` and `aotdyn.uninstall`: which modules of this process are hooked, from now on."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable
from types import TracebackType

from aotdyn import config
from aotdyn.errors import ConfigError
from aotdyn.hook import attach, importing, modules, notes
from aotdyn.hook.finder import activate, deactivate, finder
from aotdyn.hook.select import Selection
from aotdyn.report import imports, logs


class Hook:
    """What `install` answers; as a context manager it ends the hooking of imports at the end of the block.

    Modules imported meanwhile stay hooked after the block.
    """

    def __init__(self, selection: Selection) -> None:
        self.selection = selection

    def __repr__(self) -> str:
        return f"Hook({self.selection!r})"

    def uninstall(self) -> None:
        """Hook no more imports for this selection; harmless when called again."""
        if self.selection in finder.selections:
            finder.selections.remove(self.selection)
            deactivate()

    def __enter__(self) -> Hook:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.uninstall()


def install(*packages: str, exclude: str | Iterable[str] = ()) -> Hook:
    """Hook modules: `install("pkg", "other.*", exclude="pkg.cli")`.

    Args:
        packages: `pkg` (with all below it), `pkg.*` (all below it), `*` (every module of the app and of
            site-packages); none: those that the options name (AOTDYN_PACKAGES, pyproject.toml).
        exclude: modules to leave out, in the same form.

    A module that is imported already gives a warning, and its functions become
    stubs where they are. `AOTDYN_DISABLE=1` makes this do nothing.

    Raises:
        ConfigError: nothing to hook, or a pattern that can't be one.
    """
    options = config.current()
    chosen = _patterns(packages) or options.packages
    left_out = _patterns([exclude] if isinstance(exclude, str) else exclude) + options.exclude
    if not chosen:
        raise ConfigError(
            "install() is asked to hook nothing", hint="name a package, as in aotdyn.install('mypackage')"
        )
    selection = Selection(chosen, left_out)
    if options.disable:
        return Hook(selection)
    hook = start(selection)
    importing.start()
    return hook


def start(selection: Selection) -> Hook:
    """Hook a selection."""
    imports.watch()
    logs.setup()
    attach.reattach()
    attach.release_at_the_end()
    modules.choose_store()
    notes.keep()
    activate()
    finder.selections.append(selection)
    _stub_loaded(selection)
    return Hook(selection)


def uninstall() -> None:
    """Hook no more imports, and make the stubs of hooked modules step aside; `install` takes both back."""
    finder.selections.clear()
    notes.stop()
    deactivate()
    attach.detach()


def _patterns(packages: Iterable[str]) -> tuple[str, ...]:
    found = []
    for pattern in packages:
        if not isinstance(pattern, str) or not pattern.strip():
            raise ConfigError(
                f"{pattern!r} can't be a package to hook", hint="allowed: 'package', 'package.*' or '*', as strings"
            )
        found += [part.strip() for part in pattern.split(",") if part.strip()]
    return tuple(found)


def _stub_loaded(selection: Selection) -> None:
    from aotdyn.hook.loader import HookedSourceLoader, HookedZipLoader

    loaded = [
        name
        for name, module in list(sys.modules.items())
        if module is not None
        and name != "__main__"
        and selection.named(name)
        and not isinstance(getattr(module, "__loader__", None), HookedSourceLoader | HookedZipLoader)
        and (getattr(module, "__file__", None) or "").endswith(".py")
    ]
    if not loaded:
        return
    from aotdyn.hook.inplace import stub_module

    names = ", ".join(repr(name) for name in sorted(loaded)[:5]) + (
        f" and {len(loaded) - 5} more" if loaded[5:] else ""
    )
    warnings.warn(
        f"aotdyn: asked to hook what is imported already: {names}. The functions there become stubs in place; "
        f"call aotdyn.install() before the import, or start with python -m aotdyn run, to hook it as it loads.",
        RuntimeWarning,
        stacklevel=4,
    )
    for name in loaded:
        stub_module(sys.modules[name])
