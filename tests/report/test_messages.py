"""What aotdyn says on a program's stderr: each message says whose it is, and counts its nouns right."""

from __future__ import annotations

import ast
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

import aotdyn
from aotdyn.report import logs
from aotdyn.report.plural import counted, noun

ROOM = Path(aotdyn.__file__).parent

LOGGING = ("warning", "info", "error", "exception", "critical")


def _said() -> Iterator[tuple[str, str]]:
    """Where a message may reach a program's stderr, and how it begins."""
    for path in sorted(ROOM.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and node.args and (_logs(node.func) or _warns(node.func)):
                yield f"{path.relative_to(ROOM)}:{node.lineno}", _beginning(node.args[0])


def _logs(function: ast.expr) -> bool:
    """`log.warning` and its kin, of whatever is named or made as a logger."""
    return isinstance(function, ast.Attribute) and function.attr in LOGGING and "log" in ast.unparse(function.value)


def _warns(function: ast.expr) -> bool:
    return isinstance(function, ast.Attribute) and ast.unparse(function) == "warnings.warn"


def _beginning(message: ast.expr) -> str:
    first = message.values[0] if isinstance(message, ast.JoinedStr) else message
    return str(first.value) if isinstance(first, ast.Constant) else ast.unparse(first)


def test_each_log_line_and_warning_says_whose_it_is() -> None:
    said = dict(_said())
    assert len(said) > 20  # else they are written in a way that this test doesn't know
    assert not {where: text for where, text in said.items() if not text.startswith("aotdyn: ")}


def test_our_own_handler_says_it_once(capsys: pytest.CaptureFixture[str]) -> None:
    handler = logs._Stderr()
    handler.setFormatter(logs._Formatter("%(name)s: %(message)s"))
    for message in ("aotdyn: %s is slow", "%s is slow"):
        handler.handle(logging.LogRecord("aotdyn.store", logging.WARNING, "", 1, message, ("it",), None))
    assert capsys.readouterr().err == "aotdyn.store: it is slow\n" * 2


def test_nouns_are_counted_in_one_way() -> None:
    assert [counted(n, "graph call") for n in (0, 1, 2)] == ["0 graph calls", "1 graph call", "2 graph calls"]
    assert (counted(2, "entry"), counted(3, "process"), noun(1, "entry")) == ("2 entries", "3 processes", "entry")
