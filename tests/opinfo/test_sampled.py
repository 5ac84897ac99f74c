"""The walk over all operators, sampled: one sample each, some in every form, some warm.

`python -m tests.opinfo` is the whole of it.
"""

from __future__ import annotations

import fnmatch
import random

import pytest
import torch

from tests.opinfo.cases import FORMS, Wanted, operators
from tests.opinfo.exceptions import BREAKS, DIFFERS
from tests.opinfo.walk import Tally, settings, walk

CHUNKS = 16
"Tests that share the operators out, so that processes can."

EVERY_FORM = 10
"Of so many operators one is called as a method, in place and with `out=`, too."

WARM = 20
"Of so many operators one is run from the store, too."


def _listed(table: dict[str, str], name: str) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in table)


def _wrong(tally: Tally) -> list[str]:
    """What the table of exceptions doesn't say of an operator."""
    found = []
    for outcome in tally.outcomes:
        if outcome.differs is not None and not _listed(DIFFERS, tally.operator):
            found.append(f"{outcome.case} differs: {outcome.differs}")
        if outcome.broke is not None and not _listed(BREAKS, tally.operator):
            found.append(f"{outcome.case} breaks: {outcome.broke}")
    return found


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_one_sample_of_each(chunk: int) -> None:
    names = list(operators())[chunk::CHUNKS]
    before, threads = torch.get_rng_state(), torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        wrong = []
        for name in names:
            chosen = random.Random(name)
            forms = FORMS if chosen.randrange(EVERY_FORM) == 0 else ("function",)
            warm = chosen.randrange(WARM) == 0
            with settings(warm):
                wrong += _wrong(walk(name, operators()[name], Wanted(1, forms), warm))
        assert not wrong, "\n".join(wrong)
    finally:
        torch.set_rng_state(before)
        torch.set_num_threads(threads)


def test_the_table_of_exceptions_names_operators() -> None:
    for pattern in (*BREAKS, *DIFFERS):
        assert fnmatch.filter(operators(), pattern), f"no operator is named {pattern}"
