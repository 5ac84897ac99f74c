"""Sizes that nothing may be decided by (`mark_unbacked`) under a compiler: one kernel for all from 2 on.

A kernel is made for sizes that vary, as others are, and takes 2 or more for
granted. Where such a size is 0 or 1, or an input isn't laid out contiguously,
there is code for the sizes at hand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import torch

from aotdyn.backends.stored import Compiled
from aotdyn.graph.program import Program, changed


class FromTwoOn:
    """Calls of one graph: `make` compiles a program for inputs like some, `few` is the code for other sizes."""

    def __init__(
        self, program: Program, make: Callable[[Program, list[torch.Tensor]], Compiled], few: Compiled
    ) -> None:
        self._program = changed(program, inputs=[msgspec.structs.replace(item, unbacked=()) for item in program.inputs])
        self._places = [(number, dim) for number, item in enumerate(program.inputs) for dim in item.unbacked]
        self._varying = [number for number, item in enumerate(program.inputs) if item.dynamic]
        self._make = make
        self._few = few
        self._made: Compiled | None = None

    def __call__(self, *inputs: torch.Tensor) -> Sequence[Any]:
        if any(inputs[number].size(dim) < 2 for number, dim in self._places) or not all(
            inputs[number].is_contiguous() for number in self._varying
        ):
            return self._few(*inputs)
        if self._made is None:
            self._made = self._make(self._program, list(inputs))
        return self._made(*inputs)
