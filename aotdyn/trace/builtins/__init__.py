"""What the tracer knows of Python's builtins and C-implemented standard library.

Importing this package fills the tables of `trace.handlers`. Modules here know
values and the model; none knows an opcode or a tensor operation.
"""

from __future__ import annotations

from aotdyn.trace import polyfills

from . import (
    classes,
    dispatching,
    functions,
    groups,
    iterators,
    itertools_,
    left_to_python,
    mappings,
    numbers,
    objects,
    operators,
    partials,
    printing,
    proxies,
    random_,
    sequences,
    sets,
    strings,
    views,
    warnings_,
)

__all__ = [
    "classes",
    "dispatching",
    "functions",
    "groups",
    "iterators",
    "itertools_",
    "left_to_python",
    "mappings",
    "numbers",
    "objects",
    "operators",
    "partials",
    "polyfills",
    "printing",
    "proxies",
    "random_",
    "sequences",
    "sets",
    "strings",
    "views",
    "warnings_",
]
