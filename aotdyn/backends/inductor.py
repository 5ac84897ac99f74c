"""The `inductor` backend: graphs without gradients become AOTInductor kernels, kept in the store.

A kernel is a directory: `model.so`, at times `model.json` (operators called
through torch) and `conditions` (relations of sizes that it holds for), and
`outer.graph`, what is done around it; or just `eager` (the
reason why the graph is run so) or `shapes` (each tuple of sizes has a kernel of
its own). Loading one imports no compiler. Graphs that need gradients go through
inductor's ordinary path in each process.

The kernels check nothing: the guards have. CPU kernels load unaligned, so
alignment is no part of their key.
"""

from __future__ import annotations

import functools
import hashlib
import logging
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import torch
from torch import fx

from aotdyn.backends import aliasing, conditions, context
from aotdyn.backends.context import Compiled
from aotdyn.errors import BackendError
from aotdyn.graph import build, codegen, data
from aotdyn.graph import program as programs
from aotdyn.graph.program import Program
from aotdyn.report import events

if TYPE_CHECKING:
    from aotdyn.store.store import Store

log = logging.getLogger("aotdyn.backends")

FORMAT = 2
"Raise it when what is in a kernel's directory, or how it is called, changes."

MODEL, EXTERN, OUTER, EAGER, SHAPES = "model.so", "model.json", "outer.graph", "eager", "shapes"
CONDITIONS = "conditions"
"Relations of the inputs' sizes that the compiled code relies on."

DEFAULTS = {"fallback_random": True}
"""Inductor options that keep the program the same; the user's own come above them."""

PLAIN = (torch.Tensor, torch.nn.Parameter)


def compile(
    program: Program,
    inputs: Sequence[torch.Tensor],
    options: dict[str, Any],
    store: Store | None,
    key: str | None,
    locate: codegen.Locate = codegen.locate,
) -> Compiled:
    """The kernel of a graph, from the store or made now; see `registry.compile`. Raises what inductor raises."""
    reason = _unsuitable(program, inputs)
    if reason:
        log.info("a graph runs eagerly: %s", reason)
        return codegen.to_function(program, locate)
    job = _Job(program, options, store, key, locate)
    if any(item.dynamic and not tensor.is_contiguous() for item, tensor in zip(program.inputs, inputs, strict=True)):
        return job.per_shape()
    return job.compile(list(inputs))


def kernel_key(program: Program, inputs: Sequence[torch.Tensor], options: dict[str, Any]) -> str:
    """Digest of all that a kernel depends on; NotDurable for a graph that can't be named."""
    storages: dict[int, int] = {}
    metadata = [
        (
            [None if dim in item.dynamic else size for dim, size in enumerate(tensor.shape)],
            [] if item.dynamic else tensor.stride(),
            str(tensor.dtype),
            str(tensor.device),
            tensor.requires_grad,
            tensor.is_inference(),
            tensor.is_conj(),
            tensor.is_neg(),
            storages.setdefault(context.storage(tensor), len(storages)),
        )
        for item, tensor in zip(program.inputs, inputs, strict=True)
    ]
    facts = [
        FORMAT,
        data.key(program, stacks=False),
        metadata,
        aliasing.pattern(inputs, range(len(inputs))),
        sorted((name, repr(value)) for name, value in {**DEFAULTS, **options}.items()),
        _ambient(),
        _machine(),
        "one" if torch.get_num_threads() == 1 else "many",
    ]
    return hashlib.blake2b(msgspec.msgpack.encode(facts), digest_size=16).hexdigest()


def _ambient() -> list[Any]:
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


@functools.cache
def _machine() -> list[str]:
    """torch's version and the processor's instruction set: kernels are compiled for the very machine."""
    flags = platform.processor()
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            flags = next((line for line in lines if line.startswith(("flags", "Features"))), flags)
    except OSError:
        pass
    flags = " ".join(sorted(flags.partition(":")[2].split()) or [flags])
    capability = torch.backends.cpu.get_cpu_capability()
    return [str(torch.__version__), platform.system(), platform.machine(), capability, flags]


def _unsuitable(program: Program, inputs: Sequence[torch.Tensor]) -> str:
    """Why a graph isn't inductor's, as far as can be told without a compiler; empty if it may be."""
    if not program.steps:
        return "it has no operation"
    for tensor in inputs:
        if type(tensor) not in PLAIN:
            return f"an input is a {type(tensor).__qualname__}"
        if tensor.device.type != "cpu" or tensor.layout is not torch.strided:
            return f"an input is {tensor.layout} on {tensor.device}"
    for step in program.steps:
        name = step.target if isinstance(step.target, str) else getattr(step.target, "__name__", "")
        if name in ("as_strided", "as_strided_", "requires_grad_", "set_", "resize_"):
            return f"it calls {name}"
        if step.kwargs.get("requires_grad"):
            return "it makes a tensor that requires grad"
    return ""


class _Job:
    """One graph on its way to a kernel."""

    def __init__(
        self, program: Program, options: dict[str, Any], store: Store | None, key: str | None, locate: codegen.Locate
    ) -> None:
        self.program = program
        self.options = {name.replace("-", "_"): value for name, value in options.items()}
        self.store = store
        self.key = key
        self.locate = locate
        self.written: tuple[int, ...] = ()
        "inputs that the compiled code writes to"

    def compile(self, inputs: list[torch.Tensor]) -> Compiled:
        """The callable, loaded or made; for inputs that overlap in another way there will be another."""
        try:
            digest: str | None = kernel_key(self.program, inputs, self.options)
        except data.NotDurable:
            digest = None
        run = self.load(digest) or self.make(digest, inputs)
        if not self.written:
            return run
        return aliasing.PerAliasing(
            self.program.inputs, self.written, inputs, run, lambda inputs: self.again(self.program, inputs)
        )

    def again(self, program: Program, inputs: list[torch.Tensor]) -> Compiled:
        """The same graph for other inputs, in a later call."""
        from aotdyn.backends import registry

        return registry.compile(
            program, inputs, "inductor", self.options, self.store, self.key, fresh=False, locate=self.locate
        )

    def load(self, digest: str | None) -> Compiled | None:
        """What an earlier process made, None for nothing or nothing usable."""
        directory = self.store.kernel_path(digest) if self.store and digest else None
        if directory is None:
            return None
        try:
            return self.open(directory)
        except (OSError, ValueError, LookupError, RuntimeError) as error:
            log.warning("ignoring kernel %s, which can't be loaded: %s", directory, error)
            return None

    def open(self, directory: Path) -> Compiled:
        """The callable of a kernel's directory."""
        if (directory / EAGER).exists():
            return codegen.to_function(self.program, self.locate)
        if (directory / SHAPES).exists():
            return self.per_shape()
        outer = data.decode_program((directory / OUTER).read_bytes())
        asked = directory / CONDITIONS
        relied_on = conditions.decode(asked.read_bytes()) if asked.exists() else []
        return conditions.conditional(self.assemble(outer, directory / MODEL), relied_on, self.per_shape)

    def assemble(self, outer: Program, model: Path) -> Compiled:
        """Kernel and outer program as one callable."""
        around = codegen.to_function(outer, self.locate)
        if not model.exists():
            return around
        self.written = _written(outer)
        run = _runner(model)
        if self.written:
            run = _apart(run, self.written)
        inputs, outputs = len(self.program.inputs), outer.outputs
        if not outer.steps and outputs == tuple(programs.Ref(n) for n in range(inputs, len(outer.inputs))):
            return run
        return lambda *args: around(*args, *run(*args))

    def make(self, digest: str | None, inputs: list[torch.Tensor]) -> Compiled:
        """Compile now, and store what came of it."""
        from aotdyn.backends.split import Unsuitable

        _check(self.options)
        try:
            with context.preserved(), events.phase("compile"):
                return self._make(digest, inputs)
        except Unsuitable as error:
            log.info("a graph runs eagerly: %s", error)
            self.save(digest, {EAGER: str(error).encode()})
        except context.Specialized as error:
            if not any(item.dynamic for item in self.program.inputs):  # facts about numbers of the data
                log.info("a graph runs eagerly: %s", error)
                self.save(digest, {EAGER: str(error).encode()})
                return codegen.to_function(self.program, self.locate)
            self.save(digest, {SHAPES: b""})
            return self.per_shape()
        except Exception as error:
            if _lasting(error):
                self.save(digest, {EAGER: f"inductor: {error}".encode()[:2000]})
            raise
        return codegen.to_function(self.program, self.locate)

    def _make(self, digest: str | None, inputs: list[torch.Tensor]) -> Compiled:
        from aotdyn.backends import split

        module = programs.to_module(self.program)
        mode, fakes = context.fake_inputs(self.program, inputs)
        seen = context.interpret(module, mode, fakes)
        if any(tensor.device.type != "cpu" for tensor in build.tensors(list(seen.values.values()))):
            raise split.Unsuitable("a tensor isn't on the CPU")
        if seen.needs_grad:
            self.written = tuple(split.written(module.graph.find_nodes(op="placeholder"), seen))
            return self.train(inputs)
        if seen.reshaped:
            raise split.Unsuitable("a tensor changes its shape in place")
        apart = len({context.storage(tensor) for tensor in inputs}) == len(inputs)
        if seen.mutating and (not apart or aliasing.pattern(inputs, range(len(inputs)))):
            raise split.Unsuitable("it writes to inputs that share memory")
        parts = split.split(module, self.program.inputs, seen)
        if parts.outer.steps and torch.is_grad_enabled() and any(tensor.requires_grad for tensor in inputs):
            parts.outer = _without_grad(parts.outer)
        files: dict[str, bytes | Path] = {OUTER: data.encode(parts.outer)}
        if parts.inner is None:
            events.count("graphs_compiled")
            self.save(digest, files)
            return codegen.to_function(parts.outer, self.locate)
        detached = [tensor.detach() for tensor in inputs]
        with tempfile.TemporaryDirectory(prefix="aotdyn-") as scratch:
            files |= package(parts.inner, self.program, detached, self.options, Path(scratch))
            events.count("graphs_compiled")
            directory = self.save(digest, files)
            if directory is not None:
                return self.open(directory)
            model = files[MODEL]
            assert isinstance(model, Path)
            made = self.assemble(parts.outer, model)  # mapped before the directory goes
            asked = files.get(CONDITIONS, b"\x90")
            assert isinstance(asked, bytes)
            return conditions.conditional(made, conditions.decode(asked), self.per_shape)

    def train(self, inputs: list[torch.Tensor]) -> Compiled:
        """Inductor's ordinary path, with its backward."""

        def compile_one(module: fx.GraphModule, inputs: list[torch.Tensor]) -> Compiled:
            from torch._inductor.compile_fx import compile_fx

            with build.quiet():
                return compile_fx(module, inputs, config_patches={**DEFAULTS, **self.options})  # type: ignore[return-value]

        events.count("graphs_compiled")
        return context.with_sizes(self.program, inputs, compile_one)

    def per_shape(self) -> Compiled:
        """A kernel for each tuple of sizes."""
        return context.PerShape(self.program, self.again)

    def save(self, digest: str | None, files: dict[str, bytes | Path]) -> Path | None:
        """Store a kernel's files; None where there is no store, or it can't be written."""
        if self.store is None or digest is None:
            return None
        return self.store.save_kernel(digest, files, self.key or "")


def package(
    module: fx.GraphModule, program: Program, inputs: list[torch.Tensor], options: dict[str, Any], scratch: Path
) -> dict[str, bytes | Path]:
    """Compile a graph with AOTInductor: the files of its kernel, in `scratch`.

    Raises:
        Specialized: the kernel would hold for some sizes only, which nothing guards.
        Exception: what inductor raises.
    """
    import torch._inductor

    patches = {**DEFAULTS, "aot_inductor.package": True, "cpp.dynamic_threads": torch.get_num_threads() > 1, **options}
    mode, fakes = context.fake_inputs(program, inputs)
    context.interpret(programs.to_module(program), mode, fakes)
    known = context.facts(mode)
    mode, fakes = context.fake_inputs(program, inputs)
    with build.quiet(), torch.no_grad(), torch._guards.tracing(torch._guards.TracingContext(mode)):
        made: Any = torch._inductor.aot_compile(module, tuple(fakes), options=patches)
        relied_on = context.relied_on(mode, fakes, known)
    paths = [Path(item) for item in ([made] if isinstance(made, str) else made) if isinstance(item, str)]
    library = next(path for path in paths if path.suffix == ".so")
    files: dict[str, bytes | Path] = {MODEL: _stripped(library, scratch / MODEL)}
    extern = library.with_suffix(".json")
    if extern in paths:
        files[EXTERN] = Path(shutil.copy(extern, scratch / EXTERN))
    if relied_on:
        files[CONDITIONS] = conditions.encode(relied_on)
    return files


def _check(options: dict[str, Any]) -> None:
    """Raise BackendError for an option that inductor doesn't have, as torch.compile does."""
    from torch._inductor import config

    known = config.get_config_copy()
    for name in options:
        if name not in known:
            raise BackendError(f"inductor has no option {name!r}", backend="inductor")


def _runner(model: Path) -> Compiled:
    """What calls a kernel.

    The library may make a result as a view of a temporary: it comes as a tensor of its own, as the graph gives it,
    or autograd would refuse to write to it.
    """
    run = torch._C._aoti.AOTIModelContainerRunnerCpu(str(model), 1).run
    return lambda *args: [result.detach() if result._is_view() else result for result in run(list(args))]


def _apart(run: Compiled, written: tuple[int, ...]) -> Compiled:
    """The same kernel with no result in the memory of a written input, where inductor may put a `cat` of one tensor."""

    def call(*args: torch.Tensor) -> list[torch.Tensor]:
        taken = {context.storage(args[index]) for index in written}
        return [result.clone() if context.storage(result) in taken else result for result in run(*args)]

    return call


def _written(outer: Program) -> tuple[int, ...]:
    """Indices of the inputs whose versions a kernel's outer program moves."""
    moves = [step for step in outer.steps if step.target is torch.autograd.graph.increment_version]
    return tuple(index for step in moves for index in programs.refs(step.args))


def _stripped(library: Path, target: Path) -> Path:
    """A copy of a library without its symbols for debugging, where `strip` is found."""
    tool = shutil.which("strip")
    if tool is None or subprocess.run([tool, "-o", target, library], capture_output=True).returncode:
        shutil.copy(library, target)
    return target


def _without_grad(outer: Program) -> Program:
    """The same program under no_grad: the user's graph turned gradients off itself."""
    shift = len(outer.inputs)

    def moved(ref: programs.Ref) -> programs.Ref:
        return programs.Ref(ref.index if ref.index < shift else ref.index + 1)

    steps = [
        programs.Step(
            step.target, programs.map_refs(step.args, moved), programs.map_refs(step.kwargs, moved), step.stack
        )
        for step in outer.steps
    ]
    off, on = (programs.Step(torch._C._set_grad_enabled, (enabled,), {}) for enabled in (False, True))
    return Program(outer.inputs, [off, *steps, on], programs.map_refs(outer.outputs, moved))


def _lasting(error: Exception) -> bool:
    """Whether inductor would refuse the graph in every process: not for a broken compiler or a full disk."""
    from torch._inductor import exc

    passing = (exc.CppCompileError, exc.InvalidCxxCompiler, OSError, subprocess.SubprocessError)
    inner = getattr(error, "inner_exception", error)
    return isinstance(error, exc.InductorError | exc.OperatorIssue) and not isinstance(inner, passing)
