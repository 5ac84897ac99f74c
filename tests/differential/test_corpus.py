"""Each program of the corpus gives the same plainly, compiled, and warm from the store."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pytest
from differential import corpus, limit, names, run


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing stored by an earlier run is used, and a failure of ours fails."""
    tmp_path.chmod(0o700)
    monkeypatch.setenv("AOTDYN_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("AOTDYN_STRICT", "1")


@pytest.mark.parametrize(("module", "name"), names(), ids=lambda part: part)
def test_the_same(module: str, name: str) -> Any:
    with limit(60):
        run(functools.partial(corpus, module), name)
