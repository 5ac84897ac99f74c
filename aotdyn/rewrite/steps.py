"""An optimizer's step without its breaks: code that does what torch's does, and needs no TorchDynamo for it.

Torch wraps each step (`_use_grad_for_differentiable`, torch/optim/optimizer.py)
such that TorchDynamo ends its graph where grad mode is switched, to keep
AOTAutograd from taking the step for training. A graph here holds the switches
themselves, and plain Python needs no break.
"""

from __future__ import annotations

import dis
import functools
from collections.abc import Callable
from types import CodeType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

NAMES = {"torch._dynamo", "_dynamo", "graph_break", "cast", "Optimizer"}
NAMES |= {"is_grad_enabled", "set_grad_enabled", "defaults"}
"Names in torch's code as it is known here: another may do more."


def _made(func: Any) -> Callable[..., Any]:
    def _use_grad(*args: Any, **kwargs: Any) -> Any:
        prev_grad = torch.is_grad_enabled()
        try:
            torch.set_grad_enabled(args[0].defaults["differentiable"])
            ret = func(*args, **kwargs)
        finally:
            torch.set_grad_enabled(prev_grad)
        return ret

    return _use_grad


_OURS = _made(None).__code__


@functools.cache
def without_breaks(code: CodeType) -> CodeType:
    """The same step without breaks, under torch's names and with the call of the step in its line; else `code`."""
    if code.co_freevars != _OURS.co_freevars or {*code.co_names} != NAMES:
        return code
    return _OURS.replace(
        co_filename=code.co_filename,
        co_name=code.co_name,
        co_qualname=code.co_qualname,
        co_firstlineno=_OURS.co_firstlineno + _line_of_call(code) - _line_of_call(_OURS),
    )


def _line_of_call(code: CodeType) -> int:
    """The line in which it calls the step itself, with all that it was given."""
    return next(
        each.positions.lineno or 0
        for each in dis.get_instructions(code)
        if each.opname == "CALL_FUNCTION_EX" and each.positions is not None
    )
