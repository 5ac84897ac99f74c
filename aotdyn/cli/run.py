"""`python -m aotdyn run` and `explain`: a program under the hook, and what is said about it at its end."""

from __future__ import annotations

import argparse
import atexit
import os
import pathlib
import re
import sys
from collections.abc import Callable
from typing import NoReturn

from aotdyn import config
from aotdyn.cli.parsing import COLD, UNWRITTEN, parser
from aotdyn.errors import AotdynError, BackendError, ConfigError
from aotdyn.hook import activate, importing, patch
from aotdyn.hook import main as programs
from aotdyn.hook.select import Selection, is_standard, program_folder
from aotdyn.report import events, imports

LIGHT = ("", "eager", "inductor", "aot_eager", "aot_eager_decomp_partition", "cudagraphs")
"Backends that are there without asking torch's registry, which takes a second to import."

VERBOSE = ("breaks", "recompiles", "hook", "cache")


def main(argv: list[str]) -> int:
    """`run`: ends the process as the program would, or answers an exit status."""
    return _command("run", argv)


def build(argv: list[str]) -> int:
    """`build`: the same, with every kernel compiled and stored before the process ends."""
    return _command("build", argv)


def explain(argv: list[str]) -> int:
    """`explain`: the same, traced anew whatever the cache holds, with a report at the end."""
    return _command("explain", argv)


def _command(command: str, argv: list[str]) -> int:
    made = parser(command)
    args = made.parse_args(argv)
    target = args.module if args.module is not None else args.program
    if not target:
        made.error("name a program to run, as app.py or -m package.module")
    if command == "build" and args.exit_wait is not None:
        made.error("--exit-wait is for run: build waits for every kernel, however long that takes (--jobs N compiles "
                   "with N processes; Ctrl-C ends it and keeps what is done)")  # fmt: skip
    imports.watch()
    try:
        args.no_cache = args.no_cache or command == "explain"  # what the cache holds isn't traced, nor told again
        options = _configure(args, target[0])
        if command == "build":
            from aotdyn.cli import build

            options = build.configured()
        check_stats(args.stats)
        if not options.disable:
            check_backend(options.backend)
            check_cache(options)
    except AotdynError as error:
        print(f"aotdyn: {error}", file=sys.stderr)
        return 2
    if command == "build":
        build.prepare()
    if args.quiet:
        from aotdyn.report import progress

        progress.quiet = True
    report = _at_exit(args, command, options.disable, argv[: len(argv) - len(target)])
    try:
        outcome = _outcome(args, target, options)
    except programs.NotRunnable as error:
        atexit.unregister(report)  # nothing has run, and there is nothing to tell
        print(error, file=sys.stderr)
        return error.code
    return _end(outcome, args, command)


def _configure(args: argparse.Namespace, target: str) -> config.Options:
    config.use_project(os.getcwd() if args.module is not None else os.path.dirname(os.path.abspath(target)))
    config.configure(
        backend=args.backend,
        cache_dir=None if args.cache is None else os.path.abspath(os.path.expanduser(args.cache)),
        cache=False if args.no_cache else None,
        cache_trust=True if args.trust_cache else None,
        keep_torch_compile=True if args.keep_torch_compile else None,
        compile=args.compile,
        choose=args.choose,
        jobs=args.jobs,
        mode=args.mode,
        freeze=True if args.freeze else None,
        exit_wait=args.exit_wait,
        thrift=getattr(args, "thrift", None),
    )
    options = config.current()
    if not options.compile:
        config.configure(compile="background")
    config.configure(options=(*options.options, *args.option))
    config.current().inductor()
    log = (*options.log, *VERBOSE) if args.verbose else options.log
    config.configure(
        packages=(*options.packages, *args.package), exclude=(*options.exclude, *args.exclude), log=tuple(set(log))
    )
    return config.current()


def check_backend(name: str) -> None:
    """Refuse a backend that there isn't.

    Raises:
        BackendError: lists the names.
    """
    if name in LIGHT:
        return
    if not _may_be_registered(name):
        known = ", ".join(filter(None, LIGHT))
        raise BackendError(
            f"no backend is named {name!r}",
            backend=name,
            hint=f"there are {known}, and what torch._dynamo.list_backends() lists",
        )
    from aotdyn.backends import registry

    registry.resolve(name)


def _may_be_registered(name: str) -> bool:
    """Whether torch's registry could have a backend: its sources have the word, or a package offers it.

    Told without importing the registry, which takes seconds. Where torch has no sources, any name may be there.
    """
    from importlib import metadata
    from importlib.machinery import PathFinder

    if any(point.name == name for point in metadata.entry_points(group="torch_dynamo_backends")):
        return True
    spec = PathFinder.find_spec("torch")
    folder = pathlib.Path((spec and spec.origin) or "", "..", "_dynamo", "backends").resolve()
    sources = list(folder.glob("*.py"))
    word = re.compile(rf"\b{re.escape(name)}\b")
    return not sources or any(word.search(source.read_text(errors="replace")) for source in sources)


def check_stats(path: str | None) -> None:
    """Refuse a file for the counters that can't be written, before the program has run for it.

    Raises:
        ConfigError: says why.
    """
    if path is None:
        return
    folder = os.path.dirname(os.path.abspath(path))
    if os.path.isdir(path):
        reason = "is a directory"
    elif not os.path.isdir(folder):
        reason = f"lies in {folder}, which is no directory"
    elif not os.access(path if os.path.exists(path) else folder, os.W_OK):
        reason = "can't be written by this user"
    else:
        return
    raise ConfigError(f"--stats {path}: the file {reason}", hint="make the directory, or name another file")


def check_cache(options: config.Options) -> None:
    """Refuse under `strict` a cache that can't be trusted; else that is told when it is first used.

    Raises:
        CacheError: says why, and what to do.
    """
    if options.strict:
        from aotdyn.store.store import configured

        configured(config.cache_root(), options, options.cache_trust)


def _unknown(packages: list[str]) -> list[str]:
    """A remark for each name given as --package of which nothing was imported in the end."""
    from importlib.machinery import PathFinder

    remarks = []
    for name in (part.strip() for each in packages for part in each.split(",")):
        plain = name.removesuffix(".*")
        if not plain or any(letter in plain for letter in "*?["):
            continue
        if any(loaded == plain or loaded.startswith(plain + ".") for loaded in list(sys.modules)):
            continue
        try:
            there = PathFinder.find_spec(plain.partition(".")[0]) is not None
        except (ImportError, ValueError):
            there = False
        what = "the program imported nothing of it" if there else "there is no module or package of that name"
        remarks.append(f"aotdyn: --package {name} had no effect: {what}")
    return remarks


def _load(args: argparse.Namespace, target: str, options: config.Options) -> programs.Program:
    is_module = args.module is not None
    hooked = not options.disable
    if hooked:
        own = (target.partition(".")[0],) if is_module and not is_standard(target) else ()
        packages = (*options.packages, *own)
        folder = None if is_module else _folder(target)
        selection = Selection(packages, options.exclude, folder, own[0] if own else "")
        activate.start(selection)
        hooked = not selection.excluded("__main__")
        if not options.keep_torch_compile:
            patch.patch_torch_compile()
    return programs.load_module(target, hooked) if is_module else programs.load_script(target, hooked)


def _folder(target: str) -> str:
    return os.path.abspath(target) if os.path.isdir(target) else program_folder(target)


def _outcome(args: argparse.Namespace, target: list[str], options: config.Options) -> BaseException | None:
    """Load and run a program; what it ended with, None where it came to its end."""
    program = None
    try:
        program = _load(args, target[0], options)
        if not options.disable:
            importing.start(nothing_yet=True)
        programs.run(program, [program.path if args.module is not None else target[0], *target[1:]])
    except programs.NotRunnable:
        raise
    except SystemExit as error:
        return error
    except BaseException as error:
        return programs.trim(error, program)
    return None


def _end(outcome: BaseException | None, args: argparse.Namespace, command: str) -> NoReturn:
    """End the process as the interpreter does after a program."""
    if outcome is not None and not isinstance(outcome, SystemExit):
        _print_exception(outcome)
    status = outcome.code if isinstance(outcome, SystemExit) else int(outcome is not None)
    if args.require_warm and (cold := _not_warm()):
        print(cold, file=sys.stderr)
        status = status or COLD
    if command == "build":
        from aotdyn.cli import build

        status = build.finish() or status
    if not _tried(args.stats):
        status = status or UNWRITTEN
    if isinstance(outcome, KeyboardInterrupt):
        # Python ends such a process by SIGINT, for the shell to see; the traceback is out already.
        sys.excepthook = lambda *_: None
        raise outcome
    sys.exit(status)


def _tried(stats: str | None) -> bool:
    """Write the counters while the exit status can still tell that they can't be; at exit they are written whole."""
    if stats is None or (os.path.exists(stats) and not os.path.isfile(stats)):
        return True  # nothing is asked for, or it is a pipe, which is written once
    return _write(stats)


def _write(stats: str) -> bool:
    """Write the counters. Whether that went well; it is said once if not."""
    try:
        events.write(stats)
        return True
    except OSError as error:
        if stats not in _told:
            _told.add(stats)
            print(f"aotdyn: the stats can't be written to {stats}: {error.strerror}", file=sys.stderr)
        return False


_told: set[str] = set()


def _not_warm() -> str:
    from aotdyn.cli import text

    thrift = sys.modules.get("aotdyn.runtime.thrift")
    return text.not_warm(events.snapshot(), events.traced_functions(), thrift.owed() if thrift else {})


def _print_exception(error: BaseException) -> None:
    """What PyErr_Print does: `sys.last_*`, then `sys.excepthook`."""
    kind, traceback = type(error), error.__traceback__
    sys.last_type, sys.last_value, sys.last_traceback = kind, error, traceback
    try:
        sys.excepthook(kind, error, traceback)
    except Exception:
        sys.__excepthook__(kind, error, traceback)


def _at_exit(args: argparse.Namespace, command: str, disabled: bool, given: list[str]) -> Callable[[], None]:
    """Say and write what happened when the process ends, behind the program's own exit handlers.

    `given` has the options, as they stand in front of the program.
    """
    process = os.getpid()
    if args.stats is not None:
        args.stats = os.path.abspath(args.stats)

    def report() -> None:
        if os.getpid() != process:
            return  # a fork of the program
        if args.stats is not None:
            _write(args.stats)
        for remark in () if disabled else _unknown(args.package):
            print(remark, file=sys.stderr)
        if command == "run" and not (args.quiet or args.require_warm):  # which says more, and has failed
            _tell_left(args, given)
        if not args.verbose and command != "explain":
            return
        from aotdyn.cli import text

        if disabled:
            print(text.DISABLED, file=sys.stderr)
        elif command == "explain":
            print(text.report(events.snapshot()), file=sys.stderr)
        else:
            print(text.summary(events.snapshot()), file=sys.stderr)

    return atexit.register(report)


NOT_BUILDS = {"--exit-wait": 1, "--thrift": 1, "--stats": 1, "--require-warm": 0, "-v": 0, "--verbose": 0, "-m": 0}
"Options of `run` that `build` doesn't take, or has no use for, and how many words follow each."


def _tell_left(args: argparse.Namespace, given: list[str]) -> None:
    """Say how many graphs have no kernel yet, if any, and the command that sees to them."""
    left = int(events.counted("kernels_left"))
    if not left:
        return
    import shlex

    from aotdyn.cli import text

    kept = []
    words = iter(given)
    for word in words:
        if (follow := NOT_BUILDS.get(word.partition("=")[0])) is None:
            kept.append(word)
        elif follow and "=" not in word:
            next(words, None)
    program = ["-m", *args.module] if args.module is not None else args.program
    command = f"python -m aotdyn build {shlex.join([*kept, *program])}"
    made, vain = int(events.counted("graphs_compiled")), bool(events.counted("waits_in_vain"))
    print(text.kernels_left(made, left, command, vain), file=sys.stderr)
