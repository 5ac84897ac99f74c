"""Where a stored entry comes from, in words: which program stored it, on which machine, by which aotdyn."""

from __future__ import annotations

import os
import sys
from functools import cache


@cache
def ours() -> bytes:
    """This process as an origin."""
    import socket

    import aotdyn

    program = os.path.basename((getattr(sys, "argv", None) or [""])[0]) or "python"
    return encode(program=program[:80], host=socket.gethostname()[:80], aotdyn=aotdyn.__version__)


def encode(**words: str) -> bytes:
    """Words as an origin."""
    import json

    return json.dumps(words, sort_keys=True).encode()


def decode(data: bytes) -> dict[str, str]:
    """The words of an origin; empty where there is none."""
    import json

    try:
        found = json.loads(data)
    except ValueError:
        return {}
    return {str(key): str(value) for key, value in found.items()} if isinstance(found, dict) else {}


def readable(data: bytes) -> str:
    """An origin for people."""
    words = decode(data)
    if not words:
        return "unknown"
    if words.get("bundle"):
        return f"imported from {words['bundle']}"
    return f"{words.get('program', '?')} on {words.get('host', '?')} (aotdyn {words.get('aotdyn', '?')})"
