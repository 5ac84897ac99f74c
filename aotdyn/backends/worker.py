"""A process that compiles jobs: `python -m aotdyn.backends.worker FOLDER TIMEOUT NICENESS`, started by `pool`.

It knows nothing of the program but the jobs in the folder. Its standard input
is a pipe whose other end the program holds: when that closes, the program is
gone, and so is the worker, with all that it has started.
"""

from __future__ import annotations

import faulthandler
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path

IDLE = 20.0
"Seconds without a job after which a worker ends."

LONGEST = 1e6

FULL = 75
"Exit status of a worker that can't even say that there is no room: EX_TEMPFAIL."

GRACE = 15.0
"Seconds past its time after which a job is cut off even where no Python code runs."


def main() -> None:
    """Compile until there is nothing to do."""
    folder, timeout = Path(sys.argv[1]), min(float(sys.argv[2]), LONGEST)
    os.nice(int(sys.argv[3]))
    threading.Thread(target=_die_with_the_program, args=(folder,), daemon=True).start()
    last = time.monotonic()
    from aotdyn.backends import spool

    while time.monotonic() - last < IDLE:
        found = spool.take(folder)
        if found is None:
            time.sleep(0.05)
            continue
        _compile(folder, *found, timeout)
        last = time.monotonic()


def _compile(folder: Path, number: int, job: bytes, timeout: float) -> None:
    """One job: its outcome goes to the folder, whatever happens."""
    from aotdyn.backends import failures, spool

    start = time.monotonic()
    over = threading.Timer(timeout, _give_up, (folder, number, timeout))
    over.daemon = True
    over.start()
    faulthandler.dump_traceback_later(timeout + GRACE, exit=True)
    scratch = Path(tempfile.mkdtemp(dir=folder))
    try:
        files, lasting = _made(job, scratch)
        outcome = spool.Outcome(lasting, time.monotonic() - start)
    except Exception as error:
        files, outcome = {}, spool.Outcome(False, time.monotonic() - start, failures.of(error))
    faulthandler.cancel_dump_traceback_later()
    over.cancel()
    try:
        spool.finish(folder, number, files, outcome)
    except OSError as error:
        shutil.rmtree(folder / f"{number:06}.part", ignore_errors=True)
        shutil.rmtree(scratch, ignore_errors=True)
        try:
            spool.finish(folder, number, {}, spool.Outcome(False, 0, failures.of(error)))
        except OSError:
            sys.exit(FULL)
    shutil.rmtree(scratch, ignore_errors=True)


def _made(data: bytes, scratch: Path) -> tuple[dict[str, bytes | Path], bool]:
    import torch

    from aotdyn.backends import ambient, inductor, jobs, making

    _keep_within(scratch.parent)
    job = jobs.decode(data)
    program = job.graph()
    job.ambient.enter(job.threads)
    with torch.inference_mode(job.ambient.inference):
        torch._C._set_grad_enabled(job.ambient.grad)
        inputs = jobs.inputs(job)
        if inductor.kernel_key(program, inputs, job.options, job.frozen) != job.digest:
            raise jobs.Unlike("its inputs aren't the same in another process")
        with ambient.compiling():
            made = making.make(program, inputs, job.options, scratch, job.frozen)
    return made.files, made.lasting


def _keep_within(folder: Path) -> None:
    """Have what a compiler leaves behind when it is cut off lie in the folder, and go with it; not inductor's cache."""
    from torch._inductor.runtime import cache_dir_utils

    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", cache_dir_utils.default_cache_dir())
    os.environ["TMPDIR"] = tempfile.tempdir = str(folder)


def _give_up(folder: Path, number: int, timeout: float) -> None:
    """A job takes too long: say so, and end with all that was started for it."""
    from aotdyn.backends import failures, spool

    what = f"compiling took longer than {timeout:.0f} seconds (compile_timeout)"
    spool.finish(folder, number, {}, spool.Outcome(False, timeout, failures.Failure(failures.COMPILER, what)))
    os.killpg(0, signal.SIGKILL)


def _die_with_the_program(folder: Path) -> None:
    while os.read(0, 1):
        pass
    shutil.rmtree(folder, ignore_errors=True)
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main()
