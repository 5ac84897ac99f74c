"""What a kernel depends on beside its graph: the machine, modes of the thread, settings of inductor.

Settings are read without importing a compiler: where inductor isn't loaded,
nobody has changed them but by the environment's variables.
"""

from __future__ import annotations

import contextlib
import functools
import os
import platform
import sys
from collections.abc import Iterator
from typing import Any

import torch

CONFIGS = ("torch._inductor.config", "torch._functorch.config")

VARIABLES = "TORCHINDUCTOR_"
"Variables of the environment that begin so are settings."

PLACES = frozenset(
    VARIABLES + name
    for name in (
        "CACHE_DIR",
        "COMPILE_THREADS",
        "FX_GRAPH_CACHE",
        "FX_GRAPH_REMOTE_CACHE",
        "AUTOTUNE_REMOTE_CACHE",
        "BUNDLED_AUTOTUNE_REMOTE_CACHE",
        "WORKER_START",
        "LOG_LEVEL",
    )
)
"Those that say where or how fast inductor works, not what it makes."

OURS = frozenset(
    {"donated_buffer", "compile_threads", "worker_start_method", "fx_graph_cache", "fx_graph_remote_cache"}
)
"Settings that change nothing in a kernel of ours, or that we set ourselves."


def modes() -> list[Any]:
    """Modes and defaults of the thread that a graph may be compiled differently for."""
    return [
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        torch.is_autocast_enabled("cpu") and str(torch.get_autocast_dtype("cpu")),
        str(torch.get_default_dtype()),
        torch.are_deterministic_algorithms_enabled(),
        torch.get_float32_matmul_precision(),
        torch.backends.mkldnn.enabled,
        [
            torch._C._get_flash_sdp_enabled(),
            torch._C._get_mem_efficient_sdp_enabled(),
            torch._C._get_math_sdp_enabled(),
        ],
    ]


_left: dict[str, str] = {}
"Settings that compiling changed and didn't put back, as notes of inductor's own: they aren't the program's."


def settings() -> list[tuple[str, str]]:
    """Settings of inductor that aren't the defaults: changed by the program, or by variables."""
    found = [(name, value) for name, value in os.environ.items() if name.startswith(VARIABLES) and name not in PLACES]
    return sorted([*found, *((name, value) for name, value in _changed() if _left.get(name) != value)])


@contextlib.contextmanager
def compiling() -> Iterator[None]:
    """Around a compilation: what it leaves changed isn't taken for the program's wish."""
    before = dict(_changed())
    try:
        yield
    finally:
        _left.update((name, value) for name, value in _changed() if before.get(name) != value)


def _changed() -> Iterator[tuple[str, str]]:
    for module in CONFIGS:
        loaded = sys.modules.get(module)
        for name, entry in getattr(loaded, "_config", {}).items():
            if name in OURS or name.startswith("trace."):
                continue
            value = entry.user_override.get(entry)
            if value is not entry and value is not _unset() and not _same(value, entry.default):
                yield f"{module}.{name}", _words(value)


@functools.cache
def _unset() -> Any:
    from torch.utils import _config_module

    return getattr(_config_module, "_UNSET_SENTINEL", None)


def _same(value: Any, default: Any) -> bool:
    return type(value) is type(default) and bool(value == default)


def _words(value: Any) -> str:
    """A setting's value; a function by its name and code."""
    code = getattr(value, "__code__", None)
    if code is None:
        return repr(value)
    from aotdyn.rewrite.digest import digest

    return f"{value.__module__}.{value.__qualname__} {digest(code)}"


@functools.cache
def machine() -> list[str]:
    """Versions of torch and the C library, the processor's instruction set: kernels are for the very machine."""
    flags = ""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            flags = next((line for line in lines if line.startswith(("flags", "Features"))), "")
    except OSError:
        pass
    flags = flags or platform.processor()  # which starts a process, on Linux
    flags = " ".join(sorted(flags.partition(":")[2].split()) or [flags])
    capability = torch.backends.cpu.get_cpu_capability()
    return [str(torch.__version__), platform.system(), platform.machine(), capability, flags, _c_library()]


def _c_library() -> str:
    """Name and version of the C library, whose symbols a kernel may ask for: an older one couldn't load it."""
    try:
        return os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (AttributeError, ValueError, OSError):
        return ""


def about() -> dict[str, str]:
    """The same in words, kept with a kernel to tell why it doesn't fit another process."""
    version, system, kind, capability, flags, library = machine()
    words = {
        "torch": version,
        "machine": f"{system} {kind}, {capability}, {library}",
        "processor": flags,
        "threads": "one" if torch.get_num_threads() == 1 else "many",
        "settings": "; ".join(f"{name}={value}" for name, value in settings()),
    }
    names = ("grad", "inference", "autocast", "dtype", "deterministic", "matmul precision", "mkldnn", "sdp")
    return {**words, "modes": ", ".join(f"{name} {value}" for name, value in zip(names, modes(), strict=True))}
