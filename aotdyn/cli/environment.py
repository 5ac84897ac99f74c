"""`activate` and `deactivate`: the opt-in start-up file of the current environment."""

from __future__ import annotations

import sys

from aotdyn.cli.parsing import Parser
from aotdyn.hook import startup


def activate(argv: list[str]) -> int:
    """Write the start-up file."""
    _parse(
        "activate",
        argv,
        "Puts a start-up file into this environment: from then on AOTDYN_PACKAGES=pkg hooks "
        "pkg in every program that it starts; without that variable nothing changes.",
    )
    try:
        path = startup.activate()
    except OSError as error:
        print(f"aotdyn: can't write {startup.path()}: {error.strerror}", file=sys.stderr)
        return 1
    print(f"active in this environment, by {path}\nset AOTDYN_PACKAGES to what shall be hooked")
    return 0


def deactivate(argv: list[str]) -> int:
    """Remove it."""
    _parse("deactivate", argv, "Takes the start-up file of this environment away.")
    try:
        gone = startup.deactivate()
    except OSError as error:
        print(f"aotdyn: can't remove {startup.path()}: {error.strerror}", file=sys.stderr)
        return 1
    print("no longer active in this environment" if gone else "not active in this environment")
    return 0


def _parse(command: str, argv: list[str], description: str) -> None:
    Parser(prog=f"python -m aotdyn {command}", description=description).parse_args(argv)
