"""Kinds of numbers that kernels refuse and fakes take: `True - x`, `x & 1` of floats, `x > y` of complex numbers.

Found by running operators over all pairs of kinds, eagerly and on fakes.
"""

from __future__ import annotations

from typing import Any

import torch

from .leaf import words

_SHIFTS = "lshift rshift bitwise_left_shift bitwise_right_shift"
_BITWISE = "and or xor bitwise_and bitwise_or bitwise_xor bitwise_not invert"
_ORDERED = "lt le gt ge less less_equal greater greater_equal maximum minimum fmax fmin max min amax amin sort argsort"
_SPLIT = (
    "mod remainder fmod floordiv floor_divide hypot nextafter gcd lcm cross heaviside floor ceil round trunc fix relu"
    " argmax argmin median softmax topk kthvalue"
)

OF_BOOL = words(f"sub subtract pow logaddexp ldexp dist abs absolute neg negative var std trace {_SPLIT} {_SHIFTS}")
OF_COMPLEX = words(
    f"{_ORDERED} {_SPLIT} {_BITWISE} {_SHIFTS} atan2 arctan2 copysign xlogy sign frac erf lgamma digamma mode"
    " log_softmax nansum nanmean cummax cummin signbit"
)
OF_FLOATS = words(f"{_BITWISE} {_SHIFTS} gcd lcm")
OF_INTEGERS = words("hypot logaddexp logaddexp2 nextafter frac var std softmax log_softmax softmin")
ARITHMETIC = words("add sub subtract mul multiply truediv div divide floordiv floor_divide mod remainder fmod pow")
"""Operators without the marks of their forms, by the kind of operand that the kernels of some of them refuse."""

_KNOWN = OF_BOOL | OF_COMPLEX | OF_FLOATS | OF_INTEGERS | ARITHMETIC


def refuses(name: str, operands: list[Any]) -> bool:
    """Whether the kernels of the operator called `name` may refuse the kinds of its operands."""
    base = _base(name)
    if base not in _KNOWN:
        return False
    tensors = [each.dtype for each in operands if isinstance(each, torch.Tensor)]
    if any(_refuses_dtype(base, dtype) for dtype in tensors):
        return True
    if base not in ARITHMETIC or len(operands) < 2:
        return False
    left, right = operands[:2]
    if base in OF_BOOL and (isinstance(left, bool) or isinstance(right, bool)):
        return True
    number = isinstance(right, torch.Tensor) or type(right) in (int, float, complex)
    if not _is_inplace(name) or not isinstance(left, torch.Tensor) or not number:
        return False
    return not torch.can_cast(torch.result_type(left, right), left.dtype)


def _is_inplace(name: str) -> bool:
    return name.strip("_").startswith("i") or (name.endswith("_") and not name.endswith("__"))


def _base(name: str) -> str:
    """`sub` for `isub`, `rsub`, `sub_`, `__rsub__`."""
    plain = name.strip("_")
    return plain[1:] if plain not in _KNOWN and plain[:1] in ("i", "r") else plain


def _refuses_dtype(base: str, dtype: torch.dtype) -> bool:
    if dtype is torch.bool:
        return base in OF_BOOL
    if dtype.is_complex:
        return base in OF_COMPLEX
    return base in (OF_FLOATS if dtype.is_floating_point else OF_INTEGERS)
