"""A process that checks programs: `python -m tests.fuzz.worker <kind> <folder> <way> <first seed> <count>`.

Writes a line of JSON for each program.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import sys
from pathlib import Path

import torch

from .check import check, text_of


def main(kind: str, folder: str, way: str, first: str, count: str) -> None:
    """Check the programs of `count` seeds."""
    torch.set_num_threads(1)
    logging.getLogger("aotdyn").setLevel(logging.ERROR)
    for seed in range(int(first), int(first) + int(count)):
        outcome = check(seed, text_of(kind, seed), Path(folder), way)
        print(json.dumps(dataclasses.asdict(outcome)), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
