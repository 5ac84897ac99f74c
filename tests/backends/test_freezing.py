"""Parameters that are folded into kernels: which ones, what each call checks, and that a second process finds them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from aotdyn.backends import freezing, inductor, jobs
from aotdyn.graph.program import Input, Program, Ref, Step

HERE = Path(__file__).parent

PROGRAM = Program([Input("x"), Input("w")], [Step(torch.matmul, (Ref(0), Ref(1)), {})], (Ref(2),))


def inputs() -> list[torch.Tensor]:
    return [torch.ones(2, 3), nn.Parameter(torch.arange(9.0).view(3, 3))]


def test_parameters_are_chosen_where_no_gradient_is_recorded(monkeypatch):
    example = inputs()
    assert freezing.chosen(PROGRAM, example) == ()
    with torch.no_grad():
        assert freezing.chosen(PROGRAM, example) == (1,)
        assert freezing.chosen(PROGRAM, [example[0], nn.Parameter(torch.ones(4, 4)[:3, :3])]) == ()
        monkeypatch.setattr(freezing, "LARGEST", 35)
        assert freezing.chosen(PROGRAM, example) == ()
    example[1].requires_grad_(False)
    monkeypatch.setattr(freezing, "LARGEST", 36)
    assert freezing.chosen(PROGRAM, example) == (1,)


def test_a_key_holds_the_content_and_so_does_a_job():
    with torch.no_grad():
        example = inputs()
        key = inductor.kernel_key(PROGRAM, example, {}, (1,))
        assert key != inductor.kernel_key(PROGRAM, example, {})
        data = jobs.encode(PROGRAM, example, {}, key, (1,))
        assert data is not None
        job = jobs.decode(data)
        made = jobs.inputs(job)
        assert made[1].tolist() == example[1].tolist()
        assert inductor.kernel_key(PROGRAM, made, {}, job.frozen) == key
        example[1].data[0, 0] = -0.0
        assert inductor.kernel_key(PROGRAM, example, {}, (1,)) != key


def test_each_place_in_memory_has_code_of_its_own_and_what_changed_goes_the_ordinary_way(monkeypatch):
    made: list[str] = []

    def making(name: str):
        def make(inputs: list[torch.Tensor]):
            made.append(name)
            return lambda *inputs: [f"{name} {inputs[1][0, 0].item()}"]

        return make

    monkeypatch.setattr(freezing, "MANY", 3)
    layers = [inputs() for _ in range(4)]
    for number, each in enumerate(layers[:3]):
        each[1].data[0, 0] = number // 2  # the second layer holds what the first does
    run = freezing.Frozen((1,), layers[0], making("frozen"), making("ordinary"))
    assert [run(*each) for each in layers[:3]] == [["frozen 0.0"], ["frozen 0.0"], ["frozen 1.0"]]
    assert made == ["frozen", "frozen"]
    layers[1][1].data[0, 0] = 5
    assert run(*layers[1]) == ["ordinary 5.0"]
    layers[1][1].data[0, 0] = 0
    assert run(*layers[1]) == ["frozen 0.0"]
    assert run(*layers[3]) == ["ordinary 0.0"]  # one place too many
    assert made == ["frozen", "frozen", "ordinary"]


@pytest.mark.skipif(not shutil.which("g++"), reason="no C++ compiler")
def test_a_frozen_kernel_is_plain_pytorchs_cold_and_warm(tmp_path):
    tmp_path.chmod(0o700)
    env = {**os.environ, "PYTHONPATH": str(HERE.parent.parent), "AOTDYN_CACHE_DIR": str(tmp_path)}
    env |= {"AOTDYN_FREEZE": "1", "AOTDYN_CHOOSE": "always", "AOTDYN_STRICT": "1"}
    found = []
    for _ in range(2):
        argv = [sys.executable, HERE / "frozen_program.py"]
        done = subprocess.run(argv, capture_output=True, text=True, env=env, timeout=280)
        assert done.returncode == 0, done.stderr
        found.append(json.loads(done.stdout.splitlines()[-1]))
    assert [each["agree"] for each in found] == [[True] * 5] * 2
    assert [each["compiled"] for each in found] == [2, 0]
    assert found[1]["loaded"] == []
    assert [len(list(tmp_path.rglob(name))) for name in ("frozen", "model.so")] == [1, 2]
