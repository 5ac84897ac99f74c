"""What the benchmarks share: the best of many short runs, and programs run in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
import timeit
from collections.abc import Callable, Mapping
from typing import Any


def best(function: Callable[..., Any], *args: Any, number: int = 20, repeat: int = 300) -> float:
    """Microseconds of one call: the best of many short bursts, which a busy machine disturbs least."""
    names = {"function": function, "args": args}
    return min(timeit.repeat("function(*args)", globals=names, number=number, repeat=repeat)) / number * 1e6


def run(program: str, variables: Mapping[str, str] = {}, arguments: tuple[str, ...] = ()) -> str:
    """Output of a program run by this Python, with some environment variables set."""
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "", **variables}
    done = subprocess.run([sys.executable, "-c", program, *arguments], env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    return done.stdout


def row(name: str, values: Mapping[str, float], base: str, unit: str = "us") -> None:
    """Prints a line: each value, and its ratio to that of `base`."""
    parts = [f"{kind} {value:.2f} {unit} ({value / values[base]:.2f})" for kind, value in values.items()]
    print(f"{name:28s}", "  ".join(parts), flush=True)
