"""Warm import of a hooked package against the plain one: twenty modules of definitions alone, the worst case.

    python benchmarks/imports.py

Processor time of the imports, the best of thirty processes each; plain
imports come from their .pyc files, hooked ones from the store. The second
line has a package that also imports torch.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from timing import row, run

MODULES = 20

DEFINITIONS = """
class C{j}:
    def __init__(self, x, y=1):
        self.x = x
        self.y = y

    def method(self, z):
        for k in range(z):
            self.x += k * self.y
        return self.x


def f{j}(a, b={j}):
    c = a + b
    if c > 3:
        return [c * v for v in range(a)]
    return g{j}(c)


def g{j}(c):
    return c
"""

PROGRAM = """
import sys, time
import aotdyn
aotdyn.install({name!r})
start = time.process_time()
{first}
for i in range({modules}):
    __import__(f"package.m{{i}}")
print(time.process_time() - start)
"""


def package(folder: Path) -> None:
    """Writes the package: 4,000 functions in all."""
    (folder / "package").mkdir()
    (folder / "package" / "__init__.py").write_text("")
    for i in range(MODULES):
        text = "".join(DEFINITIONS.replace("{j}", str(j)) for j in range(50))
        (folder / "package" / f"m{i}.py").write_text(text)


def measure(variables: dict[str, str], first: str, times: int) -> dict[str, float]:
    """Milliseconds, plain and hooked, interleaved."""
    names = {"plain": "other", "hooked": "package"}
    found: dict[str, list[float]] = {kind: [] for kind in names}
    for _ in range(times + 1):  # the first ones write what the others read
        for kind, name in names.items():
            output = run(PROGRAM.format(name=name, first=first, modules=MODULES), variables)
            found[kind].append(float(output.split()[-1]) * 1e3)
    return {kind: min(values[1:]) for kind, values in found.items()}


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        package(Path(folder))
        path = os.pathsep.join([folder, os.environ.get("PYTHONPATH", str(Path(__file__).parents[1]))])
        variables = {"AOTDYN_CACHE_DIR": f"{folder}/cache", "PYTHONPATH": path}
        row("definitions", measure(variables, "", 30), "plain", "ms")
        row("with import torch", measure(variables, "import torch", 5), "plain", "ms")


if __name__ == "__main__":
    main()
