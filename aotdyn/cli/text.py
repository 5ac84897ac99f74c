"""A snapshot of the counters in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

NOTHING: Mapping[str, str] = MappingProxyType({})

DISABLED = "aotdyn: disabled by AOTDYN_DISABLE or pyproject.toml: the program ran as plain Python"


def summary(stats: dict[str, Any]) -> str:
    """One line."""
    breaks = sum(event["count"] for event in stats["graph_breaks"])
    put_off = f", {len(stats['put_off'])} put off" if stats["put_off"] else ""
    return (
        f"aotdyn: {_n(stats['graph_calls'], 'graph call')}, {stats['traced']} traced, "
        f"{stats['variants_loaded']} loaded from the cache, {_n(breaks, 'break')}, "
        f"{_n(len(stats['recompiles']), 'recompile')}, {stats['tensor_calls_captured']} of "
        f"{_n(stats['tensor_calls_captured'] + stats['tensor_calls_eager'], 'tensor call')} captured{put_off}"
    )


def report(stats: dict[str, Any]) -> str:
    """The summary, then where graphs broke, what was traced again, and what was left to Python."""
    lines = [summary(stats)]
    if stats["graph_breaks"]:
        lines += ["", "graph breaks:"]
        for event in sorted(stats["graph_breaks"], key=lambda event: -event["count"]):
            lines.append(f"  {event['count']:6} x  {event['file']}:{event['line']} in {event['function']}")
            lines.append(f"            {event['reason']}")
    for title, name, fact in (
        ("traced again:", "recompiles", "reason"),
        ("left to Python:", "left_alone", "reason"),
        ("not stored, since they rest on facts of this process:", "process_local", "fact"),
    ):
        if stats[name]:
            lines += ["", title, *_counted(_event(event, fact) for event in stats[name])]
    lines += ["", account(stats["account"])]
    if stats["seconds"]:
        lines += ["", "seconds: " + ", ".join(f"{name} {value:.2f}" for name, value in stats["seconds"].items())]
    return "\n".join(lines)


def account(told: dict[str, Any]) -> str:
    """What the hook has cost and brought, in seconds of work."""
    parts = ", ".join(f"{name} {value:.2f}" for name, value in told["spent"].items() if value >= 0.005)
    spent = sum(told["spent"].values())
    return (
        f"of {told['work']:.2f} s of work {spent:.2f} were spent{f' ({parts})' if parts else ''}, "
        f"{told['saved']:.2f} saved by kernels that were measured, {_n(told['put_off'], 'function')} put off"
    )


def _event(event: dict[str, Any], fact: str) -> str:
    where = f"\n            {event['where']}" if event.get("where") else ""
    return f"{event['function']}: {event[fact]}{where}"


def _counted(lines: Iterable[str]) -> list[str]:
    """Equal lines once, with how many they are."""
    return [f"  {line}" if n == 1 else f"  {line} ({n} times)" for line, n in Counter(lines).items()]


def not_warm(stats: dict[str, Any], functions: list[str], put_off: Mapping[str, str] = NOTHING) -> str:
    """What `--require-warm` says of a process that had to trace or compile; empty for one that was warm.

    `put_off` has what it would have had to trace, and the reasons why it didn't.
    """
    compiled = max(stats["graphs_compiled"] - stats.get("graphs_eager", 0), stats.get("graphs_requested", 0))
    if not stats["traced"] and not compiled and not put_off:
        return ""
    listed = "".join(f"\n  {function}" for function in functions)
    listed += "".join(f"\n  {function}: put off, {reason}" for function, reason in put_off.items())
    made = [_n(count, what) for count, what in ((stats["traced"], "trace"), (compiled, "kernel")) if count]
    had = [f"{' and '.join(made)} had to be made"] if made else []
    had += [f"{_n(len(put_off), 'function')} put off"] if put_off else []
    hint = "" if listed and not put_off else "\n  hint: `python -m aotdyn build` compiles all that a program meets"
    return f"aotdyn: not warm, {', '.join(had)}{':' if listed else ''}{listed}{hint}"


def _n(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
