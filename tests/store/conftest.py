"""Variants made by hand, and a store for each test."""

from __future__ import annotations

import marshal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from aotdyn.runtime.variant import BreakInfo, FrameSpec, GuardData, Instruction, ResumePoint, SourceData, Variant
from aotdyn.store.store import Store

SPEC = FrameSpec("app.model", "Net.forward", "0123456789abcdef0123", params=("self", "x"))
AFTER = FrameSpec("app.model", "Net.forward", "0123456789abcdef0123", offset=24, params=("self", "x"), stack="v")


def variant(number: int = 0, spec: FrameSpec = SPEC, **fields: Any) -> Variant:
    """A small variant, different for each number."""
    values: dict[str, Any] = {
        "sources": [SourceData("arg", -1, [0, "self"]), SourceData("arg", -1, [1, "x"])],
        "guards": [GuardData(1, "constant", number)],
        "inputs": [1],
        "graph": None,
        "epilogue": [Instruction("source", 0, (1,)), Instruction("return", -1, (0,))],
        "code": marshal.dumps(compile("x = 1", "f", "exec")),
    }
    return Variant(spec=spec, **{**values, **fields})


def breaking(number: int = 0, **fields: Any) -> Variant:
    """A variant that ends in a break."""
    point = ResumePoint("__aotdyn_resume_Net_forward_ab", SPEC, 24, False, (AFTER,), code=b"c", origin=b"o")
    reason = BreakInfo("Net.forward", "app/model.py", 12, "call of print", "move it out")
    return variant(number, resumes=[point], breaks=[reason], **fields)


@pytest.fixture
def make() -> SimpleNamespace:
    """`variant`, `breaking`, `spec` and `after`: the makers above."""
    return SimpleNamespace(variant=variant, breaking=breaking, spec=SPEC, after=AFTER)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A cache directory that doesn't exist yet, under directories for this user only."""
    tmp_path.chmod(0o700)
    return tmp_path / "cache"


@pytest.fixture
def store(root: Path) -> Store:
    """A store with nothing in it."""
    return Store(root)


def files(root: Path, pattern: str = "*") -> list[Path]:
    """All files below a cache that fit."""
    return sorted(path for path in root.rglob(pattern) if path.is_file())


@pytest.fixture
def listed() -> Any:
    """`listed(root, pattern)`: the files below a directory."""
    return files
