"""Keeping a cache below its limit: what wasn't used for longest goes first, and never what a living process holds."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

from aotdyn.store import disk, kernels, usage
from aotdyn.store.integrity import Damaged
from aotdyn.store.inventory import Environment, Inventory, Removed, usage_of
from aotdyn.store.layout import GRAPH, MANIFEST

ROOM = 0.9
"Part of the limit that is left in use when something had to go, so that not each write evicts."


@dataclass(frozen=True, order=True)
class Item:
    """What goes as a whole: a frame's variants, a graph, a module, a kernel."""

    used: float
    path: str
    size: int
    kind: str


def bound(inventory: Inventory, limit: int, removed: Removed) -> int:
    """Sweep what killed writers left, evict down to `limit` bytes, and give what is left in bytes."""
    for path in inventory.leftovers():
        removed.remove("leftovers", path)
    items: list[Item] = []
    found: dict[str, list[Item]] = {}
    total = 0
    for environment in inventory.environments():
        usage.shorten_uses(environment.path)
        _sweep_notes(environment.path)
        found[environment.key] = _items(environment)
        total += sum(item.size for item in found[environment.key])
    if total <= limit:
        return total
    for environment in inventory.environments():
        kept = _protected(environment, found.get(environment.key, []))
        items += [item for item in found.get(environment.key, []) if item.path not in kept]
    for item in sorted(items):
        if total <= limit * ROOM:
            break
        removed.remove(item.kind, item.path)
        total -= item.size
    return total


def _items(environment: Environment) -> list[Item]:
    found = []
    for kind, folder in (("frames", "records"), ("graphs", "graphs"), ("rewritten modules", "modules")):
        for path in environment.entries(folder):
            if (info := _stat(path)) is not None:
                size = info.st_size if folder != "records" else usage_of(path)
                found.append(Item(info.st_mtime, path, size, kind))
    for path in environment.entries("kernels"):
        if (info := _stat(f"{path}/{MANIFEST}") or _stat(path)) is not None:
            found.append(Item(info.st_mtime, path, usage_of(path), "kernels"))
    return found


def _protected(environment: Environment, items: list[Item]) -> set[str]:
    """Paths of what living processes hold, or will ask for: see `usage`."""
    held, since = usage.held(environment.path)
    recent = time.time() - disk.RENEWED
    kept = {
        item.path
        for item in items
        if item.used >= (min(recent, since - disk.RENEWED) if item.kind in ("frames", "graphs") else recent)
    }
    for key in held:
        path = f"{environment.path}/kernels/{key[:2]}/{key}"
        kept.add(path)
        try:
            found = kernels.manifest(path, trust=environment.trust)
        except (Damaged, OSError):
            continue
        if found is not None and found.graph:
            kept.add(f"{environment.path}/graphs/{found.graph[:2]}/{found.graph}{GRAPH}")
    return kept


def _sweep_notes(base: str) -> None:
    """Remove claims that were left by processes which nobody has waited for since, and old reasons of misses."""
    for folder, age in (("claims", disk.DAY), ("misses", 30 * disk.DAY)):
        try:
            names = os.listdir(f"{base}/{folder}")
        except OSError:
            continue
        for name in names:
            path = f"{base}/{folder}/{name}"
            info = _stat(path)
            if info is not None and abs(time.time() - info.st_mtime) > age:
                disk.remove(path)


def _stat(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except OSError:
        return None
