"""A snapshot of the counters in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from aotdyn.report.plural import counted

WIDTH = 100
"Columns of a report's longer sentences."

NOTHING: Mapping[str, str] = MappingProxyType({})

DISABLED = "aotdyn: disabled by AOTDYN_DISABLE or pyproject.toml: the program ran as plain Python"


def summary(stats: dict[str, Any]) -> str:
    """One line."""
    breaks = sum(event["count"] for event in stats["graph_breaks"])
    captured, eager = stats["tensor_calls_captured"], stats["tensor_calls_eager"]
    about = "about " if eager and stats["calls_left"] else ""  # what a body has run is estimated
    put_off = f", {len(stats['put_off'])} put off" if stats["put_off"] else ""
    return (
        f"aotdyn: {counted(stats['graph_calls'], 'graph call')}, {stats['traced']} traced, "
        f"{stats['variants_loaded']} loaded from the cache, {counted(breaks, 'break')}, "
        f"{counted(len(stats['recompiles']), 'recompile')}, "
        f"{captured} of {about}{counted(captured + eager, 'tensor call')} captured{put_off}"
    )


def report(stats: dict[str, Any]) -> str:
    """The summary, then where graphs broke, what was traced again, and what was left to Python."""
    lines = [summary(stats)]
    if stats["graph_breaks"]:
        lines += ["", "graph breaks (a graph ends, Python runs that operation, what follows is captured in its turn):"]
        lines += _breaks(stats["graph_breaks"])
    for title, name, fact in (
        ("traced again (a fact that a graph rests on had changed; each trace takes time):", "recompiles", "reason"),
        ("left to Python (these run as they are; what they call is captured by itself):", "left_alone", "reason"),
        (
            "put off (there was no time to trace them, a later run or `python -m aotdyn build` does):",
            "put_off",
            "reason",
        ),
        ("not stored, since they rest on facts of this process (traced again by each):", "process_local", "fact"),
    ):
        if stats[name]:
            lines += ["", title, *_counted(_event(event, fact) for event in stats[name])]
    return "\n".join([*lines, "", account(stats["account"])])


def _breaks(events: list[dict[str, Any]]) -> Iterator[str]:
    """Reasons with the places where they were met, the most frequent first, and what to do about them."""
    import textwrap

    from aotdyn.report import advice

    advised: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for event in sorted(events, key=lambda event: -event["count"]):
        reason = event["reason"]
        advised.setdefault(advice.of(reason), {}).setdefault(reason, []).append(event)
    for told, reasons in advised.items():
        for reason, places in reasons.items():
            yield f"  {reason}"
            yield from (f"      {_place(event)}" for event in places)
        yield from textwrap.wrap(told, WIDTH, initial_indent="    -> ", subsequent_indent="       ")


def _place(event: dict[str, Any]) -> str:
    ends = f" ({counted(event['count'], 'graph')} ended there)" if event["count"] > 1 else ""
    return f"{event['file']}:{event['line']} in {event['function']}{ends}"


PHASES = {
    "rewrite": "putting stubs into modules",
    "trace": "tracing",
    "lower": "making code of traces",
    "compile": "compiling",
    "load": "reading the cache",
    "store": "writing the cache",
}


def account(told: dict[str, Any]) -> str:
    """What the hook has cost and brought, in seconds of work."""
    spent = {name: value for name, value in told["spent"].items() if value >= 0.005}
    parts = ", ".join(f"{PHASES.get(name, name)} {value:.2f} s" for name, value in spent.items())
    lines = [
        f"processor time: {told['work']:.2f} s in all, {sum(told['spent'].values()):.2f} s of them for aotdyn"
        + (f" ({parts}); a warm start spends next to nothing" if parts else "")
    ]
    if told["saved"] >= 0.005:
        lines.append(f"compiled kernels have saved {told['saved']:.2f} s of it, as far as they were measured")
    return "\n".join(lines)


def _event(event: dict[str, Any], fact: str) -> str:
    where = f"\n      {event['where']}" if event.get("where") else ""
    told = str(event[fact]).replace("\n", "\n    ")
    return f"{event['function']}: {told}{where}"


def _counted(lines: Iterable[str]) -> list[str]:
    """Equal lines once, with how many they are."""
    return [f"  {line}" if n == 1 else f"  {line} ({n} times)" for line, n in Counter(lines).items()]


def kernels_left(made: int, left: int, command: str, in_vain: bool = False) -> str:
    """What is said at the end of a run that leaves graphs without a kernel; `command` makes them all.

    `in_vain`: it has waited for them, and none was done.
    """
    total = counted(made + left, "kernel")
    why = " (none was done within --exit-wait, so for a day no start waits as long for them)" if in_vain else ""
    return f"aotdyn: {made} of {total} made, {left} left for later starts{why}; `{command}` makes them all"


def not_warm(stats: dict[str, Any], functions: list[str], put_off: Mapping[str, str] = NOTHING) -> str:
    """What `--require-warm` says of a process that had to trace or compile; empty for one that was warm.

    `put_off` has what it would have had to trace, and the reasons why it didn't.
    """
    compiled = max(stats["graphs_compiled"] - stats.get("graphs_eager", 0), stats.get("graphs_requested", 0))
    if not stats["traced"] and not compiled and not put_off:
        return ""
    listed = "".join(f"\n  {function}" for function in functions)
    listed += "".join(f"\n  {function}: put off, {reason}" for function, reason in put_off.items())
    made = [counted(count, what) for count, what in ((stats["traced"], "trace"), (compiled, "kernel")) if count]
    had = [f"{' and '.join(made)} had to be made"] if made else []
    had += [f"{counted(len(put_off), 'function')} put off"] if put_off else []
    hint = "\n  hint: `python -m aotdyn build` makes all that a program meets"
    if stats["traced"]:
        hint += "; where it has, `python -m aotdyn cache show FUNCTION --why-miss` says what is different now"
    return f"aotdyn: not warm, {', '.join(had)}{':' if listed else ''}{listed}{hint}"
