"""Processes by name: what claims and leases are signed with, and whether the one that a name stands for is there."""

from __future__ import annotations

import contextlib
import os
from functools import cache


def holder() -> str:
    """This process in words: machine, number and start, which together nothing else ever has."""
    return f"{machine()} {os.getpid()} {_started(os.getpid())}"


@cache
def machine() -> str:
    """This machine, as processes that see one another's numbers know it: host, boot and PID namespace."""
    import socket  # here, as a warm import doesn't need it

    parts = [socket.gethostname()]
    with contextlib.suppress(OSError), open("/proc/sys/kernel/random/boot_id", encoding="utf-8") as file:
        parts.append(file.read().strip()[:13])
    with contextlib.suppress(OSError):
        parts.append(os.readlink("/proc/self/ns/pid").strip("pid:[]"))
    return "/".join(parts).replace(" ", "_")


def _started(process: int) -> str:
    """When a process started, in the kernel's ticks; empty where that can't be told."""
    try:
        with open(f"/proc/{process}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[19].decode()
    except (OSError, IndexError):
        return ""


def alive(words: str) -> bool | None:
    """Whether the process that `holder` named is there; None where this machine can't tell."""
    where, _, rest = words.partition(" ")
    number, _, started = rest.partition(" ")
    if where != machine() or not number.isdecimal():
        return None
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return None
    now = _started(int(number))
    return not (started and now and started != now)
