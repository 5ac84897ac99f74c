"""Kernels that no earlier process has made: compiled now, stored and opened, or a verdict that there is none."""

from __future__ import annotations

import logging
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from aotdyn import collecting, interrupted
from aotdyn.backends import ambient, context, failures, jobs, making
from aotdyn.backends.stored import DEFAULTS, ORDINARY, OUTER, Compiled, Files
from aotdyn.errors import BackendError
from aotdyn.graph import build, data
from aotdyn.report import events

if TYPE_CHECKING:
    from aotdyn.backends.inductor import Job

log = logging.getLogger("aotdyn.backends")


def make(job: Job, digest: str | None, inputs: list[torch.Tensor]) -> Compiled:
    """Compile now, and store what came of it."""
    collecting.resume()
    check(job.options)
    with tempfile.TemporaryDirectory(prefix="aotdyn-") as scratch:
        folder = Path(scratch)
        job.about = ambient.about()
        try:
            with ambient.compiling(), events.phase("compile"):
                made = making.make(job.program, inputs, job.options, folder, job.frozen)
        except (RecursionError, MemoryError):
            raise
        except Exception as error:
            interrupted.hand_on(error)
            failed(job, digest, failures.of(error), jobs.encode(job.program, inputs, job.options, digest, job.frozen))
            log.debug("inductor's failure", exc_info=error)
            return job.eager()
        return arrived(job, digest, made.files, made.lasting, folder, inputs)


def arrived(
    job: Job, digest: str | None, files: Files, lasting: bool, folder: Path, inputs: list[torch.Tensor]
) -> Compiled:
    """Store what was made, and open it: mapped before its folder goes."""
    if OUTER in files and ORDINARY not in files:
        events.count("graphs_compiled")
    directory = job.save(digest, files) if lasting else None
    if directory is None:
        directory = _written_to(folder, files)
    run = job.opened(directory, inputs)
    if run is None:
        unloadable(job, digest, inputs)
    return run or job.eager()


def unloadable(job: Job, digest: str | None, inputs: list[torch.Tensor]) -> None:
    """Keep that what this compiler makes of the graph can't be loaded here."""
    if job.store is not None and digest is not None:
        job.store.drop_kernel(digest)
    failure = failures.Failure(failures.COMPILER, "the kernel that was made of it can't be loaded on this machine")
    failed(job, digest, failure, jobs.encode(job.program, inputs, job.options, digest, job.frozen))


def failed(job: Job, digest: str | None, failure: failures.Failure, order: bytes | None) -> None:
    """Say that a graph can't be compiled, and keep that for as long as the compiler stays the same."""
    events.count("backend_failures")
    place = failures.place(failure, digest)
    kept = place is not None and job.save(place, failures.files(failure, order)) is not None
    failures.tell(failure, digest if kept else None)


def ordinary(job: Job, program: bytes, inputs: list[torch.Tensor]) -> Compiled:
    """A functional program by inductor's ordinary path, with its backward: compiled in each process."""
    from aotdyn.backends import joint

    def compile_one(module: fx.GraphModule, inputs: list[torch.Tensor]) -> Compiled:
        from torch._functorch import config
        from torch._inductor.compile_fx import compile_fx

        # A backward that reuses what was saved would refuse `retain_graph`; a cached one may be such.
        with build.quiet(), config.patch(donated_buffer=False, enable_autograd_cache=False):
            compiled = compile_fx(module, inputs, config_patches={**DEFAULTS, **job.options})
        metadata = torch._guards.TracingContext.get().fw_metadata
        if metadata is not None:
            metadata.bw_donated_idxs = []  # said of this graph alone: it reuses nothing
        return compiled  # type: ignore[return-value]

    events.count("graphs_compiled")
    events.count("graphs_compiled_each_time")
    return context.with_sizes(data.decode_program(program), joint.own_leaves(inputs), compile_one)


def check(options: dict[str, Any]) -> None:
    """Raise BackendError for an option that inductor doesn't have, as torch.compile does."""
    from torch._inductor import config

    known = config.get_config_copy()
    for name in options:
        if name not in known:
            import difflib

            near = difflib.get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]}?" if near else "torch._inductor.list_options() lists them"
            raise BackendError(f"inductor has no option {name!r}", backend="inductor", hint=hint)


def _written_to(folder: Path, files: dict[str, bytes | Path]) -> Path:
    """A directory with a kernel's files, where they aren't stored."""
    for name, content in files.items():
        if isinstance(content, bytes):
            (folder / name).write_bytes(content)
    return folder
