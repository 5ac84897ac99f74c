"""A second process runs the corpus from the store of a first: the same results, and nothing is traced."""

from __future__ import annotations

from pathlib import Path
from typing import Any

SCRIPT = Path(__file__).with_name("whole.py")


def test_second_process(project: Any) -> None:
    for way in ("cold", "warm"):
        done = project.python(str(SCRIPT), way, timeout=600)
        assert done.returncode == 0, f"{way}\n{done.stdout}\n{done.stderr}"
