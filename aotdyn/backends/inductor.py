"""The `inductor` backend: graphs become AOTInductor kernels, kept in the store.

A kernel is a directory: `model.so`, at times `model.json` (operators called
through torch) and `conditions` (relations of sizes that it holds for), and
`outer.graph`, what is done around it. That of a graph with gradients holds what
`training` says in the place of `model.so`. Or it is just `eager` (the reason
why the graph is run so), `shapes` (each tuple of sizes has a kernel of its own)
or `ordinary` (gradients that no kernel can give: inductor's ordinary path
compiles the graph in each process). Loading a kernel imports no compiler.

The kernels check nothing: the guards have. CPU kernels load unaligned, so
alignment is no part of their key.
"""

from __future__ import annotations

import hashlib
import logging
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import torch
from torch import fx

from aotdyn.backends import aliasing, ambient, conditions, context, packages, training
from aotdyn.backends.context import Compiled
from aotdyn.backends.packages import CONDITIONS, DEFAULTS, MODEL
from aotdyn.errors import BackendError
from aotdyn.graph import build, codegen, data
from aotdyn.graph import program as programs
from aotdyn.graph.program import Program
from aotdyn.report import events

if TYPE_CHECKING:
    from aotdyn.backends.context import Interpreted
    from aotdyn.backends.split import Split
    from aotdyn.store.store import Store

log = logging.getLogger("aotdyn.backends")

FORMAT = 3
"Raise it when what is in a kernel's directory, or how it is called, changes."

OUTER, EAGER, SHAPES, ORDINARY = "outer.graph", "eager", "shapes", "ordinary"


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
    if any(
        item.unbacked or (item.dynamic and not tensor.is_contiguous())
        for item, tensor in zip(program.inputs, inputs, strict=True)
    ):
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
        ambient.modes(),
        ambient.settings(),
        ambient.machine(),
        "one" if torch.get_num_threads() == 1 else "many",
    ]
    return hashlib.blake2b(msgspec.msgpack.encode(facts), digest_size=16).hexdigest()


def _unsuitable(program: Program, inputs: Sequence[torch.Tensor]) -> str:
    """Why a graph isn't inductor's, as far as can be told without a compiler; empty if it may be."""
    if not program.steps:
        return "it has no operation"
    for tensor in inputs:
        if type(tensor) not in training.PLAIN:
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


class _Ordinary(msgspec.Struct, frozen=True, array_like=True):
    """Why a graph goes inductor's ordinary path, and the inputs that it writes to."""

    reason: str
    written: list[int]


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
        self.about: dict[str, str] = {}
        self.written: tuple[int, ...] = ()
        "inputs that the compiled code writes to"

    def compile(self, inputs: list[torch.Tensor]) -> Compiled:
        """The callable, loaded or made; for inputs that overlap in another way there will be another."""
        try:
            digest: str | None = kernel_key(self.program, inputs, self.options)
        except data.NotDurable:
            digest = None
        run = self.load(digest, inputs) or self.claimed(digest, inputs)
        if not self.written:
            return run
        return aliasing.PerAliasing(
            self.program.inputs, self.written, inputs, run, lambda inputs: self.again(self.program, inputs)
        )

    def claimed(self, digest: str | None, inputs: list[torch.Tensor]) -> Compiled:
        """The callable made now, or by another process that was at it already."""
        if self.store is None or digest is None:
            return self.make(digest, inputs)
        with self.store.claim(digest) as claim:
            if claim.waited:
                events.count("claims_waited")
            return (self.load(digest, inputs) if claim.done else None) or self.make(digest, inputs)

    def again(self, program: Program, inputs: list[torch.Tensor]) -> Compiled:
        """The same graph for other inputs, in a later call."""
        from aotdyn.backends import registry

        return registry.compile(
            program, inputs, "inductor", self.options, self.store, self.key, fresh=False, locate=self.locate
        )

    def load(self, digest: str | None, inputs: list[torch.Tensor]) -> Compiled | None:
        """What an earlier process made, None for nothing or nothing usable."""
        directory = self.store.kernel_path(digest) if self.store and digest else None
        if directory is None:
            return None
        try:
            return self.open(directory, inputs)
        except (OSError, ValueError, LookupError, RuntimeError, msgspec.MsgspecError) as error:
            log.warning("ignoring kernel %s, which can't be loaded: %s", directory, error)
            return None

    def open(self, directory: Path, inputs: list[torch.Tensor]) -> Compiled:
        """The callable of a kernel's directory."""
        if (directory / EAGER).exists():
            return codegen.to_function(self.program, self.locate)
        if (directory / SHAPES).exists():
            return self.per_shape()
        if (directory / ORDINARY).exists():
            self.written = tuple(msgspec.msgpack.decode((directory / ORDINARY).read_bytes(), type=_Ordinary).written)
            return self.ordinary(inputs)
        outer = data.decode_program((directory / OUTER).read_bytes())
        asked = directory / CONDITIONS
        relied_on = conditions.decode(asked.read_bytes()) if asked.exists() else []
        return conditions.conditional(self.assemble(outer, directory), relied_on, self.per_shape)

    def assemble(self, outer: Program, directory: Path) -> Compiled:
        """Kernel and outer program as one callable."""
        around = codegen.to_function(outer, self.locate)
        if (directory / training.PLAN).exists():
            run, self.written = self.trained(directory)
        elif (directory / MODEL).exists():
            self.written = _written(outer)
            run = packages.runner(directory / MODEL)
            if self.written:
                run = _apart(run, self.written)
        else:
            return around
        inputs, outputs = len(self.program.inputs), outer.outputs
        if not outer.steps and outputs == tuple(programs.Ref(n) for n in range(inputs, len(outer.inputs))):
            return run
        return lambda *args: around(*args, *run(*args))

    def trained(self, directory: Path) -> tuple[Compiled, tuple[int, ...]]:
        """The training kernel in a directory, and the inputs that the program around it writes to."""
        plan = msgspec.msgpack.decode((directory / training.PLAN).read_bytes(), type=training.Plan)
        plan.check()
        program = (directory / training.PROGRAM).read_bytes()
        backward = directory / training.BACKWARD
        run = training.Kernel(
            plan,
            packages.runner(directory / training.FORWARD),
            packages.runner(backward) if backward.exists() else None,
            lambda: codegen.to_function(data.decode_program(program), self.locate),
        )
        return run, tuple(plan.written)

    def make(self, digest: str | None, inputs: list[torch.Tensor]) -> Compiled:
        """Compile now, and store what came of it."""
        from aotdyn.backends.split import Unsuitable

        _check(self.options)
        try:
            self.about = ambient.about()
            with context.preserved(), ambient.compiling(), events.phase("compile"):
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
        from aotdyn.backends.split import Unsuitable

        module = programs.to_module(self.program)
        mode, fakes = context.fake_inputs(self.program, inputs)
        seen = context.interpret(module, mode, fakes)
        if any(tensor.device.type != "cpu" for tensor in build.tensors(list(seen.values.values()))):
            raise Unsuitable("a tensor isn't on the CPU")
        apart = len({context.storage(tensor) for tensor in inputs}) == len(inputs)
        overlapping = seen.mutating and (not apart or aliasing.pattern(inputs, range(len(inputs))))
        if not seen.needs_grad:
            if seen.reshaped:
                raise Unsuitable("a tensor changes its shape in place")
            if overlapping:
                raise Unsuitable("it writes to inputs that share memory")
            return self.keep(digest, inputs, split.split(module, self.program.inputs, seen), None)
        written = split.written_inputs(module.graph.find_nodes(op="placeholder"), seen)
        try:
            _check_gradients(seen, bool(overlapping))
            seen.hidden = context.hidden_writes(self.program, inputs, written)
            parts = split.split(module, self.program.inputs, seen)
            return self.keep(digest, inputs, parts, seen if parts.trained else None)
        except context.Specialized:
            raise
        except Exception as error:
            self.written = tuple(written)
            if isinstance(error, Unsuitable) or _lasting(error):
                marker = _Ordinary(f"{type(error).__name__}: {error}"[:2000], written)
                self.save(digest, {ORDINARY: msgspec.msgpack.encode(marker)})
            log.info("a graph with gradients is compiled in each process: %s", error, exc_info=log.isEnabledFor(10))
            return self.ordinary(inputs)

    def keep(self, digest: str | None, inputs: list[torch.Tensor], parts: Split, seen: Interpreted | None) -> Compiled:
        """Compile a kernel, store it and open it; with gradients if there is what was `seen` of them."""
        from aotdyn.backends import joint

        files: dict[str, bytes | Path] = {OUTER: data.encode(parts.outer)}
        detached = [tensor.detach() for tensor in inputs]
        with tempfile.TemporaryDirectory(prefix="aotdyn-") as scratch:
            folder = Path(scratch)
            if parts.inner is not None and seen is not None:
                files |= joint.package(parts, self.program, inputs, seen, self.options, folder)
            elif parts.inner is not None:
                files |= packages.package(parts.inner, self.program, detached, self.options, folder)
            events.count("graphs_compiled")
            directory = self.save(digest, files)
            if directory is None:
                directory = _written_to(folder, files)
            return self.open(directory, inputs)  # mapped before the scratch directory goes

    def ordinary(self, inputs: list[torch.Tensor]) -> Compiled:
        """Inductor's ordinary path, with its backward: compiled in each process."""

        def compile_one(module: fx.GraphModule, inputs: list[torch.Tensor]) -> Compiled:
            from torch._functorch import config
            from torch._inductor.compile_fx import compile_fx

            config.donated_buffer = False  # or `retain_graph` would be refused; it is read when a backward runs
            with build.quiet():
                return compile_fx(module, inputs, config_patches={**DEFAULTS, **self.options})  # type: ignore[return-value]

        events.count("graphs_compiled")
        events.count("graphs_compiled_each_time")
        return context.with_sizes(self.program, inputs, compile_one)

    def per_shape(self) -> Compiled:
        """A kernel for each tuple of sizes."""
        return context.PerShape(self.program, self.again)

    def save(self, digest: str | None, files: dict[str, bytes | Path]) -> Path | None:
        """Store a kernel's files; None where there is no store, or it can't be written."""
        if self.store is None or digest is None:
            return None
        return self.store.save_kernel(digest, files, self.key or "", self.about)


def _check_gradients(seen: Interpreted, overlapping: bool) -> None:
    """Raise Unsuitable for a graph whose gradients no kernel can give."""
    from aotdyn.backends.split import Unsuitable

    if seen.reshaped:
        raise Unsuitable("a tensor changes its shape in place, in a graph with gradients")
    if overlapping:
        raise Unsuitable("it writes to inputs that share memory, in a graph with gradients")
    if seen.inference:
        raise Unsuitable("inference mode in a graph with gradients")
    if not torch.is_grad_enabled():
        raise Unsuitable("gradients are turned on inside the graph")


def _check(options: dict[str, Any]) -> None:
    """Raise BackendError for an option that inductor doesn't have, as torch.compile does."""
    from torch._inductor import config

    known = config.get_config_copy()
    for name in options:
        if name not in known:
            raise BackendError(f"inductor has no option {name!r}", backend="inductor")


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


def _written_to(folder: Path, files: dict[str, bytes | Path]) -> Path:
    """A directory with a kernel's files, where they aren't stored."""
    for name, content in files.items():
        if isinstance(content, bytes):
            (folder / name).write_bytes(content)
    return folder


def _lasting(error: Exception) -> bool:
    """Whether inductor would refuse the graph in every process: not for a broken compiler or a full disk."""
    from torch._inductor import exc

    passing = (exc.CppCompileError, exc.InvalidCxxCompiler, OSError, subprocess.SubprocessError)
    inner = getattr(error, "inner_exception", error)
    return isinstance(error, exc.InductorError | exc.OperatorIssue) and not isinstance(inner, passing)
