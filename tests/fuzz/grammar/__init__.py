"""What generated programs are made of: templates of expressions, statements and blocks, by kind.

In a template `<kind>` stands for an expression of that kind, `<kind.>` for a
name or literal, `<kind!>` for something that can be assigned to, and
`<block ...>`, alone on its line, for statements (see `write`). A template that
stands twice is taken twice as often.
"""

from __future__ import annotations

from .blocks import BLOCKS
from .expressions import EXPRESSIONS, LEAVES
from .statements import IN_FUNCTION, IN_HANDLER, IN_LOOP, IN_MAIN, STATEMENTS

__all__ = [
    "BLOCKS",
    "EXPRESSIONS",
    "IN_FUNCTION",
    "IN_HANDLER",
    "IN_LOOP",
    "IN_MAIN",
    "LEAVES",
    "STATEMENTS",
]
