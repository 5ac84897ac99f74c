"""The recompile limit: which variants count against a call, and what is decided where there are enough.

A limit is met by one function that would be made again and again for a value
that moves. It isn't met by the many modules of a class, each with constants of
its own: a variant counts only if nothing else than what moves tells this call
from it. What was seen to change on one and the same module moves; that is kept
with the variants (`Variant.restless`), so that a later process knows it from
the start. Nor is it met by a decorator's wrapper, one code for the many
functions that it wraps: a variant whose closure has a function of other code is
another's. Facts of anything else count without more ado.

What is decided is a variant as well: `rest`, which leaves the frame to Python
where the facts hold that don't move. It stands behind all others, and is
stored, so that no process traces what an earlier one gave up.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec
import torch

from aotdyn.guards import constants, kinds, tensors
from aotdyn.guards.kinds import Reason
from aotdyn.guards.sources import Arg, Cell, Env, Pure, Source, SourceTable, decode_sources
from aotdyn.runtime import binding, explain
from aotdyn.runtime.served import Served, module_at
from aotdyn.runtime.variant import Instruction, Variant

OWNED = ("CONST", "TYPE", "CLASS", "KEYS", "LEN", "LACKS", "HAS", "NOATTR", "OBJECT", "FUNCTION", "TENSOR", "TRUTH")
"""Kinds of facts by which one module differs from another of its class."""

RESTS = 8
"""Verdicts of one entry that are kept apart; from then on one takes the place of all."""


class Missed:
    """A variant that a call misses, and what its guards were read from."""

    def __init__(self, variant: Variant, env: Env) -> None:
        self.variant = variant
        self.env = env

    @functools.cached_property
    def failed(self) -> list[int]:
        """The guards that fail, by number."""
        return list(self.failing())

    def failing(self) -> Iterator[int]:
        """The same one by one, as far as somebody asks."""
        return iter(self.failed) if "failed" in self.__dict__ else binding.failures(self.variant, self.env)


class Count(msgspec.Struct, frozen=True):
    """The variants that count against a call, and the sources that were seen to move on one module."""

    counted: list[Missed]
    restless: list[Source]


def count(
    variants: Iterable[Variant], served: Served, args: Sequence[Any], globals: dict[str, Any], closure: int
) -> Count:
    """What counts against the limit of a call that misses all `variants`; the last `closure` of `args` are its closure.

    Of most of a hundred variants for a hundred modules the first guard says that they don't count: the others aren't
    looked at.
    """
    missed: dict[Missed, Source | None] = {}
    restless: dict[Source, None] = {}
    for each in _missed(variants, args, globals):
        if closure and _of_another_closure(each, len(args) - closure):
            continue
        restless.update(dict.fromkeys(known(each.variant)))
        missed[each] = _of_another(each, served)
    for each, other in missed.items():
        if other is None:
            restless.update(dict.fromkeys(source for source, _ in _owned(each)))
    counted = [each for each, other in missed.items() if other is None or _moves(each, other, restless)]
    return Count(counted, [source for source in restless if _durable(source)])


def _of_another(missed: Missed, served: Served) -> Source | None:
    """A fact by which a variant is of another module than the call's; None where it served that, or there is none."""
    for source, module in _owned(missed):
        if not served.knows(missed.variant, module):
            return source
    return None


def _of_another_closure(missed: Missed, first: int) -> bool:
    """Whether a variant was made for another function in the frame's closure: the arguments from `first` on.

    A program has no more such variants than it has code.
    """

    def is_in_closure(source: Source) -> bool:
        return isinstance(source, Cell) and isinstance(source.base, Arg) and source.base.index >= first

    functions = (guard for guard in missed.variant.guards if guard.kind in ("FUNCTION", "OBJECT") and guard.source >= 0)
    found = (guard for guard in functions if is_in_closure(missed.env.sources[guard.source]))
    return any(not binding.holds(guard, missed.env) for guard in found)


def _moves(missed: Missed, other: Source, restless: dict[Source, None]) -> bool:
    """Whether all that tells a variant of other modules from the call was seen to move on one."""
    return other in restless and all(source in restless for source, _ in _owned(missed))


def known(variant: Variant) -> Iterator[Source]:
    """What a variant knows to move."""
    for rows in variant.restless:
        try:
            yield decode_sources(rows)[-1]
        except LookupError:
            continue  # a constant that this process can't find: nothing here is reached by it


def rows(sources: Iterable[Source]) -> list[list[Any]]:
    """Sources as `Variant.restless` holds them."""
    tables = []
    for source in sources:
        table = SourceTable()
        table.add(source)
        tables.append(table.rows)
    return tables


def _missed(variants: Iterable[Variant], args: Sequence[Any], globals: dict[str, Any]) -> Iterator[Missed]:
    for variant in variants:
        try:
            env = binding.environment(variant, args, globals)
        except binding.BindingMiss:
            continue
        yield Missed(variant, env)


def _owned(missed: Missed) -> Iterator[tuple[Source, Any]]:
    """Sources of failed guards that are a module's own, each with the outermost module that it is reached through."""
    for i in missed.failing():
        guard = missed.variant.guards[i]
        if guard.kind in OWNED and guard.source >= 0:
            source = missed.env.sources[guard.source]
            module = _outermost(source, missed.env) if source.bases else None
            if module is not None:
                yield source, module


def _outermost(source: Source, env: Env) -> torch.nn.Module | None:
    """The first module on the way to a source, itself included; None where there is none."""
    path = [source]
    while path[-1].bases:
        path.append(path[-1].bases[0])
    return next(filter(lambda module: module is not None, (module_at(each, env) for each in reversed(path))), None)


def _durable(source: Source) -> bool:
    return source.kind != "local" and all(_durable(base) for base in source.bases)


# The verdict


def verdict(found: Count, before: list[Variant], text: str, thrifty: bool = False) -> Variant | None:
    """The variant that gives to Python what the call has in common with the last variant that it misses."""
    if not found.counted:
        return None
    last = found.counted[-1]
    if len(before) >= RESTS:
        last = Missed(before[-1], Env(last.env.args, last.env.globals, before[-1].locals, _sources(before[-1])))
    moving = {each.env.sources[g.source] for each in found.counted for g in _failed(each) if g.source >= 0}
    moving.update(found.restless)
    return Variant(
        spec=last.variant.spec,
        sources=last.variant.sources,
        guards=list(_lasting(last, moving)),
        inputs=[],
        graph=None,
        epilogue=[Instruction("const", 0, (constants.encode(None),)), Instruction("return", -1, (0,))],
        inlined=last.variant.inlined,
        leave=text,
        callees=[guard.source for guard in last.variant.guards if guard.kind == "FUNCTION"],
        restless=rows(found.restless),
        places=last.variant.places,
        process_local=last.variant.process_local,
        locals=last.variant.locals,
        rest=True,
        thrifty=thrifty,
    )


def _sources(variant: Variant) -> list[Source]:
    return decode_sources(variant.sources)


def _failed(missed: Missed) -> Iterator[Any]:
    return (missed.variant.guards[i] for i in missed.failed)


def _lasting(missed: Missed, moving: set[Source]) -> Iterator[Any]:
    """The guards that hold for the call and don't speak of what moves; of a tensor whose sizes do, the rest."""
    for guard in missed.variant.guards:
        source = missed.env.sources[guard.source] if guard.source >= 0 else None
        if guard.kind == "TENSOR" and source in moving:
            guard = msgspec.structs.replace(guard, expected=_of_any_size(guard.expected))
        elif guard.kind == "SHAPE" or (source is not None and _rests_on(source, moving)):
            continue
        if binding.holds(guard, missed.env):
            yield guard


def _rests_on(source: Source, moving: set[Source]) -> bool:
    return source in moving or any(_rests_on(base, moving) for base in source.bases)


def _of_any_size(expected: dict[str, Any]) -> dict[str, Any]:
    free = [None] * len(expected["shape"])
    return {**expected, "shape": free, "stride": free if expected["stride"] is not None else None, "offset": None}


# What is said


def told(where: str, found: Count, total: int, option: str, in_words: Callable[[Reason], Reason]) -> str:
    """The warning: what failed, oldest to newest, and what would help."""
    failed = (explain.reasons(each.variant, each.env, each.failed[:1]) for each in found.counted)
    reasons = [in_words(reason) for each in failed for reason in each]
    from aotdyn.report.plural import counted

    enough = "too few calls each for another to pay" if option == "thrift" else f"as many as {option} allows"
    had = f"has {counted(total, 'variant')}, {'which served ' * (option == 'thrift')}{enough}"
    hints = [*filter(None, map(_hint, found.counted)), MORE.get(option, "")]
    lines = [f"{where} {had}; calls that fit none run as plain Python."]
    lines += [f"  {each}" for each in (*kinds.merged(reasons), *dict.fromkeys(filter(None, hints)))]
    return "\n".join(lines)


def _hint(missed: Missed) -> str:
    """What would help against the first guard that fails."""
    if not missed.failed:
        return ""
    guard = missed.variant.guards[missed.failed[0]]
    source = missed.env.sources[guard.source] if guard.source >= 0 else None
    if guard.kind == "TENSOR" and source is not None:
        dims = tensors.moved(missed.env.read(source), guard.expected)
        return SIZES if dims else ""
    if guard.kind == "CONST":
        known = constants.decode(guard.expected)
        if isinstance(known, bool):
            return ITEMS if isinstance(source, Pure) and source.key == HAS else FLAGS
        if isinstance(known, (int, float)):
            return NUMBERS if source is not None and _outermost(source, missed.env) is None else ATTRIBUTES
    return HINTS.get(guard.kind, "")


SIZES = (
    "Sizes that vary take one variant where they may be symbols: dynamic=None or True in compile(),"
    " mark_dynamic, or [[tool.aotdyn.shapes]] in pyproject.toml; or pad to a few sizes."
)
NUMBERS = "A number that varies takes one variant as a tensor, or where only operators of torch see it."
FLAGS = (
    "A flag makes a variant for each of its values, and several flags one for each combination: vary fewer of them,"
    " or branch outside of the function."
)
HAS = "iterator.has"
"Whether an iterator has as many items."
ITEMS = "A loop over an iterator that began outside makes a variant for each number of items that are left."
ATTRIBUTES = (
    "A number that a module keeps and Python looks at is a constant of the graph: keep it in a tensor,"
    " or look at it outside of what is compiled."
)
HINTS = {
    "SHAPE": "Each branch on a size makes a variant: torch._check says what always holds, torch.where takes both.",
    "LEN": "A container's length is a constant of the graph: pass a tensor, or a container of one length.",
    "KEYS": "The keys of a mapping are constants of the graph.",
    "FUNCTION": "Each function that is handed over makes a variant: make it once, and not at each call.",
    "GLOBAL": "Modes are constants of the graph: call the function under one of them.",
}
MORE = {
    "thrift": "To have more made, up to recompile_limit: `--thrift off` (AOTDYN_THRIFT=off), or once by"
    " `python -m aotdyn build`.",
    "recompile_limit": "To have more made: AOTDYN_RECOMPILE_LIMIT, or recompile_limit in pyproject.toml.",
}
"How a limit is raised, by the option's name."
