"""Some random programs, the same ones each time: plainly, cold and warm in a second process. `tests.fuzz` runs many."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.fuzz.__main__ import batch, main
from tests.fuzz.minimise import minimised
from tests.fuzz.write import programs


@pytest.mark.parametrize(("kind", "first", "count"), [("programs", 0, 100), ("programs", 5000, 100), ("sizes", 0, 20)])
def test_the_same(kind: str, first: int, count: int) -> None:
    found = list(batch(kind, first, count))
    assert not [(way, outcome.seed, outcome.fault) for way, outcome in found if outcome.fault]
    assert len(found) == 2 * count
    assert sum(outcome.graphs > 0 for _, outcome in found) >= 0.9 * len(found)


@settings(derandomize=True, max_examples=20, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(programs())
def test_strategy_writes_programs(text: str) -> None:
    assert any(isinstance(node, ast.FunctionDef) and node.name == "generated" for node in ast.parse(text).body)


def test_minimised() -> None:
    text = "def f(a):\n    if a:\n        b = 1\n        print(a + b)\n    return a\n"
    assert minimised(text, lambda each: "print" in each) == "print(a + b)"


def test_command_says_what_it_did(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--n", "3", "--seed", "7", "--save", str(tmp_path)]) == 0
    assert "3 programs" in capsys.readouterr().out
