"""Warm import of a hooked package against the plain one.

    python benchmarks/imports.py [times]

Processor time of the imports, plain and hooked processes in turn: the best of
each, their ratio, and the median of the ratios of neighbours. Plain imports
come from their .pyc files, hooked ones from the store.

- definitions: twenty modules that define 4,000 functions and call none, the
  worst case: nothing is done but what aotdyn adds to;
- scikit-learn and transformers, as far as they are installed, in processes that
  have imported torch: real modules, which call their functions as they load.
"""

from __future__ import annotations

import importlib.util
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

from timing import run

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
import time
{first}
import aotdyn
aotdyn.install({name!r})
start = time.process_time()
{imports}
print(time.process_time() - start, aotdyn.stats()["functions_stubbed"])
"""

REAL = {
    "sklearn": "import sklearn.ensemble, sklearn.linear_model",
    "transformers": "import transformers.models.bert.modeling_bert, transformers.models.gpt2.modeling_gpt2",
}


def package(folder: Path) -> None:
    """Writes the package of definitions."""
    (folder / "package").mkdir()
    (folder / "package" / "__init__.py").write_text("")
    for i in range(MODULES):
        text = "".join(DEFINITIONS.replace("{j}", str(j)) for j in range(50))
        (folder / "package" / f"m{i}.py").write_text(text)


def compare(title: str, name: str, first: str, imports: str, variables: dict[str, str], times: int) -> None:
    """Prints a line for the import of a package."""
    programs = {
        kind: PROGRAM.format(name=hooked, first=first, imports=imports)
        for kind, hooked in (("plain", "something_else"), ("hooked", name))
    }
    for kind in ("plain", "hooked", "hooked"):  # the first ones write what the others read
        _, stubs = run(programs[kind], variables).split()[-2:]
    found: dict[str, list[float]] = {kind: [] for kind in programs}
    for turn in range(times):
        for kind in sorted(programs, reverse=turn % 2 == 1):
            found[kind].append(float(run(programs[kind], variables).split()[-2]) * 1e3)
    plain, hooked = min(found["plain"]), min(found["hooked"])
    pairs = statistics.median(h / p for h, p in zip(found["hooked"], found["plain"], strict=True))
    print(
        f"{title:28s} plain {plain:.2f} ms  hooked {hooked:.2f} ms ({hooked / plain:.2f}; median of pairs {pairs:.2f})"
        f"  {stubs} stubs",
        flush=True,
    )


def main() -> None:
    times = int(sys.argv[1]) if len(sys.argv) > 1 else 30
    with tempfile.TemporaryDirectory() as folder:
        package(Path(folder))
        time.sleep(3)  # until the file system's clock shows that nothing has changed since
        path = os.pathsep.join([folder, os.environ.get("PYTHONPATH", str(Path(__file__).parents[1]))])
        variables = {"AOTDYN_CACHE_DIR": f"{folder}/cache", "PYTHONPATH": path}
        imports = f"for i in range({MODULES}): __import__(f'package.m{{i}}')"
        compare("definitions", "package", "", imports, variables, times)
        for name, imports in REAL.items():
            if importlib.util.find_spec(name) is not None:
                compare(name, name, "import torch", imports, variables, max(times // 5, 1))


if __name__ == "__main__":
    main()
