"""A process that runs a module of the corpus in one way (`cold` or `warm`), and prints what differed."""

from __future__ import annotations

import functools
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from differential import Difference, corpus, limit, names, run


def main(way: str, chosen: str) -> int:
    """Run all programs of a module of the corpus; 1 where one differs."""
    failed = 0
    for module, name in names():
        if module != chosen:
            continue
        try:
            with limit(60):
                run(functools.partial(corpus, module), name, ways=(way,))
        except Difference as difference:
            failed = 1
            print(f"{module}.{name}: {difference}")
    return failed


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
