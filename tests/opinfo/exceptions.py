"""Operators that aren't captured, or aren't equal, with the reason; a walk that finds otherwise fails."""

from __future__ import annotations

_SHAPE = "the shape of the result depends on the data"
_BRANCH = "torch's own code looks at the data: it answers in Python, checks it, or chooses by it"

BREAKS: dict[str, str] = {
    "__getitem__": f"by a mask: {_SHAPE}",
    "allclose": _BRANCH,
    "argwhere": _SHAPE,
    "bincount": _SHAPE,
    "combinations": _SHAPE,
    "corrcoef": _BRANCH,
    "cov": _BRANCH,
    "equal": _BRANCH,
    "istft": _BRANCH,
    "item": "the data as a Python number",
    "linalg.lstsq": _SHAPE,
    "linalg.lstsq.grad_oriented": _SHAPE,
    "masked_select": _SHAPE,
    "nn.functional.ctc_loss": _SHAPE,
    "nn.functional.gaussian_nll_loss": _BRANCH,
    "nn.functional.one_hot": f"without a number of classes {_SHAPE}",
    "nonzero": _SHAPE,
    "repeat_interleave": f"by a tensor: {_SHAPE}",
    "tensor_split": "by a tensor of data",
    "unique": _SHAPE,
    "unique_consecutive": _SHAPE,
}
"Operators of which some function form isn't one graph: name or pattern -> why."

DIFFERS: dict[str, str] = {}
"Operators that don't do quite what plain torch does: name or pattern -> how, and why."
