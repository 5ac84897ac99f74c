"""Graphs: built on fake tensors while tracing (`build`), kept as data (`data`), run as generated Python (`codegen`).

`program` is the form in between: live targets, no fx. May import torch,
torch.fx, msgspec, `aotdyn.errors` and guards.naming, constants and tensors;
`build` alone loads `torch._subclasses`' fake mode (and with it
`torch._dynamo`), at the first tensor.
"""

GENERATED = "aotdyn.generated"
"""The `__name__` among the globals of a function that is generated from a graph."""
LINES = "lines_of_step"
"""What gives, among them, file, line and function of a step's frames, outermost first, by the step's number from 1."""
