"""The argument parser of all commands: a mistake is told with where help is."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import NoReturn

from aotdyn import config
from aotdyn.errors import ConfigError


class Parser(argparse.ArgumentParser):
    """argparse's, whose errors are ours in form, and name the command that tells more."""

    def error(self, message: str) -> NoReturn:
        """End with status 2."""
        self.print_usage(sys.stderr)
        self.exit(2, f"aotdyn: {message}\n  hint: see `{self.prog} --help`\n")


def option(name: str) -> Callable[[str], str]:
    """A `type` for argparse: the text of an option of ours, refused where its value isn't allowed."""

    def check(text: str) -> str:
        try:
            config.check(name, text)
        except ConfigError as error:
            raise argparse.ArgumentTypeError(f"it is {error.what.partition(' is ')[2]}") from None
        return text

    return check
