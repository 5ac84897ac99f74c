"""A warm start from a store that holds many other programs' records, against one that holds this program's alone.

    python benchmarks/store.py [records [times]]

Processor time of the calls that load fifty functions, in processes that have
imported torch; the two stores in turn. Prints the best of each, their ratio,
and the median of the ratios of neighbours. The aim is 1.1 for 10,000 records.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from msgspec.structs import replace

from aotdyn.runtime.variant import FrameSpec
from aotdyn.store.inventory import Inventory
from aotdyn.store.store import Store

FUNCTIONS = 50

PROGRAM = """
import time, torch
import aotdyn, lib
x = torch.ones(3)
start = time.process_time()
for i in range({functions}):
    getattr(lib, f"f{{i}}")(x)
print(time.process_time() - start)
"""


def main(records: int, times: int) -> None:
    """Print the two times and their ratio."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "lib.py").write_text("\n".join(f"def f{i}(x):\n    return x * {i} + 1\n" for i in range(FUNCTIONS)))
        (folder / "app.py").write_text(PROGRAM.format(functions=FUNCTIONS))
        alone, full = folder / "alone", folder / "full"
        for _ in range(2):
            _run(folder, alone)
        shutil.copytree(alone, full)
        _fill(full, records)
        pairs = [(_run(folder, alone), _run(folder, full)) for _ in range(times)]
    best, crowded = (min(each) for each in zip(*pairs, strict=True))
    median = statistics.median(b / a for a, b in pairs)
    print(f"{FUNCTIONS} functions from a store of their own {best * 1e3:.1f} ms, "
          f"beside {records} records {crowded * 1e3:.1f} ms [{crowded / best:.2f}, median {median:.2f}]")  # fmt: skip


def _fill(root: Path, records: int) -> None:
    """Other programs' variants and graphs, made of this one's."""
    (environment,) = [each for each in Inventory(root).environments() if any(each.variants())]
    models = [stored.variant for stored in environment.variants()]
    store = Store(root, limit=1 << 40)
    for number in range(records):
        model = models[number % len(models)]
        spec = FrameSpec(f"other{number % 97}", f"f{number}", f"{number:020x}", params=model.spec.params)
        graph = f"{number:032x}"
        store.save_graph(graph, environment.graph(str(model.graph)) or b"")
        store.save(replace(model, spec=spec, graph=graph))


def _run(folder: Path, cache: Path) -> float:
    env = {**os.environ, "AOTDYN_CACHE_DIR": str(cache), "AOTDYN_BACKEND": "eager", "OMP_NUM_THREADS": "1"}
    env["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).resolve().parent.parent), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", "aotdyn", "run", "app.py"]
    return float(subprocess.run(command, cwd=folder, env=env, check=True, capture_output=True, text=True).stdout)


if __name__ == "__main__":
    numbers = [int(each) for each in sys.argv[1:]]
    main(*(numbers + [10_000, 5][len(numbers) :]))
