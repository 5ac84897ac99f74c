"""What the tracer knows of numpy: arrays as tensors that share their memory, functions as operations of torch.

torch has numpy's functions written in torch's (`torch._numpy`); what one of
them does to fake tensors is recorded. How the result has to look (class,
dtype, shape, strides, whose memory) numpy itself says, asked about an array
like the one at hand: where the two don't agree, Python runs the function. Only
functions whose values are known to agree are in the tables.

Importing this package fills the table of handlers. `torch._numpy` is imported
when the first array is met.
"""

from . import arrays, attributes, draws, functions, operators

__all__ = ["arrays", "attributes", "draws", "functions", "operators"]
