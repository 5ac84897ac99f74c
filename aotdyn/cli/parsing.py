"""The argument parser of all commands: a mistake is told with where help is; and the options of those that run."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import NoReturn

from aotdyn import config
from aotdyn.errors import ConfigError

COLD = 3
"Exit status of a program that ended well, but not warm as `--require-warm` asks."

UNWRITTEN = 5
"Exit status of a program that ended well, but whose `--stats` can't be written."

DESCRIPTIONS = {
    "run": "Runs a Python program with its tensor code captured, compiled and cached.",
    "explain": "Runs a Python program, captured anew whatever the cache holds, and reports at its end what was "
    "captured, where graphs broke, why, and what can be done about it.",
    "build": "Runs a Python program once, compiles all that it met and fills the cache, so that `run --require-warm` "
    "with the same options starts with nothing left to compile.",
}

ENDS = {
    "run": f"Exit status: the program's own; where that is 0, {COLD} by --require-warm, {UNWRITTEN} where --stats "
    "can't be written; 2 for wrong options.",
    "explain": "Exit status: the program's own; 2 for wrong options.",
    "build": "Exit status: 4 where a graph is left without a kernel or nothing could be stored, else the program's own;"
    " 2 for wrong options.",
}


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


def parser(command: str) -> argparse.ArgumentParser:
    """The options of `run` and `explain`; everything from the program's name on is the program's."""
    made = Parser(
        prog=f"python -m aotdyn {command}",
        usage="%(prog)s [options] app.py [args]\n       %(prog)s [options] -m module [args]",
        description=DESCRIPTIONS[command] + " Hooked are the program, its package or folder, and what --package adds.",
        epilog=ENDS[command],
        allow_abbrev=False,
    )
    add = made.add_argument
    add("--backend", metavar="NAME", help="inductor (the default where a C++ compiler is found), eager, or a "
        "name of torch's registry")  # fmt: skip
    add("--cache", metavar="DIR", help="where the cache lies (`python -m aotdyn cache path` prints the default)")
    add("--trust-cache", action="store_true", help="use the cache even if other users can write to it")
    add("--no-cache", action="store_true", help=_of("run", command, "neither read nor write a cache"))
    add("--package", metavar="NAME", action="append", default=[], help="hook this package, too; may be given often, "
        "or take a list with commas; '*' means every module of the app and of site-packages")  # fmt: skip
    add("--exclude", metavar="NAME", action="append", default=[], help="don't hook this package or module")
    add("--stats", metavar="FILE", help="write counters and events there at exit, as JSON")
    add("--require-warm", action="store_true", help=_of("run", command, f"exit with status {COLD} if anything had to "
        "be traced or compiled"))  # fmt: skip
    add("--compile", choices=("background", "now"), help="compile kernels while the program goes on (the default), or "
        "before a graph first runs")  # fmt: skip
    add("--choose", choices=("measured", "always"), help="use a compiled kernel where a few calls show it to be "
        "faster than plain torch (the default), or always")  # fmt: skip
    add("--jobs", metavar="N", type=option("jobs"), help="processes that compile; half of the processors by default")
    add("--mode", choices=("default", "max-autotune"), help="inductor's preset")
    add("--option", metavar="K=V", action="append", default=[], help="an option of inductor's; may be given often")
    add("--freeze", action="store_true", help="for inference: fold parameters into kernels as constants; each "
        "call compares what they hold, so it pays for models that compute much with few parameters")  # fmt: skip
    if command == "build":
        add("--exit-wait", help=argparse.SUPPRESS)
    else:
        add("--exit-wait", metavar="SECONDS", type=option("exit_wait"), help="how long to wait at the end for kernels "
            "that are being compiled for the next start; 60 by default, 0 never waits")  # fmt: skip
        add("--thrift", choices=("packages", "all", "off"), help="what is traced only where it pays: functions of "
            "packages hooked by name (the default), of all, or none")  # fmt: skip
    add("--keep-torch-compile", action="store_true", help="leave calls of torch.compile to torch")
    add(
        "-v",
        "--verbose",
        action="store_true",
        help="say where graphs break and what is traced again, and sum up at the end",
    )
    add(
        "-q", "--quiet", action="store_true", help="no progress line and no remark on kernels at the end; warnings stay"
    )
    add("-m", dest="module", metavar="module", nargs=argparse.REMAINDER, help="run a module, as python -m does")
    add("program", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    return made


def _of(only: str, command: str, text: str) -> str:
    """The help of an option that says something in one command alone."""
    return text if command == only else argparse.SUPPRESS
