"""The whole walk: `python -m tests.opinfo [--only PATTERN] [--samples N] [--jobs N] [--warm]`."""

from __future__ import annotations

import argparse
import fnmatch
import json
import multiprocessing
import os
import sys
import tempfile
import time
from typing import Any

import torch


def main() -> int:
    """Walk, print what differs or breaks as it is found, then the summary; 1 where the table of exceptions is wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.opinfo", description=__doc__)
    parser.add_argument("--only", action="append", metavar="PATTERN", help="operators by name, with wildcards")
    parser.add_argument("--samples", type=int, metavar="N", help="no more than N samples of each dtype")
    parser.add_argument("--forms", metavar="NAMES", help="function,method,inplace,out")
    parser.add_argument("--dtypes", metavar="NAMES", help="others than float32,int64")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes")
    parser.add_argument("--part", metavar="K/N", help="each N-th operator alone, beginning with the K-th")
    parser.add_argument("--warm", action="store_true", help="run each case from the store as well")
    parser.add_argument("--json", metavar="FILE", help="write all outcomes that aren't plain to a file")
    options = parser.parse_args()
    os.environ.setdefault("AOTDYN_CACHE_DIR", tempfile.mkdtemp(prefix="aotdyn-opinfo-"))
    os.environ["AOTDYN_STRICT"] = "1"
    from .cases import operators

    names = [
        name for name in operators() if not options.only or any(fnmatch.fnmatch(name, each) for each in options.only)
    ]
    if options.part:
        part, parts = map(int, options.part.split("/"))
        names = names[part - 1 :: parts]
    from .summary import Summary

    summary = Summary()
    began = time.monotonic()
    for done, tally in enumerate(_tallies(names, options), 1):
        summary.add(tally)
        print(f"[{done}/{len(names)} {time.monotonic() - began:.0f} s] {summary.line(tally)}", flush=True)
    print(summary.text())
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(summary.data(), file, indent=1)
    return summary.verdict(
        whole=not (options.only or options.samples or options.part or options.forms or options.dtypes)
    )


def _tallies(names: list[str], options: Any) -> Any:
    from .cases import DTYPES, FORMS, Wanted

    forms = tuple(options.forms.split(",")) if options.forms else FORMS
    dtypes = tuple(getattr(torch, name) for name in options.dtypes.split(",")) if options.dtypes else DTYPES
    work = [(name, Wanted(options.samples, forms, dtypes), options.warm) for name in names]
    if options.jobs <= 1:
        yield from map(_walk, work)
        return
    with multiprocessing.get_context("spawn").Pool(options.jobs, maxtasksperchild=100) as pool:
        yield from pool.imap(_walk, work)


def _walk(work: tuple[str, Any, bool]) -> Any:
    from .cases import operators
    from .walk import settings, walk

    name, wanted, warm = work
    torch.set_num_threads(1)
    with settings(warm):
        return walk(name, operators()[name], wanted, warm)


if __name__ == "__main__":
    sys.exit(main())
