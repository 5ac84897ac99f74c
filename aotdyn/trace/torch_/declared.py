"""Functions of torch written in C that are no operators: Python runs them, each for a reason that is told."""

from __future__ import annotations

from collections.abc import Callable

import torch

from ..control import Break
from ..handlers import HANDLERS
from ..values import Value
from .leaf import words

SCRIPT = "TorchScript"
THREADS = "threads of the process"
AUTOCAST = "autocast of an unusual device"
NESTED = "a nested tensor"

DECLARED: dict[str, str] = {
    **dict.fromkeys(
        words(
            "fork wait import_ir_module import_ir_module_from_buffer parse_ir parse_schema parse_type_comment"
            " merge_type_from_type_comment unify_type_list"
        ),
        SCRIPT,
    ),
    **dict.fromkeys(words("init_num_threads get_num_interop_threads set_num_interop_threads"), THREADS),
    **dict.fromkeys(
        words(
            "get_autocast_ipu_dtype get_autocast_xla_dtype is_autocast_ipu_enabled is_autocast_xla_enabled"
            " set_autocast_ipu_dtype set_autocast_ipu_enabled set_autocast_xla_dtype set_autocast_xla_enabled"
        ),
        AUTOCAST,
    ),
    **dict.fromkeys(
        words("set_autocast_cpu_enabled set_autocast_cpu_dtype set_autocast_gpu_dtype"), "autocast's old setters"
    ),
    **dict.fromkeys(words("cudnn_is_acceptable is_vulkan_available"), "a fact of a device's library"),
    "from_file": "a tensor made of a file",
    "to_dlpack": "a tensor for another library",
    "set_flush_denormal": "changing how the processor rounds",
}
"""By name in torch."""

DECLARED_NESTED: dict[str, str] = dict.fromkeys(words("nested_tensor nested_to_padded_tensor"), NESTED)
"""By name in torch._C._nested."""


def _breaking(name: str, reason: str) -> Callable[..., Value]:
    def handler(t: object, *args: Value, **kwargs: Value) -> Value:
        raise Break(f"{name}: {reason}", "It runs natively between two graphs.")

    return handler


for _space, _table in ((torch, DECLARED), (torch._C._nested, DECLARED_NESTED)):  # type: ignore[attr-defined]
    for _name, _reason in _table.items():
        _function = getattr(_space, _name, None)
        if _function is not None:
            HANDLERS.setdefault(_function, _breaking(f"{_space.__name__.replace('_C._', '')}.{_name}", _reason))
