"""Stored training kernels, as they run: a forward and a backward kernel, and the autograd node that joins them.

A training kernel's directory holds `forward.so`, which computes what the graph
gives and what the backward needs, `backward.so`, `plan` (how the two are
joined, as data) and `eager.graph` (the graph itself, which writes to nothing).
Running them imports neither AOTAutograd nor a compiler.

A backward that is to be differentiated itself, or that is given other than
plain tensors (as `vmap` does), runs the graph eagerly again, with the random
state of its forward.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec
import torch

from aotdyn.backends.conditions import Size
from aotdyn.backends.stored import Compiled

PROGRAM, FORWARD, BACKWARD = "eager.graph", "forward.so", "backward.so"

PLAIN = (torch.Tensor, torch.nn.Parameter)

AGAIN = (
    "Trying to backward through the graph a second time (or directly access saved tensors after they have already been "
    "freed). Specify retain_graph=True if you need to backward through the graph a second time."
)

FORMATS = {
    "contiguous": torch.contiguous_format,
    "channels_last": torch.channels_last,
    "channels_last_3d": torch.channels_last_3d,
}

AUTOCAST = {"bfloat16": torch.bfloat16, "float16": torch.float16, "float32": torch.float32}


class Tangent(msgspec.Struct, frozen=True, array_like=True):
    """A gradient that the backward kernel takes: the output that it is of, and its strides or memory format."""

    output: int
    layout: list[int] | str


class Plan(msgspec.Struct, frozen=True, array_like=True):
    """How forward and backward are joined. Inputs are the graph's; results are the forward kernel's.

    The backward kernel takes an empty tensor for each of `sizes`, then what was
    saved, then the tangents.
    """

    outputs: int
    "so many results are the graph's; the others are only saved"
    saved: list[tuple[str, int]]
    "`input` or `result`, and its number"
    sizes: list[Size]
    tangents: list[Tangent]
    "one for each output that can be differentiated"
    grads: list[tuple[str, int] | None]
    "for each input: `kernel` and a number of the backward's results, `tangent` and one of the tangents', or none"
    reach: list[list[int]]
    "for each input: the outputs that depend on it, as their gradients tell"
    used: list[int]
    "inputs whose values outputs and gradients depend on"
    copied: list[int]
    "those of them that the graph writes to"
    written: list[int]
    draws: bool
    "whether the graph draws random numbers"
    autocast: str
    "the dtype of the autocast that the graph began in, empty for none"

    def check(self) -> None:
        """Raise ValueError for what isn't a plan."""
        for size in self.sizes:
            size.check()
        if any(isinstance(tangent.layout, str) and tangent.layout not in FORMATS for tangent in self.tangents):
            raise ValueError("a memory format that isn't known")


class Kernel:
    """A training kernel: called with the graph's inputs, it gives the outputs, joined to autograd's graph.

    Args:
        backward: None where every gradient is an incoming one.
        program: makes the graph's function, at the first call that needs it.
    """

    def __init__(
        self, plan: Plan, forward: Compiled, backward: Compiled | None, program: Callable[[], Compiled]
    ) -> None:
        self.plan = plan
        self._forward = forward
        self._backward = backward
        self._make = program
        self._program: Compiled | None = None
        self._used = frozenset(plan.used)
        differentiable = {tangent.output for tangent in plan.tangents}
        self._constant = [i for i in range(plan.outputs) if i not in differentiable]
        self._watched: list[tuple[str, int]] | None = None
        self._shared: list[bool] | None = None

    def __call__(self, *inputs: torch.Tensor) -> Sequence[torch.Tensor]:
        if self.plan.copied:
            given = list(inputs)
            for number in self.plan.copied:
                given[number] = given[number].clone()
            return _Joined.apply(self, *given)
        return _Joined.apply(self, *inputs)

    def forward(self, ctx: Any, inputs: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        """Run the forward kernel, and keep what the backward needs."""
        plan = self.plan
        ctx.kernel = self
        ctx.random = torch.get_rng_state() if plan.draws else None
        results = self.start(ctx, inputs)
        if self._watched is None:
            self._watched = _sharing(inputs, results, plan)
        for kind, number in self._watched:
            if kind == "alias":
                results[number] = results[number].clone()
        outputs = tuple(results[: plan.outputs])
        places = {"input": inputs, "result": results}
        watched = [places[kind][number] for kind, number in self._watched if kind != "alias"]
        kept = [places[kind][number] for kind, number in plan.saved]
        # Hooks for saved tensors may pack them away: then nothing else may hold the inputs.
        ctx.hooked = torch._C._autograd._top_saved_tensors_default_hooks(False) is not None
        ctx.save_for_backward(*kept, *watched, *((inputs[i] for i in plan.used) if ctx.hooked else ()))
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(*(outputs[i] for i in self._constant))
        ctx.shapes = [(outputs[tangent.output].shape, outputs[tangent.output].dtype) for tangent in plan.tangents]
        ctx.sizes = [size.value(inputs) for size in plan.sizes]
        ctx.versions = [inputs[i]._version for i in plan.used]
        # What isn't used may be written to: it would hold itself, by its history.
        ctx.inputs = [each if i in self._used else each.detach() for i, each in enumerate(inputs)]
        if ctx.hooked:
            for i in plan.used:
                ctx.inputs[i] = None
        return outputs

    def start(self, ctx: Any, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """The forward kernel's results."""
        return list(self._forward(*inputs))

    def backward(self, ctx: Any, incoming: tuple[torch.Tensor | None, ...]) -> list[torch.Tensor | None]:
        """The gradients of the inputs."""
        plan = self.plan
        kept = ctx.saved_tensors
        given = [incoming[tangent.output] for tangent in plan.tangents]
        missing = {tangent.output for tangent, each in zip(plan.tangents, given, strict=True) if each is None}
        if len(missing) == len(given):
            return [None] * len(plan.grads)
        if torch.is_grad_enabled() or not all(_plain(each) for each in given):
            return self.again(ctx, kept, given)
        found = self.differentiate(ctx, kept, given, missing)
        if not torch._C._autograd._get_current_graph_task_keep_graph():
            ctx.inputs = None
        return found

    def differentiate(
        self, ctx: Any, kept: Sequence[torch.Tensor], given: list[torch.Tensor | None], missing: set[int]
    ) -> list[torch.Tensor | None]:
        """The gradients by the backward kernel, of what was kept and is given; `missing` outputs have none."""
        plan = self.plan
        tangents = [self._tangent(ctx, i, each) for i, each in enumerate(given)]
        arguments = [*(torch.empty((size, 0)) for size in ctx.sizes), *kept[: len(plan.saved)], *tangents]
        results = self._backward(*arguments) if self._backward else []
        if self._shared is None:
            self._shared = _meeting(plan, arguments, results)
        found: list[torch.Tensor | None] = []
        for grad, reach, shared in zip(plan.grads, plan.reach, self._shared, strict=True):
            if grad is None or missing.issuperset(reach):
                found.append(None)
            elif grad[0] == "tangent":
                found.append(given[grad[1]] if given[grad[1]] is not None else tangents[grad[1]])
            else:
                found.append(results[grad[1]].clone() if shared else results[grad[1]])
        return found

    def again(
        self, ctx: Any, kept: Sequence[torch.Tensor], given: list[torch.Tensor | None]
    ) -> list[torch.Tensor | None]:
        """The gradients by running the graph eagerly, and differentiating it; differentiable if grad mode is on."""
        inputs = self._inputs(ctx, kept)
        if self._program is None:
            self._program = self._make()
        create_graph = torch.is_grad_enabled()
        with torch.enable_grad():
            aliases = [each.view_as(each) if each.requires_grad else each for each in inputs]
            with _autocast(self.plan.autocast), _random(ctx.random):
                outputs = self._program(*aliases)
            found = self.engine(outputs, given, aliases, create_graph, create_graph)
        grads: list[torch.Tensor | None] = [
            None if grad is None or i in self.plan.used else torch.zeros_like(each)  # what is overwritten has zeros
            for i, (grad, each) in enumerate(zip(self.plan.grads, inputs, strict=True))
        ]
        for i, grad in found.items():
            grads[i] = grad
        return grads

    def engine(
        self,
        outputs: Sequence[torch.Tensor],
        given: Sequence[torch.Tensor | None],
        inputs: Sequence[torch.Tensor],
        keep: bool,
        create: bool,
    ) -> dict[int, torch.Tensor | None]:
        """Gradients of those of `inputs` that want one, by number; None for one that no output with a gradient reaches.

        What torch.autograd.grad does, which imports sympy where it is given gradients.
        """
        wanted = [i for i, each in enumerate(inputs) if each.requires_grad]
        pairs = [
            (outputs[tangent.output], each)
            for tangent, each in zip(self.plan.tangents, given, strict=True)
            if each is not None
        ]
        found = torch.autograd.graph._engine_run_backward(
            tuple(output for output, _ in pairs),
            tuple(each for _, each in pairs),
            keep,
            create,
            tuple(inputs[i] for i in wanted),
            True,  # an input that isn't reached has no gradient
            accumulate_grad=False,
        )
        return dict(zip(wanted, found, strict=True))

    def _inputs(self, ctx: Any, kept: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """The inputs of the forward; RuntimeError where they are gone, or have been written to since."""
        if ctx.inputs is None:
            raise RuntimeError(AGAIN)
        inputs = list(ctx.inputs)
        if ctx.hooked:
            for i, each in zip(self.plan.used, kept[len(kept) - len(self.plan.used) :], strict=True):
                inputs[i] = each
            return inputs
        for i, version in zip(self.plan.used, ctx.versions, strict=True):
            if inputs[i]._version != version:
                raise RuntimeError(
                    "one of the variables needed for gradient computation has been modified by an inplace operation: "
                    f"input {i} of a compiled graph, {list(inputs[i].shape)}, is at version {inputs[i]._version}; "
                    f"expected version {version} instead. A graph runs again where its backward is differentiated."
                )
        return inputs

    def _tangent(self, ctx: Any, i: int, given: torch.Tensor | None) -> torch.Tensor:
        """A gradient as the kernel takes it: zeros where there is none, in the layout that it was compiled for."""
        layout = self.plan.tangents[i].layout
        if given is None:
            shape, dtype = ctx.shapes[i]
            given = torch.zeros(shape, dtype=dtype)
        given = given.resolve_conj().resolve_neg()
        if isinstance(layout, str):
            return given.contiguous(memory_format=FORMATS[layout])
        if given.stride() == tuple(layout):
            return given
        return given.new_empty_strided(given.shape, layout).copy_(given)


class _Joined(torch.autograd.Function):
    """The node of a kernel in autograd's graph."""

    @staticmethod
    def forward(ctx: Any, kernel: Kernel, *inputs: torch.Tensor) -> Any:  # type: ignore[override]
        return kernel.forward(ctx, inputs)

    @staticmethod
    def backward(ctx: Any, *incoming: torch.Tensor | None) -> Any:  # type: ignore[override]
        return None, *ctx.kernel.backward(ctx, incoming)


def _sharing(inputs: Sequence[torch.Tensor], results: Sequence[torch.Tensor], plan: Plan) -> list[tuple[str, int]]:
    """What a kernel's results share memory with: `alias` and an output to be copied, or what to save with a result.

    A saved result that lies in an input or output is watched by that one's version. Which results do is in the
    kernel's code, so the first call tells.
    """
    owners = {_storage(each): ("input", i) for i, each in enumerate(inputs)}
    found: list[tuple[str, int]] = []
    for i, each in enumerate(results):
        owner = owners.setdefault(_storage(each), ("result", i))
        if owner == ("result", i):
            continue
        if i < plan.outputs:
            found.append(("alias", i))
        elif owner not in plan.saved and owner not in found and (owner[0] == "input" or owner[1] < plan.outputs):
            found.append(owner)
    return found


def _storage(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage()._cdata


def _meeting(plan: Plan, arguments: Sequence[torch.Tensor], results: Sequence[torch.Tensor]) -> list[bool]:
    """For each input, whether its gradient lies in memory of the backward's arguments or of an earlier gradient.

    It is copied then: autograd adds to a gradient in place. As above, the kernel's code decides it.
    """
    taken = {_storage(each) for each in arguments}
    found = []
    for grad in plan.grads:
        storage = _storage(results[grad[1]]) if grad is not None and grad[0] == "kernel" else None
        found.append(storage in taken)
        if storage is not None:
            taken.add(storage)
    return found


def _plain(tensor: torch.Tensor | None) -> bool:
    """Whether a gradient is data for a kernel, rather than another transformation's or mode's stand-in."""
    functorch = torch._C._functorch  # type: ignore[attr-defined]
    return tensor is None or (
        type(tensor) in PLAIN
        and tensor.layout is torch.strided
        and not functorch.is_functorch_wrapped_tensor(tensor)
        and not functorch.is_legacy_batchedtensor(tensor)
        and not torch._C._len_torch_dispatch_stack()
    )


def autocast_dtype() -> str:
    """The dtype of the autocast that holds now, empty for none."""
    return str(torch.get_autocast_dtype("cpu")).removeprefix("torch.") if torch.is_autocast_enabled("cpu") else ""


def _autocast(dtype: str) -> contextlib.AbstractContextManager[Any]:
    return torch.autocast("cpu", dtype=AUTOCAST.get(dtype), enabled=bool(dtype))


@contextlib.contextmanager
def _random(state: torch.Tensor | None) -> Iterator[None]:
    """Draw from this state, and put the present one back."""
    if state is None:
        yield
        return
    present = torch.get_rng_state()
    torch.set_rng_state(state)
    levels = torch._C._vmapmode_increment_nesting()  # of a batched backward, where nothing may be drawn
    for _ in range(levels):
        torch._C._vmapmode_decrement_nesting()
    try:
        yield
    finally:
        for _ in range(levels - 1):
            torch._C._vmapmode_increment_nesting()
        torch.set_rng_state(present)
