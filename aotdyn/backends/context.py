"""What torch's compilers find around a graph: a tracing context with fake inputs, symbolic where sizes vary.

A compiler may rely on more facts of the sizes than the graph's guards check.
Then the compiled code is guarded by them (`conditions`); where they can't be
checked, or don't hold, each tuple of sizes gets code of its own (`PerShape`).
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import fx
from torch._guards import TracingContext, tracing

from aotdyn.backends.conditions import Condition, Inexpressible, conditional, conditions, replacements
from aotdyn.backends.stored import Compiled
from aotdyn.graph import build
from aotdyn.graph import program as programs
from aotdyn.graph.effects import Modes
from aotdyn.graph.program import Program
from aotdyn.guards.tensors import storage

if TYPE_CHECKING:
    from torch._subclasses.fake_tensor import FakeTensorMode

CompileOne = Callable[[fx.GraphModule, list[torch.Tensor]], Compiled]


class Specialized(Exception):
    """A compiler relied on facts of symbolic sizes that nothing guards."""


class LazyContext(TracingContext):
    """A tracing context whose fake mode, and the fakes of the inputs, are made when a compiler asks for it."""

    def __init__(self, program: Program, inputs: Sequence[torch.Tensor]) -> None:
        self._program = program
        self._inputs = inputs
        self._mode: FakeTensorMode | None = None
        self._fakes: list[Any] = []
        self._armed = False
        super().__init__(None)
        self._armed = True
        self.facts: frozenset[str] = frozenset()

    @property
    def fake_mode(self) -> FakeTensorMode | None:
        """The mode; making it runs the graph once, so that what its operators say of the sizes is known."""
        if self._mode is None and self._armed:
            self._armed = False
            self._mode, self._fakes = fake_inputs(self._program, self._inputs, symbolic=True)
            if any(item.dynamic for item in self._program.inputs):
                interpret(programs.to_module(self._program), self._mode, self._fakes)
            self.facts = facts(self._mode)
        return self._mode

    @fake_mode.setter
    def fake_mode(self, mode: FakeTensorMode | None) -> None:
        self._mode = mode

    def conditions(self) -> list[Condition]:
        """Facts that have come since; Specialized where one can't be checked. Makes no mode any more."""
        self._armed = False
        return [] if self._mode is None else relied_on(self._mode, self._fakes, self.facts)


def with_sizes(
    program: Program, inputs: list[torch.Tensor], compile_one: CompileOne, module: fx.GraphModule | None = None
) -> Compiled:
    """What `compile_one` makes of the graph, in a tracing context; per shape where it relied on the sizes."""
    context = LazyContext(program, inputs)

    def per_shape() -> Compiled:
        return PerShape(program, lambda program, inputs: with_sizes(program, inputs, compile_one))

    try:
        with preserved(), tracing(context):
            try:
                compiled = compile_one(module or programs.to_module(program), inputs)
            finally:
                context._armed = False
            return conditional(compiled, context.conditions(), per_shape)
    except Specialized:
        return per_shape()


def relied_on(mode: FakeTensorMode, fakes: Sequence[Any], known: frozenset[str]) -> list[Condition]:
    """What a compiler added to the facts `known` of a fake mode; Specialized where it can't be checked."""
    if not facts(mode) - known:
        return []
    try:
        return conditions(mode, fakes, known)
    except Inexpressible as error:
        raise Specialized(str(error)) from error


class PerShape:
    """Compiled code for each tuple of input sizes and strides that comes; `make` compiles for one."""

    def __init__(self, program: Program, make: Callable[[Program, list[torch.Tensor]], Compiled]) -> None:
        self._program = programs.static(program)
        self._make = make
        self._made: dict[Any, Compiled] = {}

    def __call__(self, *inputs: torch.Tensor) -> Sequence[Any]:
        shapes = tuple((tensor.shape, tensor.stride()) for tensor in inputs)
        compiled = self._made.get(shapes)
        if compiled is None:
            compiled = self._made[shapes] = self._make(self._program, list(inputs))
        return compiled(*inputs)


def fake_inputs(
    program: Program, inputs: Sequence[torch.Tensor], symbolic: bool = False
) -> tuple[FakeTensorMode, list[Any]]:
    """A new fake mode and the inputs in it, with symbols for the sizes that vary.

    `symbolic` has the mode know symbols where no input has any: results may have sizes of data.
    """
    mode = build.make_fake_mode(symbolic or varies(program), scalar_outputs=True, shape_outputs=True)
    fakes = [
        build.fake_input(mode, tensor, item.dynamic, f"x{number}", item.unbacked)
        for number, (item, tensor) in enumerate(zip(program.inputs, inputs, strict=True))
    ]
    for item, fake in zip(program.inputs, fakes, strict=True):
        for dim, least, most in item.ranges:
            if isinstance(fake.shape[dim], torch.SymInt):
                build.bound(mode, fake.shape[dim], least, most)
    return mode, fakes


def varies(program: Program) -> bool:
    """Whether a program has sizes or numbers that its fake tensors know as symbols."""
    return any(item.dynamic for item in program.inputs) or any(step.target == "item" for step in program.steps)


def facts(mode: FakeTensorMode) -> frozenset[str]:
    """What is known of the symbolic sizes: guards and replaced symbols, as text."""
    shape_env = mode.shape_env
    if shape_env is None:
        return frozenset()
    replaced = (f"{symbol} is {value}" for symbol, value in replacements(shape_env))
    return frozenset((*(str(guard.expr) for guard in shape_env.guards), *replaced))


@dataclasses.dataclass
class Interpreted:
    """What running a graph on fake tensors showed."""

    values: dict[fx.Node, Any]
    mutating: set[fx.Node]
    "nodes that wrote to a tensor they were given"
    reshaped: bool
    "whether one changed a tensor's size, strides or storage"
    versions: list[int]
    "of the inputs, before"
    other_mode: set[fx.Node]
    "nodes that ran in another grad mode than the graph began in"
    rebased: list[int] = dataclasses.field(default_factory=list)
    "inputs that a write gave a history"
    hidden: list[int] = dataclasses.field(default_factory=list)
    "inputs that an operator wrote to without telling (batch norm its buffers), as `hidden_writes` finds them"
    inference: bool = False
    "whether a node ran in inference mode"
    drawn: bool = False
    "whether random numbers were drawn"
    needs_grad: bool = False
    "whether autograd recorded an operation"


def interpret(module: fx.GraphModule, mode: FakeTensorMode, fakes: Sequence[Any]) -> Interpreted:
    """Run a graph on fake tensors, in the modes of the thread, which are put back."""
    found = Interpreted({}, set(), False, [build.version(tensor) for tensor in fakes], set())
    given = [tensor.grad_fn for tensor in fakes]
    layouts: dict[int, Any] = {}
    grad = torch.is_grad_enabled()

    class Interpreter(fx.Interpreter):
        def run_node(self, n: fx.Node) -> Any:
            given = [found.values[item] for item in n.all_input_nodes]
            before = [(tensor, build.version(tensor)) for tensor in build.tensors(given)]
            if torch.is_grad_enabled() != grad:
                found.other_mode.add(n)
            found.inference |= torch.is_inference_mode_enabled()
            found.values[n] = result = super().run_node(n)
            if any(build.version(tensor) != version for tensor, version in before):
                found.mutating.add(n)
            for tensor in build.tensors(result):
                layouts.setdefault(id(tensor), layout(tensor))
            return result

    modes = Modes()
    try:
        with build.quiet(), mode, build.python_forms(mode):
            Interpreter(module, garbage_collect_values=False).run(*fakes)
    finally:
        modes.restore()
    if mode.shape_env is not None:  # nobody will bind the numbers of data that this run has met
        mode.shape_env.pending_fresh_unbacked_symbols.clear()
    made = build.tensors(list(found.values.values()))
    ours = {id(tensor) for tensor in fakes}
    found.drawn = mode.drawn  # type: ignore[attr-defined]
    pairs = enumerate(zip(fakes, given, strict=True))
    found.rebased = [number for number, (tensor, before) in pairs if tensor.grad_fn is not before]
    found.needs_grad = bool(found.rebased) or any(
        tensor.grad_fn is not None for tensor in made if id(tensor) not in ours
    )
    # Compared as text now: what was learnt of the symbols since holds for both.
    found.reshaped = any(str(layouts[id(tensor)]) != str(layout(tensor)) for tensor in made if id(tensor) in layouts)
    return found


def hidden_writes(program: Program, inputs: Sequence[torch.Tensor], versions: Sequence[int]) -> list[int]:
    """Inputs that a graph writes to besides those whose versions move (`versions` are the numbers of these)."""
    from torch._subclasses.functional_tensor import FunctionalTensor, FunctionalTensorMode

    mode, fakes = fake_inputs(program, inputs)
    module = programs.to_module(program)
    modes = Modes()
    try:
        with build.quiet(), mode, build.python_forms(mode), FunctionalTensorMode():
            wrapped = [FunctionalTensor.to_functional(fake) for fake in fakes]
            module(*wrapped)
    finally:
        modes.restore()
    changed = [torch._functionalize_has_data_mutation(each.elem) for each in wrapped]  # type: ignore[attr-defined]
    return [number for number, each in enumerate(changed) if each and number not in versions]


def layout(tensor: torch.Tensor) -> Any:
    """A tensor's size, strides, offset and storage."""
    if tensor.layout is not torch.strided:
        return tensor.shape
    return tensor.shape, tensor.stride(), tensor.storage_offset(), storage(tensor)


@contextlib.contextmanager
def preserved() -> Iterator[None]:
    """Keep the random stream and the modes over a compilation; hooks for saved tensors see nothing of it."""
    state, modes = torch.get_rng_state(), Modes()
    hooked = torch._C._autograd._top_saved_tensors_default_hooks(False) is not None
    try:
        with torch.autograd.graph.saved_tensors_hooks(_same, _same) if hooked else contextlib.nullcontext():
            yield
    finally:
        torch.set_rng_state(state)
        modes.restore()


def _same(tensor: torch.Tensor) -> torch.Tensor:
    return tensor
