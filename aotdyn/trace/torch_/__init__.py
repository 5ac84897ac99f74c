"""What the tracer knows of torch: operators, tensors, modes, modules.

Importing this package fills the table of handlers. It may import `values`,
`control`, `handlers`, the graph room and, inside functions, the model.
"""

from aotdyn.trace.torch_ import (
    bookkeeping,
    calls,
    compiler,
    contexts,
    control_flow,
    declared,
    foreach,
    function,
    functorch,
    generators,
    hooks,
    inference,
    leaf,
    legacy,
    methods,
    modules,
    optimizers,
    scalars,
    setters,
    state,
    tensors,
)

__all__ = [
    "bookkeeping",
    "calls",
    "compiler",
    "contexts",
    "control_flow",
    "declared",
    "foreach",
    "function",
    "functorch",
    "generators",
    "hooks",
    "inference",
    "leaf",
    "legacy",
    "methods",
    "modules",
    "optimizers",
    "scalars",
    "setters",
    "state",
    "tensors",
]
