"""Leases: what a process says that it uses of a store.

A process that reads from a store writes a *lease*: a file that says which
process it is, and which kernels it has mapped. At its end it takes the lease
back, and adds the frames that it loaded to the list of uses, which `cache
show` counts. What is made of leases and uses is in `store.usage`.
"""

from __future__ import annotations

import atexit
import os
from hashlib import blake2b

from aotdyn.store import disk
from aotdyn.store.processes import holder

_accounts: dict[str, Account] = {}


class Account:
    """What this process uses of one environment, whose directory is `base`."""

    def __init__(self, base: str) -> None:
        self.base = base
        self._process = 0
        self._lease = ""
        self._frames: list[str] = []
        self._kernels: list[str] = []

    def loaded(self, frame: str) -> None:
        """A frame's variants were read."""
        self._begin()
        self._frames.append(frame)

    def holds(self, kernel: str) -> None:
        """A kernel is about to be mapped."""
        self._begin()
        self._kernels.append(kernel)
        self._append(f"{kernel}\n")

    def _begin(self) -> None:
        """Write the lease, anew in a fork, which holds what its parent mapped."""
        if self._process == os.getpid():
            return
        self._process = os.getpid()
        self._frames = []
        words = holder()
        self._lease = f"{self.base}/leases/{blake2b(words.encode(), digest_size=10).hexdigest()}"
        self._append("".join(f"{line}\n" for line in (words, *self._kernels)))

    def _append(self, text: str) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_CLOEXEC", 0)
        for last in (False, True):
            try:
                handle = os.open(self._lease, flags, 0o600)
            except FileNotFoundError:
                if last:
                    return
                try:
                    os.mkdir(os.path.dirname(self._lease), 0o700)
                except OSError:
                    return
                continue
            except OSError:
                return
            try:
                os.write(handle, text.encode())
            except OSError:
                pass
            finally:
                os.close(handle)
            return

    def end(self) -> None:
        """Add what was loaded to the list of uses, and take the lease back."""
        if self._process != os.getpid():
            return
        try:
            data = b"".join(bytes.fromhex(frame) for frame in self._frames)
            handle = os.open(f"{self.base}/uses", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            try:
                os.write(handle, data)
            finally:
                os.close(handle)
        except OSError:
            pass
        disk.remove(self._lease)
        self._process, self._frames = 0, []


def account(base: str) -> Account:
    """The account of an environment, the same for all stores of this process."""
    found = _accounts.get(base)
    if found is None:
        if not _accounts:
            atexit.register(_end)
        found = _accounts[base] = Account(base)
    return found


def _end() -> None:
    for each in _accounts.values():
        each.end()
