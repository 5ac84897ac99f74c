"""Where everything lies under a cache's root.

    <root>/v1/<environment>/environment.json           what the environment's key stands for
                            records/ab/<frame key>/<content digest>.rec    one variant a file
                            graphs/ab/<graph key>.graph
                            modules/ab/<module key>.mod                    by source, and once more by its place
                            kernels/ab/<kernel key>/   MANIFEST and the kernel's files
                            claims/<kernel key>        who compiles it just now
                            leases/<process>           a living process, and the kernels it has mapped
                            misses/<frame key>         why the last calls that were traced again were
                            uses                       keys of the frames that processes loaded, 16 bytes each
         v1/size                                       what all of it took when it was last measured
         v1/projects                                   what the pyproject.toml of projects say of aotdyn

Every entry's file is immutable: it appears whole, by one rename, and is never written
again. An entry's variants are the files of its directory, so two writers never
lose each other's and no reader waits. A name that holds `.tmp-` is what a
writer is still busy with, or left behind when it was killed.
"""

from __future__ import annotations

import re
from pathlib import Path

FORMAT = 4
"Number of the record format, and of what tracing, lowering and binding mean by it: raise it when any of them changes."

VERSION = "v1"
"Directory of this layout under the root."

RECORD, GRAPH, MODULE, MANIFEST = ".rec", ".graph", ".mod", "MANIFEST"
ENVIRONMENT = "environment.json"
TEMPORARY = ".tmp-"

WITHIN = ("records", "graphs", "modules", "kernels", "claims", "leases", "misses", "uses", ENVIRONMENT)
"All that lies in an environment's directory, temporaries aside."

PROJECTS = "projects"
BESIDE = ("size", "collecting", PROJECTS)
"What lies beside the environments."

# Regular expressions are compiled where they are first asked for: a start that is warm asks for keys alone.
_ENVIRONMENT_KEY = r"[0-9a-f]{16}"
_HIDDEN = rf"(?:[0-9a-f]{{16}}|{'|'.join(BESIDE)}){TEMPORARY}(?:[0-9]+|broken)-[0-9a-f]{{8}}".replace(".", r"\.")

_LETTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.@+-")
_NEVER_FIRST = frozenset(".@+-")


def valid_key(key: str) -> bool:
    """Whether `key` is safe as a file's name: short, no separator, no leading dot, not a temporary's."""
    return 0 < len(key) <= 200 and key[0] not in _NEVER_FIRST and _LETTERS.issuperset(key) and TEMPORARY not in key


def environment_name(name: str) -> bool:
    """Whether a name is that of an environment's directory."""
    return re.fullmatch(_ENVIRONMENT_KEY, name) is not None


def beside(name: str) -> bool:
    """Whether a name is one that a cache gives to what isn't an environment beside those, temporaries included."""
    return name in BESIDE or re.fullmatch(_HIDDEN, name) is not None


class Layout:
    """Paths of one environment under one root, as strings: a warm start opens thousands."""

    def __init__(self, root: Path, environment: str) -> None:
        self.root = root
        self.base = f"{root}/{VERSION}/{environment}"

    def records(self, key: str) -> str:
        """Directory of the variants of the frame with this key."""
        return f"{self.base}/records/{key[:2]}/{key}"

    def graph(self, key: str) -> str:
        """File of a graph."""
        return f"{self.base}/graphs/{key[:2]}/{key}{GRAPH}"

    def module(self, key: str) -> str:
        """File of a rewritten module's code."""
        return f"{self.base}/modules/{key[:2]}/{key}{MODULE}"

    def kernel(self, key: str) -> str:
        """Directory of a kernel."""
        return f"{self.base}/kernels/{key[:2]}/{key}"

    def claim(self, key: str) -> str:
        """File that says who makes a kernel just now."""
        return f"{self.base}/claims/{key}"

    def description(self) -> str:
        """File that says what the environment's key stands for."""
        return f"{self.base}/{ENVIRONMENT}"
