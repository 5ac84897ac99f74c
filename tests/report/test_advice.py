"""Each reason for a break says what it means and what to do: no reason without advice, no advice without a reason."""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from aotdyn.report import advice
from aotdyn.trace.opcodes.table import BREAKS
from tests.opinfo import surface

BRANCH = "a branch on a tensor's data"
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def page() -> ModuleType:
    """The script that writes docs/coverage.md: it reads the reasons in the tracer's sources."""
    spec = importlib.util.spec_from_file_location("aotdyn_coverage_page", ROOT / "docs" / "coverage.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def reasons(page: ModuleType) -> set[str]:
    """All of them, with … for what is filled in."""
    found = {"ValueError leaves the frame", "call of f, which is compiled by itself, since it breaks"}
    for path in page.TRACER.rglob("*.py"):
        found.update(page._raised(ast.parse(path.read_text(encoding="utf-8")), page.RAISING))
    found.update(BREAKS.values())
    return found | {f"{name}: {reason}" for name, reason in surface.declared_breaks()}


def test_every_reason_has_advice(reasons: set[str]) -> None:
    assert len(reasons) > 300
    assert not sorted(reason for reason in reasons if advice.of(reason) == advice.GENERAL)


def test_the_page_lists_reasons_under_their_advice(page: ModuleType) -> None:
    shown = list(page._reasons())
    place = shown.index(f"    - {BRANCH} (model/operators.py)")
    told = next(line for line in reversed(shown[:place]) if line.startswith("- "))
    assert told == f"- {advice.of(BRANCH)}"


def test_every_advice_has_a_reason(reasons: set[str]) -> None:
    met = {advice.of(reason) for reason in reasons}
    assert not [text for text, _ in advice.ADVICE if text not in met]


@pytest.mark.parametrize(
    ("reason", "word"),
    [
        ("a branch on a tensor's data", "torch.where"),
        ("float() of a tensor depends on its data", "torch.where"),
        ("the clock is read by Python", "harmless"),
        ("call of zlib.crc32, which is written in C", "written in C"),
        ("a loop of more than 4000 iterations", "max_unrolled"),
        ("import of json.tool, which isn't loaded yet", "at the top"),
        ("Tensor.data_ptr: the bytes of a tensor", "the tensor itself"),
    ],
)
def test_advice_is_of_the_reason(reason: str, word: str) -> None:
    assert word in advice.of(reason)


def test_what_nobody_knows_gets_a_word_too() -> None:
    assert advice.of("the moon is full") == advice.GENERAL
