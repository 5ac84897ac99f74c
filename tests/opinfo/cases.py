"""Cases: one sample of an operator, called in one of the forms that torch has for it."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils._pytree import tree_iter

from .observe import Cloner

DTYPES = (torch.float32, torch.int64)
FOREACH = ("unary", "binary", "pointwise", "reduce", "other")
"Kinds of operators on lists of tensors, which have databases of their own."

FORMS = ("function", "method", "inplace", "out")
"Of `out` there are two: a tensor like the result, and one that is resized."


def call_function(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The operator as a function."""
    return op(*args, **kwargs)


def call_method(name: str, receiver: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The operator as a method, by its name."""
    return getattr(receiver, name)(*args, **kwargs)


def call_inplace(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The operator in place, on an argument that takes no part in autograd."""
    return op(*args, **kwargs)


def call_inplace_on_copy(op: Any, receiver: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The operator in place, on a copy that the code itself makes: what autograd needs."""
    receiver = receiver.clone()
    return op(receiver, *args, **kwargs), receiver


def call_out(op: Any, out: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The operator with `out=`."""
    return op(*args, out=out, **kwargs), out


@dataclasses.dataclass(frozen=True)
class Case:
    """One call: `function(*args)`. `gradients` says whether it is to be differentiated."""

    operator: str
    form: str
    dtype: torch.dtype
    number: int
    function: Callable[..., Any]
    args: tuple[Any, ...]
    gradients: bool

    @property
    def name(self) -> str:
        """How a report names the case."""
        return f"{self.operator} {self.form} {str(self.dtype).removeprefix('torch.')} {self.number}"


def unseeded(op: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Stands for the database's wrapper that seeds around an operator: the walk itself seeds."""
    return op(*args, **kwargs)


@functools.cache
def operators() -> dict[str, Any]:
    """The database by full names (`add`, `linalg.norm.subgradients_at_zero`); importing it takes seconds."""
    from torch.testing._internal import common_methods_invocations
    from torch.testing._internal.opinfo import core

    for module in (common_methods_invocations, core):
        if hasattr(module, "wrapper_set_seed"):
            module.wrapper_set_seed = unseeded
    databases = [common_methods_invocations.op_db]
    databases += [getattr(common_methods_invocations, f"foreach_{kind}_op_db") for kind in FOREACH]
    return {_name(op): op for op in sorted(itertools.chain(*databases), key=_name)}


def _name(op: Any) -> str:
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name


@dataclasses.dataclass(frozen=True)
class Wanted:
    """Which cases: at most `limit` samples of each dtype, in these forms."""

    limit: int | None = None
    forms: tuple[str, ...] = FORMS
    dtypes: tuple[torch.dtype, ...] = DTYPES


def cases(name: str, op: Any, wanted: Wanted) -> Iterator[Case]:
    """The cases of an operator."""
    for dtype in wanted.dtypes:
        if not op.supports_dtype(dtype, "cpu"):
            continue
        torch.manual_seed(0)
        differentiable = (
            dtype.is_floating_point and op.supports_autograd and dtype in op.supported_backward_dtypes("cpu")
        )
        # Not `op.sample_inputs`, which looks up the calling test's source for each sample.
        samples = op.sample_inputs_func(op, "cpu", dtype, differentiable)
        for number, sample in enumerate(list(itertools.islice(samples, wanted.limit))):
            for form, function, args in _forms(op, sample, differentiable, wanted.forms):
                yield Case(name, form, dtype, number, function, args, differentiable and "out" not in form)


def _forms(
    op: Any, sample: Any, differentiable: bool, wanted: tuple[str, ...]
) -> Iterator[tuple[str, Any, tuple[Any, ...]]]:
    args, kwargs = (sample.input, *sample.args), sample.kwargs
    if "function" in wanted:
        yield "function", call_function, (op.op, args, kwargs)
    if isinstance(sample.input, list) and "inplace" in wanted and op.inplace_variant is not None:
        plain = _without_grad((args, kwargs))
        if _fits_in_place(op, sample):
            yield "inplace", call_inplace, (op.inplace_variant, *plain)
    if not isinstance(sample.input, torch.Tensor):
        return
    if "method" in wanted and op.method_variant is not None and op.method_variant is not op.op:
        yield "method", call_method, (op.method_variant.__name__, sample.input, sample.args, kwargs)
    if (
        "inplace" in wanted
        and op.inplace_variant is not None
        and not sample.broadcasts_input
        and _fits_in_place(op, sample)
    ):
        if differentiable:
            yield "inplace", call_inplace_on_copy, (op.inplace_variant, sample.input, sample.args, kwargs)
        else:
            yield "inplace", call_inplace, (op.inplace_variant, args, kwargs)
    if "out" in wanted and op.supports_out and "out" not in kwargs:
        for form, out in _outs(op, args, kwargs):
            yield form, call_out, (op.op, out, *_without_grad((args, kwargs)))


def _fits_in_place(op: Any, sample: Any) -> bool:
    """Whether plain torch can do it: not where the result has another dtype or shape."""
    with torch.no_grad():
        try:
            receiver, args, kwargs = Cloner()((sample.input, sample.args, sample.kwargs))
            op.inplace_variant(receiver, *args, **kwargs)
        except (RuntimeError, TypeError):
            return False
    return True


def _outs(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """What to hand in as `out`: tensors like the results, and empty ones that are resized."""
    with torch.no_grad():
        try:
            found = op.op(*Cloner()(args), **Cloner()(kwargs))
        except RuntimeError:
            return
    results = [found] if isinstance(found, torch.Tensor) else list(found) if isinstance(found, (tuple, list)) else []
    if not results or not all(isinstance(each, torch.Tensor) and each.layout is torch.strided for each in results):
        return
    for form, make in (("out", lambda each: torch.zeros_like(each)), ("resized out", lambda each: each.new_empty(0))):
        made = [make(each.detach()) for each in results]
        if form == "resized out" and all(each.numel() == 0 for each in results):
            continue
        yield (
            form,
            made[0]
            if isinstance(found, torch.Tensor)
            else type(found)(made)
            if isinstance(found, list)
            else tuple(made),
        )


def _without_grad(value: Any) -> Any:
    """The arguments as tensors that take no part in autograd, which `out=` refuses."""
    return Cloner(requires_grad=False)(value)


def tensors(value: Any) -> list[torch.Tensor]:
    """The tensors in a nested structure."""
    return [each for each in tree_iter(value) if isinstance(each, torch.Tensor)]
