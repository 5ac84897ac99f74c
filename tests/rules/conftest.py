"""The Rules of docs/design, one test or more each: a cache of the test's own, and a failure of ours fails."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path.chmod(0o700)
    monkeypatch.setenv("AOTDYN_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("AOTDYN_STRICT", "1")
