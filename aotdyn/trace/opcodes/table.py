"""The table of opcodes and the two ways to fill it: a function that runs the opcode, or a reason to break."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..control import graph_break

if TYPE_CHECKING:
    from ..decode import Instruction
    from ..frame import Frame

Run = Callable[[Any, "Frame", "Instruction"], None]
OPCODES: dict[str, Run] = {}
BREAKS: dict[str, str] = {}
"opcodes that Python must run, each with its reason"


def opcode(*names: str) -> Callable[[Run], Run]:
    """Declare the function that runs the opcodes `names`."""

    def declare(run: Run) -> Run:
        for name in names:
            assert name not in OPCODES, name
            OPCODES[name] = run
        return run

    return declare


def breaks(name: str, reason: str, hint: str = "") -> None:
    """Declare that the opcode breaks the graph."""

    def run(t: Any, frame: Frame, ins: Instruction) -> None:
        graph_break(reason, hint)

    BREAKS[name] = reason
    opcode(name)(run)
