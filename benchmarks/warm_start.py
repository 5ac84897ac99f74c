"""Start of a process up to the first answer of a small GPT: plainly, by torch.compile, by aotdyn, both warm.

    python benchmarks/warm_start.py [backend]

Wall time of whole processes, the best of three, after one that fills the caches.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from timing import row, run

PROGRAM = """
import sys
sys.path[:0] = [{here!r}, {root!r}]
import torch
from models import GPT
torch.manual_seed(0)
model = GPT().eval()
{compile}
with torch.no_grad():
    model(torch.zeros(2, 16, dtype=torch.long))
"""

KINDS = {
    "plain": "",
    "aotdyn": "import aotdyn; model = aotdyn.compile(model, backend={backend!r})",
    "torch.compile": "model = torch.compile(model, backend={backend!r})",
}


def main() -> None:
    backend = sys.argv[1] if len(sys.argv) > 1 else "inductor"
    here = Path(__file__).parent
    values = {}
    with tempfile.TemporaryDirectory() as folder:
        variables = {"AOTDYN_CACHE_DIR": f"{folder}/aotdyn", "TORCHINDUCTOR_CACHE_DIR": f"{folder}/inductor"}
        for kind, text in KINDS.items():
            program = PROGRAM.format(here=str(here), root=str(here.parent), compile=text.format(backend=backend))
            times = []
            for _ in range(4):
                start = time.perf_counter()
                run(program, variables)
                times.append(time.perf_counter() - start)
            values[kind] = min(times[1:])
    row(f"first answer, {backend}", values, "plain", "s")


if __name__ == "__main__":
    main()
