"""A stored variant as a person reads it: guards in words, prologue, graph and epilogue as Python, continuations.

Prints what it can: an object that is gone in this process, or a part of
aotdyn that fails, costs its own section and no other.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from typing import Any

from aotdyn.guards import shapes
from aotdyn.report.plural import counted
from aotdyn.runtime.variant import FrameSpec, GuardData, ResumePoint, Variant
from aotdyn.store import origin
from aotdyn.store.inventory import Environment, Stored, frame_name, readable


def frames(stored: dict[FrameSpec, list[Stored]], roots: list[FrameSpec]) -> list[FrameSpec]:
    """The frames at `roots` and all that stored variants say may follow them, each once, in the order of resuming."""
    found: dict[FrameSpec, None] = {}
    waiting = list(reversed(roots))
    while waiting:
        spec = waiting.pop()
        if spec in found:
            continue
        found[spec] = None
        follows = [end for one in stored.get(spec, ()) for point in one.variant.resumes for end in point.exits]
        waiting.extend(end for end in reversed(follows) if end in stored)
    return list(found)


def variant(environment: Environment, stored: Stored, number: int, total: int, uses: int = 0) -> str:
    """All of one stored variant."""
    one = stored.variant
    title = f"{frame_name(one.spec)}: variant {number} of {total}"
    lines = [title, "=" * len(title), summary(stored)]
    lines.append(f"stored by {origin.readable(stored.origin)}; loaded by {counted(uses, 'process')}, "
                 f"last used {_ago(stored.path)}")  # fmt: skip
    if one.leave:
        what = "noted by the hook's policy" if one.verdict else "left to Python where the guards hold"
        lines.append(f"{what}: {one.leave}")
    lines += _section("guards", lambda: guards(one))
    lines += _section("prologue and epilogue", lambda: program(one))
    if one.graph is not None:
        lines += _section(f"graph {one.graph}", lambda: graph(environment, str(one.graph)))
    if one.resumes:
        lines += _section("continuations", lambda: [line for point in one.resumes for line in continuation(point)])
    if one.breaks:
        lines += _section("graph breaks", lambda: [line for item in one.breaks for line in _break(item)])
    if one.inlined:
        lines += _section("inlined", lambda: [f"{item.module}.{item.qualname} ({item.digest})" for item in one.inlined])
    return "\n".join(lines) + "\n"


def summary(stored: Stored) -> str:
    """Counts, size and age, in one line."""
    one = stored.variant
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(stored.created / 1e9))
    eager = f" ({one.eager_operations} more run by Python)" if one.eager_operations else ""
    return (
        f"{counted(len(one.guards), 'guard')}, {counted(one.operations, 'operation')}{eager}, "
        f"{counted(len(one.breaks), 'graph break')}, {readable(stored.size)}, stored {when}"
    )


def guards(one: Variant) -> list[str]:
    """The guards, one sentence each, in the order in which they are checked."""
    from aotdyn.guards.sources import decode_sources

    try:
        sources: list[Any] = [str(source) for source in decode_sources(one.sources)]
    except LookupError:  # a constant that this process can't find: show the rows as they are stored
        sources = [f"{row.kind} {row.key!r}" for row in one.sources]
    return [_guard(sources, guard) + _place(one, guard) for guard in one.guards] or ["(none)"]


def _guard(sources: list[str], guard: GuardData) -> str:
    if guard.kind == "SHAPE":
        return shapes.in_words(guard.expected, sources)
    name = sources[guard.source] if 0 <= guard.source < len(sources) else "this process"
    return f"{name}: {guard.kind}" + ("" if guard.expected is None else f" {guard.expected!r}")


def _place(one: Variant, guard: GuardData) -> str:
    if not 0 <= guard.place < len(one.places):
        return ""
    file, line = one.places[guard.place]
    return f"  [{file}:{line}]"


def program(one: Variant) -> list[str]:
    """Prologue and epilogue as the Python that runs."""
    from aotdyn.rewrite.lower import lower

    return lower(one, one.spec.qualname.rpartition(".")[2].strip("<>"), "", 1).text().splitlines()


def graph(environment: Environment, key: str) -> list[str]:
    """A stored graph as Python."""
    data = environment.graph(key)
    if data is None:
        return ["(not in the cache: the next call captures it again)"]
    from aotdyn.graph.data import decode

    return decode(data).code.strip().splitlines()


def continuation(point: ResumePoint) -> Iterator[str]:
    """A resume point: the function's name, where it goes on, and with what."""
    yield point.name
    inner = ", the operation is the call of the next inner frame" if point.inner else ""
    yield f"  runs bytes {point.frame.offset} to {point.end} of {point.frame.module}.{point.frame.qualname}{inner}"
    held = [*point.frame.params, *(f"stack {i}" for i, slot in enumerate(point.frame.stack) if slot == "v")]
    yield f"  with {', '.join([*held, *(f'cell {name}' for name in point.frame.cells)]) or 'nothing'}"
    for end in point.exits:
        yield f"  then {frame_name(end)}"


def _break(item: Any) -> Iterator[str]:
    yield f"{item.file}:{item.line} in {item.function}: {item.reason}"
    if item.hint:
        yield f"  hint: {item.hint}"


def _section(title: str, lines: Callable[[], list[str]]) -> list[str]:
    return ["", f"-- {title}", *(f"    {line}".rstrip() for line in _lines(lines))]


def _lines(make: Callable[[], list[str]]) -> list[str]:
    try:
        return make()
    except Exception as error:
        return [f"(can't be shown: {type(error).__name__}: {error})"]


def data(environment: Environment, stored: Stored, uses: int) -> dict[str, Any]:
    """The same as data, for `--json`."""
    one = stored.variant
    sections = {
        "guards": lambda: guards(one),
        "program": lambda: program(one),
        "graph": lambda: graph(environment, str(one.graph)) if one.graph else [],
        "continuations": lambda: [line for point in one.resumes for line in continuation(point)],
        "breaks": lambda: [line for item in one.breaks for line in _break(item)],
        "inlined": lambda: [f"{item.module}.{item.qualname}" for item in one.inlined],
    }
    about = {
        "function": f"{one.spec.module}.{one.spec.qualname}",
        "offset": one.spec.offset,
        "digest": one.spec.digest,
        "environment": environment.key,
        "path": stored.path,
        "bytes": stored.size,
        "created": stored.created / 1e9,
        "used": _used(stored.path),
        "uses": uses,
        "origin": origin.decode(stored.origin),
        "operations": one.operations,
        "left_alone": "" if one.pays else one.leave,
        "graph_key": one.graph,
    }
    return {**about, **{name: _lines(make) for name, make in sections.items()}}


def _used(path: str) -> float:
    """When a frame's variants were last read, within `disk.RENEWED` seconds."""
    try:
        return os.stat(os.path.dirname(path)).st_mtime
    except OSError:
        return 0.0


def _ago(path: str) -> str:
    seconds = max(time.time() - _used(path), 0.0)
    for name, length in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if seconds >= length:
            return f"{counted(int(seconds // length), name)} ago"
    return "just now"
