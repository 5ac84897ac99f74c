"""From a graph to the files of its kernel: what inductor is asked for, in the program's process or in a worker.

What comes of a graph without a kernel are files as well: `eager` (the reason
why it is run so), `shapes` (each tuple of sizes has a kernel of its own) or
`ordinary` (the reason why inductor's ordinary path compiles it in each process:
`nested`) with all that a training kernel has besides its libraries.
"""

from __future__ import annotations

import dataclasses
import logging
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import torch
from torch import fx

from aotdyn import interrupted
from aotdyn.backends import aliasing, context, fast_checks, joint, nested, packages, split, training
from aotdyn.backends.context import Interpreted
from aotdyn.backends.split import Split, Unsuitable
from aotdyn.backends.stored import EAGER, ORDINARY, OUTER, PLAN, SHAPES, Files
from aotdyn.graph import build, data
from aotdyn.graph import program as programs
from aotdyn.graph.program import Program
from aotdyn.guards import tensors

log = logging.getLogger("aotdyn.backends")


@dataclasses.dataclass(frozen=True)
class Made:
    """A kernel's files, and whether another process would get the same."""

    files: Files
    lasting: bool = True


def make(
    program: Program,
    inputs: Sequence[torch.Tensor],
    options: dict[str, Any],
    scratch: Path,
    frozen: Sequence[int] = (),
) -> Made:
    """Compile a graph for inputs like these; files that aren't bytes lie in `scratch`.

    `frozen` inputs are folded in where the graph records no gradient and doesn't write to them.

    Raises:
        Exception: what inductor raises; `lasting` tells whether it would in every process.
    """
    inputs = list(inputs)
    try:
        with context.preserved(), fast_checks.vector_instructions():
            return _make(program, inputs, options, scratch, frozen)
    except Unsuitable as error:
        return Made({EAGER: str(error).encode()})
    except context.Specialized as error:
        if any(item.dynamic for item in program.inputs):
            return Made({SHAPES: b""})
        return Made({EAGER: str(error).encode()})  # facts about numbers of the data


def _make(
    program: Program, inputs: list[torch.Tensor], options: dict[str, Any], scratch: Path, frozen: Sequence[int]
) -> Made:
    module = programs.to_module(program)
    mode, fakes = context.fake_inputs(program, inputs)
    seen = context.interpret(module, mode, fakes)
    if any(tensor.device.type != "cpu" for tensor in build.tensors(list(seen.values.values()))):
        raise Unsuitable("a tensor isn't on the CPU")
    apart = len({tensors.storage(tensor) for tensor in inputs}) == len(inputs)
    overlapping = seen.mutating and (not apart or aliasing.pattern(inputs, range(len(inputs))))
    if not seen.needs_grad:
        if seen.reshaped:
            raise Unsuitable("a tensor changes its shape in place")
        if overlapping:
            raise Unsuitable("it writes to inputs that share memory")
        parts = split.split(module, program.inputs, seen)
        if parts.inner is None or frozen:
            seen.hidden = _hidden(module, program, inputs, seen)
            parts = split.split(module, program.inputs, seen)
        kept = [number for number in frozen if number not in parts.written]
        return _kernel(program, inputs, parts, None, options, scratch, kept)
    _check_gradients(seen, bool(overlapping))
    seen.hidden = _hidden(module, program, inputs, seen)
    parts = split.split(module, program.inputs, seen)
    if not parts.trained:
        return _kernel(program, inputs, parts, None, options, scratch)
    joint.check(inputs, parts.written)
    try:
        return _kernel(program, inputs, parts, seen, options, scratch)
    except context.Specialized:
        raise
    except Exception as error:
        interrupted.hand_on(error)
        if not isinstance(error, Unsuitable) and of_the_compiler(error):
            raise  # inductor's ordinary path would ask the same compiler
        log.info("aotdyn: a graph with gradients is compiled in each process: %s", error, exc_info=log.isEnabledFor(10))
        reason = f"{type(error).__name__}: {error}"[:2000]
        return Made(_ordinary(parts, seen, reason), isinstance(error, Unsuitable) or lasting(error))


def _hidden(module: fx.GraphModule, program: Program, inputs: Sequence[torch.Tensor], seen: Interpreted) -> list[int]:
    """Inputs that the graph writes to and no version tells: where it computes nothing else, that's what it is for."""
    told = split.written_inputs(module.graph.find_nodes(op="placeholder"), seen)
    return context.hidden_writes(program, inputs, told)


def _ordinary(parts: Split, seen: Interpreted, reason: str) -> Files:
    """The files of a graph that inductor's ordinary path has to compile; Unsuitable for one that can't be stored."""
    whole, differentiable = joint.functional(parts, seen)
    plan = nested.plan(len(whole.inputs), len(whole.outputs), differentiable, parts.written, seen.drawn)  # type: ignore[arg-type]
    try:
        programs_ = {OUTER: data.encode(parts.outer), training.PROGRAM: data.encode(whole)}
    except data.NotDurable as error:
        raise Unsuitable(f"{reason}; and it can't be stored: {error}") from error
    return {ORDINARY: reason.encode(), PLAN: msgspec.msgpack.encode(plan), **programs_}


def _kernel(
    program: Program,
    inputs: list[torch.Tensor],
    parts: Split,
    seen: Interpreted | None,
    options: dict[str, Any],
    scratch: Path,
    frozen: Sequence[int] = (),
) -> Made:
    """Compile a kernel; with gradients if there is what was `seen` of them."""
    files: Files = {OUTER: data.encode(parts.outer)}
    if parts.inner is not None and seen is not None:
        files |= joint.package(parts, program, inputs, seen, options, scratch)
    elif parts.inner is not None:
        plain = [tensor.detach() for tensor in inputs]
        files |= packages.package(parts.inner, program, plain, options, scratch, frozen)
    return Made(files)


def _check_gradients(seen: Interpreted, overlapping: bool) -> None:
    """Raise Unsuitable for a graph whose gradients no kernel can give."""
    if seen.reshaped:
        raise Unsuitable("a tensor changes its shape in place, in a graph with gradients")
    if overlapping:
        raise Unsuitable("it writes to inputs that share memory, in a graph with gradients")
    if seen.inference:
        raise Unsuitable("inference mode in a graph with gradients")
    if not torch.is_grad_enabled():
        raise Unsuitable("gradients are turned on inside the graph")


def lasting(error: Exception) -> bool:
    """Whether inductor would refuse the graph in every process: not for a broken compiler or a full disk."""
    from torch._inductor import exc

    return isinstance(error, exc.InductorError | exc.OperatorIssue) and not _passing(error)


def of_the_compiler(error: Exception) -> bool:
    """Whether the C++ compiler failed, so that another one may do better."""
    from torch._inductor import exc

    return isinstance(inner(error), (exc.CppCompileError, exc.InvalidCxxCompiler, subprocess.SubprocessError))


def _passing(error: Exception) -> bool:
    return of_the_compiler(error) or isinstance(inner(error), OSError)


def inner(error: Exception) -> BaseException:
    """What inductor has wrapped."""
    return getattr(error, "inner_exception", error)
