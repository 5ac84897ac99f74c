"""What is in use: how often frames were loaded, what living processes hold, and how much all of it may take.

What a living process holds, as its lease says (`store.leases`), is never
evicted: its kernels by name, its frames and graphs because they were used
since it began.
"""

from __future__ import annotations

import os
import time
from collections import Counter

from aotdyn.store import claims, disk
from aotdyn.store.processes import alive

LEASE_DAYS = 30.0
"After which another machine's lease counts no more: whether its process lives can't be told from here."

USES_LIMIT = 1 << 20
"Bytes that the list of uses may have; past them the older half goes."

MEASURED = 3600.0
"Seconds for which a measured size is believed."

_sizes: dict[str, Size] = {}


def uses(base: str) -> Counter[str]:
    """How many processes loaded each frame, by its key."""
    try:
        with open(f"{base}/uses", "rb") as file:
            data = file.read(2 * USES_LIMIT)
    except OSError:
        return Counter()
    return Counter(data[place : place + 16].hex() for place in range(0, len(data) - 15, 16))


def shorten_uses(base: str) -> None:
    """Drop the older half of a list of uses that has become too long."""
    path = f"{base}/uses"
    try:
        if os.stat(path).st_size > USES_LIMIT:
            with open(path, "rb") as file:
                file.seek(-USES_LIMIT // 2 // 16 * 16, os.SEEK_END)
                disk.write(path, file.read())
    except OSError:
        pass


def held(base: str) -> tuple[set[str], float]:
    """Kernels that living processes hold, and since when the oldest of them has been at work (now, if none is).

    Leases of processes that are gone are removed.
    """
    kernels: set[str] = set()
    since = now = time.time()
    try:
        names = os.listdir(f"{base}/leases")
    except OSError:
        return kernels, since
    for name in names:
        path = f"{base}/leases/{name}"
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                words, *lines = file.read(1 << 20).splitlines() or [""]
                info = os.fstat(file.fileno())
        except OSError:
            continue
        living = alive(words)
        if living is None:
            living = now - info.st_mtime < LEASE_DAYS * disk.DAY
        if not living:
            disk.remove(path)
            continue
        kernels.update(lines)
        since = min(since, _begun(words, info))
    return kernels, since


def _begun(words: str, info: os.stat_result) -> float:
    """When the process of a lease began: by its start on this machine, else by the lease's last change, a day off."""
    try:
        ticks = int(words.rpartition(" ")[2])
        with open("/proc/uptime", encoding="utf-8") as file:
            return time.time() - float(file.read().split()[0]) + ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError):
        return info.st_mtime - disk.DAY


class Size:
    """About how much a root takes: what was last measured, and what this process has added."""

    def __init__(self, root: str) -> None:
        self.path = f"{root}/v1/size"
        self.root = root
        self.bytes = 0
        self.added = 0
        self.known = False

    def grown(self, size: int, limit: int) -> None:
        """Something was stored: evict where that is over `limit` bytes."""
        self.bytes += size
        self.added += size
        if not self.known:
            self.known = self._recall()
        if self.known and self.bytes <= limit and self.added <= limit // 64:
            return
        from aotdyn.store.inventory import Inventory

        try:
            with claims.claim(f"{self.root}/v1/collecting", lambda: False, 0.0) as claim:
                if claim.held:
                    self.keep(Inventory(self.root, trust=True).bound(limit))
        except OSError:
            pass

    def _recall(self) -> bool:
        try:
            with open(self.path, encoding="utf-8") as file:
                if abs(time.time() - os.fstat(file.fileno()).st_mtime) > MEASURED:
                    return False
                self.bytes += int(file.read(30))
                return True
        except (OSError, ValueError):
            return False

    def keep(self, measured: int) -> None:
        """Note a size that was just measured."""
        self.bytes, self.added, self.known = measured, 0, True
        try:
            disk.write(self.path, b"%d" % measured)
        except OSError:
            pass


def grown(root: str, size: int, limit: int) -> None:
    """`size` bytes were stored under `root`, which is to keep below `limit`."""
    found = _sizes.get(root)
    if found is None:
        found = _sizes[root] = Size(root)
    found.grown(size, limit)
