"""Activation without touching code: a `.pth` file in an environment that hooks what AOTDYN_PACKAGES names.

`site` runs the line in the file at each start of the environment's Python; it
does nothing, and imports nothing, where AOTDYN_PACKAGES isn't set.
"""

from __future__ import annotations

import os
import sysconfig

FILE = "aotdyn_activate.pth"
"Sorts behind the files by which an editable aotdyn itself becomes importable."

LINE = 'import os; os.environ.get("AOTDYN_PACKAGES") and __import__("aotdyn.hook.startup").hook.startup.start()\n'


def start() -> None:
    """Hook what AOTDYN_PACKAGES names; a mistake in the options is said, and the program runs on."""
    import sys

    from aotdyn.errors import AotdynError
    from aotdyn.hook.activate import install

    try:
        install()
    except AotdynError as error:
        print(f"aotdyn: not active: {error}", file=sys.stderr)


def path() -> str:
    """Where the file of the current environment is, or would be."""
    return os.path.join(sysconfig.get_path("purelib"), FILE)


def activate() -> str:
    """Write the file; its path.

    Raises:
        OSError: it can't be written.
    """
    with open(path(), "w", encoding="utf-8") as file:
        file.write(LINE)
    return path()


def deactivate() -> bool:
    """Remove the file; whether there was one."""
    try:
        os.unlink(path())
    except FileNotFoundError:
        return False
    return True


def active() -> bool:
    """Whether the current environment has the file."""
    return os.path.exists(path())
