"""Some random programs, the same ones each time: plainly, cold and warm in a second process. `tests.fuzz` runs many."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.fuzz.__main__ import main
from tests.fuzz.minimise import minimised
from tests.fuzz.write import programs


@pytest.mark.parametrize(("kind", "count"), [("programs", 150), ("sizes", 8)])
def test_the_same(kind: str, count: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status = main(["--kind", kind, "--n", str(count), "--save", str(tmp_path), "--minimise", "0"])
    told = capsys.readouterr().out
    assert status == 0, told
    done, captured = map(int, re.findall(r"(\d+) programs, (\d+) with", told)[-1])
    assert done == count
    assert captured >= 0.9 * count


@settings(derandomize=True, max_examples=20, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(programs())
def test_strategy_writes_programs(text: str) -> None:
    assert any(isinstance(node, ast.FunctionDef) and node.name == "generated" for node in ast.parse(text).body)


def test_minimised() -> None:
    text = "def f(a):\n    if a:\n        b = 1\n        print(a + b)\n    return a\n"
    assert minimised(text, lambda each: "print" in each) == "print"
