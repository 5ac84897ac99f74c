"""The Rules of docs/design, one test or more each: a cache of the test's own, and a failure of ours fails."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _own_cache(own_cache: None) -> None:
    pass
