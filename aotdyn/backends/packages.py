"""Graphs to shared libraries, by AOTInductor, and what calls them."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import fx

from aotdyn.backends import conditions, context, freezing
from aotdyn.backends.stored import CONDITIONS, DEFAULTS, FROZEN, MODEL, Files
from aotdyn.graph import build
from aotdyn.graph import program as programs
from aotdyn.graph.program import Program


def package(
    module: fx.GraphModule,
    program: Program,
    inputs: list[torch.Tensor],
    options: dict[str, Any],
    scratch: Path,
    frozen: Sequence[int] = (),
) -> Files:
    """Compile a graph without gradients: the files of its kernel, in `scratch`. It holds the `frozen` inputs.

    Raises:
        Specialized: the kernel would hold for some sizes only, which nothing guards.
        Exception: what inductor raises.
    """
    known = known_facts(program, inputs)
    mode, fakes = context.fake_inputs(program, inputs)
    # Inductor's own folding of constants looks for a module's parameters in a tracing context: there are none.
    tracing = None if frozen else torch._guards.TracingContext(mode)
    taken = [fake for number, fake in enumerate(fakes) if number not in frozen]
    if frozen:
        module, options = freezing.folded(module, inputs, frozen), {"freezing": True, **options}
    with build.quiet(), torch._guards.tracing(tracing):
        files = library(module, taken, MODEL, options, scratch)
        relied_on = context.relied_on(mode, fakes, known)
    if frozen:
        files[FROZEN] = freezing.encode(frozen)
    if relied_on:
        files[CONDITIONS] = conditions.encode(relied_on)
    return files


def known_facts(program: Program, inputs: list[torch.Tensor]) -> frozenset[str]:
    """What the graph itself says of its sizes, and its guards check; nothing where no size varies."""
    if not context.varies(program):
        return frozenset()
    mode, fakes = context.fake_inputs(program, inputs)
    context.interpret(programs.to_module(program), mode, fakes)
    return context.facts(mode)


def library(module: fx.GraphModule, fakes: Sequence[Any], name: str, options: dict[str, Any], scratch: Path) -> Files:
    """Compile a graph for fake inputs, under a tracing context: a library of this name, and what belongs to it.

    `<name>.json` beside `<name>.so` lists operators that are called through torch.
    """
    import torch._inductor

    patches = {**DEFAULTS, "aot_inductor.package": True, "cpp.dynamic_threads": torch.get_num_threads() > 1, **options}
    with torch.no_grad():
        made: Any = torch._inductor.aot_compile(module, tuple(fakes), options=patches)
    paths = [Path(item) for item in ([made] if isinstance(made, str) else made) if isinstance(item, str)]
    found = next(path for path in paths if path.suffix == ".so")
    files: Files = {name: _stripped(found, scratch / name)}
    extern = found.with_suffix(".json")
    if extern in paths:
        beside = Path(name).with_suffix(".json").name
        files[beside] = Path(shutil.copy(extern, scratch / beside))
    return files


def _stripped(library: Path, target: Path) -> Path:
    """A copy of a library without its symbols for debugging, where `strip` is found."""
    tool = shutil.which("strip")
    if tool is None or subprocess.run([tool, "-o", target, library], capture_output=True).returncode:
        shutil.copy(library, target)
    return target
