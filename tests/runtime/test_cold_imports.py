"""What the imports of a process's first trace leave behind: nothing of the call, and no compiler."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import gc
import sys
import weakref

import torch

import aotdyn


class Held:
    pass


@aotdyn.compile(backend="eager", dynamic=True)
def compiled(x, held):
    return x * x.shape[0]


held = Held()
reference = weakref.ref(held)
assert "torch._dynamo" not in sys.modules
compiled(torch.ones(3), held)
del held
print(reference() is None, gc.isenabled(), "torch._dynamo" in sys.modules, "torch._inductor.sizevars" in sys.modules)
"""


def test_a_first_trace_keeps_nothing_of_its_call_and_loads_no_compiler(tmp_path: Path) -> None:
    """Tracing brings torch._dynamo, which keeps the frames below its import in cycles; a varying size no Inductor."""
    program = tmp_path / "app.py"
    program.write_text(PROGRAM)
    variables = {**os.environ, "AOTDYN_CACHE_DIR": str(tmp_path / "cache"), "AOTDYN_STRICT": "1"}
    done = subprocess.run([sys.executable, program], env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["True", "True", "True", "False"]
