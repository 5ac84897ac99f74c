"""Checks one random program in one process: plain Python against the same cold, or warm from the store.

Every second program is compiled by `aotdyn.compile`, the others are imported
through the hook.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from random import Random

from differential import Difference, Expired, Unfit, limit, load, load_hooked, run

from .sizes import write_sized
from .write import write

WRITERS: dict[str, Callable[[Random], str]] = {"programs": write, "sizes": write_sized}
LIMIT = 30
"Seconds after which a program counts as hung."


@dataclasses.dataclass
class Outcome:
    """What came of a program: how many graphs were called, what was wrong ("" where nothing was), how long it took."""

    seed: int
    graphs: int
    fault: str = ""
    seconds: float = 0.0


def is_hooked(seed: int) -> bool:
    """Whether the program of a seed goes through the hook."""
    return bool(seed % 2)


def text_of(kind: str, seed: int) -> str:
    """The program of a seed."""
    return WRITERS[kind](Random(seed))


def check(seed: int, text: str, folder: Path, way: str) -> Outcome:
    """Run a program plainly and in a way; its file is written to `folder`, the same in all processes."""
    name = f"fuzz_{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    file = folder / f"{name}.py"
    if not file.exists():
        file.write_text(text)
    began = time.process_time()
    hooked = functools.partial(load_hooked, name, str(file)) if is_hooked(seed) else None
    try:
        with limit(LIMIT), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            graphs = run(functools.partial(load, name, text, str(file)), "generated", ways=(way,), hooked=hooked)
    except Unfit:
        return Outcome(seed, 0)
    except Difference as difference:
        return Outcome(seed, 0, str(difference))
    except (Exception, Expired):
        return Outcome(seed, 0, traceback.format_exc())
    return Outcome(seed, graphs, seconds=round(time.process_time() - began, 3))
