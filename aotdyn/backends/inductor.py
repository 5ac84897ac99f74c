"""The `inductor` backend: graphs become AOTInductor kernels, kept in the store.

A kernel is a directory: `model.so`, at times `model.json` (operators called
through torch) and `conditions` (relations of sizes that it holds for), and
`outer.graph`, what is done around it. That of a graph with gradients holds what
`training` says in the place of `model.so`. Or it holds what `making` says of a
graph without one. Loading a kernel imports no compiler.

The kernels check nothing: the guards have. CPU kernels load unaligned, so
alignment is no part of their key.

With `compile="background"` a graph runs eagerly until a worker has compiled it
(`background`); with `choose="measured"` the faster of the two ways stays
(`choice`).
"""

from __future__ import annotations

import functools
import hashlib
import logging
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import torch
from torch import fx

from aotdyn import collecting, interrupted
from aotdyn.backends import (
    aliasing,
    ambient,
    choice,
    conditions,
    context,
    failures,
    freezing,
    jobs,
    packages,
    training,
    unbacked,
)
from aotdyn.backends.choice import NOW, Policy
from aotdyn.backends.context import Compiled
from aotdyn.backends.packages import CONDITIONS, DEFAULTS, EAGER, MODEL, ORDINARY, OUTER, SHAPES, Files
from aotdyn.errors import BackendError
from aotdyn.graph import build, codegen, data
from aotdyn.graph import program as programs
from aotdyn.graph.program import Program
from aotdyn.report import events

if TYPE_CHECKING:
    from aotdyn.store.store import Store

log = logging.getLogger("aotdyn.backends")

FORMAT = 5
"Raise it when what is in a kernel's directory, or how it is called, changes."


def compile(
    program: Program,
    inputs: Sequence[torch.Tensor],
    options: dict[str, Any],
    store: Store | None,
    key: str | None,
    locate: codegen.Locate = codegen.locate,
    policy: Policy = NOW,
) -> Compiled:
    """The kernel of a graph, from the store, made now or later; see `registry.compile`. Raises what inductor raises."""
    reason = _unsuitable(program, inputs)
    if reason:
        log.info("aotdyn: a graph runs eagerly: %s", reason)
        return codegen.to_function(program, locate)
    if torch.are_deterministic_algorithms_enabled():
        policy = NOW._replace(frozen=policy.frozen)  # which of two ways a call goes would be a matter of time
    job = Job(program, options, store, key, locate, policy)
    if any(item.unbacked for item in program.inputs):
        return unbacked.FromTwoOn(program, job.again, job.per_shape())
    if any(item.dynamic and not tensor.is_contiguous() for item, tensor in zip(program.inputs, inputs, strict=True)):
        return job.per_shape()
    frozen = freezing.chosen(program, inputs) if policy.frozen else ()
    if frozen:
        return freezing.Frozen(frozen, list(inputs), job.like(frozen=frozen).compile, job.compile)
    return job.compile(list(inputs))


def kernel_key(
    program: Program, inputs: Sequence[torch.Tensor], options: dict[str, Any], frozen: Sequence[int] = ()
) -> str:
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
        *((number, freezing.digest(inputs[number])) for number in frozen),
    ]
    return hashlib.blake2b(msgspec.msgpack.encode(facts), digest_size=16).hexdigest()


def _unsuitable(program: Program, inputs: Sequence[torch.Tensor]) -> str:
    """Why a graph isn't inductor's, as far as can be told without a compiler; empty if it may be."""
    if not program.steps:
        return "it has no operation"
    for tensor in inputs:
        if not build.plain_class(type(tensor)):
            return f"an input is a {type(tensor).__qualname__}"
        if tensor.device.type != "cpu" or tensor.layout is not torch.strided:
            return f"an input is {tensor.layout} on {tensor.device}"
    for step in program.steps:
        name = step.target if isinstance(step.target, str) else getattr(step.target, "__name__", "")
        if name in ("as_strided", "as_strided_", "requires_grad_", "set_", "resize_"):
            return f"it calls {name}"
        if name == "_set_default_dtype":
            return "it changes the default dtype, which inductor asks for when the graph is behind it"
        if step.kwargs.get("requires_grad"):
            return "it makes a tensor that requires grad"
    return ""


class Job:
    """One graph on its way to a kernel."""

    def __init__(
        self,
        program: Program,
        options: dict[str, Any],
        store: Store | None,
        key: str | None,
        locate: codegen.Locate,
        policy: Policy = NOW,
        frozen: Sequence[int] = (),
    ) -> None:
        self.program = program
        self.options = {name.replace("-", "_"): value for name, value in options.items()}
        self.store = store
        self.key = key
        self.locate = locate
        self.about: dict[str, str] = {}
        self.policy = policy
        self.frozen = tuple(frozen)
        "inputs that the kernel is to hold"
        self.judged = False
        "whether an earlier process found the kernel to be faster than plain calls"
        self.kernel = False
        "whether what was opened last computes by compiled code"
        self.written: tuple[int, ...] = ()
        "inputs that the compiled code writes to"

    def compile(self, inputs: list[torch.Tensor]) -> Compiled:
        """The callable, loaded, made now, or eager until a worker has made it."""
        try:
            digest: str | None = kernel_key(self.program, inputs, self.options, self.frozen)
        except data.NotDurable:
            digest = None
        if self.policy.measured and (way := choice.known(self.store, digest, self.key)):
            if way == choice.EAGER:
                return self.eager()
            self.judged = True
        run = self.load(digest, inputs)
        if run is None and self.policy.later:
            from aotdyn.backends import background

            run = background.later(self, digest, inputs)
            if run is not None:
                return run
        return self.ready(run or self.claimed(digest, inputs), digest, inputs)

    def ready(
        self, run: Compiled, digest: str | None, inputs: list[torch.Tensor], eager: Callable[[], Compiled] | None = None
    ) -> Compiled:
        """What was opened, as calls find it: measured, and with code of its own for inputs that overlap otherwise."""
        if self.policy.measured and self.kernel and not self.judged:
            run = choice.Measured(run, eager or self.eager, functools.partial(self.chosen, digest))
        if not self.written:
            return run
        return aliasing.PerAliasing(
            self.program.inputs, self.written, inputs, run, lambda inputs: self.again(self.program, inputs)
        )

    def claimed(self, digest: str | None, inputs: list[torch.Tensor]) -> Compiled:
        """The callable made now, or by another process that was at it already, or eager where that one failed."""
        if self.store is None or digest is None:
            return self.make(digest, inputs)
        with self.store.claim(digest) as claim:
            if claim.waited:
                events.count("claims_waited")
            found = self.load(digest, inputs) if claim.done or claim.waited else None
            return found or self.make(digest, inputs)

    def eager(self) -> Compiled:
        """The graph as plain calls."""
        return codegen.to_function(self.program, self.locate)

    def name(self) -> str:
        """Function and line that the graph begins at."""
        stack = next((step.stack for step in self.program.steps if step.stack), None)
        if stack is None:
            return "a graph"
        file, line, function = self.locate(stack[0])
        return f"{function} ({file}:{line})"

    def chosen(self, digest: str | None, verdict: choice.Verdict) -> None:
        """Keep and report which way is the faster."""
        events.chosen(self.name(), verdict.way, verdict.eager, verdict.kernel)
        choice.note(self.key, verdict)
        if digest is not None:
            self.save(choice.place(digest), choice.files(verdict))

    def again(self, program: Program, inputs: list[torch.Tensor]) -> Compiled:
        """The same graph for other inputs, in a later call."""
        from aotdyn.backends import registry

        return registry.compile(
            program,
            inputs,
            "inductor",
            self.options,
            self.store,
            self.key,
            fresh=False,
            locate=self.locate,
            policy=self.policy,
        )

    def load(self, digest: str | None, inputs: list[torch.Tensor]) -> Compiled | None:
        """What an earlier process made, None for nothing or nothing usable."""
        if self.store is None or digest is None:
            return None
        directory = self.store.kernel_path(digest)
        if directory is None:
            return self.eager() if failures.known(self.store, digest) else None
        run = self.opened(directory, inputs)
        if run is None:
            self.store.drop_kernel(digest)  # or what is made in its place wouldn't be kept
        return run

    def opened(self, directory: Path, inputs: list[torch.Tensor]) -> Compiled | None:
        """The callable of a kernel's directory; None, and a warning, where it can't be loaded here."""
        try:
            return self.open(directory, inputs)
        except (OSError, ValueError, LookupError, RuntimeError, msgspec.MsgspecError) as error:
            log.warning("aotdyn: ignoring kernel %s, which can't be loaded: %s", directory, error)
            return None

    def open(self, directory: Path, inputs: list[torch.Tensor]) -> Compiled:
        """The callable of a kernel's directory."""
        self.kernel = False
        if (directory / EAGER).exists():
            return self.eager()
        if (directory / SHAPES).exists():
            return self.per_shape()
        if (directory / ORDINARY).exists() and self.policy.later:
            log.info(
                "aotdyn: a graph that has no stored kernel runs eagerly (compile='now' compiles it in each process)"
            )
            return self.eager()
        outer = data.decode_program((directory / OUTER).read_bytes())
        asked = directory / CONDITIONS
        relied_on = conditions.decode(asked.read_bytes()) if asked.exists() else []
        return conditions.conditional(self.assemble(outer, directory, inputs), relied_on, self.per_shape)

    def assemble(self, outer: Program, directory: Path, inputs: list[torch.Tensor]) -> Compiled:
        """Kernel and outer program as one callable."""
        around = codegen.to_function(outer, self.locate)
        if (directory / training.PLAN).exists():
            run, self.written = self.trained(directory, inputs)
        elif (directory / MODEL).exists():
            self.written = _written(outer)
            run = packages.runner(directory / MODEL)
            if (directory / freezing.FROZEN).exists():
                run = freezing.without(run, (directory / freezing.FROZEN).read_bytes())
            if self.written:
                run = _apart(run, self.written)
        else:
            return around
        self.kernel = not (directory / ORDINARY).exists()
        first, outputs = len(self.program.inputs), outer.outputs
        if not outer.steps and outputs == tuple(programs.Ref(n) for n in range(first, len(outer.inputs))):
            return run
        return lambda *args: around(*args, *run(*args))

    def trained(self, directory: Path, inputs: list[torch.Tensor]) -> tuple[Compiled, tuple[int, ...]]:
        """The training kernel in a directory, and the inputs that the program around it writes to."""
        plan = msgspec.msgpack.decode((directory / training.PLAN).read_bytes(), type=training.Plan)
        plan.check()
        program = (directory / training.PROGRAM).read_bytes()

        def eager() -> Compiled:
            return codegen.to_function(data.decode_program(program), self.locate)

        if (directory / ORDINARY).exists():
            from aotdyn.backends import nested

            return nested.Nested(plan, self.ordinary(program, inputs), None, eager), tuple(plan.written)
        backward = directory / training.BACKWARD
        run = training.Kernel(
            plan,
            packages.runner(directory / training.FORWARD),
            packages.runner(backward) if backward.exists() else None,
            eager,
        )
        return run, tuple(plan.written)

    def make(self, digest: str | None, inputs: list[torch.Tensor]) -> Compiled:
        """Compile now, and store what came of it."""
        from aotdyn.backends import making

        collecting.resume()
        check(self.options)
        with tempfile.TemporaryDirectory(prefix="aotdyn-") as scratch:
            folder = Path(scratch)
            self.about = ambient.about()
            try:
                with ambient.compiling(), events.phase("compile"):
                    made = making.make(self.program, inputs, self.options, folder, self.frozen)
            except (RecursionError, MemoryError):
                raise
            except Exception as error:
                interrupted.hand_on(error)
                self.failed(
                    digest, failures.of(error), jobs.encode(self.program, inputs, self.options, digest, self.frozen)
                )
                log.debug("inductor's failure", exc_info=error)
                return self.eager()
            return self.arrived(digest, made.files, made.lasting, folder, inputs)

    def arrived(
        self, digest: str | None, files: Files, lasting: bool, folder: Path, inputs: list[torch.Tensor]
    ) -> Compiled:
        """Store what was made, and open it: mapped before its folder goes."""
        if OUTER in files and ORDINARY not in files:
            events.count("graphs_compiled")
        directory = self.save(digest, files) if lasting else None
        if directory is None:
            directory = _written_to(folder, files)
        run = self.opened(directory, inputs)
        if run is None:
            self.unloadable(digest, inputs)
        return run or self.eager()

    def unloadable(self, digest: str | None, inputs: list[torch.Tensor]) -> None:
        """Keep that what this compiler makes of the graph can't be loaded here."""
        if self.store is not None and digest is not None:
            self.store.drop_kernel(digest)
        failure = failures.Failure(failures.COMPILER, "the kernel that was made of it can't be loaded on this machine")
        self.failed(digest, failure, jobs.encode(self.program, inputs, self.options, digest, self.frozen))

    def failed(self, digest: str | None, failure: failures.Failure, job: bytes | None) -> None:
        """Say that a graph can't be compiled, and keep that for as long as the compiler stays the same."""
        events.count("backend_failures")
        place = failures.place(failure, digest)
        kept = place is not None and self.save(place, failures.files(failure, job)) is not None
        failures.tell(failure, digest if kept else None)

    def ordinary(self, program: bytes, inputs: list[torch.Tensor]) -> Compiled:
        """A functional program by inductor's ordinary path, with its backward: compiled in each process."""
        from aotdyn.backends import joint

        def compile_one(module: fx.GraphModule, inputs: list[torch.Tensor]) -> Compiled:
            from torch._functorch import config
            from torch._inductor.compile_fx import compile_fx

            # A backward that reuses what was saved would refuse `retain_graph`; a cached one may be such.
            with build.quiet(), config.patch(donated_buffer=False, enable_autograd_cache=False):
                compiled = compile_fx(module, inputs, config_patches={**DEFAULTS, **self.options})
            metadata = torch._guards.TracingContext.get().fw_metadata
            if metadata is not None:
                metadata.bw_donated_idxs = []  # said of this graph alone: it reuses nothing
            return compiled  # type: ignore[return-value]

        events.count("graphs_compiled")
        events.count("graphs_compiled_each_time")
        return context.with_sizes(data.decode_program(program), joint.own_leaves(inputs), compile_one)

    def of_one_size(self) -> Job:
        """The same for the graph with every size fixed."""
        return self.like(programs.static(self.program), self.frozen)

    def like(self, program: Program | None = None, frozen: Sequence[int] = ()) -> Job:
        """A job in the same store under the same policy."""
        return Job(program or self.program, self.options, self.store, self.key, self.locate, self.policy, frozen)

    def per_shape(self) -> Compiled:
        """A kernel for each tuple of sizes."""
        return context.PerShape(self.program, self.again)

    def save(self, digest: str | None, files: dict[str, bytes | Path]) -> Path | None:
        """Store a kernel's files; None where there is no store, or it can't be written."""
        if self.store is None or digest is None:
            return None
        return self.store.save_kernel(digest, files, self.key or "", self.about)


def check(options: dict[str, Any]) -> None:
    """Raise BackendError for an option that inductor doesn't have, as torch.compile does."""
    from torch._inductor import config

    known = config.get_config_copy()
    for name in options:
        if name not in known:
            import difflib

            near = difflib.get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]}?" if near else "torch._inductor.list_options() lists them"
            raise BackendError(f"inductor has no option {name!r}", backend="inductor", hint=hint)


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
