"""A second process runs the corpus from the store of a first: the same results, and nothing is traced."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from differential import names

SCRIPT = Path(__file__).with_name("whole.py")


@pytest.mark.parametrize("module", sorted({module for module, _ in names()}))
def test_second_process(project: Any, module: str) -> None:
    for way in ("cold", "warm"):
        done = project.python(str(SCRIPT), way, module)
        assert done.returncode == 0, f"{way}\n{done.stdout}\n{done.stderr}"
