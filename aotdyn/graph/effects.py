"""What a node does besides computing its value: mode changes, mutation, random draws.

Nodes made by `GraphBuilder` carry what was seen when they ran on fake tensors
(`mutates`, `random`, `may_raise` in their `meta`); the tables answer for the
rest. Unknown Python functions count as impure.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import fx
from torch._functorch import predispatch
from torch.amp import autocast_mode
from torch.autograd import grad_mode

from aotdyn.graph import native

_functorch = torch._C._functorch  # type: ignore[attr-defined]

LEVELS: dict[Any, tuple[Any, Any]] = {
    _functorch.TransformType.Vmap: (predispatch._vmap_increment_nesting, predispatch._vmap_decrement_nesting),
    _functorch.TransformType.Grad: (_functorch._grad_increment_nesting, _functorch._grad_decrement_nesting),
    _functorch.TransformType.Jvp: (predispatch._jvp_increment_nesting, predispatch._jvp_decrement_nesting),
}
"""Levels of torch.func: what opens one and closes it."""

OPENERS: dict[Any, Any] = {
    native.enter_dual_level: native.exit_dual_level,
    autocast_mode._enter_autocast: autocast_mode._exit_autocast,
    grad_mode._enter_inference_mode: grad_mode._exit_inference_mode,
}
"""Functions that open a mode and return its handle, with the one that closes it."""

DEVICE_MODE = ("torch.utils._device", "DeviceContext")
"""The function mode that stands for a default device: it changes nothing but factories."""

SDP: dict[str, tuple[Any, Any]] = {
    name: (getattr(torch._C, f"_get_{name}_sdp_enabled"), getattr(torch._C, f"_set_sdp_use_{name}"))
    for name in ("flash", "mem_efficient", "math", "cudnn", "overrideable")
}
"""Kinds of kernels for scaled_dot_product_attention: whether one is allowed, and what sets that."""


def set_deterministic(level: int) -> None:
    """Deterministic mode by its level as `torch.get_deterministic_debug_mode` tells it: off, warns, raises."""
    torch.use_deterministic_algorithms(level > 0, warn_only=level == 1)


def function_modes() -> list[Any]:
    """The stack of torch function modes of the thread, outermost first."""
    return [torch._C._get_function_stack_at(i) for i in range(torch._C._len_torch_function_stack())]


def device_modes() -> tuple[str, ...] | None:
    """The devices of the function modes that stand for a default device; None where the stack holds any other."""
    modes = function_modes()
    return tuple(str(mode.device) for mode in modes) if all(_is_device_mode(mode) for mode in modes) else None


def _is_device_mode(mode: Any) -> bool:
    cls = type(mode)
    return (cls.__module__, cls.__qualname__) == DEVICE_MODE


def set_device_modes(devices: tuple[str, ...]) -> None:
    """Have the stack of function modes be default devices, these; what is so already stays."""
    from torch.utils._device import DeviceContext

    modes = function_modes()
    same = 0
    while same < min(len(modes), len(devices)) and str(modes[same].device) == devices[same]:
        same += 1
    set_function_modes([*modes[:same], *map(DeviceContext, devices[same:])])


def set_function_modes(wanted: list[Any]) -> None:
    """Have the stack of function modes be these objects."""
    modes = function_modes()
    same = 0
    while same < min(len(modes), len(wanted)) and modes[same] is wanted[same]:
        same += 1
    for _ in modes[same:]:
        torch._C._pop_torch_function_stack()
    for mode in wanted[same:]:
        torch._C._push_on_torch_function_stack(mode)


MODE_SETTERS: frozenset[Any] = frozenset(
    (
        set_device_modes,
        *(setter for _, setter in SDP.values()),
        *OPENERS,
        *OPENERS.values(),
        torch._C._set_grad_enabled,
        torch.set_grad_enabled,
        set_deterministic,
        torch._C._set_default_dtype,  # type: ignore[attr-defined]
        torch.set_autocast_enabled,
        torch.set_autocast_dtype,
        torch.set_autocast_cache_enabled,
        torch.autocast_increment_nesting,
        torch.autocast_decrement_nesting,
        torch.clear_autocast_cache,
        *(function for pair in LEVELS.values() for function in pair),
    )
)
"""Functions that change a mode of the thread; a graph that raises between them restores what it found."""

IMPURE_PREFIXES = (
    *("set_", "_set_", "_enter", "_exit", "_assert", "_check", "_async", "manual_seed", "sym_constrain"),
    *("lazy_load", "_maybe_load"),
)

INPLACE = ("add", "and", "floordiv", "lshift", "matmul", "mod", "mul", "or", "pow", "rshift", "sub", "truediv", "xor")

IMPURE_METHODS = frozenset(
    (
        *("backward", "register_hook", "register_post_accumulate_grad_hook", "retain_grad", "bernoulli", "multinomial"),
        *("__setitem__", "__delitem__", "__setattr__", "__set__", "__setstate__"),
        *(f"__i{name}__" for name in INPLACE),
    )
)

RANDOM = frozenset(
    (
        *("rand", "randn", "randint", "randint_like", "randperm", "rand_like", "randn_like", "normal", "poisson"),
        *("bernoulli", "multinomial", "binomial", "rrelu", "gumbel_softmax", "native_dropout", "alpha_dropout"),
        *("dropout", "dropout1d", "dropout2d", "dropout3d", "feature_dropout", "feature_alpha_dropout"),
        *("scaled_dot_product_attention", "multi_head_attention_forward", "lstm", "gru", "rnn_tanh", "rnn_relu"),
        *("fractional_max_pool2d", "fractional_max_pool3d", "batch_norm", "instance_norm", "embedding"),
        "embedding_bag",
    )
)
"""Functions that may draw random numbers, or change buffers, depending on their arguments."""

IMPURE_OPERATORS = frozenset(("iconcat", "setitem", "delitem", "setattr", "delattr", *(f"i{name}" for name in INPLACE)))

PURE_MODULES = ("torch", "_operator", "operator", "builtins", "math")


def is_pure(node: fx.Node) -> bool:
    """Whether a node may be dropped where nobody reads its value."""
    meta = node.meta
    if node.op in ("placeholder", "get_attr"):
        return True
    if node.op in ("output", "call_module") or meta.get("mutates") or meta.get("random") or meta.get("may_raise"):
        return False
    return pure_call(node.target, node.kwargs, observed="mutates" in meta)


def pure_call(target: Any, kwargs: Mapping[str, Any], observed: bool = False) -> bool:
    """Whether a call of `target` (a str: the method of this name) is known by its name to have no effect.

    `observed` says that it was seen to run, and that writes and random draws were looked for.
    """
    if kwargs.get("out") is not None or kwargs.get("inplace"):
        return False
    if isinstance(target, str):
        return _pure_name(target) and target not in IMPURE_METHODS
    return _pure_function(target, observed)


def draws(op: Any) -> bool:
    """Whether a dispatched operator draws from a generator."""
    return torch.Tag.nondeterministic_seeded in getattr(op, "tags", ())


def written(op: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """What a dispatched operator that writes to the tensors of a list (`_foreach_mul_`, `_fused_sgd_`) writes to.

    Nothing for any other operator: autograd itself moves the versions of what that writes to.
    """
    places = _written_places(op) if isinstance(op, torch._ops.OpOverload) and op._schema.is_mutable else ()
    return [args[i] if i < len(args) else kwargs.get(name) for i, name in places]


@functools.cache
def _written_places(op: torch._ops.OpOverload) -> tuple[tuple[int, str], ...]:
    """Positions and names of what an operator with a list that it writes to writes to; nothing without such a list."""
    places = [(i, argument) for i, argument in enumerate(op._schema.arguments) if argument.is_write]
    if not any(isinstance(argument.type, torch.ListType) for _, argument in places):
        return ()
    return tuple((i, argument.name) for i, argument in places)


def _pure_function(target: Any, observed: bool) -> bool:
    if isinstance(target, torch._ops.OpOverload):
        return not (target._schema.is_mutable or draws(target))
    if isinstance(target, torch._ops.OpOverloadPacket):
        return all(_pure_function(getattr(target, name), observed) for name in target.overloads())
    name, module = getattr(target, "__name__", ""), getattr(target, "__module__", None) or "torch"
    if target in MODE_SETTERS or not name or not _pure_name(name):
        return False
    if module in ("_operator", "operator", "builtins") and name in IMPURE_OPERATORS:
        return False
    if name in IMPURE_METHODS or isinstance(getattr(target, "__self__", None), type):
        return False
    if not observed and name in RANDOM:
        return False
    known = module.partition(".")[0] in PURE_MODULES
    return known and not isinstance(target, types.MethodType)


def _pure_name(name: str) -> bool:
    return not (name.endswith("_") and not name.endswith("__")) and not name.startswith(IMPURE_PREFIXES)


class Modes:
    """The thread's modes as they were when a graph with mode changes began."""

    DEVICES = ("cpu", "cuda")

    def __init__(self) -> None:
        self.grad = torch.is_grad_enabled()
        self.autocast = [
            (device, torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)) for device in self.DEVICES
        ]
        self.cache = torch.is_autocast_cache_enabled()
        self.nesting = _nesting()
        self.sdp = {name: read() for name, (read, _) in SDP.items()}
        self.level = batching_level()
        self.deterministic = torch.get_deterministic_debug_mode()
        self.default_dtype = torch.get_default_dtype()
        self.functions = function_modes()

    def restore(self, *opened: tuple[Any, Any]) -> None:
        """Close what is still open, `(closing function, handle or None)` in order of opening, and set the rest back."""
        for close, handle in reversed(opened):
            if handle is not None:
                close(handle)
        for device, enabled, dtype in self.autocast:
            torch.set_autocast_enabled(device, enabled)
            torch.set_autocast_dtype(device, dtype)
        torch.set_autocast_cache_enabled(self.cache)
        while _nesting() > self.nesting:
            torch.autocast_decrement_nesting()
        while batching_level() > self.level:
            LEVELS[_functorch.peek_interpreter_stack().key()][1]()
        torch._C._set_grad_enabled(self.grad)
        set_function_modes(self.functions)
        if torch.get_default_dtype() is not self.default_dtype:
            torch.set_default_dtype(self.default_dtype)
        if torch.get_deterministic_debug_mode() != self.deterministic:
            set_deterministic(self.deterministic)
        for name, (read, setter) in SDP.items():
            if read() != self.sdp[name]:
                setter(self.sdp[name])


GRAD_SETTERS: frozenset[Any] = frozenset((torch._C._set_grad_enabled, torch.set_grad_enabled))
"Of the functions that change a mode those that turn gradients on or off."


class GradMode:
    """The same for a graph that changes no other mode than whether gradients are recorded: all modes take 10 us."""

    def __init__(self) -> None:
        self.grad = torch.is_grad_enabled()

    def restore(self) -> None:
        """Set it back."""
        torch._C._set_grad_enabled(self.grad)


def batching_level() -> int:
    """The innermost functorch level of the thread, 0 outside of any."""
    return _functorch.maybe_current_level() or 0


def _nesting() -> int:
    depth = torch.autocast_increment_nesting() - 1
    torch.autocast_decrement_nesting()
    return depth


def probability(operator: Any, args: Any, kwargs: Any) -> Any:
    """The dropout probability that an operator is called with, None where it has none: with 0 nothing is drawn."""
    for i, argument in enumerate(operator._schema.arguments):
        if argument.name in ("dropout_p", "dropout"):
            given = args[i] if i < len(args) else kwargs.get(argument.name, argument.default_value)
            return 0.0 if given is None else given
    return None
