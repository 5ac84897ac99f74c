"""Ranks and processes that start together on an empty store: each graph is compiled once, and nothing is sent around.

AOTDYN_FULL=1 runs 4 ranks and 8 processes; otherwise it is 2 ranks.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
import torch

FULL = bool(os.environ.get("AOTDYN_FULL"))
RANKS = 4 if FULL else 2

LIB = """
    import torch

    def same(x):
        return (x * 2 + 1).sin().sum()

    def own(x):
        return (x - 3).cos()
"""
RANKED = """
    import os, sys, torch
    import torch.distributed as dist
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    sequence = lambda: dist.group.WORLD._get_sequence_number_for_group()
    dist.barrier()
    before = sequence()
    import lib
    a = lib.same(torch.arange(4.0))
    if rank == dist.get_world_size() - 1:
        a = a + lib.own(torch.arange(3.0)).sum()  # a graph that the others don't have
    assert sequence() == before, "a collective was called that the program didn't call"
    dist.all_reduce(a)
    assert sequence() == before + 1
    sys.stdout.write(f"rank {rank} {a.item():.4f}\\n")  # one write: unbuffered ranks share the pipe
    sys.stdout.flush()
    dist.destroy_process_group()
"""
RUN = """
    import runpy, sys, os
    sys.argv = ["aotdyn", "run", "--stats", f"s{os.environ['RANK']}.json", "app.py"]
    runpy.run_module("aotdyn", run_name="__main__")
"""


def _compiled(project, names) -> list[int]:
    return [json.loads((project.folder / f"s{name}.json").read_text())["graphs_compiled"] for name in names]


def test_under_torchrun(project):
    project.write("lib.py", LIB)
    project.write("app.py", RANKED)
    project.write("start.py", RUN)
    env = {
        "OMP_NUM_THREADS": "1",
        "AOTDYN_BACKEND": "inductor",
        "AOTDYN_CLAIM_SECONDS": "200",
        "AOTDYN_COMPILE": "now",
    }
    torchrun = ("-m", "torch.distributed.run", "--standalone", "--nnodes=1", f"--nproc-per-node={RANKS}", "start.py")
    done = project.python(*torchrun, env=env)
    assert done.returncode == 0, done.stderr[-3000:]
    found = sorted(line for line in done.stdout.splitlines() if line.startswith("rank"))
    one = (torch.arange(4.0) * 2 + 1).sin().sum()
    total = RANKS * one + (torch.arange(3.0) - 3).cos().sum()
    assert found == [f"rank {rank} {total.item():.4f}" for rank in range(RANKS)]
    compiled = _compiled(project, range(RANKS))
    assert sum(compiled) == 2, compiled
    assert compiled[-1] >= 1  # its own graph


@pytest.mark.skipif(not FULL, reason="the full size is asked for by AOTDYN_FULL=1")
def test_eight_that_start_together_compile_once(project):
    project.write("lib.py", LIB)
    project.write("app.py", "import torch, lib\nprint(lib.same(torch.arange(4.0)), lib.own(torch.arange(3.0)))\n")
    env = project.environment({"AOTDYN_BACKEND": "inductor", "AOTDYN_CLAIM_SECONDS": "500", "AOTDYN_COMPILE": "now"})
    running = [
        subprocess.Popen([sys.executable, "-m", "aotdyn", "run", "--stats", f"s{n}.json", "app.py"],
                         cwd=project.folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for n in range(8)
    ]  # fmt: skip
    outs = {process.communicate(timeout=600) for process in running}
    assert len(outs) == 1, outs
    assert sum(_compiled(project, range(8))) == 2
