"""Making stored training kernels: a graph and its gradients traced as one, cut in two, each half compiled.

AOTAutograd traces the joint graph of a function that writes to nothing and
whose results share no memory with its inputs: `functional` makes it from the
kernel's graph. Its partitioner decides what is saved and what is computed again.
Numbers that the backward needs are computed from the inputs' sizes, and travel
as sizes of empty tensors, since a kernel takes no numbers.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import torch
from torch import fx

from aotdyn.backends import conditions, context, packages, stored
from aotdyn.backends.split import Split, Unsuitable
from aotdyn.backends.stored import CONDITIONS, DEFAULTS, PLAN, Files
from aotdyn.backends.training import BACKWARD, FORMATS, FORWARD, PROGRAM, Plan, Tangent, autocast_dtype
from aotdyn.graph import build, data
from aotdyn.graph import program as programs
from aotdyn.graph.program import Program, Ref, Step

if TYPE_CHECKING:
    from torch._subclasses.fake_tensor import FakeTensorMode

    from aotdyn.backends.context import Interpreted

DIMENSIONS = {"channels_last": 4, "channels_last_3d": 5}


@dataclasses.dataclass
class Halves:
    """A joint graph, cut; the backward takes sizes, saved values and tangents, in this order."""

    forward: fx.GraphModule
    backward: fx.GraphModule
    results: list[fx.Node]
    "what the forward gives: the outputs, then what is only saved"
    plan: Plan


def package(
    parts: Split,
    program: Program,
    inputs: list[torch.Tensor],
    seen: Interpreted,
    options: dict[str, Any],
    scratch: Path,
) -> Files:
    """Compile a kernel with its gradients: its files, in `scratch`.

    Raises:
        Unsuitable: a kernel can't give these gradients.
        Specialized: it would hold for some sizes only, which nothing guards.
        Exception: what inductor raises.
    """
    from torch._inductor import config

    given = [seen.values[node] for node in parts.computed]
    if any(tensor.is_complex() for tensor in build.tensors([*inputs, *given])):
        raise Unsuitable("it takes or gives complex numbers")
    written = parts.written
    whole, differentiable = functional(parts, seen)
    leaves = own_leaves(inputs)
    known = packages.known_facts(program, inputs)
    mode, fakes = context.fake_inputs(program, leaves)
    with build.quiet(), config.patch({**DEFAULTS, **options}), _tracing(mode):
        made = halves(whole, mode, fakes, differentiable, written)
        plain = _detached(fakes, mode)
    with build.quiet(), _tracing(mode), torch._C._DisableAutocast():
        files = packages.library(made.forward, plain, FORWARD, options, scratch)
        results = stored.runner(scratch / FORWARD)(*_detached(inputs))
        if made.backward.graph.output_node().args[0]:
            files |= packages.library(made.backward, _given(made, results, mode), BACKWARD, options, scratch)
        relied_on = context.relied_on(mode, fakes, known)
    plan = msgspec.structs.replace(made.plan, draws=seen.drawn, autocast=autocast_dtype())
    files |= {PLAN: msgspec.msgpack.encode(plan), PROGRAM: data.encode(whole)}
    if relied_on:
        files[CONDITIONS] = conditions.encode(relied_on)
    return files


def check(inputs: Sequence[torch.Tensor], written: list[int]) -> None:
    """Raise Unsuitable for inputs that a functional program with gradients can't take."""
    if any(tensor.is_inference() for tensor in inputs):
        raise Unsuitable("an input is an inference tensor")
    for number in written:
        if inputs[number].clone().stride() != inputs[number].stride():
            raise Unsuitable("it writes to an input with gaps")


def own_leaves(inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The inputs without their history, as leaves that require grad where these do."""
    return [tensor.detach().requires_grad_(tensor.requires_grad) for tensor in inputs]


def _tracing(mode: FakeTensorMode) -> contextlib.AbstractContextManager[Any]:
    return torch._guards.tracing(torch._guards.TracingContext(mode))


def _detached(tensors: Sequence[Any], mode: FakeTensorMode | None = None) -> list[Any]:
    with mode or contextlib.nullcontext():
        return [tensor.detach() for tensor in tensors]


def _given(made: Halves, results: Sequence[torch.Tensor], mode: FakeTensorMode) -> list[Any]:
    """Fakes for the backward's inputs: what is saved lies in memory as the forward kernel gave it."""
    given = [node.meta["val"] for node in made.backward.graph.find_nodes(op="placeholder")]
    first = len(made.plan.sizes)
    for place, (kind, number) in enumerate(made.plan.saved, first):
        fake, real = given[place], results[number] if kind == "result" else None
        if real is not None and (real.is_conj() or real.is_neg()):
            raise Unsuitable("what is saved is the conjugate of what lies in memory")
        if real is None or [_hint(each) for each in fake.stride()] == list(real.stride()):
            continue
        if any(isinstance(each, torch.SymInt) for each in (*fake.shape, *fake.stride())):
            raise Unsuitable("what is saved comes in a layout that varies")
        with mode:
            given[place] = torch.empty_strided(fake.shape, real.stride(), dtype=fake.dtype)
    return _detached(given, mode)


def _hint(number: Any) -> int:
    return number.node.hint if isinstance(number, torch.SymInt) else number


def functional(parts: Split, seen: Interpreted) -> tuple[Program, list[int]]:
    """The kernel's graph on copies of the inputs that it writes to, and its differentiable outputs.

    It gives the copies behind its outputs: without their history those that
    were written to without gradients.
    """
    assert parts.inner is not None
    inner, written = programs.of_module(parts.inner), parts.written
    first = len(inner.inputs)
    copies = {number: Ref(first + i) for i, number in enumerate(written)}

    def moved(ref: Ref) -> Ref:
        return Ref(ref.index + len(copies)) if ref.index >= first else copies.get(ref.index, ref)

    clones = [Step("clone", (Ref(number),), {}) for number in written]
    steps = [
        Step(step.target, programs.map_refs(step.args, moved), programs.map_refs(step.kwargs, moved), step.stack)
        for step in inner.steps
    ]
    given: list[Ref] = []
    for number, copy in copies.items():
        if number not in seen.rebased:
            steps.append(Step("detach", (copy,), {}))
            copy = Ref(first + len(clones) + len(steps) - 1)
        given.append(copy)
    outputs = (*programs.map_refs(inner.outputs, moved), *given)
    differentiable = [i for i, node in enumerate(parts.computed) if seen.values[node].requires_grad]
    differentiable += [len(parts.computed) + i for i, number in enumerate(written) if number in seen.rebased]
    return Program(inner.inputs, clones + steps, outputs), differentiable


def halves(
    program: Program, mode: FakeTensorMode, fakes: Sequence[Any], differentiable: list[int], written: list[int]
) -> Halves:
    """Trace a functional program with its gradients, and cut it; under inductor's options and a tracing context.

    Args:
        fakes: its inputs, leaves that require grad where the real ones do.
        differentiable: the outputs that have a history.

    Raises:
        Unsuitable: a half isn't one that a kernel can be.
    """
    from torch._dispatch.python import enable_python_dispatcher
    from torch._inductor import compile_fx
    from torch._inductor.virtualized import V

    joint = _joint(program, fakes)
    inputs = [node.meta["val"] for node in joint.graph.find_nodes(op="placeholder")]
    if len(inputs) != len(fakes) + len(differentiable):
        raise Unsuitable("its gradients are others than its outputs'")
    lasting = [number for number, item in enumerate(fakes) if isinstance(item, torch.nn.Parameter)]
    count = len(program.outputs)
    with V.set_fake_mode(mode), mode, enable_python_dispatcher():
        forward, backward = compile_fx.partition_fn(
            joint, inputs, num_fwd_outputs=count, static_lifetime_input_indices=lasting
        )
    return _Cut(program, mode, fakes, differentiable, written).cut(forward, backward)


def _joint(program: Program, fakes: Sequence[Any]) -> fx.GraphModule:
    from torch._functorch.aot_autograd import aot_export_joint_simple
    from torch._inductor.decomposition import select_decomp_table

    module = programs.to_module(program)
    try:
        joint: Any = aot_export_joint_simple(
            module.forward, tuple(fakes), trace_joint=True, decompositions=select_decomp_table()
        )
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise Unsuitable(f"its gradients can't be traced: {str(error)[:200]}") from error
    return joint


class _Cut:
    """Works out how a forward and a backward graph are joined."""

    def __init__(
        self,
        program: Program,
        mode: FakeTensorMode,
        fakes: Sequence[Any],
        differentiable: list[int],
        written: list[int],
    ) -> None:
        self.program = program
        self.mode = mode
        self.fakes = fakes
        self.differentiable = differentiable
        self.written = written

    def cut(self, forward: fx.GraphModule, backward: fx.GraphModule) -> Halves:
        """The halves as kernels can be made of them."""
        _constants_as_buffers(forward)
        _constants_as_buffers(backward)
        outputs = len(self.program.outputs)
        placeholders = {node.name: number for number, node in enumerate(forward.graph.find_nodes(op="placeholder"))}
        results = list(forward.graph.output_node().args[0])  # type: ignore[arg-type]
        if any(not isinstance(node, fx.Node) for node in results):
            raise Unsuitable("a result isn't computed")
        given = {node.name: number for number, node in reversed(list(enumerate(results)))}
        kept = results[:outputs]
        saved: list[tuple[str, int]] = []
        numbers: list[torch.SymInt] = []
        tangents: list[fx.Node] = []
        for node in backward.graph.find_nodes(op="placeholder"):
            value = node.meta["val"]
            if node.name in placeholders:
                saved.append(("input", placeholders[node.name]))
            elif node.name not in given:
                tangents.append(node)
            elif isinstance(value, torch.SymInt):
                numbers.append(value)
            elif not isinstance(value, torch.Tensor):
                raise Unsuitable(f"its backward needs a {type(value).__name__}")
            elif given[node.name] < outputs:
                saved.append(("result", given[node.name]))
            else:
                saved.append(("result", len(kept)))
                kept.append(results[given[node.name]])
        if len(tangents) != len(self.differentiable):
            raise Unsuitable("its backward draws the forward's random numbers again")
        sources = [kept[i] for i in self.differentiable]
        needed = [node for kind, number in saved if kind == "result" for node in [kept[number]]]
        used = sorted(
            {placeholders[node.name] for node in _behind([*sources, *needed]) if node.name in placeholders}
            | {number for kind, number in saved if kind == "input"}
        )
        _sizes_as_tensors(backward, self.mode)
        plan = Plan(
            outputs=outputs,
            saved=saved,
            sizes=self.sizes(numbers),
            tangents=[
                Tangent(i, _layout(node.meta["val"])) for i, node in zip(self.differentiable, tangents, strict=True)
            ],
            grads=_gradients(backward, tangents),
            reach=self.reach(),
            used=used,
            copied=[number for number in self.written if number in used],
            written=self.written,
            draws=False,
            autocast="",
        )
        forward.graph.output_node().args = (tuple(kept),)
        for half in (forward, backward):
            half.recompile()
        return Halves(forward, backward, kept, plan)

    def sizes(self, numbers: list[torch.SymInt]) -> list[conditions.Size]:
        """The numbers that the backward needs; Specialized where one isn't made of the inputs' sizes."""
        try:
            return conditions.sizes(numbers, self.fakes)
        except conditions.Inexpressible as error:
            raise context.Specialized(str(error)) from error

    def reach(self) -> list[list[int]]:
        """For each input, the outputs whose gradients reach it."""
        wanted = [number for number, fake in enumerate(self.fakes) if fake.requires_grad]
        found: list[list[int]] = [[] for _ in self.fakes]
        if len(self.differentiable) == 1:
            for number in wanted:
                found[number] = list(self.differentiable)
            return found
        module = programs.to_module(self.program)
        with build.quiet(), self.mode, torch.enable_grad():
            outputs = module(*self.fakes)
            for i in self.differentiable:
                grads = torch.autograd.grad(
                    outputs[i],
                    [self.fakes[number] for number in wanted],
                    torch.ones_like(outputs[i]),
                    retain_graph=True,
                    allow_unused=True,
                )
                for number, grad in zip(wanted, grads, strict=True):
                    if grad is not None:
                        found[number].append(i)
        return found


def _behind(nodes: Iterable[fx.Node]) -> set[fx.Node]:
    """The nodes that these are computed from, and these."""
    found: set[fx.Node] = set()
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        if node not in found:
            found.add(node)
            waiting += node.all_input_nodes
    return found


def _gradients(backward: fx.GraphModule, tangents: list[fx.Node]) -> list[tuple[str, int] | None]:
    """Where each input's gradient comes from; the backward is left to give what a kernel computes, each once."""
    output = backward.graph.output_node()
    computed: list[fx.Node] = []
    found: list[tuple[str, int] | None] = []
    for node in output.args[0]:  # type: ignore[union-attr]
        if not isinstance(node, fx.Node):
            found.append(None)
        elif node in tangents:
            found.append(("tangent", tangents.index(node)))
        else:
            if node not in computed:
                computed.append(node)
            found.append(("kernel", computed.index(node)))
    output.args = (tuple(computed),)
    return found


def _sizes_as_tensors(backward: fx.GraphModule, mode: FakeTensorMode) -> None:
    """Make each number that a graph takes the first size of an empty tensor that it takes."""
    placeholders = backward.graph.find_nodes(op="placeholder")
    for node in placeholders:
        number = node.meta["val"]
        if not isinstance(number, torch.SymInt):
            continue
        with backward.graph.inserting_before(node):
            tensor = backward.graph.placeholder(f"{node.name}_of")
        with mode:
            tensor.meta["val"] = torch.empty((number, 0))
        with backward.graph.inserting_after(placeholders[-1]):
            size = backward.graph.call_function(torch.ops.aten.sym_size.int, (tensor, 0))
        size.meta["val"] = number
        node.replace_all_uses_with(size)
    for node in placeholders:
        if isinstance(node.meta["val"], torch.SymInt):
            backward.graph.erase_node(node)


def _constants_as_buffers(half: fx.GraphModule) -> None:
    """Make the tensors in a graph what AOTInductor takes for its constants."""
    for node in half.graph.find_nodes(op="get_attr"):
        value = getattr(half, node.target, None)
        if isinstance(value, torch.Tensor) and node.target not in half._buffers:
            delattr(half, node.target)
            half.register_buffer(node.target, value)


def _layout(tangent: torch.Tensor) -> list[int] | str:
    """The strides of a tangent as traced: numbers, or the memory format where they vary."""
    strides = tangent.stride()
    if all(isinstance(stride, int) for stride in strides):
        return list(strides)
    for name, memory_format in FORMATS.items():
        fits = tangent.dim() == DIMENSIONS.get(name, tangent.dim())
        if fits and tangent.is_contiguous(memory_format=memory_format):
            return name
    raise Unsuitable("a gradient comes in a layout that varies")
