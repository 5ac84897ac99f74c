"""The command line, `python -m aotdyn COMMAND`: finds the command and hands it the rest."""

from __future__ import annotations

import importlib
import sys

COMMANDS = {
    "run": ("aotdyn.cli.run", "main", "run a program under aotdyn"),
    "build": ("aotdyn.cli.run", "build", "run a program once and compile all that it meets"),
    "explain": (
        "aotdyn.cli.run",
        "explain",
        "run a program and report what was captured, what broke, and what to do about it",
    ),
    "cache": ("aotdyn.store.cli", "main", "look at the cache, tidy it up, take it along"),
    "activate": (
        "aotdyn.cli.environment",
        "activate",
        "hook what AOTDYN_PACKAGES names whenever this environment starts",
    ),
    "deactivate": ("aotdyn.cli.environment", "deactivate", "take that hook out again"),
    "doctor": ("aotdyn.cli.doctor", "main", "say whether this environment has what aotdyn needs"),
}
"Command to module, function (of the list of arguments, to an exit status) and a line of help."


def usage() -> str:
    """The help text."""
    lines = [f"  {name:11} {text}" for name, (_, _, text) in COMMANDS.items()]
    return "\n".join(
        [
            "usage: python -m aotdyn COMMAND ...",
            "",
            "commands:",
            *lines,
            "",
            "`python -m aotdyn COMMAND --help` tells more.",
        ]
    )


def main(argv: list[str] | None = None) -> int:
    """Run a command; its exit status."""
    argv = sys.argv[1:] if argv is None else argv
    if not argv or argv[0] in ("-h", "--help", "help"):
        print(usage(), file=sys.stdout if argv else sys.stderr)
        return 0 if argv else 2
    if argv[0] in ("-V", "--version"):
        import aotdyn

        print(f"aotdyn {aotdyn.__version__}")
        return 0
    if argv[0] not in COMMANDS:
        known = ", ".join(COMMANDS)
        print(
            f"aotdyn: unknown command {argv[0]!r}; known are {known}\n  hint: see `python -m aotdyn --help`",
            file=sys.stderr,
        )
        return 2
    from aotdyn import config

    config.check_variables()
    module, function, _ = COMMANDS[argv[0]]
    command = getattr(importlib.import_module(module), function)
    return command(argv[1:]) or 0


if __name__ == "__main__":
    sys.exit(main())
