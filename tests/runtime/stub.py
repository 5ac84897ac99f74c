"""Variants made by hand, and a door to nothing: what tests of the runtime need of the other rooms."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

from aotdyn.guards import sources as S
from aotdyn.runtime.variant import FrameSpec, GuardData, Instruction, Variant

Step = tuple[Any, ...]


def variant(
    names: tuple[str, ...],
    guards: list[tuple[S.Source | None, str, Any]],
    inputs: list[S.Source],
    epilogue: list[Step],
    graph: str | None = "g",
    **more: Any,
) -> Variant:
    """A variant of a function with these parameters; in `epilogue` and guards sources stand for their indices."""
    table = S.SourceTable()

    def data(value: Any) -> Any:
        return table.add(value) if isinstance(value, S.Source) else value

    rows = [GuardData(-1 if s is None else table.add(s), kind, data(expected)) for s, kind, expected in guards]
    steps = [Instruction(op, dest, tuple(data(arg) for arg in args)) for op, dest, *args in epilogue]
    return Variant(
        spec=FrameSpec("tests.app", "f", "0" * 20, params=names),
        sources=table.rows,
        guards=rows,
        inputs=[table.add(source) for source in inputs],
        graph=graph,
        epilogue=steps,
        **more,
    )


class Cold:
    """Stands for `aotdyn.runtime.cold`."""

    def __init__(self, trace: Callable[..., Variant | None], graph: Callable[..., Any]) -> None:
        self.stored: list[Variant] = []
        self.saved: list[Variant] = []
        self.failures: list[Exception] = []
        self.traced = 0
        self._trace = trace
        self._graph = graph

    def load(self, entry: Any) -> list[Variant]:
        return list(self.stored)

    def learns(self, entry: Any) -> bool:
        return True

    def trace(self, entry: Any, args: tuple[Any, ...]) -> Variant | None:
        self.traced += 1
        return self._trace(*args)

    def graph(self, entry: Any, variant: Variant, inputs: list[Any]) -> Any:
        return self._graph

    def continuation(self, entry: Any, point: Any) -> Any:
        raise AssertionError("no continuation here")

    def foresee(self, entry: Any, variant: Variant, args: tuple[Any, ...]) -> None:
        """No other process is foreseen."""

    def save(self, entry: Any, variant: Variant) -> None:
        self.saved.append(variant)

    def handed_on(self, entry: Any, moved: Any) -> None:
        """No other caller is told."""

    def missed(self, entry: Any, reason: str) -> None:
        """No account is kept."""

    def prune(self, entry: Any, variant: Variant) -> None:
        self.saved.remove(variant)

    def failed(self, entry: Any, error: Exception) -> None:
        self.failures.append(error)


def code() -> types.CodeType:
    """Some function's code."""
    return code.__code__
