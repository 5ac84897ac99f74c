"""What a graph break costs: a loop that breaks twice a turn, and a single break, with continuations in both forms.

    python benchmarks/breaks.py

Microseconds a break. The graph answers at once, so what is left of aotdyn's
time is guards, state and continuation; eager's is that of an addition and of a
call that does nothing. `hook` is a function of a hooked module, whose own frame
goes on; `compile` one that `aotdyn.compile` made.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from importlib import util
from pathlib import Path
from typing import Any

os.environ["AOTDYN_CACHE_DIR"] = tempfile.mkdtemp()

import torch
from timing import best, row

import aotdyn
from aotdyn.runtime import extent

TURNS = 100

PROGRAM = """
import torch
from torch._dynamo import graph_break

def turns(x, n):
    for i in range(n):
        x = x + 1
        graph_break()
        x = x + 2
        graph_break()
    return x

def once(x):
    x = x + 1
    graph_break()
    return x
"""


def answers(module: Any, inputs: Any) -> Any:
    """A backend whose compiled graph does nothing."""
    result = module(*inputs)
    return lambda *args: result


def load(folder: str, name: str, hooked: bool) -> Any:
    """The program as a module, hooked or not."""
    from importlib.machinery import SourceFileLoader

    from aotdyn.hook.loader import HookedSourceLoader

    file = Path(folder, f"{name}.py")
    file.write_text(PROGRAM)
    kind: type[SourceFileLoader] = HookedSourceLoader if hooked else SourceFileLoader
    loader = kind(name, str(file))
    spec = util.spec_from_file_location(name, str(file), loader=loader)
    assert spec is not None
    module = util.module_from_spec(spec)
    sys.modules[name] = module
    kind.exec_module(loader, module)
    return module


def main() -> None:
    extent.HOOK.backend = answers
    x = torch.ones(4)
    with tempfile.TemporaryDirectory() as folder:
        for program, args in (("turns", (x, TURNS)), ("once", (x,))):
            values = {"eager": measured(getattr(load(folder, f"plain_{program}", False), program), args)}
            for form in ("function", "block"):
                os.environ["AOTDYN_CONTINUATIONS"] = form
                hooked = load(folder, f"hooked_{program}_{form}", True)
                plain = load(folder, f"compiled_{program}_{form}", False)
                values[f"hook, {form}"] = measured(getattr(hooked, program), args)
                values[f"compile, {form}"] = measured(aotdyn.compile(getattr(plain, program), backend=answers), args)
            row(program, values, "eager")


def measured(function: Callable[..., Any], args: tuple[Any, ...]) -> float:
    """Microseconds of one break."""
    breaks = 2 * TURNS if len(args) == 2 else 1
    with torch.no_grad():
        for _ in range(4):
            function(*args)
        return best(function, *args, number=max(1, 100 // breaks), repeat=200) / breaks


if __name__ == "__main__":
    main()
