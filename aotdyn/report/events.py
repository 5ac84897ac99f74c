"""Counters and the event log of this process: what `stats()` answers and `--stats` writes.

Rooms report as things happen; what is counted on a hot path (hits of a graph)
is counted where it happens and read out here through `add_source`.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

COUNTERS = (
    "functions_stubbed",
    "graph_calls",
    "tensor_calls_captured",
    "tensor_calls_eager",
    "calls_left",
    "traced",
    "graphs_compiled",
    "variants_loaded",
    "variants_stored",
    "guards_dropped",
    "process_local_variants",
)
"Counters that are always in a snapshot, 0 where nothing happened."

LISTS = ("graph_breaks", "recompiles", "left_alone", "process_local", "put_off", "chosen")
"Event lists that are always in a snapshot."

Source = Callable[[], Mapping[str, Any]]

_lock = threading.Lock()
_counts: dict[str, Any] = {}
_events: dict[str, dict[tuple[Any, ...], dict[str, Any]]] = {name: {} for name in LISTS}
_traced: dict[str, int] = {}
_seconds: dict[str, float] = {}
_work: dict[str, float] = {}
_saves: dict[str, float] = {}
_sources: list[Source] = []
_running = threading.local()

started = time.perf_counter()
"When this process began, as far as we are concerned."


def count(name: str, n: float = 1) -> None:
    """Add `n` to a counter."""
    with _lock:
        _counts[name] = _counts.get(name, 0) + n


def counted(name: str) -> float:
    """What a counter has come to by `count` alone: a look that asks no source."""
    return _counts.get(name, 0)


def traced(function: str) -> None:
    """A function, or what follows a break in it, has been traced; counts as `traced`."""
    with _lock:
        _counts["traced"] = _counts.get("traced", 0) + 1
        _traced[function] = _traced.get(function, 0) + 1


def traced_functions() -> list[str]:
    """Names of what was traced, in order: what `--require-warm` lists."""
    with _lock:
        return list(_traced)


def graph_break(function: str, file: str, line: int, reason: str, n: int = 1) -> None:
    """A graph ended at a line; the same break again adds to its count (`n` 0: known, not met yet)."""
    event = {"function": function, "file": file, "line": line, "reason": reason}
    with _lock:
        _add("graph_breaks", event, n)


def recompile(function: str, reason: str) -> None:
    """A function was traced again because of `reason`, the guard that failed; told with its parts where it has such."""
    parts = {name: getattr(reason, name, "") for name in ("subject", "was", "now", "where")}
    event = {"function": function, "reason": str(reason), **{name: text for name, text in parts.items() if text}}
    with _lock:
        events = _events["recompiles"]
        events[(len(events),)] = event


def left_alone(function: str, reason: str) -> None:
    """A function is left to Python."""
    with _lock:
        _add("left_alone", {"function": function, "reason": reason}, None)


def process_local(function: str, fact: str) -> None:
    """A variant isn't stored, since it rests on `fact`, which has no durable form; count it apart."""
    with _lock:
        _add("process_local", {"function": function, "fact": fact}, None)


def chosen(graph: str, way: str, eager: float, kernel: float) -> None:
    """A graph was measured both ways: `way` (`eager` or `kernel`) is the faster; seconds of a call each way."""
    event = {"graph": graph, "way": way, "eager_seconds": eager, "kernel_seconds": kernel}
    with _lock:
        _add("chosen", event, None)


def _add(name: str, event: Mapping[str, Any], n: int | None) -> None:
    key = tuple(value for field, value in event.items() if field != "count")
    kept = _events[name].setdefault(key, dict(event) if n is None else {**event, "count": 0})
    if n is not None:
        kept["count"] += n


@contextlib.contextmanager
def phase(name: str) -> Iterator[None]:
    """Time a block under `name`; a phase inside another counts for itself alone, so that seconds add up."""
    outer: list[tuple[float, float]] = getattr(_running, "inner", [])
    inner: list[tuple[float, float]] = []
    _running.inner = inner
    start, busy = time.perf_counter(), time.thread_time()
    try:
        yield
    finally:
        whole, work = time.perf_counter() - start, time.thread_time() - busy
        _running.inner = outer
        outer.append((whole, work))
        with _lock:
            _seconds[name] = _seconds.get(name, 0.0) + whole - sum(each for each, _ in inner)
            _work[name] = _work.get(name, 0.0) + work - sum(each for _, each in inner)


def spent(phases: Iterable[str]) -> float:
    """Seconds of work of a processor that have gone into these phases, whatever else the machine had to do."""
    with _lock:
        return sum(_work.get(name, 0.0) for name in phases)


def saves(graph: str, seconds: float) -> None:
    """A call of a graph, by its key, takes so many seconds less than plain calls, as was measured."""
    with _lock:
        _saves[graph] = seconds


def saved_per_call(graph: str) -> float:
    """What `saves` was told of a graph."""
    return _saves.get(graph, 0.0)


def add_source(source: Source) -> None:
    """Ask `source` at each snapshot.

    It answers a mapping: a number under a counter's name is added; a list
    under an event list's name is merged (`graph_breaks` by adding counts).
    """
    with _lock:
        _sources.append(source)


def snapshot() -> dict[str, Any]:
    """All counters, event lists and seconds as plain data.

    Keys: those of COUNTERS and LISTS, whatever else was counted,
    `compiler_modules_imported` (a list of names), `seconds` (by phase), and `account`: seconds of work of the process,
    what of them each phase has spent, what kernels that were measured have saved, how many functions were put off.
    """
    from aotdyn.report import imports

    with _lock:
        sources = list(_sources)
    # Before the counters are read: a source may hand over to them what it won't tell any more.
    answers = [source() for source in sources]
    with _lock:
        counts = {**dict.fromkeys(COUNTERS, 0), **_counts}
        lists = {name: {key: dict(event) for key, event in events.items()} for name, events in _events.items()}
        seconds = {name: round(value, 6) for name, value in sorted(_seconds.items())}
        work = {name: round(value, 6) for name, value in sorted(_work.items())}
    for answer in answers:
        for name, value in answer.items():
            if name in lists:
                _merge(lists[name], value)
            else:
                counts[name] = counts.get(name, 0) + value
    saved = counts.pop("seconds_saved", 0.0)
    return {
        **counts,
        **{name: list(events.values()) for name, events in lists.items()},
        "compiler_modules_imported": imports.ours(),
        "seconds": seconds,
        "account": {
            "work": round(time.process_time(), 6),
            "spent": work,
            "saved": round(saved, 6),
            "put_off": len(lists["put_off"]),
        },
    }


def _merge(events: dict[tuple[Any, ...], dict[str, Any]], more: list[dict[str, Any]]) -> None:
    for event in more:
        key = tuple(value for field, value in event.items() if field != "count")
        if key in events and "count" in event:
            events[key]["count"] += event["count"]
        else:
            events.setdefault(key, dict(event))


def reset() -> None:
    """Start counting anew; sources stay, and zero themselves when their rooms are reset."""
    with _lock:
        _counts.clear()
        _traced.clear()
        _seconds.clear()
        _work.clear()
        for events in _events.values():
            events.clear()


def write(path: str | os.PathLike[str]) -> None:
    """Write a snapshot as JSON; a reader never sees half of it.

    Raises:
        OSError: the file can't be written.
    """
    text = json.dumps(snapshot(), indent=1, default=str) + "\n"
    path = os.fspath(path)
    if os.path.exists(path) and not os.path.isfile(path):
        with open(path, "w", encoding="utf-8") as file:  # a pipe or a terminal: nothing to replace
            file.write(text)
        return
    made = f"{path}.tmp-{os.getpid()}"
    try:
        with open(made, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(made, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(made)
        raise
