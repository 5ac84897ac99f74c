"""Plain Python that means the same as C functions of the standard library, and is traced into.

Nothing here may use a feature that the tracer breaks on: no class statements
inside functions, no exec, no C helpers without a handler.
"""

from . import autograd_, functools_, heaps, itertools_, torch_

__all__ = ["autograd_", "functools_", "heaps", "itertools_", "torch_"]
