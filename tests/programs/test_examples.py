"""The examples print the same plainly and under aotdyn, cold and warm; warm they trace nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

CASES = {
    "quickstart": ["examples/quickstart.py"],
    "digits": ["examples/digits.py", "1"],
    "gpt": ["examples/gpt.py", "4", "6"],
    "train": ["examples/train.py", "20"],
    "huggingface": ["--package", "transformers.models.bert", "examples/huggingface.py"],
}


def test_every_example_is_tried() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} == set(CASES)


@pytest.mark.parametrize("name", sorted(CASES))
def test_example(name: str, project: Any) -> None:
    if name == "huggingface":
        pytest.importorskip("transformers")
    arguments = CASES[name]
    program = next(i for i, each in enumerate(arguments) if each.endswith(".py"))
    options = {"cwd": EXAMPLES.parent}
    plain = project.python(*arguments[program:], **options)
    assert plain.returncode == 0, plain.stderr
    for way in ("cold", "warm"):
        stats = project.folder / f"{way}.json"
        done = project.run("--backend", "eager", "--stats", str(stats), *arguments, **options)
        assert (done.returncode, done.stdout) == (0, plain.stdout), f"{way}\n{done.stderr}"
        found = json.loads(stats.read_text())
        assert found["graph_calls"] > 0
        assert found["guards_dropped"] == 0
        if way == "cold":
            assert found["traced"] > 0
            again = [event["function"] for event in found["recompiles"]]
            assert name != "gpt" or sorted(again) == ["GPT.loss", "GPT.step"], found["recompiles"]
            assert found["tensor_calls_captured"] > 3 * found["tensor_calls_eager"]
        else:
            assert (found["traced"], found["graphs_compiled"]) == (0, 0), found["recompiles"]
            assert found["variants_loaded"] > 0
            assert found["compiler_modules_imported"] == []


def test_steps_after_the_second_compile_nothing(project: Any) -> None:
    """The first step meets no gradients, the second meets them and the optimizer's state; all others are like it."""
    found = []
    for steps in ("2", "12"):
        stats = project.folder / f"{steps}.json"
        cache = str(project.folder / steps)
        arguments = ["--backend", "eager", "--cache", cache, "--stats", str(stats), "examples/train.py", steps]
        done = project.run(*arguments, cwd=EXAMPLES.parent)
        assert done.returncode == 0, done.stderr
        found.append(json.loads(stats.read_text()))
    for counter in ("traced", "graphs_compiled", "variants_stored"):
        assert found[0][counter] == found[1][counter] > 0, counter
    assert found[0]["recompiles"] == found[1]["recompiles"]
    assert found[1]["graph_calls"] == 6 * found[0]["graph_calls"]
