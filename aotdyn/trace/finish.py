"""From a finished attempt to a variant: effects replayed, live values rebuilt, guards and inputs as data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from aotdyn.graph.build import version
from aotdyn.guards import checks, constants, globalstate, kinds, naming, tensors
from aotdyn.guards.sources import Attr, Pure, Source, SourceTable
from aotdyn.runtime.variant import BreakInfo, FrameSpec, GuardData, Instruction, ResumePoint, Variant

from . import callees
from .control import Unbuildable
from .emit import Emitter
from .replay import replay
from .torch_ import selects
from .values import (
    NULL,
    Cell,
    Lazy,
    Mapping,
    Object,
    SavedException,
    Tensor,
    Value,
    is_watched,
)


def returned(t: Any, frame: Any, value: Value) -> tuple[Variant, Any, list[Any]]:
    """The variant of an attempt that returned, its graph module (None without operations), the real inputs."""
    _check_dropped(t)
    table = SourceTable()
    e = _emitter(t, table)
    register = e.value(value)
    own = () if t.spec.offset else frame.code.co_cellvars  # made by this call: nobody outside has them
    replay(t, e, frozenset(frame.cells[name] for name in own))
    e.do("return", register)
    return _variant(t, table, e, [], [])


def broken(t: Any, frames: list[Any], info: BreakInfo, callee: Source | None = None) -> tuple[Variant, Any, list[Any]]:
    """The variant of an attempt that ends before an operation of the innermost of `frames` (outermost first).

    `callee` is the function that this operation enters, where that is known.
    """
    from aotdyn.rewrite.digest import digest
    from aotdyn.rewrite.points import resume_point

    _check_dropped(t)
    table = SourceTable()
    e = _emitter(t, table)
    points: list[ResumePoint] = []
    states: list[list[int]] = []
    for depth, frame in enumerate(frames):
        inner = depth + 1 < len(frames)
        bound, stack, registers = _live(t, e, frame, inner)
        module = t.spec.module if depth == 0 else str(frame.globals.obj.get("__name__"))
        qualname = t.spec.qualname if depth == 0 else frame.code.co_qualname
        code_digest = t.spec.digest if depth == 0 else digest(frame.code)
        point = resume_point(frame.code, module, qualname, code_digest, frame.offset, bound, stack, inner)
        source = table.add(frame.globals.source) if frame.globals.obj is not t.entry_globals else -1
        points.append(_with_globals(point, source))
        states.append(registers)
    cells = [[e.value(frame.cells[name]) for name in point.frame.cells] for frame, point in zip(frames, points)]
    replay(t, e)
    pair: list[int] = []
    for depth in reversed(range(len(frames))):
        state = e.add("tuple", [*states[depth], *pair, *cells[depth]])
        if depth:
            pair = [state, e.add("continuation", depth)]
        else:
            e.do("resume", 0, state)
    found = _variant(t, table, e, points, [info])
    reached = callees.operands(frames[-1]) + ([callee] if callee is not None else [])
    found[0].callees = [table.add(source) for source in reached]
    return found


def _emitter(t: Any, table: SourceTable) -> Emitter:
    """An epilogue, which begins with the checks on data."""
    e = Emitter(t, table.add)
    if t.checks:
        e.do("check", [e.value(each) for each in t.checks])
    return e


def left_alone(t: Any, reason: str) -> tuple[Variant, Any, list[Any]]:
    """The variant that gives the frame to Python: types are guarded, values of constants aren't."""
    table = SourceTable()
    e = Emitter(t, table.add)
    e.do("return", e.const(None))
    variant, _, _ = _variant(t, table, e, [], [])
    variant.leave = reason
    variant.callees = [table.add(source) for source in callees.seen(t)]
    variant.eager_operations = variant.own
    variant.graph = None
    variant.inputs = []
    return variant, None, []


def _with_globals(point: ResumePoint, source: int) -> ResumePoint:
    import msgspec

    return msgspec.structs.replace(point, globals=source)


def _live(t: Any, e: Emitter, frame: Any, inner: bool) -> tuple[tuple[str, ...], str, list[int]]:
    """Bound locals that are carried over, stack letters, and the registers of the state: locals, then stack values.

    Carried are those that may be read, and those whose end might show: objects
    from outside that are watched, and such that are handed out here.
    """
    live = frame.live_behind() if inner else frame.live()
    cells = set(frame.code.co_cellvars) | set(frame.code.co_freevars)
    names = [name for name in frame.code.co_varnames if name in frame.locals and name not in cells]
    for name in names:
        if name in live:
            e.value(frame.locals[name])
    letters = []
    stack = []
    above = [value for value in frame.stack if isinstance(value, SavedException)]
    for slot, value in enumerate(frame.stack):
        if value is NULL:
            letters.append("n")
        elif isinstance(value, SavedException):
            above.pop(0)
            handled = above[0].value if above else t.handled
            assert handled is not None
            if frame.stack[slot + 1 : slot + 2] == [handled]:
                letters.append("e")
            else:
                letters.append("evp")  # the exception itself has been popped, and is still handled
                stack.append(e.value(handled))
        else:
            letters.append("v")
            stack.append(e.value(value))
    bound = tuple(name for name in names if name in live or _shows_its_end(e, frame.locals[name]))
    return bound, "".join(letters), [e.value(frame.locals[name]) for name in bound] + stack


def _shows_its_end(e: Emitter, value: Value) -> bool:
    return is_watched(value) or (isinstance(value, Object) and e.has(value))


def _variant(
    t: Any, table: SourceTable, e: Emitter, points: list[ResumePoint], breaks: list[BreakInfo]
) -> tuple[Variant, Any, list[Any]]:
    t.sizes.settle()
    selects.settle(t, e.outputs)
    written = _written(t)
    finished = t.builder.finish(e.outputs)
    module = finished.module
    calls = sum(node.op.startswith("call") for node in module.graph.nodes)
    if not e.outputs and all(t.state.replays(node) for node in module.graph.nodes if node.op.startswith("call")):
        module, kept = None, []
    else:
        kept = [t.inputs[i] for i in finished.kept]
    inputs = [table.add(source) for source in kept]
    watched = [row for row, number in zip(inputs, finished.kept) if number in written]
    if t.operations or calls:
        for fact in globalstate.ALWAYS:
            t.guard_global(fact)
    _tell_apart(t)
    _tell_keys_apart(t)
    _tell_found(t)
    places: dict[tuple[str, int], int] = {}
    guards = []
    for key, (kind, source, expected) in list(t.guards.items()):
        guards.append(_placed(_guard(t, table, kind, source, expected), t.asked[key], places))
    guards.extend(_placed(guard, place, places) for guard, place in t.sizes.guards(table))
    if t.global_facts:
        guards.append(GuardData(-1, "GLOBAL", t.state.initial(t.global_facts)))
    handed = [(function, name, table.add(source)) for (function, name), source in t.sizes.handed.items()]
    variant = Variant(
        spec=t.spec,
        sources=table.rows,
        guards=guards,
        inputs=inputs,
        graph=None,
        epilogue=[Instruction(i.op, i.dest, i.args) for i in e.code],
        resumes=points,
        inlined=list(t.inlined.values()),
        breaks=breaks,
        gives_way=not t.impure and (t.raises_into_handler or not t.drawn),
        redraws=not t.impure and t.raises_into_handler and t.drawn,
        watched=watched,
        operations=calls,
        instructions=t.position,
        own=t.operations - t.stubs.nested,
        shares=[(i, *t.stubs.shares[key]) for i, key in enumerate(t.inlined) if key in t.stubs.shares],
        process_local=list(t.process_local),
        locals=list(t.locals) or None,
        draws=[table.add(source) for source in t.draws],
        moving=t.sizes.moving(table),
        handed=handed,
        places=list(places),
    )
    return variant, module, [t.by_source[source].obj for source in kept]


def _written(t: Any) -> set[int]:
    """Numbers of the inputs that the graph writes to, where what Python does besides has to be seen if it raises.

    A write may raise for how its operands lie in memory, before it writes.
    """
    besides = any(not isinstance(value, Tensor) or value.attrs for value in t.changed)
    if not besides or t.drawn or t.draws or t.input_changed_unseen():
        return set()
    before = {id(fake): old for fake, old in t.input_versions}
    fakes = [node.meta["val"] for node in t.builder.placeholders]
    return {i for i, fake in enumerate(fakes) if id(fake) in before and version(fake) != before[id(fake)]}


def _placed(guard: GuardData, place: tuple[str, int] | None, places: dict[tuple[str, int], int]) -> GuardData:
    """The guard with the number of the line that asked for it."""
    number = -1 if place is None else places.setdefault(place, len(places))
    return GuardData(guard.source, guard.kind, guard.expected, number)


def _tell_apart(t: Any) -> None:
    """Guard that what was changed isn't what was read by another path; what is only drawn behind the guards isn't."""
    for value in t.changed:
        if value.source.late:
            continue
        for other in t.by_identity.values():
            if (
                other is not value
                and other.source is not None
                and other.cls is value.cls
                and not isinstance(value, Cell)
            ):
                t.guard("DISTINCT", value.source, other.source)
        for plain, owner in _other_dicts(t, value):
            t.guard("DISTINCT", plain.source, Attr(owner.source, "__dict__"))


def _other_dicts(t: Any, value: Value) -> Iterator[tuple[Any, Any]]:
    """A dict and the owner of another, of which one is changed: two from outside that have to be two."""
    if type(value) is Mapping and value.cls is dict:
        yield from ((value, owner) for owner in t.owners.values() if owner.source is not None)
    elif value in t.owners.values():
        for other in t.by_identity.values():
            if type(other) is Mapping and other.cls is dict and other.source is not None:
                yield other, value


def _tell_keys_apart(t: Any) -> None:
    """Guard that objects from outside which were dict keys, and equal nothing but themselves, are different ones."""
    for values in t.keyed.values():
        if len(values) > 1:
            sources = tuple(value.source for value in values)
            t.guard("APART", sources[0], sources)


def _tell_found(t: Any) -> None:
    """Guard the presence of what was found and that no guard reads."""
    read: set[Source] = set()
    for _, source, expected in t.guards.values():
        related = [*expected] if isinstance(expected, tuple) else [expected]
        waiting = [each for each in (source, *related) if isinstance(each, Source)]
        while waiting:
            each = waiting.pop()
            if each not in read:
                read.add(each)
                waiting += each.bases
    for base, key, value in t.found:
        if _unread(value, read):
            t.guard("HAS", base, key)
    for value in t.found_in_cells:
        if _unread(value, read):
            t.guard("CONST", Pure("cell.filled", value.source.bases[0]), True)


def _unread(value: Value, read: set[Source]) -> bool:
    """Whether nobody has looked at an object from outside, nor any guard."""
    return isinstance(value, Lazy) and value.value is None and value.source is not None and value.source not in read


def _check_dropped(t: Any) -> None:
    """A generator that is dropped where it waits in a `try` or `with` runs code of its own: Python has to do that."""
    for generator in t.generators:
        if generator.started and not generator.closed and generator.frame.waits_guarded():
            raise Unbuildable(generator, "a generator is dropped that has something left to clean up")


def _guard(t: Any, table: SourceTable, kind: str, source: Source | None, expected: Any) -> GuardData:
    row = -1 if source is None else table.add(source)
    if kind == "TYPE":
        data: Any = kinds.type_data(expected)
    elif kind in ("CONST", "LACKS", "HAS"):
        data = constants.encode(expected)
    elif kind == "KEYS":
        data = [constants.encode(key) for key in expected]
    elif kind == "TENSOR":
        data = t.sizes.metadata(source, expected)
    elif kind == "FUNCTION":
        data = kinds.function_data(expected, t.entry_globals)
    elif kind == "OBJECT":
        path = naming.path_of(expected)
        if path is None:
            if isinstance(expected, type):
                return GuardData(row, "CLASS", tensors.class_path(expected))
            value = t.local(expected, repr(expected)[:80])
            return GuardData(row, "SAME", table.add(value.source))
        data = checks.object_data(expected, path)
    elif kind == "ORDER":
        data = [[constants.encode(key) for key in keys] for keys in expected]
    elif kind in ("SAME", "DISTINCT"):
        data = table.add(expected)
    elif kind == "APART":
        data = [table.add(each) for each in expected]
    else:
        data = expected
    return GuardData(row, kind, data)


__all__ = ["FrameSpec", "broken", "left_alone", "replay", "returned"]
