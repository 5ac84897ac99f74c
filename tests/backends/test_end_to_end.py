"""The default backend, cold and warm: plain Python's results, and no compiler in the second process."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).resolve().parent

pytestmark = pytest.mark.skipif(not shutil.which("g++"), reason="no C++ compiler")


def process(cache: Path, *argv: str) -> dict[str, Any]:
    """Run `end_to_end.py` over a store; what it reports."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("AOTDYN_")}
    env |= {"PYTHONPATH": str(HERE.parent.parent), "AOTDYN_CACHE_DIR": str(cache), "AOTDYN_STRICT": "1"}
    command = [sys.executable, str(HERE / "end_to_end.py"), *argv]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, cwd=cache, env=env, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty store."""
    folder = tmp_path_factory.mktemp("inductor")
    folder.chmod(0o700)
    return folder


def test_inference_is_plain_pythons_cold_and_warm(cache):
    cold = process(cache)
    assert set(cold["agree"].values()) == {True}, cold["agree"]
    assert cold["graphs_compiled"] == 3
    warm = process(cache)
    assert set(warm["agree"].values()) == {True}, warm["agree"]
    assert (warm["graphs_compiled"], warm["traced"], warm["loaded"], warm["cold"]) == (0, 0, [], [])
    assert warm["variants_loaded"] >= 3
    assert warm["graph_calls"] == cold["graph_calls"]


def test_training_is_plain_pythons_cold_and_warm(cache):
    cold = process(cache, "learn")
    assert set(cold["agree"].values()) == {True}, cold["agree"]
    assert cold["graphs_compiled"] == 2
    warm = process(cache, "learn")
    assert set(warm["agree"].values()) == {True}, warm["agree"]
    assert (warm["graphs_compiled"], warm["traced"], warm["loaded"], warm["cold"]) == (0, 0, [], [])
