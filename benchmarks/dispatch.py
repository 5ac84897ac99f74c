"""What a call costs beside its operators: dispatchers and guards, with a graph that answers at once.

    python benchmarks/dispatch.py [--no-torch-compile]

Eager's time is that of the whole call, operators included; aotdyn's and
torch.compile's is dispatch alone, since their backend gives back what it gave
the first time.
"""

from __future__ import annotations

import os
import sys
import tempfile

os.environ["AOTDYN_CACHE_DIR"] = tempfile.mkdtemp()

import torch
from models import GPT, add, sequential
from timing import best, row

import aotdyn


def answers(module, inputs):
    """A backend whose compiled graph does nothing."""
    result = module(*inputs)
    return lambda *args: result


def main() -> None:
    cases = [("two tensors", add, (torch.ones(4), torch.ones(4)))]
    cases += [(f"Sequential of {n}", sequential(n), (torch.ones(2, 8),)) for n in (10, 50)]
    model = GPT().eval()
    cases.append((f"GPT of {len(list(model.modules()))} modules", model, (torch.zeros(2, 16, dtype=torch.long),)))
    for name, function, args in cases:
        with torch.no_grad():
            compiled = aotdyn.compile(function, backend=answers)
            for _ in range(4):
                compiled(*args)
            values = {"eager": best(function, *args, repeat=40), "aotdyn": best(compiled, *args)}
            if "--no-torch-compile" not in sys.argv:
                theirs = torch.compile(function, backend=answers)
                theirs(*args)
                values["torch.compile"] = best(theirs, *args)
        row(name, values, "eager")


if __name__ == "__main__":
    main()
