"""Random small programs give the same plainly, compiled, and warm from the store."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from differential import limit, load, run
from generate import programs
from hypothesis import HealthCheck, given, settings


@pytest.fixture(scope="module", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """One cache for all programs: their modules' names differ."""
    folder = tmp_path_factory.mktemp("cache")
    folder.chmod(0o700)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AOTDYN_CACHE_DIR", str(folder))
        patch.setenv("AOTDYN_STRICT", "1")
        yield


@settings(
    derandomize=True,
    max_examples=25,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)
@given(programs())
def test_the_same(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    name = f"generated_{hashlib.sha256(text.encode()).hexdigest()[:12]}"
    file = Path(tmp_path_factory.getbasetemp()) / f"{name}.py"
    file.write_text(text)
    with limit(60):
        run(functools.partial(load, name, text, str(file)), "generated")
