"""`python -m aotdyn cache`: look into the on-disk cache, and tidy it up."""

from __future__ import annotations

import argparse
import difflib
import os
import sys
from collections import defaultdict
from pathlib import Path

from aotdyn import config
from aotdyn.errors import AotdynError, CacheError
from aotdyn.runtime.variant import FrameSpec
from aotdyn.store import disk
from aotdyn.store.environment import environment_key
from aotdyn.store.inventory import FOLDERS, Environment, Inventory, Removed, Stored, Tally, readable, usage


def main(argv: list[str]) -> int:
    """Run `python -m aotdyn cache` with these arguments; the exit status."""
    arguments = _parser().parse_args(argv)
    try:
        status: int = arguments.run(arguments)
        sys.stdout.flush()
        return status
    except AotdynError as error:
        return _fail(str(error))
    except BrokenPipeError:  # `cache ls | head`: what is left unprinted must not fail at exit either
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m aotdyn cache", description="Look at the cache, and tidy it up.")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for name, run, text in (
        ("ls", ls, "list the stored functions, their variants and sizes"),
        ("show", show, "print a function's variants: guards, prologue, graph, epilogue, continuations"),
        ("path", path, "print the cache's directory"),
        ("clear", clear, "remove everything stored, without asking"),
        ("gc", gc, "remove what is unused, unreferenced or left by killed processes"),
        ("verify", verify, "check every stored file by schema and digest"),
    ):
        command = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
        command.add_argument("--dir", type=Path, metavar="DIR", help="the cache's directory, instead of the options'")
        command.set_defaults(run=run)
        if name == "show":
            command.add_argument("function", metavar="FUNCTION", help="`module.qualname`, `qualname`, or the end of it")
        elif name == "gc":
            command.add_argument(
                "--days", type=float, default=30, help="what wasn't used for so long goes (default 30)"
            )
        elif name == "verify":
            command.add_argument("--repair", action="store_true", help="remove what is damaged")
    return parser


def path(arguments: argparse.Namespace) -> int:
    """Print the cache's directory, whether it exists or not."""
    print(_root(arguments))
    return 0


def ls(arguments: argparse.Namespace) -> int:
    """List functions by environment, and what all of it takes."""
    inventory = _inventory(arguments)
    print(f"cache {inventory.root}: {readable(usage(str(inventory.root)))}")
    current = environment_key(config.current())
    for environment in inventory.environments():
        about = environment.description()
        words = ", ".join(f"{name} {about[name]}" for name in ("python", "torch", "options") if about.get(name))
        print(f"\nenvironment {environment.key}{' (this one)' * (environment.key == current)}: {words or 'unknown'}")
        _functions(environment)
        for kind, folder in FOLDERS.items():
            tally = Tally()
            for entry in environment.entries(folder):
                tally.add(usage(entry))
            print(f"  {kind}: {tally.entries}, {readable(tally.bytes)}")
    return 0


def _functions(environment: Environment) -> None:
    groups: dict[tuple[str, str, str], list[Stored]] = defaultdict(list)
    for stored in environment.variants():
        spec = stored.variant.spec
        groups[spec.module, spec.qualname, spec.digest].append(stored)
    rows: list[tuple[str, ...]] = [
        ("function", "variants", "resumed", "operations", "breaks", "left", "size", "digest")
    ]
    for (module, qualname, digest), group in sorted(groups.items()):
        starts = [stored.variant for stored in group if not stored.variant.spec.offset]
        everything = [stored.variant for stored in group]
        numbers = (
            len(starts),
            len(everything) - len(starts),
            sum(one.operations for one in everything),
            sum(len(one.breaks) for one in everything),
            sum(bool(one.leave) for one in everything),
        )
        size = readable(sum(stored.size for stored in group))
        rows.append((f"{module}.{qualname}", *map(str, numbers), size, digest[:8]))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows if len(rows) > 1 else ():
        cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        print("  " + "  ".join(cells))


def show(arguments: argparse.Namespace) -> int:
    """Print every variant of the functions that the name fits, and of what follows their breaks."""
    from aotdyn.store import show as pages

    inventory = _inventory(arguments)
    found: list[tuple[Environment, dict[FrameSpec, list[Stored]]]] = []
    for environment in inventory.environments():
        frames: dict[FrameSpec, list[Stored]] = defaultdict(list)
        for stored in environment.variants():
            frames[stored.variant.spec].append(stored)
        found.append((environment, frames))
    names = {f"{spec.module}.{spec.qualname}": spec.qualname for _, frames in found for spec in frames}
    fitting = _fitting(arguments.function, names)
    if not fitting:
        return _fail(_near(arguments.function, names, inventory))
    for environment, frames in found:
        roots = [spec for spec in frames if f"{spec.module}.{spec.qualname}" in fitting]
        roots.sort(key=lambda spec: (spec.module, spec.qualname, spec.digest, spec.offset))
        for spec in pages.frames(frames, roots):
            for number, stored in enumerate(frames[spec], 1):
                print(pages.variant(environment, stored, number, len(frames[spec])))
    return 0


def _fitting(asked: str, names: dict[str, str]) -> set[str]:
    """Full names that `asked` means: a full name, else a qualified name, else the end of one, at a dot."""
    for fits in (
        lambda name, qualname: name == asked,
        lambda name, qualname: qualname == asked,
        lambda name, qualname: name.endswith("." + asked),
    ):
        if chosen := {name for name, qualname in names.items() if fits(name, qualname)}:
            return chosen
    return set()


def _near(asked: str, names: dict[str, str], inventory: Inventory) -> str:
    if not names:
        return f"no function is stored in {inventory.root}"
    last = {name.rpartition(".")[2]: name for name in names}
    near = difflib.get_close_matches(asked, names, 3, 0.5)
    near += [last[word] for word in difflib.get_close_matches(asked.rpartition(".")[2], last, 3, 0.6)]
    near += [name for name in names if asked.lower() in name.lower()]
    listed = list(dict.fromkeys(near))[:5]
    hint = f"near it: {', '.join(listed)}" if listed else f"`cache ls` lists all {len(names)}"
    return f"no stored function is named {asked!r}; {hint}"


def clear(arguments: argparse.Namespace) -> int:
    """Remove everything stored, and say what that was."""
    inventory = _inventory(arguments)
    return _report(inventory.clear(), f"nothing was stored in {inventory.root}")


def gc(arguments: argparse.Namespace) -> int:
    """Remove what is no longer of use, and say what that was."""
    inventory = _inventory(arguments)
    return _report(inventory.gc(arguments.days * disk.DAY), f"nothing to remove in {inventory.root}")


def _report(removed: Removed, nothing: str) -> int:
    for kind, tally in removed.kinds.items():
        print(f"removed {kind}: {tally.entries}, {readable(tally.bytes)}")
    if not removed.kinds and not removed.kept:
        print(nothing)
    for kept in removed.kept:
        print(f"can't be removed: {kept}", file=sys.stderr)
    return 1 if removed.kept else 0


def verify(arguments: argparse.Namespace) -> int:
    """Check all files; the exit code is 1 if damaged ones are (still) there."""
    inventory = _inventory(arguments)
    total = left = 0
    for environment in inventory.environments():
        good, bad = environment.damaged()
        total += good
        for damaged, reason in bad:
            gone = arguments.repair and disk.remove(damaged)
            left += not gone
            print(f"{'removed' if gone else 'damaged'}: {damaged}: {reason}")
    print(f"{total} good, {left} damaged in {inventory.root}")
    return 1 if left else 0


def _root(arguments: argparse.Namespace) -> Path:
    root = arguments.dir or config.cache_root()
    if root is None:
        raise CacheError("nothing is kept: the cache is turned off, or there is no directory for it",
                         hint="unset AOTDYN_CACHE, or name a directory with AOTDYN_CACHE_DIR or --dir")  # fmt: skip
    return Path(root).expanduser().absolute()


def _inventory(arguments: argparse.Namespace) -> Inventory:
    return Inventory(_root(arguments), trust=config.current().cache_trust)


def _fail(message: str) -> int:
    print(f"aotdyn: {message}", file=sys.stderr)
    return 1
