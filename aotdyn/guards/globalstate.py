"""Global state that tracing may read: our own list of facts, each read by one function.

A GLOBAL guard holds the values of the facts that tracing read. Those with
`covered` are seen by `torch._C._dynamo.guards.GlobalStateGuard` in one call;
the rest are compared one by one. Thread counts aren't facts: GlobalStateGuard
sees them, so after a change the guard fails once and binding builds it anew.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import numpy
import torch
from torch._C._dynamo.guards import GlobalStateGuard

from aotdyn.guards import constants

AUTOCAST_DEVICES = ("cpu", "cuda", "xpu", "mps")


class Fact(msgspec.Struct, frozen=True):
    """One fact of global state: how it is read (a constant), whether GlobalStateGuard sees it, what it says."""

    read: Callable[[], Any]
    covered: bool
    doc: str


def _autocast() -> tuple:
    devices = tuple(
        (device, torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else None)
        for device in AUTOCAST_DEVICES
    )
    return (*devices, torch.is_autocast_cache_enabled())


def _autocast_dtypes() -> tuple:
    return tuple((device, torch.get_autocast_dtype(device)) for device in AUTOCAST_DEVICES)


def _deterministic() -> tuple:
    return torch._C._get_deterministic_algorithms(), torch._C._get_deterministic_algorithms_warn_only()


def _function_modes() -> tuple:
    modes = (torch._C._get_function_stack_at(i) for i in range(torch._C._len_torch_function_stack()))
    return tuple((type(mode).__module__, type(mode).__qualname__, str(getattr(mode, "device", ""))) for mode in modes)


def _default_device() -> str:
    return str(torch.get_default_device())


def _saved_tensor_hooks() -> bool:
    return torch._C._autograd._top_saved_tensors_default_hooks(True) is not None


def _sdp() -> tuple:
    return (
        torch._C._get_flash_sdp_enabled(),
        torch._C._get_mem_efficient_sdp_enabled(),
        torch._C._get_math_sdp_enabled(),
        torch._C._get_cudnn_sdp_enabled(),
        torch._C._get_overrideable_sdp_enabled(),
        tuple(int(backend) for backend in torch._C._get_sdp_priority_order()),
    )


def _cudnn() -> tuple:
    return torch._C._get_cudnn_enabled(), torch._C._get_cudnn_benchmark(), torch._C._get_cudnn_deterministic()


def _anomaly() -> tuple:
    return torch._C.is_anomaly_enabled(), torch._C.is_anomaly_check_nan_enabled()


def _matmul_reduction() -> tuple:
    cuda = torch.backends.cuda.matmul
    return cuda.allow_fp16_reduced_precision_reduction, cuda.allow_bf16_reduced_precision_reduction


def _numpy_errors() -> bool:
    if not {"warn", "ignore"}.issuperset(numpy.geterr().values()):
        return True
    return any(action == "error" and issubclass(RuntimeWarning, kind) for action, _, kind, *_ in warnings.filters)


def _warnings_raise() -> bool:
    for action, text, kind, module, line in warnings.filters:
        if action == "error":
            return True
        if text is None and kind is Warning and module is None and not line:
            return False  # it catches all: what follows isn't asked
    return False


FACTS: dict[str, Fact] = {
    "grad_enabled": Fact(torch.is_grad_enabled, True, "grad mode"),
    "inference_mode": Fact(torch.is_inference_mode_enabled, False, "inference mode"),
    "autocast": Fact(_autocast, True, "dtype of autocast by device (None: off), and whether casts are cached"),
    "autocast_dtypes": Fact(_autocast_dtypes, False, "dtype of autocast by device, where it is off too"),
    "default_dtype": Fact(torch.get_default_dtype, True, "dtype of new floating point tensors"),
    "default_device": Fact(_default_device, False, "device of new tensors"),
    "deterministic": Fact(_deterministic, True, "deterministic algorithms, warn only"),
    "deterministic_fill": Fact(
        torch._C._get_deterministic_fill_uninitialized_memory, False, "deterministic mode fills empty tensors"
    ),
    "torch_function": Fact(torch._C._is_torch_function_enabled, True, "whether `__torch_function__` is called"),
    "function_modes": Fact(_function_modes, False, "stack of torch function modes: class and device"),
    "dispatch_modes": Fact(torch._C._len_torch_dispatch_stack, False, "depth of the stack of dispatch modes"),
    "saved_tensor_hooks": Fact(_saved_tensor_hooks, False, "whether saved tensors are packed by default hooks"),
    "sdp": Fact(_sdp, False, "backends of scaled_dot_product_attention: allowed ones, priority"),
    "mkldnn": Fact(torch._C._get_mkldnn_enabled, False, "whether oneDNN is used"),
    "cudnn": Fact(_cudnn, False, "cuDNN enabled, benchmark, deterministic"),
    "matmul_precision": Fact(torch.get_float32_matmul_precision, False, "precision of float32 matrix products"),
    "matmul_reduction": Fact(_matmul_reduction, True, "reduced precision reductions in matrix products"),
    "warnings_raise": Fact(_warnings_raise, False, "whether a filter makes errors of warnings"),
    "numpy_errors": Fact(_numpy_errors, False, "whether numpy's floating point errors raise or are logged"),
    "anomaly": Fact(_anomaly, False, "anomaly detection, and its check for nan"),
}

ALWAYS = (
    "grad_enabled",
    "inference_mode",
    "autocast",
    "default_dtype",
    "deterministic",
    "torch_function",
    "function_modes",
    "dispatch_modes",
    "saved_tensor_hooks",
)
"""Facts that count as read when any tensor operation is traced."""


def snapshot(names: Iterable[str] = ALWAYS) -> dict[str, Any]:
    """The facts as they are now, encoded: the `expected` of a GLOBAL guard."""
    return {name: constants.encode(FACTS[name].read()) for name in names}


def difference(expected: dict[str, Any]) -> tuple[str, Any, Any] | None:
    """The first fact that differs now, as (name, expected, found); None where all hold."""
    for name, data in expected.items():
        wanted, found = constants.decode(data), FACTS[name].read()
        if not constants.same(wanted, found):
            return name, wanted, found
    return None


def state_guard() -> Callable[[], bool]:
    """A check that the covered facts are as they are now."""
    return GlobalStateGuard().check
