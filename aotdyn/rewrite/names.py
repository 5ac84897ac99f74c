"""The names that rewritten code uses: dispatchers, helpers and continuations (docs/design/contracts.md)."""

from __future__ import annotations

import re

FORM = 5
"Raise it when stubs get another form: stored ones are looked for by it."

DISPATCHER = "__aotdyn_d_"
SWITCHBOARD = "__aotdyn_s_"
RESUME = "__aotdyn_resume_"
ENTER = "__aotdyn_enter"
FIX = "__aotdyn_fix"
PENDING = "__aotdyn_pending"
DYNAMO = "__aotdyn_dynamo"
TYPE = "__aotdyn_type"

_DIGEST = r"_([0-9a-f]{20})(\.\d+)?(?:@\w+)?$"
"Compiled when it is first used: a warm import, which reads no digest, has no time for it."


def identifier(text: str) -> str:
    """`text` with everything that an identifier can't hold made `_`."""
    return re.sub(r"\W", "_", text)


def dispatcher_name(qualname: str, digest: str, extent: str = "", module: str = "") -> str:
    """Name in builtins of the dispatcher of a function.

    `module` keeps equal functions of two modules apart. `digest` may end in
    `.2`, `.3`: the order among equal functions of one qualified name.
    """
    where = f"{identifier(module)}_" if module else ""
    return f"{DISPATCHER}{where}{identifier(qualname)}_{digest}" + (f"@{extent}" if extent else "")


def digest_in(dispatcher: str) -> tuple[str, str]:
    """The original's digest in a function's dispatcher name, and the order behind it (`.2`) or an empty string."""
    found = re.search(_DIGEST, dispatcher)
    if found is None:
        raise ValueError(f"{dispatcher!r} is not the name of a function's dispatcher")
    return found[1], found[2] or ""
