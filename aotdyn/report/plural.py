"""Numbers in messages: the one place that knows how a noun is counted."""

from __future__ import annotations

IRREGULAR = {"entry": "entries", "process": "processes"}
"Nouns that messages count and that don't just take an `s`."


def counted(number: int, what: str) -> str:
    """`1 graph`, `2 graphs`; the last word of `what` is the noun."""
    return f"{number} {noun(number, what)}"


def noun(number: int, what: str) -> str:
    """The noun alone, as so many want it."""
    if number == 1:
        return what
    before, space, last = what.rpartition(" ")
    return f"{before}{space}{IRREGULAR.get(last, last + 's')}"
