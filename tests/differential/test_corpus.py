"""Each program of the corpus gives the same plainly, compiled, and warm from the store."""

from __future__ import annotations

import functools
from typing import Any

import pytest
from differential import corpus, limit, names, run


@pytest.fixture(autouse=True)
def _own_cache(own_cache: None) -> None:
    pass


@pytest.mark.parametrize(("module", "name"), names(apart=False), ids=lambda part: part)
def test_the_same(module: str, name: str) -> Any:
    with limit(60):
        run(functools.partial(corpus, module), name)
