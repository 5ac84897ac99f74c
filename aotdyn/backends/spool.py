"""The folder through which a program and its compiling workers talk: every file in it appears by one rename.

<number>.job            a job (see `jobs`) that waits
<number>.of-<process>   one that this worker has taken
<number>.made/          what came of it: the kernel's files, and `outcome`
log-<process>           what a worker printed
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from aotdyn.backends.failures import Failure
from aotdyn.backends.stored import Files

OUTCOME = "outcome"


class Outcome(msgspec.Struct, frozen=True, array_like=True):
    """What a worker says of a job: a failure, or whether what it made is worth keeping."""

    lasting: bool
    seconds: float
    failure: Failure | None = None


def put(folder: Path, number: int, job: bytes) -> None:
    """Add a job."""
    made = folder / f"{number:06}.new"
    made.write_bytes(job)
    made.rename(folder / f"{number:06}.job")


def take(folder: Path) -> tuple[int, bytes] | None:
    """The first job that nobody has taken; it is this process's from then on."""
    for path in sorted(folder.glob("*.job")):
        taken = path.with_suffix(f".of-{os.getpid()}")
        try:
            path.rename(taken)
        except OSError:
            continue  # another worker was faster
        return int(path.stem), taken.read_bytes()
    return None


def taken(folder: Path, number: int) -> int | None:
    """The worker that has a job."""
    for path in folder.glob(f"{number:06}.of-*"):
        return int(path.suffix.removeprefix(".of-"))
    return None


def give_back(folder: Path, number: int) -> None:
    """Let a job that a worker has left be taken again."""
    for path in folder.glob(f"{number:06}.of-*"):
        path.rename(path.with_suffix(".job"))


def finish(folder: Path, number: int, files: Files, outcome: Outcome) -> None:
    """Say what came of a job."""
    made = folder / f"{number:06}.part"
    made.mkdir()
    for name, content in files.items():
        if isinstance(content, bytes):
            (made / name).write_bytes(content)
        else:
            content.rename(made / name)
    (made / OUTCOME).write_bytes(msgspec.msgpack.encode(outcome))
    made.rename(folder / f"{number:06}.made")


def finished(folder: Path, number: int) -> bool:
    """Whether there is an outcome."""
    return os.path.exists(f"{folder}/{number:06}.made")


def place(folder: Path, number: int) -> Path:
    """Where the files of a finished job lie."""
    return folder / f"{number:06}.made"


def outcome(folder: Path, number: int) -> Outcome:
    """What came of a finished job."""
    return msgspec.msgpack.decode((place(folder, number) / OUTCOME).read_bytes(), type=Outcome)


def log(folder: Path, process: int) -> str:
    """The end of what a worker printed."""
    try:
        return (folder / f"log-{process}").read_text(errors="replace")[-2000:]
    except OSError:
        return ""
