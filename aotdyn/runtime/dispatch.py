"""What stubs name in `builtins`: dispatchers, the trampoline of continuations, the repair of tracebacks."""

from __future__ import annotations

import builtins
import itertools
import os
import sys
import types
from collections.abc import Callable
from typing import Any

import torch
from torch._C import _functorch
from torch.autograd import forward_ad

from aotdyn import config, errors
from aotdyn.graph import GENERATED, LINES
from aotdyn.rewrite import switchboard
from aotdyn.runtime import home, reached
from aotdyn.runtime.variant import FrameSpec

ENTER = "__aotdyn_enter"
FIX = "__aotdyn_fix"
PENDING = "__aotdyn_pending"
TYPE = "__aotdyn_type"
DYNAMO = "__aotdyn_dynamo"
PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep

Lines = list[tuple[str, int, str]]
"""File, line and function of frames, outermost first."""


class Pending(tuple):
    """`(state, continuation)` that a continuation function answers where it breaks again: its caller goes on."""

    __slots__ = ()

    def __new__(cls, state: tuple[Any, ...], k: Any) -> Pending:
        return tuple.__new__(cls, (state, k))


def enter(state: tuple[Any, ...], k: Any) -> Any:
    """Runs continuations from `k` on until the frame returns, in a loop: they don't nest, whatever breaks again."""
    # The state is handed on and not kept: a frame of ours must not hold the program's objects.
    hand = [state]
    del state
    token = reached.current.set(k.extent) if k.extent is not None and reached.current.get() is None else None
    try:
        while True:
            result = k.made(hand.pop(), k)
            if type(result) is not Pending:
                return result
            state, k = result
            hand.append(state)
            del state, result
    finally:
        if token is not None:
            reached.current.reset(token)
        if home.unsettled:
            home.settle()


def fix(exc: BaseException) -> BaseException:
    """Drops aotdyn's frames, generated ones included, from the traceback of `exc`, and gives `exc` back.

    The entry of the frame that calls `fix` goes as well where that frame had
    entered continuations, or called a graph in code that stands for its own:
    what happened in it shows in theirs.
    """
    caller = sys._getframe(1)
    kept: list[types.TracebackType] = []
    entry = exc.__traceback__
    entered = False
    shown: Lines = []
    while entry is not None:
        if _ours(entry):
            entered = entered or entry.tb_frame.f_code is enter.__code__
            if entered and kept and kept[-1].tb_frame is caller:
                kept.pop()
        else:
            if kept and kept[-1].tb_frame is caller and _stands_for(entry.tb_frame, caller):
                kept.pop()
            entered = False
            try:
                lines = _lines_of_step(entry)
                kept += [entry] if lines is None else _entries(lines, shown)
                shown = lines or shown
            except RecursionError:  # the stack is as deep as it may be: what is inlined isn't shown
                kept.append(entry)
        entry = entry.tb_next
    chain: types.TracebackType | None = None
    for entry in reversed(kept):
        entry.tb_next = chain
        chain = entry
    exc.__traceback__ = chain
    return exc


def _lines_of_step(entry: types.TracebackType) -> Lines | None:
    """The user's lines of the step of a generated graph that failed (see graph/codegen.py); None for other frames."""
    frame = entry.tb_frame
    lines_of_step = frame.f_globals.get(LINES) if frame.f_globals.get("__name__") == GENERATED else None
    if lines_of_step is None:
        return None
    column = next(itertools.islice(frame.f_code.co_positions(), entry.tb_lasti // 2, None))[2]
    return lines_of_step(column) if column else None


def _entries(lines: Lines, shown: Lines) -> list[types.TracebackType]:
    """Entries of a traceback for frames that are inlined, but for those that a graph around this one has shown."""
    from aotdyn.runtime.helpers import stand_in

    known = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(lines, shown)))
    frames = [(stand_in(file, line, function.rpartition(".")[2]), line) for file, line, function in lines[known:]]
    return [types.TracebackType(None, frame, frame.f_lasti, line) for frame, line in frames]


def _stands_for(frame: types.FrameType, caller: types.FrameType) -> bool:
    """Whether a frame runs a graph that was generated at the lines of the caller's code."""
    code, callers = frame.f_code, caller.f_code
    same = code.co_filename == callers.co_filename and code.co_name == callers.co_name
    return same and frame.f_globals is not caller.f_globals


def _ours(entry: types.TracebackType) -> bool:
    return entry.tb_frame.f_code.co_filename.startswith(PACKAGE) or "knext" in entry.tb_frame.f_globals


def foreign_tracer(
    dispatch_modes: Callable[[], int] = torch._C._len_torch_dispatch_stack,
    tracing_state: Callable[[], Any] = torch._C._get_tracing_state,
    function_modes: Callable[[], int] = torch._C._len_torch_function_stack,
    functorch: Callable[[], Any] = _functorch.peek_interpreter_stack,
) -> bool:
    """Whether another tracer, or a mode that must see every operation, is at work: stubs then step aside.

    Guards without tensors ask at each call.
    """
    return bool(
        dispatch_modes()
        or tracing_state() is not None
        or functorch() is not None
        or forward_ad._current_level >= 0
        or torch.compiler.is_exporting()
        or torch._jit_internal.is_scripting()
        or _fx_tracing()
        or (function_modes() and _function_modes())
    )


def foreign_values(args: tuple[Any, ...]) -> bool:
    """Whether an argument is another tracer's stand-in for a tensor, met outside of its modes."""
    stand_ins = tuple(
        getattr(module, name)
        for module, name in ((sys.modules.get(where), name) for where, name in STAND_INS)
        if module is not None and hasattr(module, name)
    )
    return any(issubclass(type(arg), stand_ins) for arg in args)


STAND_INS = (
    ("torch._subclasses.fake_tensor", "FakeTensor"),
    ("torch._subclasses.functional_tensor", "FunctionalTensor"),
    ("torch.fx.proxy", "Proxy"),
)
"""Modules (where they are loaded) and classes of such values."""


def _function_modes() -> bool:
    """Whether a mode of the program's own sees every call of a torch function; a default device is no such."""
    count = torch._C._len_torch_function_stack()
    return any(type(torch._C._get_function_stack_at(i)).__name__ != "DeviceContext" for i in range(count))


def _fx_tracing() -> bool:
    fx = sys.modules.get("torch.fx._symbolic_trace")
    return fx is not None and bool(fx._is_fx_tracing_flag)


def install(name: str, dispatcher: Callable[..., Any]) -> None:
    """Makes `dispatcher` what stubs that name it, or have its seat at a switchboard, call from now on."""
    if not switchboard.install(name, dispatcher):
        setattr(builtins, name, dispatcher)


def uninstall(name: str) -> None:
    """Takes a dispatcher away: its stubs run their bodies."""
    if hasattr(builtins, name):
        delattr(builtins, name)


def install_stub(
    name: str, spec: FrameSpec, globals: dict[str, Any], args: tuple[Any, ...], program: bool = True
) -> Any:
    """Installs the dispatcher for a stub; what it answers to the call that first asks, of a frame with `globals`."""
    from aotdyn.runtime import cold

    return cold.install_stub(name, spec, globals, args, program)


def install_runtime() -> None:
    """Installs what stubs and continuations name: trampoline, `Pending`, repair of tracebacks."""
    install(ENTER, enter)
    install(FIX, fix)
    install(PENDING, Pending)
    install(DYNAMO, torch.compiler.is_dynamo_compiling)
    install(TYPE, type)


def traced_by_debugger(spec: FrameSpec) -> bool:
    """Whether a trace function is set. Under `strict` that fails, unless it is coverage's."""
    tracer = sys.gettrace()
    if tracer is None:
        return False
    module = getattr(tracer, "__module__", None) or type(tracer).__module__
    if config.current().strict and not str(module).startswith("coverage"):
        raise errors.AotdynError(
            f"{spec.qualname} can't be served under the trace function {tracer!r}",
            hint="unset AOTDYN_STRICT where a debugger or profiler is at work",
        )
    return True
