"""A stand-alone script, which needs torch alone, for a graph that inductor couldn't compile."""

from __future__ import annotations

import math
import textwrap
from pathlib import Path
from typing import Any

import msgspec
import torch

from aotdyn.backends import failures, jobs
from aotdyn.backends.failures import Failure
from aotdyn.backends.jobs import Job
from aotdyn.graph import LINES, codegen
from aotdyn.guards import naming

SCRIPT = '''"""{what}

With {compiler}, torch {torch}. Written by `python -m aotdyn cache show --repro`.
{text}
"""

import importlib

import torch


def find(path):
    found, names = None, path.split(".")
    for i, name in enumerate(names):
        try:
            found = getattr(found, name) if i else importlib.import_module(name)
        except AttributeError:
            found = importlib.import_module(".".join(names[: i + 1]))
    return found


{names}

{graph}


{inputs}

torch.set_num_threads({threads})
torch.set_grad_enabled({grad})
with torch.autocast("cpu", dtype={autocast_dtype}, enabled={autocast}):
    graph(*[each.detach().clone().requires_grad_(each.requires_grad) for each in inputs])
    print("eager: fine")
    compiled = torch.compile(graph, backend="inductor", fullgraph=True, dynamic={dynamic}, options={options!r})
    outputs = compiled(*inputs)
total = sum(each.float().sum() for each in outputs if isinstance(each, torch.Tensor))
if getattr(total, "requires_grad", False):
    total.backward()
print("compiled: fine")
'''


class Inexpressible(Exception):
    """A graph that no such script can hold."""


def of(directory: Path) -> str:
    """The script for a verdict's directory in the store.

    Raises:
        Inexpressible: there is no job in it, or one whose graph can't be written as plain Python.
    """
    try:
        data = (directory / failures.JOB).read_bytes()
        failure, compiler = msgspec.msgpack.decode(
            (directory / failures.VERDICT).read_bytes(), type=tuple[Failure, str]
        )
        return script(jobs.decode(data), failure, compiler)
    except (OSError, msgspec.MsgspecError, jobs.Unlike) as error:
        raise Inexpressible(str(error)) from error


def script(job: Job, failure: Failure, compiler: str) -> str:
    """The script for a job that failed."""
    program = job.graph()
    made = codegen.generate(program, name="graph")
    told = {name: value for name, value in made.globals.items() if not name.startswith("__") and name != LINES}
    names = [f"{name} = {_global(value)}" for name, value in told.items()]
    modes = job.ambient
    said = textwrap.indent(failure.text.replace('"""', "'''").replace("\\", "/")[-3000:], "    ")
    return SCRIPT.format(
        what=failure.what.replace('"""', "'''").replace("\\", "/"),
        compiler=compiler,
        torch=torch.__version__,
        text=said,
        names="\n".join(names),
        graph=made.source(),
        inputs=_inputs(job),
        threads=job.threads,
        grad=modes.grad,
        autocast=bool(modes.autocast),
        autocast_dtype=modes.autocast or "torch.bfloat16",
        dynamic=any(item.dynamic for item in program.inputs),
        options={"cpp_wrapper": True, "fallback_random": True, **job.options},
    )


def _global(value: Any) -> str:
    """A global of the graph's function as an expression."""
    path = naming.path_of(value) if callable(value) else None
    if path is not None:
        return f'find("{path[0]}.{path[1]}")'
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else f'float("{value}")'
    if isinstance(value, torch.device):
        return f"torch.{value!r}"
    if isinstance(value, torch.dtype | torch.layout | torch.memory_format):
        return str(value)
    if isinstance(value, complex | torch.Size) or value is Ellipsis:
        return repr(value)
    raise Inexpressible(f"the graph holds a {type(value).__qualname__}")


def _inputs(job: Job) -> str:
    lines = ["inputs = ["]
    for each in job.inputs:
        text = f"torch.empty_strided({tuple(each.shape)}, {tuple(each.stride)}, dtype={each.dtype}).zero_()"
        if each.requires_grad:
            text += ".requires_grad_()"
        lines.append(f"    {text},")
    return "\n".join([*lines, "]"])
