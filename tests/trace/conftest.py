"""The tracer's tests: a cache of the test's own; what the tracer can't do is an error."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _own_cache(own_cache: None) -> None:
    pass
