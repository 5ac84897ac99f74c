"""What one call did: copies of arguments before it, and all that can be seen behind it."""

from __future__ import annotations

from typing import Any

import torch

PLAIN = (torch.float32, torch.float64, torch.complex64, torch.complex128, torch.int64, torch.int32, torch.bool)
"Dtypes that can be compared as they are."

EXACT = 1e-6
"The same kernels run on the same data; where memory lies may change the last digits."


class Cloner:
    """Copies arguments: containers anew, tensors with strides, offsets and shared storages as they were."""

    def __init__(self, requires_grad: bool | None = None) -> None:
        self.requires_grad = requires_grad
        self.storages: dict[int, torch.UntypedStorage] = {}
        self.made: dict[int, torch.Tensor] = {}

    def __call__(self, value: Any) -> Any:
        """The copy of a nested structure; what isn't a tensor or plain container stays."""
        if isinstance(value, torch.Tensor):
            if id(value) not in self.made:
                self.made[id(value)] = self.tensor(value)
            return self.made[id(value)]
        if isinstance(value, torch.Generator):
            return torch.Generator(value.device).set_state(value.get_state())
        if type(value) in (list, tuple):
            return type(value)(map(self, value))
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return type(value)(*map(self, value))
        if type(value) is dict:
            return {key: self(item) for key, item in value.items()}
        return value

    def tensor(self, value: torch.Tensor) -> torch.Tensor:
        """The copy of a tensor; a leaf, as samples are."""
        with torch.no_grad():
            made = self._copy(value.detach())
        wants = value.requires_grad if self.requires_grad is None else self.requires_grad
        return made.requires_grad_() if wants else made

    def _copy(self, value: torch.Tensor) -> torch.Tensor:
        if (
            value.layout is not torch.strided
            or value.is_nested
            or value.is_quantized
            or type(value) is not torch.Tensor
        ):
            return value.clone()
        storage = value.untyped_storage()
        if storage._cdata not in self.storages:
            self.storages[storage._cdata] = storage.clone()
        made = torch.empty(0, dtype=value.dtype)
        made.set_(self.storages[storage._cdata], value.storage_offset(), value.size(), value.stride())  # type: ignore[call-overload]
        if value.is_conj():
            made = torch._conj(made)
        return torch._neg_view(made) if value.is_neg() else made


class Aliasing:
    """Numbers objects and storages in the order in which they are met."""

    def __init__(self) -> None:
        self.objects: dict[int, int] = {}
        self.storages: dict[int, int] = {}

    def __call__(self, tensor: torch.Tensor) -> tuple[Any, ...]:
        """Which tensor this is, and where it lies in which storage."""
        number = self.objects.setdefault(id(tensor), len(self.objects))
        if tensor.layout is not torch.strided:
            return (number,)
        storage = tensor.untyped_storage()
        lies = self.storages.setdefault(storage._cdata, len(self.storages))
        return number, lies, storage.nbytes()


def describe(value: Any, aliasing: Aliasing, data: list[torch.Tensor]) -> Any:
    """A result or argument as plain data; what tensors hold is appended to `data`."""
    if isinstance(value, torch.Tensor):
        data.append(value)
        return type(value).__qualname__, *metadata(value), aliasing(value)
    if isinstance(value, (list, tuple)):
        return type(value).__qualname__, [describe(item, aliasing, data) for item in value]
    if isinstance(value, dict):
        return type(value).__qualname__, [(key, describe(item, aliasing, data)) for key, item in value.items()]
    if isinstance(value, torch.Generator):
        return "Generator", value.get_state().tolist()
    if callable(value) and not isinstance(value, type):
        return type(value).__qualname__
    return type(value).__qualname__, repr(value)


def metadata(t: torch.Tensor) -> tuple[Any, ...]:
    """All that a tensor says of itself, but for its data."""
    facts = (str(t.dtype), str(t.layout), str(t.device), t.requires_grad, t.is_leaf, t._is_view())
    if t.is_nested:
        return (*facts, "nested", [metadata(each) for each in t.unbind()])
    shape = (tuple(t.shape), t.is_conj(), t.is_neg())
    if t.layout is not torch.strided:
        return (*facts, *shape)
    return (*facts, *shape, t.stride(), t.storage_offset(), type(t.grad_fn).__name__)


def same_data(a: torch.Tensor, b: torch.Tensor, tolerance: float) -> bool:
    """Whether two tensors with equal metadata hold the same, bit for bit or within the tolerance."""
    with torch.no_grad():
        a, b = a.detach(), b.detach()
        if a.is_nested:
            return all(same_data(x, y, tolerance) for x, y in zip(a.unbind(), b.unbind()))
        if a.layout is not torch.strided:
            a, b = a.to_dense(), b.to_dense()
        if a.is_quantized:
            a, b = a.dequantize(), b.dequantize()
        if a.dtype not in PLAIN:
            wide = (
                torch.complex128 if a.dtype.is_complex else torch.float64 if a.dtype.is_floating_point else torch.int64
            )
            a, b = a.to(wide), b.to(wide)
        return torch.equal(a, b) or torch.allclose(a, b, rtol=tolerance, atol=tolerance / 10, equal_nan=True)


def gradients(result: Any, args: Any, data: list[torch.Tensor], inputs: list[torch.Tensor]) -> list[Any]:
    """Derivatives of what the result holds by the inputs that want one; None where they aren't connected."""
    outs = [each for each in data if each.requires_grad and each.grad_fn is not None]
    wants = [each for each in inputs if each.requires_grad and each.is_leaf]
    if not outs or not wants:
        return []
    weights = [torch.linspace(0.5, 1.5, each.numel(), dtype=each.dtype).reshape(each.shape) for each in outs]
    return list(torch.autograd.grad(outs, wants, weights, allow_unused=True))


class Observation:
    """What a call gave: `seen` is compared for equality, `data` and `grads` by value."""

    def __init__(self, function: Any, args: tuple[Any, ...], differentiate: bool) -> None:
        torch.manual_seed(1)
        self.data: list[torch.Tensor] = []
        self.grads: list[Any] = []
        self.error: BaseException | None = None
        result: Any = None
        try:
            result = function(*args)
        except Exception as error:
            self.error = error.with_traceback(None)
        aliasing, inputs = Aliasing(), []
        seen_args = describe(args, aliasing, inputs)
        self.seen = (
            None if self.error is None else type(self.error).__name__,
            seen_args,
            describe(result, aliasing, self.data),
        )
        self.random = torch.get_rng_state()
        if differentiate and self.error is None:
            try:
                self.grads = gradients(result, args, self.data, inputs)
            except Exception as error:  # torch's own: told, and compared
                self.grads = [type(error).__name__]
        self.data = inputs + self.data


def difference(plain: Observation, other: Observation, tolerance: float | None = EXACT) -> str | None:
    """In what two observations differ, None where they are equal; without a `tolerance` data isn't compared."""
    if plain.seen != other.seen:
        return "\n".join(
            [f"plain: {plain.seen}", f"other: {other.seen}", *([f"raised: {other.error}"] if other.error else [])]
        )
    if not torch.equal(plain.random, other.random):
        return "the random generator is left in another state"
    if tolerance is None:
        return None
    for number, (a, b) in enumerate(zip(plain.data, other.data, strict=True)):
        if not same_data(a, b, tolerance):
            return f"tensor {number} holds other values"
    for a, b in zip(plain.grads, other.grads, strict=True):
        if type(a) is not type(b) or (isinstance(a, str) and a != b):
            return f"a gradient is {b} and not {a}"
        if isinstance(a, torch.Tensor) and not same_data(a, b, tolerance):
            return "a gradient differs"
    return None
