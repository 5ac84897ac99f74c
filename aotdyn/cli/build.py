"""`build`: what `run` does, without thrift, with a pool that lets nothing go, and a wait without limit at the end."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from typing import Any

from aotdyn import config
from aotdyn.backends.pool import Pool
from aotdyn.errors import ConfigError
from aotdyn.report import events
from aotdyn.report.plural import counted

UNBUILT = 4
"Exit status of a build that leaves a graph without a kernel that could have one, or can't keep what it has made."


def configured() -> config.Options:
    """The options of a build: nothing of what the program meets is put off, or left for not being worth it.

    Raises:
        ConfigError: there is nothing to fill.
    """
    config.configure(thrift="off")
    options = config.current()
    if options.disable or not options.cache:
        what, by = ("aotdyn", "AOTDYN_DISABLE") if options.disable else ("the cache", "--no-cache or AOTDYN_CACHE")
        raise ConfigError(f"build fills the cache, and {what} is turned off", hint=f"take back {by}, or use `run`")
    return options


def prepare() -> None:
    """Have the pool compile all that the program meets."""
    from aotdyn.backends import pool

    pool.pool(thorough=True)


def finish() -> int:
    """Wait until all is compiled, say what came of it; the exit status, 0 if all has a kernel and is kept."""
    from aotdyn.backends import pool
    from aotdyn.runtime import cold

    mine = pool.current()
    assert mine is not None
    try:
        _wait(mine)
    except KeyboardInterrupt:
        left = f"{len(mine.open)} of {counted(mine.total, 'kernel')} not compiled"
        print(f"aotdyn: build was stopped, {left}; run it again for the rest", file=sys.stderr)
        return 130
    stats = events.snapshot()
    print(f"aotdyn: built: {_made(stats, bool(mine.failed))}", file=sys.stderr)
    for name, failure in mine.failed:
        print(f"  no kernel for {name}, which runs eagerly: {failure.what}", file=sys.stderr)
    kept = cold.store()
    if kept.root is None or not kept.writable:
        print("aotdyn: and not stored: the cache can't be written, as is said above", file=sys.stderr)
        print("  hint: name one of your own with `--cache` or AOTDYN_CACHE_DIR, and build again", file=sys.stderr)
        return UNBUILT
    return UNBUILT if mine.failed else 0


def _made(stats: Mapping[str, Any], failed: bool) -> str:
    """What a build has made; of a backend that makes no kernels the traces alone."""
    traces, eager = counted(stats["traced"], "trace"), stats.get("graphs_eager", 0)
    kernels = stats["graphs_compiled"] - eager
    if not (kernels or stats["traced"] or failed):
        return "nothing had to be made, all was stored already"
    if eager and not kernels:
        return f"{traces} made; the backend eager compiles no kernels"
    return f"{counted(kernels, 'kernel')} compiled, {traces} made"


def _wait(mine: Pool) -> None:
    from aotdyn.report import progress

    if not mine.open:
        return
    with progress.line(f"aotdyn: build compiles {counted(len(mine.open), 'kernel')}") as say:

        def tell(pool: Pool) -> None:
            what = pool.open[0].name if pool.open else ""
            say(pool.total - len(pool.open), pool.total, what)

        mine.wait(math.inf, tell)
