"""Symbolic global state: the modes that the traced program is in, as far as it reads or changes them.

Grad mode and autocast can change while tracing: a change is a node of the
graph, and operators run on fake tensors under the symbolic modes. Everything
else is read from the process, guarded, and can't be changed. Facts have the
names of `guards.globalstate.FACTS`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch.autograd import grad_mode

from aotdyn.graph import effects, native
from aotdyn.guards import globalstate

from ..control import Break, Unbuildable
from ..handlers import handles
from ..values import Const, Value, force

DEVICES = effects.Modes.DEVICES
"""Devices whose autocast mode can change while tracing."""

INFERENCE = (grad_mode._enter_inference_mode, grad_mode._exit_inference_mode)
"""What opens inference mode and closes it; there is no setter."""


FOREIGN = "a torch function mode is active"


class State:
    """The modes at one point of the trace; `began` holds those that the trace began with, once read."""

    def __init__(self, t: Any) -> None:
        from . import compiler

        compiler.register_late()
        self.t = t
        self.token = Value()
        self.began: dict[Any, Any] = {}
        self.current: dict[Any, Any] = {}
        self.nesting = 0
        self.dual_levels: list[int] = []  # levels of forward-mode derivatives that are open
        self.opened: list[Any] = []  # what is entered and not left: inference modes, levels of derivatives
        self._noted = False

    def read(self, key: Any) -> Any:
        """A mode by its key in MODES, as the program would see it."""
        if key in self.current:
            return self.current[key]
        mode = MODES[key]
        self.t.guard_global(mode.fact)
        value = self.current[key] = self.began[key] = mode.read()
        return value

    def write(self, key: Any, value: Any) -> None:
        """Change a mode: a node in the graph, unless it changes nothing."""
        if self.read(key) == value:
            return
        self.t.mutated(self.token)
        mode = MODES[key]
        self.current[key] = value
        self.record(mode.setter, (*mode.key, value))

    def record(self, function: Callable[..., Any], args: tuple[Any, ...]) -> tuple[Any, Any]:
        """A node that calls a mode's setter; the real modes stay as they are."""
        real = effects.Modes()
        try:
            return self.t.builder.call_function(function, args, {}, self.t.stack_lines())
        finally:
            real.restore()

    def changes(self) -> list[tuple[Callable[..., Any], tuple[Any, ...]]]:
        """Calls that take the process from the modes that the trace began with to the present ones."""
        for guard in self.opened:
            raise Unbuildable(guard, "inference mode or a level of derivatives is open")
        calls = [
            (MODES[key].setter, (*MODES[key].key, value))
            for key, value in self.current.items()
            if self.began[key] != value
        ]
        step = torch.autocast_increment_nesting if self.nesting > 0 else torch.autocast_decrement_nesting
        return calls + [(step, ())] * abs(self.nesting)

    def replays(self, node: Any) -> bool:
        """Whether a node of the graph does nothing but what `changes` does."""
        return node.target in INFERENCE or any(node.target is mode.setter for mode in MODES.values())

    def initial(self, facts: Iterable[str]) -> dict[str, Any]:
        """The facts as the trace began, encoded: the `expected` of a GLOBAL guard."""
        return globalstate.snapshot(facts)

    @contextlib.contextmanager
    def restored(self) -> Iterator[None]:
        """Whatever happens while tracing, the process's modes stay what they were."""
        real = effects.Modes()
        try:
            yield
        finally:
            real.restore(*((native.exit_dual_level, level) for level in self.dual_levels))

    def note_operation(self) -> None:
        """Guard what every operator depends on; Break under a function mode of the user's."""
        from . import compiler

        if self._noted:
            return
        compiler.register_late()  # what is run on fake tensors has imported torch._dynamo by now
        for fact in globalstate.ALWAYS:
            self.t.guard_global(fact)
        if effects.device_modes() is None:
            raise Break(FOREIGN, "Its `__torch_function__` runs for each operator.")
        self._noted = True

    @contextlib.contextmanager
    def applied(self) -> Iterator[None]:
        """The symbolic modes made real, for running operators on fake tensors."""
        autocast = any(torch.is_autocast_enabled(device) for device in DEVICES)
        moved = [key for key, value in self.current.items() if self.began[key] != value]
        if not moved and not autocast:
            yield
            return
        real = effects.Modes()
        with contextlib.ExitStack() as stack:
            if "inference" in moved:
                stack.enter_context(torch._C._InferenceMode(self.current["inference"]))  # type: ignore[attr-defined]
                moved = ["grad", *(key for key in moved if key not in ("grad", "inference"))]
            stack.callback(real.restore)
            for key in moved:
                MODES[key].setter(*MODES[key].key, self.read(key))
            torch.set_autocast_cache_enabled(False)  # casts of fakes must not stay in the real cache
            yield


class Mode:
    """How one changeable mode is read and set; `fact` guards its first reading."""

    def __init__(self, fact: str, read: Callable[..., Any], setter: Any, *key: Any) -> None:
        self.fact, self.setter, self.key = fact, setter, key
        self.reader = read

    def read(self) -> Any:
        """The mode of the process."""
        return self.reader(*self.key)


def _autocast_modes() -> dict[Any, Mode]:
    made: dict[Any, Mode] = {}
    for device in DEVICES:
        made["enabled", device] = Mode("autocast", torch.is_autocast_enabled, torch.set_autocast_enabled, device)
        made["dtype", device] = Mode("autocast_dtypes", torch.get_autocast_dtype, torch.set_autocast_dtype, device)
    return made


MODES: dict[Any, Mode] = {
    "grad": Mode("grad_enabled", torch.is_grad_enabled, torch._C._set_grad_enabled),
    "inference": Mode("inference_mode", torch.is_inference_mode_enabled, None),
    "deterministic": Mode("deterministic", torch.get_deterministic_debug_mode, effects.set_deterministic),
    "default_dtype": Mode("default_dtype", torch.get_default_dtype, torch._C._set_default_dtype),  # type: ignore[attr-defined]
    "devices": Mode("function_modes", effects.device_modes, effects.set_device_modes),
    "cache": Mode("autocast", torch.is_autocast_cache_enabled, torch.set_autocast_cache_enabled),
    **_autocast_modes(),
    **{("sdp", name): Mode("sdp", read, setter) for name, (read, setter) in effects.SDP.items()},
}
"""Modes that may change while tracing, by key."""


def _known(value: Value, what: str) -> Any:
    value = force(value)
    if not isinstance(value, Const):
        raise Break(f"{what} isn't known while tracing")
    return value.value


def _device(value: Value | None) -> str:
    device = "cuda" if value is None else _known(value, "the device of autocast")
    if device not in DEVICES:
        raise Break(f"autocast of device {device!r}")
    return device


@handles(torch.is_inference_mode_enabled)
def _is_inference_mode_enabled(t: Any) -> Value:
    return Const(t.state.read("inference"))


@handles(torch.is_grad_enabled)
def _is_grad_enabled(t: Any) -> Value:
    if t.differentiating:
        raise Break("the grad mode of a backward pass")
    return Const(t.state.read("grad"))


@handles(torch._C._set_grad_enabled)
def _set_grad_enabled(t: Any, mode: Value) -> Value:
    t.state.write("grad", bool(_known(mode, "the grad mode")))
    return Const(None)


@handles(torch.is_autocast_enabled)
def _is_autocast_enabled(t: Any, device_type: Value | None = None) -> Value:
    return Const(t.state.read(("enabled", _device(device_type))))


@handles(torch.is_autocast_cpu_enabled)
def _is_autocast_cpu_enabled(t: Any) -> Value:
    return Const(t.state.read(("enabled", "cpu")))


@handles(torch._C._is_any_autocast_enabled)
def _is_any_autocast_enabled(t: Any) -> Value:
    enabled = [t.state.read(("enabled", device)) for device in DEVICES]
    if not any(enabled) and torch._C._is_any_autocast_enabled():
        raise Break("autocast of an unusual device")
    return Const(any(enabled))


@handles(torch.get_autocast_dtype)
def _get_autocast_dtype(t: Any, device_type: Value) -> Value:
    return Const(t.state.read(("dtype", _device(device_type))))


@handles(torch.get_autocast_cpu_dtype)
def _get_autocast_cpu_dtype(t: Any) -> Value:
    return Const(t.state.read(("dtype", "cpu")))


@handles(torch.get_autocast_gpu_dtype)
def _get_autocast_gpu_dtype(t: Any) -> Value:
    return Const(t.state.read(("dtype", "cuda")))


@handles(torch.set_autocast_enabled)
def _set_autocast_enabled(t: Any, device_type: Value, enabled: Value | None = None) -> Value:
    if enabled is None:  # the old form, set_autocast_enabled(enabled), is about CUDA
        device_type, enabled = Const("cuda"), device_type
    t.state.write(("enabled", _device(device_type)), _known(enabled, "whether autocast is on"))
    return Const(None)


@handles(torch.set_autocast_dtype)
def _set_autocast_dtype(t: Any, device_type: Value, dtype: Value) -> Value:
    t.state.write(("dtype", _device(device_type)), _known(dtype, "the dtype of autocast"))
    return Const(None)


@handles(torch.is_autocast_cache_enabled)
def _is_autocast_cache_enabled(t: Any) -> Value:
    return Const(t.state.read("cache"))


@handles(torch.set_autocast_cache_enabled)
def _set_autocast_cache_enabled(t: Any, enabled: Value) -> Value:
    t.state.write("cache", _known(enabled, "whether autocast caches"))
    return Const(None)


@handles(torch.get_deterministic_debug_mode)
def _get_deterministic_debug_mode(t: Any) -> Value:
    return Const(t.state.read("deterministic"))


@handles(torch.are_deterministic_algorithms_enabled, torch._C._get_deterministic_algorithms)
def _are_deterministic(t: Any) -> Value:
    return Const(t.state.read("deterministic") > 0)


@handles(torch.is_deterministic_algorithms_warn_only_enabled, torch._C._get_deterministic_algorithms_warn_only)
def _warn_only(t: Any) -> Value:
    """Where the mode is off, it may say so all the same."""
    level = t.state.read("deterministic")
    if not level and torch._C._get_deterministic_algorithms_warn_only():
        raise Break("deterministic mode is off and would warn only")
    return Const(level == 1)


@handles(torch.use_deterministic_algorithms)
def _use_deterministic(t: Any, mode: Value, *, warn_only: Value | None = None) -> Value:
    on, warns = _known(mode, "deterministic mode"), warn_only is not None and _known(warn_only, "deterministic mode")
    if warns and not on:
        raise Break("deterministic mode is off and would warn only")
    t.state.write("deterministic", 0 if not on else 1 if warns else 2)
    return Const(None)


@handles(torch.get_default_dtype)
def _get_default_dtype(t: Any) -> Value:
    return Const(t.state.read("default_dtype"))


@handles(torch.set_default_dtype)
def _set_default_dtype(t: Any, d: Value) -> Value:
    dtype = _known(d, "the default dtype")
    if dtype not in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
        raise Break("changing the default dtype to one that isn't a floating point type")
    t.state.write("default_dtype", dtype)
    return Const(None)


def _nest(t: Any, by: int) -> Value:
    """The nesting level never is a node: only the level itself can be seen, and `changes` replays it."""
    t.mutated(t.state.token)
    t.state.nesting += by
    return Const(effects._nesting() + t.state.nesting)


@handles(torch.autocast_increment_nesting)
def _autocast_increment_nesting(t: Any) -> Value:
    return _nest(t, 1)


@handles(torch.autocast_decrement_nesting)
def _autocast_decrement_nesting(t: Any) -> Value:
    return _nest(t, -1)


@handles(torch.clear_autocast_cache)
def _clear_autocast_cache(t: Any) -> Value:
    t.state.record(torch.clear_autocast_cache, ())
    return Const(None)


def _fact(fact: str, *readers: Callable[[], Any]) -> None:
    """Declare functions without arguments whose answer a fact of global state decides."""

    def declare(reader: Callable[[], Any]) -> None:
        @handles(reader)
        def _read(t: Any) -> Value:
            from .. import model

            t.guard_global(fact)
            return model.constant(reader())

    for reader in readers:
        declare(reader)


_fact("deterministic_fill", torch._C._get_deterministic_fill_uninitialized_memory)
_fact("torch_function", torch._C._is_torch_function_enabled)
_fact("dispatch_modes", torch._C._len_torch_dispatch_stack)
_fact("matmul_precision", torch.get_float32_matmul_precision, torch._C._get_float32_matmul_precision)
_fact("anomaly", torch.is_anomaly_enabled, torch.is_anomaly_check_nan_enabled)
_fact("mkldnn", torch._C._get_mkldnn_enabled)
_fact("cudnn", torch._C._get_cudnn_enabled, torch._C._get_cudnn_benchmark, torch._C._get_cudnn_deterministic)
_fact("sdp", torch._C._get_sdp_priority_order)


def _flag(key: Any, reader: Any, setter: Any) -> None:
    """Declare what reads and sets a mode that is on or off."""

    @handles(reader)
    def _read(t: Any) -> Value:
        return Const(t.state.read(key))

    @handles(setter)
    def _set(t: Any, enabled: Value) -> Value:
        t.state.write(key, bool(_known(enabled, "a mode")))
        return Const(None)


for _name, (_reader, _setter) in effects.SDP.items():
    _flag(("sdp", _name), _reader, _setter)


def _devices(t: Any) -> tuple[str, ...]:
    """The default devices that the program is in, outermost first."""
    devices = t.state.read("devices")
    if devices is None:
        raise Break(FOREIGN)
    return devices  # type: ignore[no-any-return]


@handles(torch.device.__enter__)
def _enter_device(t: Any, device: Value) -> Value:
    t.state.write("devices", (*_devices(t), str(_known(device, "a default device"))))
    return device


@handles(torch.device.__exit__)
def _exit_device(t: Any, device: Value, *exception: Value) -> Value:
    """It takes off the innermost mode, whichever that is."""
    devices = _devices(t)
    if not devices:
        raise Break("a default device is left that wasn't entered")
    t.state.write("devices", devices[:-1])
    return Const(None)


@handles(torch.get_default_device)
def _get_default_device(t: Any) -> Value:
    t.guard_global("default_device")
    with t.state.applied():
        return Const(torch.get_default_device())


@handles(torch._C._len_torch_function_stack)
def _len_torch_function_stack(t: Any) -> Value:
    return Const(len(_devices(t)))


@handles(torch._C._is_torch_function_mode_enabled)
def _is_torch_function_mode_enabled(t: Any) -> Value:
    """No: operators break under a mode of the user's, and a default device's mode looks at factories only."""
    t.guard_global("function_modes")
    return Const(False)
