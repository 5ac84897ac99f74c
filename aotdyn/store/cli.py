"""`python -m aotdyn cache`: look into the on-disk cache, tidy it up, take it along."""

from __future__ import annotations

import argparse
import difflib
import json
import os
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

from aotdyn import config
from aotdyn.cli.parsing import Parser
from aotdyn.errors import AotdynError, CacheError
from aotdyn.report.plural import counted
from aotdyn.runtime.variant import FrameSpec
from aotdyn.store import disk, signing, usage
from aotdyn.store.environment import describe, environment_key
from aotdyn.store.inventory import FOLDERS, Environment, Inventory, Removed, Stored, Tally, readable, usage_of

Found = list[tuple[Environment, dict[FrameSpec, list[Stored]]]]


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
    parser = Parser(
        prog="python -m aotdyn cache",
        description="Look at the cache, tidy it up, take it along. `python -m aotdyn cache COMMAND --help` tells more.",
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    made = {}
    for name, run, text in (
        ("ls", ls, "list the stored functions, their variants and sizes"),
        ("show", show, "print a function's variants: guards, prologue, graph, epilogue, continuations"),
        ("verify", verify, "check every stored file by schema, digest and signature, and say what to do"),
        ("gc", gc, "remove what is unused, unreferenced, over the limit or left by killed processes"),
        ("clear", clear, "remove everything stored, without asking"),
        ("export", export, "write what is stored to one file, a bundle"),
        ("import", import_, "store what a bundle holds"),
        ("path", path, "print the cache's directory"),
        ("key", key, "keys that sign what is stored: new, ls, trust"),
    ):
        command = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
        add = command.add_argument
        add("--cache", "--dir", dest="dir", type=Path, metavar="DIR", help="the cache's directory, where it isn't "
            "the default that `cache path` prints")  # fmt: skip
        add("--trust-cache", action="store_true", help="use the cache even if other users can write to it")
        add("--json", action="store_true", help="print data, as JSON")
        command.set_defaults(run=run)
        made[name] = command
    add = made["show"].add_argument
    add("function", metavar="FUNCTION", help="`module.qualname`, `qualname`, or the end of it")
    add("--repro", action="store_true", help="print a stand-alone script for a graph that couldn't be compiled; "
        "FUNCTION is the key that its warning names")  # fmt: skip
    add("--why-miss", action="store_true", help="say why what is stored of it isn't used by this environment")
    add = made["gc"].add_argument
    add("--days", type=float, default=30, help="what wasn't used for so long goes (default 30)")
    add("--limit", type=int, metavar="MIB", help="evict down to so much (default: the option cache_limit)")
    made["verify"].add_argument("--repair", action="store_true", help="remove what is damaged")
    add = made["export"].add_argument
    add("file", type=Path, metavar="FILE")
    add("--package", action="append", default=[], metavar="NAME", help="only functions of this package or module, and "
        "what follows them; may be given often")  # fmt: skip
    add("--force", action="store_true", help="write over FILE even if it is no bundle")
    made["import"].add_argument("file", type=Path, metavar="FILE")
    add = made["key"].add_argument
    add("action", choices=("new", "ls", "trust"))
    add("key", nargs="?", help="trust: a public key, as hex digits or a file")
    add("--name", help="trust: a name to know it by")
    add("--replace", action="store_true", help="new: even if there is one")
    return parser


def path(arguments: argparse.Namespace) -> int:
    """Print the cache's directory, whether it exists or not."""
    root = str(_root(arguments))
    print(json.dumps({"path": root}) if arguments.json else root)
    return 0


def ls(arguments: argparse.Namespace) -> int:
    """List functions by environment, and what all of it takes."""
    inventory = _inventory(arguments)
    current = environment_key(config.current())
    listed = []
    for environment in inventory.environments():
        kinds = {}
        for kind, folder in FOLDERS.items():
            kinds[kind] = Tally()
            for entry in environment.entries(folder):
                kinds[kind].add(usage_of(entry))
        listed.append((environment, _functions(environment), kinds))
    size = inventory.size()
    if arguments.json:
        _print_json(
            root=str(inventory.root),
            bytes=size,
            limit=config.current().cache_limit << 20,
            environments=[
                {
                    "key": environment.key,
                    "current": environment.key == current,
                    **environment.description(),
                    "functions": rows,
                    "kinds": {kind: {"entries": tally.entries, "bytes": tally.bytes} for kind, tally in kinds.items()},
                }
                for environment, rows, kinds in listed
            ],
        )
        return 0
    print(f"cache {inventory.root}: {readable(size)} of {readable(config.current().cache_limit << 20)}")
    for environment, rows, kinds in listed:
        about = environment.description()
        words = ", ".join(f"{name} {about[name]}" for name in ("python", "torch", "options") if about.get(name))
        print(f"\nenvironment {environment.key}{' (this one)' * (environment.key == current)}: {words or 'unknown'}")
        _table([{**row, "size": readable(row.pop("bytes")), "digest": row["digest"][:8]} for row in rows])
        for kind, tally in kinds.items():
            print(f"  {kind}: {tally.entries}, {readable(tally.bytes)}")
    return 0


def _functions(environment: Environment) -> list[dict[str, Any]]:
    groups: dict[tuple[str, str, str], list[Stored]] = defaultdict(list)
    for stored in environment.variants():
        spec = stored.variant.spec
        groups[spec.module, spec.qualname, spec.digest].append(stored)
    uses = usage.uses(environment.path)
    rows = []
    for (module, qualname, digest), group in sorted(groups.items()):
        everything = [stored.variant for stored in group]
        starts = sum(not variant.spec.offset for variant in everything)
        rows.append(
            {
                "function": f"{module}.{qualname}",
                "variants": starts,
                "resumed": len(everything) - starts,
                "operations": sum(one.operations for one in everything),
                "breaks": sum(len(one.breaks) for one in everything),
                "left": sum(bool(one.leave) and not one.pays for one in everything),
                "uses": max((_uses(uses, stored) for stored in group), default=0),
                "bytes": sum(stored.size for stored in group),
                "digest": digest,
            }
        )
    return rows


def _uses(uses: dict[str, int], stored: Stored) -> int:
    return uses.get(os.path.basename(os.path.dirname(stored.path)), 0)


def _table(rows: list[dict[str, Any]]) -> None:
    """Rows under the names of their columns: the first to the left, the others to the right."""
    if not rows:
        return
    lines = [list(rows[0]), *([str(cell) for cell in row.values()] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for first, *rest in lines:
        cells = [first.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True))]
        print("  " + "  ".join(cells))


def show(arguments: argparse.Namespace) -> int:
    """Print every variant of the functions that the name fits, and of what follows their breaks; or why they miss."""
    from aotdyn.store import show as pages

    inventory = _inventory(arguments)
    if arguments.repro:
        return _repro(inventory, arguments.function)
    found: Found = []
    for environment in inventory.environments():
        frames: dict[FrameSpec, list[Stored]] = defaultdict(list)
        for stored in environment.variants():
            frames[stored.variant.spec].append(stored)
        found.append((environment, frames))
    names = {f"{spec.module}.{spec.qualname}": spec.qualname for _, frames in found for spec in frames}
    fitting = _fitting(arguments.function, names)
    if not fitting:
        return _fail(_near(arguments.function, names, inventory))
    if arguments.why_miss:
        return _why(found, fitting, arguments.json)
    pages_of = []
    for environment, frames in found:
        roots = [spec for spec in frames if f"{spec.module}.{spec.qualname}" in fitting]
        roots.sort(key=lambda spec: (spec.module, spec.qualname, spec.digest, spec.offset))
        uses = usage.uses(environment.path)
        for spec in pages.frames(frames, roots):
            for number, stored in enumerate(frames[spec], 1):
                count = _uses(uses, stored)
                if arguments.json:
                    pages_of.append(pages.data(environment, stored, count))
                else:
                    print(pages.variant(environment, stored, number, len(frames[spec]), count))
    if arguments.json:
        _print_json(variants=pages_of)
    return 0


def _why(found: Found, fitting: set[str], as_json: bool) -> int:
    from aotdyn.store import why

    answers = {}
    for name in sorted(fitting):
        mine = [
            (environment, [one for spec, many in frames.items() if f"{spec.module}.{spec.qualname}" == name
                           for one in many])
            for environment, frames in found
        ]  # fmt: skip
        answers[name] = why.reasons([pair for pair in mine if pair[1]], config.current().tracing_key())
    if as_json:
        _print_json(reasons=answers)
        return 0
    for name, sentences in answers.items():
        print("\n".join([name, *(f"  {sentence}" for sentence in sentences)]))
    return 0


def _repro(inventory: Inventory, key: str) -> int:
    """Print the script of the failed graph whose key begins so."""
    from aotdyn.backends import repro

    failed = [
        Path(entry)
        for environment in inventory.environments()
        for entry in environment.entries("kernels")
        if "-failed-" in os.path.basename(entry)
    ]
    fitting = [entry for entry in failed if entry.name.startswith(key)]
    if not fitting:
        listed = ", ".join(sorted(entry.name[:12] for entry in failed)[:8])
        return _fail(f"no graph that failed has a key {key!r}; " + (f"there are {listed}" if failed else "none failed"))
    try:
        print(repro.of(fitting[-1]))
    except repro.Inexpressible as error:
        return _fail(f"no script can be written for {fitting[-1].name}: {error}")
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
        return (
            f"no function is stored in {inventory.root}\n  hint: run a program first, or name another cache by --cache"
        )
    last = {name.rpartition(".")[2]: name for name in names}
    near = difflib.get_close_matches(asked, names, 3, 0.5)
    near += [last[word] for word in difflib.get_close_matches(asked.rpartition(".")[2], last, 3, 0.6)]
    near += [name for name in names if asked.lower() in name.lower()]
    listed = list(dict.fromkeys(near))[:5]
    hint = f"near it: {', '.join(listed)}" if listed else f"`python -m aotdyn cache ls` lists all {len(names)}"
    return f"no stored function is named {asked!r}\n  hint: {hint}"


def clear(arguments: argparse.Namespace) -> int:
    """Remove everything stored, and say what that was."""
    inventory = _inventory(arguments)
    foreign = inventory.foreign()
    if foreign and not arguments.json:
        names = ", ".join(os.path.basename(path) for path in foreign[:5]) + ", ..." * (len(foreign) > 5)
        print(f"left alone, since it isn't the cache's, in {inventory.base}: {names}", file=sys.stderr)
    removed = inventory.clear()
    return _report(removed, f"nothing was stored in {inventory.root}", arguments.json, left_alone=foreign)


def gc(arguments: argparse.Namespace) -> int:
    """Remove what is no longer of use, and say what that was."""
    inventory = _inventory(arguments)
    limit = config.current().cache_limit if arguments.limit is None else arguments.limit
    removed = inventory.gc(arguments.days * disk.DAY, limit << 20)
    if not arguments.json and (size := inventory.size()) > limit << 20:
        print(
            f"{readable(size)} are left, over the limit of {readable(limit << 20)}: what was used within "
            f"{disk.RENEWED / 60:.0f} minutes, or a running process may need, isn't evicted",
            file=sys.stderr,
        )
    return _report(removed, f"nothing to remove in {inventory.root}", arguments.json)


SHOWN = 3
"How many paths a message names."


def _report(removed: Removed, nothing: str, as_json: bool, **more: Any) -> int:
    if as_json:
        kinds = {kind: {"entries": tally.entries, "bytes": tally.bytes} for kind, tally in removed.kinds.items()}
        _print_json(removed=kinds, kept=removed.kept, **more)
        return 1 if removed.kept else 0
    for kind, tally in removed.kinds.items():
        print(f"removed {kind}: {tally.entries}, {readable(tally.bytes)}")
    if not removed.kinds and not removed.kept:
        print(nothing)
    if removed.kept:
        print(_not_removed(removed.kept), file=sys.stderr)
    return 1 if removed.kept else 0


def _not_removed(paths: list[str]) -> str:
    """One message for all that couldn't be removed; the disk refuses mostly the directory, and so all in it."""
    shown = ", ".join(paths[:SHOWN]) + ", ..." * (len(paths) > SHOWN)
    return (
        f"aotdyn: {counted(len(paths), 'entry')} can't be removed: {shown}\n"
        "  hint: make the cache writable (is its disk mounted read-only, is it another user's?), or leave it"
    )


def verify(arguments: argparse.Namespace) -> int:
    """Check all files; the exit code is 1 if damaged ones are (still) there."""
    inventory = _inventory(arguments)
    total = left = 0
    listed = []
    current = environment_key(config.current())
    for environment in inventory.environments():
        if arguments.repair and environment.key == current and environment.misdescribed():
            renewed = environment.renew(describe(config.current()))
            if renewed and not arguments.json:
                print(f"made anew: {renewed}")
        good, bad = environment.damaged()
        total += good
        for damaged, reason in bad:
            gone = bool(arguments.repair) and disk.remove(damaged)
            left += not gone
            listed.append({"path": damaged, "reason": reason, "removed": gone})
    if arguments.json:
        _print_json(root=str(inventory.root), good=total, damaged=listed)
        return 1 if left else 0
    for each in listed:
        print(f"{'removed' if each['removed'] else 'damaged'}: {each['path']}: {each['reason']}")
    print(f"{total} good, {left} damaged in {inventory.root}")
    if left and not arguments.repair:
        where = f" --cache {arguments.dir}" if arguments.dir else ""
        print(f"run `python -m aotdyn cache verify --repair{where}`: it removes what is damaged, which comes anew")
    elif left:
        print("what can't be removed isn't used either; see who owns it, or name another directory")
    elif listed:
        print("what was removed is made anew by the next run")
    return 1 if left else 0


def export(arguments: argparse.Namespace) -> int:
    """Write a bundle."""
    from aotdyn.store import bundle

    made = bundle.export(_inventory(arguments), arguments.file, arguments.package, _keys(), arguments.force)
    return _bundled("exported", made, arguments)


def import_(arguments: argparse.Namespace) -> int:
    """Store what a bundle holds."""
    from aotdyn.store import bundle

    root = _root(arguments)
    made = bundle.import_(root, arguments.file, _keys(), trust=_trusts(arguments))
    return _bundled("imported", made, arguments)


def _bundled(what: str, counts: dict[str, int], arguments: argparse.Namespace) -> int:
    if arguments.json:
        _print_json(file=str(arguments.file), entries=counts)
        return 0
    words = ", ".join(counted(count, kind.removesuffix("s")) for kind, count in counts.items() if count) or "nothing"
    print(f"{what} {words}: {arguments.file}")
    return 0


def key(arguments: argparse.Namespace) -> int:
    """Make a key, list those that are trusted, or trust one."""
    keys = _keys()
    if arguments.action == "new":
        public = keys.new(arguments.replace).hex()
        if arguments.json:
            _print_json(public=public, folder=str(keys.where))
        else:
            print(f"{public}\nmade in {keys.where}; set AOTDYN_CACHE_SIGN=1 to sign with it. Others trust it by "
                  f"`aotdyn cache key trust {public[:8]}... --name NAME`, with all of the first line")  # fmt: skip
        return 0
    if arguments.action == "trust":
        if not arguments.key:
            return _fail("name the public key to trust: 64 hex digits, or a file with them")
        given = arguments.key if not os.path.isfile(arguments.key) else Path(arguments.key).read_text()
        parsed = signing.parse(given)
        keys.trust(parsed, arguments.name or signing.short(parsed))
    trusted = {public.hex(): name for public, name in sorted(keys.trusted().items(), key=lambda item: item[1])}
    if arguments.json:
        _print_json(folder=str(keys.where), trusted=trusted)
    else:
        for public, name in trusted.items():
            print(f"{public}  {name}")
        print(f"{len(trusted)} trusted, in {keys.where}")
    return 0


def _print_json(**data: Any) -> None:
    print(json.dumps(data, indent=1, default=str))


def _root(arguments: argparse.Namespace) -> Path:
    root = arguments.dir or config.cache_root()
    if root is None:
        raise CacheError("nothing is kept: the cache is turned off, or there is no directory for it",
                         hint="unset AOTDYN_CACHE, or name a directory with AOTDYN_CACHE_DIR or --cache")  # fmt: skip
    return Path(root).expanduser().absolute()


def _trusts(arguments: argparse.Namespace) -> bool:
    return arguments.trust_cache or config.current().cache_trust


def _keys() -> signing.Keys:
    current = config.current()
    return signing.Keys(current.cache_sign, signing.folder(current))


def _inventory(arguments: argparse.Namespace) -> Inventory:
    return Inventory(_root(arguments), trust=_trusts(arguments), signing=_keys())


def _fail(message: str) -> int:
    print(f"aotdyn: {message}", file=sys.stderr)
    return 1
