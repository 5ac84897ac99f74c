"""Building a graph on fake tensors: each call is run without data as it is recorded.

The caller sets the modes (grad, autocast and so on) that the program would be
in; the builder runs the operator under them and under its fake mode.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import linecache
import logging
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from aotdyn import interrupted
from aotdyn.graph import effects, native, program
from aotdyn.graph.program import Frame
from aotdyn.graph.scopes import Escaped, Nested, Scope
from aotdyn.guards.tensors import innermost, plain_class

if TYPE_CHECKING:
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

LOGGERS = ("torch._subclasses.fake_tensor", "torch.fx.experimental.symbolic_shapes", "torch.fx.experimental.sym_node")
"""Loggers that report at ERROR what is only a break for us."""

DATA_READS = frozenset(("data_ptr", "tolist", "numpy", "__array__", "__dlpack__", "storage", "untyped_storage"))
"""Methods that show data or its address; a fake tensor would answer some of them wrongly."""


NEVER_FAKE = frozenset(
    (
        "_sobol_engine_draw",
        "_sobol_engine_ff_",
        "_sobol_engine_initialize_state_",
        "_sobol_engine_scramble_",
    )
)
"""Functions of torch whose C++ reads the data of whatever it is given, where a fake tensor has none."""

QUANTIZED = (torch.quint8, torch.qint8, torch.qint32, torch.quint4x2, torch.quint2x4)
"""Dtypes that have no fakes: operators would mean something else to these."""


class FakeFailure(Exception):
    """An operator didn't run on fake tensors. `kind` says how:

    - `data-dependent`: its value, or a branch inside it, depends on data;
    - `dynamic-shape`: the shape of its result does;
    - `unsupported`: it has no fake implementation, or its result isn't a fake tensor;
    - `raises`: it raised `original`, and so would the program (maybe in other words).
    """

    def __init__(self, kind: str, reason: str, original: BaseException | None = None) -> None:
        super().__init__(reason)
        self.kind = kind
        self.reason = reason
        self.original = original


@dataclasses.dataclass(frozen=True, slots=True)
class Operand:
    """A value of the graph: its node and what stands for it while tracing (a fake tensor, a SymInt, a tuple)."""

    node: fx.Node
    fake: Any


@dataclasses.dataclass(frozen=True, slots=True)
class Finished:
    """A graph ready to compile; `kept` are the numbers of the placeholders that it still has, in order."""

    module: fx.GraphModule
    kept: list[int]


class GraphBuilder:
    """An fx graph and the fake mode its values live in.

    `dynamic` allows symbolic sizes; `scalar_outputs` and `shape_outputs` let
    `.item()` and operators like `nonzero` give unbacked symbols. `line` says
    where the program stands.
    """

    def __init__(
        self,
        dynamic: bool = True,
        scalar_outputs: bool = False,
        shape_outputs: bool = False,
        line: Callable[[], Any] = lambda: None,
    ) -> None:
        self.graph = fx.Graph()
        self.scope = Scope(self.graph)
        "the graph that calls are recorded in: this one, or one inside it"
        self.placeholders: list[fx.Node] = []
        self.symbols: dict[Any, tuple[int, str, int]] = {}
        "sympy symbol -> (placeholder number, 'size', 'stride' or 'offset', dimension)"
        self.asked: dict[int, Any] = {}
        "what `line` said when a fact of sizes was noted, by id of the fact"
        self._line = line
        self._dynamic = dynamic
        self._outputs = (scalar_outputs, shape_outputs)
        self._made = self.scope.made
        self._inputs: dict[int, tuple[torch.Tensor, fx.Node, Any]] = {}

    def inputs(self) -> list[torch.Tensor]:
        """The real tensors that the graph is handed."""
        return [real for real, _, _ in self._inputs.values()]

    def release(self) -> None:
        """Let go of the real tensors."""
        self._inputs.clear()

    @functools.cached_property
    def fake_mode(self) -> FakeTensorMode:
        """Made at the first tensor: it imports `torch._dynamo`."""
        mode = make_fake_mode(self._dynamic, *self._outputs)
        if mode.shape_env is not None:
            mode.shape_env.guards = _Noted(self.asked, self._line)
        return mode

    @property
    def shape_env(self) -> ShapeEnv | None:
        """Where facts on symbolic sizes gather, None before the first tensor or without `dynamic`."""
        return self.fake_mode.shape_env if "fake_mode" in self.__dict__ else None

    def placeholder(
        self, name: str, real: torch.Tensor, dynamic_dims: Sequence[int] = (), unbacked: Sequence[int] = ()
    ) -> tuple[fx.Node, Any]:
        """An input that stands for `real`: the same one when asked again. FakeFailure where it can't be faked."""
        known = self._inputs.get(id(real))
        if known is not None:
            return known[1], known[2]
        if real.dtype in QUANTIZED:
            raise FakeFailure("unsupported", "a quantized tensor")
        try:
            fake = fake_input(self.fake_mode, real, dynamic_dims, name, unbacked)
        except (MemoryError, RecursionError):
            raise
        except Exception as error:
            interrupted.hand_on(error)
            raise FakeFailure("unsupported", f"{type(real).__name__} input: {error}", error) from error
        graph = self.graph
        first = next(iter(graph.nodes), None)
        with graph.inserting_after(self.placeholders[-1]) if self.placeholders else graph.inserting_before(first):
            node = self.graph.placeholder(name)
        dynamic = (
            tuple(d for d, size in enumerate(fake.shape) if isinstance(size, torch.SymInt)) if dynamic_dims else ()
        )
        if dynamic:
            node.meta["dynamic"] = dynamic
            if unbacked:
                node.meta["unbacked"] = tuple(sorted(unbacked))
            self._note_symbols(fake, len(self.placeholders))
        node.meta["val"] = node.meta["example_value"] = fake
        self.placeholders.append(node)
        self._made.append(node)
        self._inputs[id(real)] = (real, node, fake)
        return node, fake

    def call_function(
        self, function: Any, args: Sequence[Any], kwargs: Mapping[str, Any], stack: Sequence[Frame]
    ) -> tuple[fx.Node, Any]:
        """Record and run a call. Leaves of `args` and `kwargs` are Operands and constants; FakeFailure on failure."""
        if getattr(function, "__name__", "") in NEVER_FAKE:
            raise FakeFailure("data-dependent", f"torch.{function.__name__} reads a tensor's data")
        return self._call("call_function", function, args, kwargs, stack)

    def call_method(
        self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any], stack: Sequence[Frame]
    ) -> tuple[fx.Node, Any]:
        """The same for a method of the first argument."""
        if name in DATA_READS:
            raise FakeFailure("data-dependent", f"Tensor.{name} shows a tensor's data")
        return self._call("call_method", name, args, kwargs, stack)

    def number(self, carrier: Operand, real: float) -> tuple[fx.Node, Any]:
        """The float in a tensor of one number: a call of `item` whose result is a symbol, at hand `real`."""
        from torch._dynamo.source import ConstantSource
        from torch.fx.experimental.symbolic_shapes import DimDynamic

        env = self.fake_mode.shape_env
        assert env is not None
        with quiet():
            source = ConstantSource(f"float_{carrier.node.name}")
            symbol = env.create_unspecified_symbol(real, source, DimDynamic.DYNAMIC)
            found = env.create_symfloatnode(symbol, hint=real, source=source)
        node = self.graph.call_method("item", (carrier.node,))
        self._made.append(node)
        node.meta["val"] = node.meta["example_value"] = found
        return node, found

    def open(self) -> Scope:
        """Record in a new graph inside the present one, until `leave`."""
        self.scope = Scope(fx.Graph(), self.scope)
        return self.scope

    def leave(self, scope: Scope) -> None:
        """Go back to the graph around `scope`, finished or not."""
        assert scope.outer is not None
        self.scope = scope.outer

    def fresh_like(self, name: str, fake: torch.Tensor) -> Operand:
        """An input of the present nested graph that looks like a tensor, and has no history."""
        with quiet(), self.fake_mode, torch.no_grad():
            made = torch.empty_like(fake)
        return Operand(self.scope.input(name, made), made)

    def nested(self, nested: Nested, label: str) -> Operand:
        """A nested graph as an operand of a call."""
        return Operand(self.scope.reference(nested.module, label), nested.module)

    def local(self, value: Any) -> Any:
        """A structure with the present graph's nodes in the place of Operands."""
        try:
            return program.map_refs(value, lambda operand: self.scope.local(operand.node), Operand)
        except Escaped as error:
            raise FakeFailure("unsupported", str(error), error) from error

    def snapshot(self) -> int:
        """A mark for `rollback`."""
        return len(self._made)

    def rollback(self, mark: int) -> None:
        """Forget every node made since the mark. What an operator did to fake tensors stays done."""
        while len(self._made) > mark:
            node = self._made.pop()
            if node.op == "placeholder":
                self.placeholders.remove(node)
                self._inputs = {k: known for k, known in self._inputs.items() if known[1] is not node}
                self.symbols = {s: site for s, site in self.symbols.items() if site[0] < len(self.placeholders)}
            self.graph.erase_node(node)

    def forget(self, node: fx.Node) -> None:
        """Drop a node of this graph that nobody reads."""
        self._made.remove(node)
        self.graph.erase_node(node)

    def finish(self, outputs: Sequence[fx.Node]) -> Finished:
        """Close the graph: the outputs as a tuple, without unused placeholders.

        What the tracer itself made (sizes, items of results) goes where nothing
        reads it. What the program calls (`meta["called"]`) stays, as it would
        run, for backends to drop.
        """
        self.graph.output(tuple(outputs))
        self.scope.prune()
        kept = [number for number, node in enumerate(self.placeholders) if node.users]
        for node in self.placeholders:
            if not node.users:
                self.graph.erase_node(node)
        return Finished(fx.GraphModule(dict(self.scope.modules), self.graph), kept)

    def _call(
        self, op: str, target: Any, args: Sequence[Any], kwargs: Mapping[str, Any], stack: Sequence[Frame]
    ) -> tuple[fx.Node, Any]:
        seen: list[Any] = []

        def fake(operand: Operand) -> Any:
            seen.append(operand.fake)
            return operand.fake

        fake_args = program.map_refs(tuple(args), fake, Operand)
        fake_kwargs = {name: program.map_refs(value, fake, Operand) for name, value in kwargs.items()}
        function = _method(target) if op == "call_method" else native.FAKE.get(target, target)
        result, notes = self._run(function, fake_args, fake_kwargs, seen)
        named = {name: self.local(value) for name, value in kwargs.items()}
        node = self.scope.graph.create_node(op, target, self.local(tuple(args)), named)
        self.scope.made.append(node)
        node.meta.update(notes)
        node.meta["val"] = node.meta["example_value"] = result
        program.note_stack(node, tuple(stack))
        if stack and len(stack[-1]) >= 3:
            node.stack_trace = "".join(_frame_text(frame) for frame in stack)
        return node, result

    def _run(
        self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], seen: list[Any]
    ) -> tuple[Any, dict[str, bool]]:
        mode: Any = self.fake_mode
        mode.drawn = False
        before = [(tensor, version(tensor)) for tensor in tensors(seen)]
        try:
            with quiet(), mode, python_forms(mode):
                result = function(*args, **kwargs)
        except (MemoryError, RecursionError):
            raise
        except Exception as error:
            interrupted.hand_on(error)
            raise FakeFailure(_kind(error), f"{type(error).__name__}: {error}", error) from error
        for tensor in tensors(result):
            if getattr(innermost(tensor), "fake_mode", None) is not mode:
                raise FakeFailure("unsupported", "the result is a tensor of its own making")
        mutates = any(version(tensor) != was for tensor, was in before)
        return result, {"mutates": mutates, "random": mode.drawn}

    def _note_symbols(self, fake: torch.Tensor, number: int) -> None:
        places = [("size", fake.shape), ("stride", fake.stride()), ("offset", (fake.storage_offset(),))]
        for what, values in places:
            for dimension, value in enumerate(values):
                if isinstance(value, torch.SymInt) and value.node.expr.is_symbol:
                    self.symbols.setdefault(value.node.expr, (number, what, dimension))


class _Noted(list[Any]):
    """A ShapeEnv's list of facts that notes for each where the program stood."""

    def __init__(self, asked: dict[int, Any], line: Callable[[], Any]) -> None:
        super().__init__()
        self._asked, self._line = asked, line

    def append(self, fact: Any) -> None:
        self._asked[id(fact)] = self._line()
        super().append(fact)


def make_fake_mode(dynamic: bool = True, scalar_outputs: bool = False, shape_outputs: bool = False) -> FakeTensorMode:
    """A fake mode that notes in `drawn` whether an operator drew a random number; sizes never share a symbol.

    Tensors that an operator writes to through a list have their versions moved in it, as torch leaves undone.
    """
    with quiet():
        from torch._subclasses.fake_tensor import FakeTensorMode
        from torch.fx.experimental.symbolic_shapes import ShapeEnv

        shape_env = None
        if dynamic:
            shape_env = ShapeEnv(
                duck_shape=False, allow_scalar_outputs=scalar_outputs, allow_dynamic_output_shape_ops=shape_outputs
            )
            # Where a symbol comes from is known here: to find out from the stack, torch would import Inductor.
            shape_env._get_user_frame = sys._getframe  # type: ignore[method-assign]
        mode: Any = FakeTensorMode(shape_env=shape_env, allow_non_fake_inputs=False)
    dispatch = mode.dispatch

    def noting(func: Any, types: Any, args: Any = (), named: Any = None) -> Any:
        if not mode.drawn and effects.draws(func) and effects.probability(func, args, named or {}) != 0:
            mode.drawn = True
        result = dispatch(func, types, args, named)
        written = [tensor for tensor in tensors(effects.written(func, args, named or {})) if not tensor.is_inference()]
        if written:
            torch.autograd.graph.increment_version(written)
        return result

    describer = mode.fake_tensor_converter.meta_converter.describer
    describe = describer.describe_tensor

    def without_gradient(*args: Any, **options: Any) -> Any:
        """A gradient is an object of its own: faked with its tensor, its sizes would be symbols that no input has."""
        return dataclasses.replace(describe(*args, **options), grad=None)

    # Shadowed on the instances: higher-order operators look a mode up by its exact class.
    describer.describe_tensor = without_gradient
    mode.dispatch, mode.drawn = noting, False
    return mode


def fake_input(
    mode: FakeTensorMode,
    real: torch.Tensor,
    dynamic_dims: Sequence[int] = (),
    name: str = "x",
    unbacked: Sequence[int] = (),
) -> Any:
    """The fake of a real tensor: views, aliases, Parameters and strides kept; `dynamic_dims` become symbols.

    A size of 0 or 1 stays a constant, as everywhere in torch, but in a dimension that is `unbacked`.
    """
    real = _plain(real)
    with quiet():
        if not dynamic_dims or mode.shape_env is None:
            return mode.from_tensor(real, static_shapes=True)
        from torch._dynamo.source import LocalSource
        from torch.fx.experimental.symbolic_shapes import DimDynamic, StatelessSymbolicContext

        chosen = {dim % real.dim() for dim in dynamic_dims}
        sizes = [DimDynamic.DYNAMIC if dim in chosen else DimDynamic.STATIC for dim in range(real.dim())]
        for dim in unbacked:
            sizes[dim] = DimDynamic.UNBACKED
        base: Any = None
        if real._is_view() and real._base is not None:
            base = StatelessSymbolicContext([DimDynamic.DYNAMIC] * real._base.dim())
        context: Any = StatelessSymbolicContext(sizes, view_base_context=base)
        source = LocalSource(name)
        return mode.from_tensor(real, symbolic_context=context, source=source)


def _plain(real: torch.Tensor) -> torch.Tensor:
    """The same tensor as one of a class of torch's own; ValueError where there is none."""
    if type(real) in (torch.Tensor, torch.nn.Parameter) or not plain_class(type(real)):
        return real
    if not real.is_leaf or (real._is_view() and real.requires_grad):
        raise ValueError("a tensor of a class of the program's that isn't a leaf")
    alias = real.detach()
    if isinstance(real, torch.nn.Parameter):
        return torch.nn.Parameter(alias, real.requires_grad)
    return alias.requires_grad_(real.requires_grad)


def python_forms(mode: FakeTensorMode) -> contextlib.AbstractContextManager[Any]:
    """Around operators on symbols: those whose own code would make constants of sizes run by torch's Python forms."""
    if mode.shape_env is None or not mode.shape_env.var_to_range:
        return contextlib.nullcontext()
    from torch._dispatch.python import enable_python_dispatcher

    return enable_python_dispatcher()


def bound(mode: FakeTensorMode, size: torch.SymInt, least: int, most: int) -> None:
    """Tell a fake mode the range of a size that is a symbol; what sees to it is a guard of another's."""
    from torch.utils._sympy.numbers import int_oo

    assert mode.shape_env is not None
    mode.shape_env.constrain_symbol_range(size.node.expr, least, int_oo if most == sys.maxsize else most)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Silence what torch's fake tensors and symbolic shapes log and warn about."""
    loggers = [(logger := logging.getLogger(name), logger.disabled) for name in LOGGERS]
    for logger, _ in loggers:
        logger.disabled = True
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, disabled in loggers:
            logger.disabled = disabled


def _method(name: str) -> Any:
    return lambda receiver, *args, **kwargs: getattr(receiver, name)(*args, **kwargs)


def tensors(value: Any) -> list[torch.Tensor]:
    """The tensors in a nested structure."""
    found: list[torch.Tensor] = []
    program.map_refs(value, found.append, torch.Tensor)
    return found


def version(tensor: torch.Tensor) -> int:
    """How often a tensor was written to; -1 for inference tensors, which don't count."""
    return -1 if tensor.is_inference() else tensor._version


def _kind(error: Exception) -> str:
    from torch._subclasses import fake_tensor
    from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

    table: list[tuple[str, tuple[type[Exception], ...]]] = [
        ("data-dependent", (fake_tensor.DataDependentOutputException, GuardOnDataDependentSymNode)),
        ("dynamic-shape", (fake_tensor.DynamicOutputShapeException,)),
        (
            "unsupported",
            (
                fake_tensor.UnsupportedOperatorException,
                fake_tensor.UnsupportedFakeTensorException,
                fake_tensor.UnsupportedMutationAliasingException,
                NotImplementedError,
            ),
        ),
    ]
    for kind, classes in table:
        if isinstance(error, classes):
            return kind
    text = str(error)
    if "not supported for tensor subclasses" in text or "data is not allocated yet" in text or "FakeTensor" in text:
        return "unsupported"
    return "raises"


def _frame_text(frame: Frame) -> str:
    file, line, function, *_ = frame
    text = linecache.getline(file, line).strip()
    return f'  File "{file}", line {line}, in {function}\n' + (f"    {text}\n" if text else "")
