"""Plain Python that means the same as C functions of the standard library, and is traced into.

Nothing here may use a feature that the tracer breaks on: no class statements
inside functions, no exec, no C helpers without a handler.
"""

from . import functools_, heaps, itertools_

__all__ = ["functools_", "heaps", "itertools_"]
