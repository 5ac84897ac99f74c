"""The door from the runtime to what a warm call doesn't need: store, tracer, backends, continuations.

Everything behind it is imported when it is first asked for.
"""

from __future__ import annotations

import collections
import functools
import logging
import marshal
import sys
import threading
import types
from typing import TYPE_CHECKING, Any

import msgspec

from aotdyn import config, errors
from aotdyn.report import events
from aotdyn.rewrite import switchboard
from aotdyn.runtime import dispatch, home, reached
from aotdyn.runtime.continuation import Continuation
from aotdyn.runtime.extent import HOOK, PACKAGES, PROGRAM, Extent

if TYPE_CHECKING:
    from aotdyn.runtime.entry import Entry
    from aotdyn.runtime.moved import Moved
    from aotdyn.runtime.variant import FrameSpec, ResumePoint, Variant
    from aotdyn.store.store import Store

log = logging.getLogger("aotdyn")

_stores: dict[tuple[str, bool, str], Store] = {}
_graphs: dict[str, Any] = {}
"Graphs traced by this process, by key."
_continuations: dict[tuple[str, str, int], Continuation] = {}
"By name, extent and identity of the globals, which the continuation keeps alive."
_entries: dict[str, Entry] = {}
"Dispatcher name to entry, for as long as the process lives."
_lock = threading.RLock()


def _options(extent: Extent) -> config.Options:
    """The options as an extent has them: `dynamic` of a `compile()` says more than the process's."""
    chosen = config.current()
    if extent.number and chosen.trace_numpy == "compile":
        chosen = msgspec.structs.replace(chosen, trace_numpy="always")
    if extent.dynamic is None:
        return chosen
    changed = {"assume_static_by_default": not extent.dynamic, "automatic_dynamic_shapes": extent.dynamic}
    return msgspec.structs.replace(chosen, **changed)


def store(extent: Extent = HOOK) -> Store:
    """The store that the options name: variants of other options are others."""
    from aotdyn.store import store as stores

    options = _options(extent)
    key = (options.cache_dir, options.cache, options.tracing_key())
    found = _stores.get(key)
    if found is None:
        make = stores.configured if options.strict else stores.opened
        found = _stores[key] = make(config.cache_root(), options, options.cache_trust)
    return found


def forget() -> None:
    """Drop what is in memory: entries lose their variants, graphs and continuations are gone."""
    from aotdyn.runtime.entry import entries

    with _lock:
        for entry in list(entries):
            entry.forget()
        _graphs.clear()
        _continuations.clear()
    if known := sys.modules.get("aotdyn.runtime.beforehand"):
        known.forget()
    if known := sys.modules.get("aotdyn.runtime.retired"):
        known.restore()


def load(entry: Entry) -> list[Variant]:
    """The variants that the store holds for an entry."""
    if forgotten():
        return []
    with events.phase("load"):
        found = store(entry.extent).load(entry.spec)
    if found and entry.account:
        from aotdyn.runtime import thrift

        thrift.heeds(found)
    for verdict in (each for each in found if each.verdict):
        entry.heed(verdict)
    found = [each for each in found if not each.verdict]
    if entry.account is not None and any(each.operations > 1 for each in found):
        entry.account.rich = True
    events.count("variants_loaded", len(found))
    return found


def missed(entry: Entry, reason: str) -> None:
    """Keep why none of the variants that were there fitted a call."""
    if not forgotten():
        store(entry.extent).note_miss(entry.spec, reason)


_forgotten = False


def forgotten() -> bool:
    """Whether `reset()` was called: the store is left alone until the process ends."""
    return _forgotten


def keep_verdict(spec: FrameSpec, extent: Extent, reason: str, **more: Any) -> None:
    """Store that a function is left to Python by policy; `more` says of a verdict that isn't for good why."""
    from aotdyn.runtime import thrift
    from aotdyn.runtime.variant import Variant

    if not forgotten():
        verdict = Variant(spec, [], [], [], None, [], leave=reason, verdict=True, made_up=thrift.making_up, **more)
        with events.phase("store"):
            store(extent).save(verdict)


def entry_of(code: types.CodeType) -> Entry | None:
    """The entry behind the stub of a hooked function, where there is one already."""
    seat = switchboard.seat_in(code)
    name = None if seat is None else switchboard.boards[seat.board].named.get(seat.number)
    return None if name is None else _entries.get(name)


gone: collections.deque[str] = collections.deque()
"Extents of what `compile()` made and nobody keeps: the garbage collector, which may run anywhere, only notes them."


def sweep() -> None:
    """Give up what belongs to extents that are gone: done where no lock is held."""
    while gone:
        _release(gone.popleft())


def _release(extent: str) -> None:
    """Drop an extent's entries, continuations and names. Its calls stay counted."""
    from aotdyn.rewrite import originals

    with _lock:
        for key in [key for key in _continuations.copy() if key[1] == extent]:
            _continuations.pop(key, None)
        for name in [name for name, entry in _entries.copy().items() if entry.extent.number == extent]:
            _entries.pop(name).give_back()
            dispatch.uninstall(name)
            originals.forget(name)
    reached.release(extent)


def leave_store() -> None:
    """From now on nothing is read from or written to the store."""
    global _forgotten
    _forgotten = True


def trace(entry: Entry, args: tuple[Any, ...]) -> Variant | None:
    """Trace a call; None where that failed (and the failure was told)."""
    from aotdyn.report import logs
    from aotdyn.store import records

    spec = entry.spec
    variant = _traced(entry, args)
    events.traced(f"{spec.module}.{spec.qualname}")
    for each in variant.breaks:
        events.graph_break(each.function, each.file, each.line, each.reason)
        logs.logger("breaks").debug("%s:%s in %s: %s", each.file, each.line, each.function, each.reason)
    if logs.enabled("guards"):
        from aotdyn.store import show

        logs.logger("guards").debug("%s\n    %s", spec.qualname, "\n    ".join(show.guards(variant)))
    if variant.leave:
        events.left_alone(spec.qualname, variant.leave)
    if variant.process_local:
        events.count("process_local_variants")
    for fact in variant.process_local:
        events.process_local(spec.qualname, fact)
    if not variant.process_local:
        variant = records.decode(records.encode(variant))  # what a later process will read
    return variant


def _traced(entry: Entry, args: tuple[Any, ...], orders: Any = None) -> Variant:
    """A variant whose graph is kept in memory by its key."""
    extent, spec = entry.extent, entry.spec
    from aotdyn.report import notice

    home.thorough = True
    with events.phase("trace"), notice.waiting(spec.qualname):
        from aotdyn.graph import data
        from aotdyn.runtime import beforehand
        from aotdyn.trace.api import trace as trace_frame
        from aotdyn.trace.sizes import Policy

        chosen = _options(extent)
        if extent.sparing:
            from aotdyn.runtime import thrift

            chosen = thrift.bounded(chosen, extent.sparing)
        known = beforehand.expected(chosen, store(extent)) if not forgotten() else beforehand.nothing
        sizes = Policy(entry.moved, not chosen.assume_static_by_default, entry.numbers, known)
        traced = trace_frame(
            spec,
            entry.code(),
            entry.globals,
            args,
            chosen,
            extent.fullgraph,
            not extent.number,
            sizes,
            orders,
            extent.sparing == "packages",
        )
    variant = traced.variant
    if traced.graph is not None:
        variant.graph = data.key(traced.graph, durable=False)
        _graphs[variant.graph] = traced.graph
        try:
            data.encode(traced.graph)
        except data.NotDurable as error:
            variant.process_local.append(str(error))
    return variant


def learns(entry: Entry) -> bool:
    """Whether sizes that move become symbols."""
    return _options(entry.extent).automatic_dynamic_shapes


def handed_on(entry: Entry, moved: Moved) -> None:
    """Keep what has moved for other callers of the modules that these variants went through."""
    if not forgotten():
        from aotdyn.runtime import beforehand

        for variant in entry.variants:
            beforehand.note(variant, moved, store(entry.extent))


unsettled: set[str] = set()
"Graphs, by key, of which it wasn't settled when they were bound which way their calls go."


def backend(extent: Extent) -> str | Any:
    """The backend of an extent."""
    return extent.backend or config.current().backend


def graph_options(extent: Extent) -> config.Options:
    """The options for a graph; under thrift those that its function came under, which takes no look at all layers."""
    if not extent.sparing:
        return config.current()
    from aotdyn.runtime import thrift

    return thrift.chosen()


def graph(entry: Entry, variant: Variant, inputs: list[Any]) -> Any:
    """The compiled graph of a variant, for inputs like these."""
    from aotdyn.backends import choice, registry
    from aotdyn.graph import data
    from aotdyn.runtime.binding import BindingMiss

    key = variant.graph
    assert key is not None
    known = _graphs.get(key)
    fresh = known is not None
    if known is None:
        found = store(entry.extent).graph(key)
        if found is None:
            raise BindingMiss(-1, f"its graph isn't in the cache any more ({key[:12]} was damaged, or removed)")
        known = data.decode_program(found)
    extent = entry.extent
    with events.phase("compile" if fresh else "load"):
        chosen = graph_options(extent)
        named = backend(extent)
        options = extent.backend_options
        if registry.resolve(named) == registry.Backend("inductor"):
            options = {**chosen.inductor(), **options}
        often = chosen.thrift_kernels if extent.sparing == "packages" else 0
        policy = registry.Policy(chosen.compile == "background", chosen.choose == "measured", chosen.freeze, often)
        before = choice.Ways.made
        made = registry.compile(known, inputs, named, options, store(extent), key, fresh=fresh, policy=policy)
        if choice.Ways.made > before:
            unsettled.add(key)
        return made


def continuation(
    entry: Entry, point: ResumePoint, globals: dict[str, Any], current: types.CodeType | None = None
) -> Continuation:
    """The continuation of a resume point in a frame with these globals, with entries for what follows it.

    `current` is the frame's code: it says at which lines of which file the function stands now.
    """
    from aotdyn.rewrite.points import dispatcher_name, label_in, retarget, settled

    extent: Extent = entry.extent
    with _lock:
        found = _continuations.get((point.name, extent.number, id(globals)))
        if found is not None:
            _into_block(entry, point, found)
            return found
        code = settled(marshal.loads(point.code), current)
        origin = _Origin(point.origin, current)
        names = {}
        for spec in point.exits:
            name = _free_name(dispatcher_name(spec, extent.number), globals)
            names[dispatcher_name(spec)] = name
            make_entry(name, spec, extent, globals, origin, direct=False)
        if any(name != own for own, name in names.items()):
            code = retarget(code, names)
        found = Continuation(
            point.name, code, globals, point.frame, label_in(code, point), names, extent if extent.number else None
        )
        if not extent.number:
            globals.setdefault(point.name, found.made)
        _continuations[point.name, extent.number, id(globals)] = found
        _into_block(entry, point, found)
    return found


def _into_block(entry: Entry, point: ResumePoint, found: Continuation) -> None:
    """Make a continuation of the entry's own frame a block of the functions that the frame belongs to."""
    spec, frame = entry.spec, point.frame
    if not entry.homes or (frame.module, frame.qualname, frame.digest) != (spec.module, spec.qualname, spec.digest):
        return
    from aotdyn.rewrite.blocks import Block

    block = Block(found.block, point, found.asks)
    for each in entry.homes:
        each.add(block, found)
        for name in found.asks.values():
            _entries[name].join(each)


def _free_name(name: str, globals: dict[str, Any]) -> str:
    """A dispatcher's name that no frame with other globals asks: the same code may run in several namespaces."""
    while (found := _entries.get(name)) is not None and found.globals is not globals:
        name += "~"
    return name


class _Origin:
    """The original code of a continuation, unmarshalled when it is asked for, at the place of the current one."""

    def __init__(self, data: bytes, current: types.CodeType | None) -> None:
        self.data = data
        self.current = current
        self.code: types.CodeType | None = None

    def __call__(self) -> types.CodeType:
        if self.code is None:
            from aotdyn.rewrite.points import settled

            self.code = settled(marshal.loads(self.data), self.current)
        return self.code


def make_entry(
    name: str, spec: FrameSpec, extent: Extent, globals: dict[str, Any], code: Any, direct: bool = True
) -> Entry:
    """The entry behind a dispatcher, made and installed where it isn't yet; `direct` as for Entry."""
    from aotdyn.runtime.entry import Entry

    sweep()
    with _lock:
        found = _entries.get(name)
        if found is None:
            found = _entries[name] = Entry(name, spec, extent, globals, code, direct=direct)
            found.install()
        return found


def install_stub(
    name: str, spec: FrameSpec, globals: dict[str, Any], args: tuple[Any, ...], program: bool = True
) -> Any:
    """The dispatcher for a stub of the hook, made and installed when a frame with these globals first asks.

    `program` says that the function is of the program that is run, and not of a package that is hooked as well.
    """
    from aotdyn.rewrite import originals
    from aotdyn.runtime import thrift

    dispatch.install_runtime()
    extent = {"": HOOK, "program": PROGRAM, "packages": PACKAGES}[thrift.terms(program)]
    entry = make_entry(name, spec, extent, globals, lambda: originals.by_name(name))
    if entry.account is not None:
        entry.account.program = program
    if not entry.homes and thrift.chosen().continuations == "block":
        found = functools.partial(home.in_module, spec.qualname, name)
        entry.homes.append(home.InPlace(name, entry.code, lambda: found(entry.globals)))
    entry.install()
    return entry.asked(globals, args)


def save(entry: Entry, variant: Variant) -> None:
    """Keep a variant and its graph."""
    from aotdyn.graph import data

    if forgotten():
        return
    with events.phase("store"):
        kept = store(entry.extent)
        if variant.graph is not None:
            written = data.encode(_graphs[variant.graph], keyed=True)
            if not kept.save_graph(variant.graph, written):
                return
        if kept.save(variant):
            events.count("variants_stored")


def prune(entry: Entry, variant: Variant) -> None:
    """Take a stored variant away that another has taken the place of."""
    if not forgotten():
        store(entry.extent).prune(entry.spec, variant)


def foresee(entry: Entry, variant: Variant, args: tuple[Any, ...]) -> Variant | None:
    """The variant for the other half of all processes, where tracing iterated over a set of two strings; else None."""
    from aotdyn.guards import constants

    orders = [guard.expected for guard in variant.guards if guard.kind == "ORDER"]
    if len(orders) != 1 or len(orders[0][0]) != 2 or forgotten():
        return None
    keys, order = (tuple(constants.decode(key) for key in each) for each in orders[0])
    try:
        found = _traced(entry, args, {keys: order[::-1]})
    except errors.GraphBreakError:
        return None
    return None if found.process_local else found


def failed(entry: Entry, error: Exception) -> None:
    """A failure of our own: raised under strict, else one warning for a function, and the original code runs.

    The function is tried again ever more rarely.
    """
    if config.current().strict:
        raise error
    entry.failures += 1
    entry.skip = min(1 << entry.failures, 1 << 10)
    log.log(
        logging.WARNING if entry.failures == 1 else logging.DEBUG,
        "aotdyn: %s isn't compiled: %s: %s",
        entry.spec.qualname,
        type(error).__name__,
        error,
    )
    log.debug("the failure", exc_info=error)
    events.left_alone(entry.spec.qualname, f"{type(error).__name__}: {error}")
