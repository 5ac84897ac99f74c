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
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import torch

from aotdyn.backends import aliasing, ambient, choice
from aotdyn.backends.choice import NOW, Policy
from aotdyn.backends.stored import (
    CONDITIONS,
    DEFAULTS,
    EAGER,
    FROZEN,
    MODEL,
    ORDINARY,
    OUTER,
    PLAN,
    SHAPES,
    Compiled,
    runner,
)
from aotdyn.graph import data
from aotdyn.graph import program as programs
from aotdyn.graph.program import Locate, Program, locate
from aotdyn.guards import tensors
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
    locate: Locate = locate,
    policy: Policy = NOW,
) -> Compiled:
    """The kernel of a graph, from the store, made now or later; see `registry.compile`. Raises what inductor raises."""
    reason = _unsuitable(program, inputs)
    if reason:
        log.info("aotdyn: a graph runs eagerly: %s", reason)
        return programs.to_function(program, locate)
    if torch.are_deterministic_algorithms_enabled():
        policy = Policy(frozen=policy.frozen)  # which of two ways a call goes would be a matter of time
    job = Job(program, options, store, key, locate, policy)
    if any(item.unbacked for item in program.inputs):
        from aotdyn.backends import unbacked

        return unbacked.FromTwoOn(program, job.again, job.per_shape())
    if any(item.dynamic and not tensor.is_contiguous() for item, tensor in zip(program.inputs, inputs, strict=True)):
        return job.per_shape()
    return job.frozen_in(list(inputs)) if policy.frozen else job.compile(list(inputs))


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
            storages.setdefault(tensors.storage(tensor), len(storages)),
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
        *_held(inputs, frozen),
    ]
    return hashlib.blake2b(msgspec.msgpack.encode(facts), digest_size=16).hexdigest()


def _held(inputs: Sequence[torch.Tensor], frozen: Sequence[int]) -> list[tuple[int, str]]:
    """What the inputs that a kernel holds contain."""
    if not frozen:
        return []
    from aotdyn.backends import freezing

    return [(number, freezing.digest(inputs[number])) for number in frozen]


def _unsuitable(program: Program, inputs: Sequence[torch.Tensor]) -> str:
    """Why a graph isn't inductor's, as far as can be told without a compiler; empty if it may be."""
    if not program.steps:
        return "it has no operation"
    for tensor in inputs:
        if not tensors.plain_class(type(tensor)):
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
        locate: Locate,
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

    def frozen_in(self, inputs: list[torch.Tensor]) -> Compiled:
        """The callable that holds the parameters which may be held; the ordinary one where there are none."""
        from aotdyn.backends import freezing

        frozen = freezing.chosen(self.program, inputs)
        if not frozen:
            return self.compile(inputs)
        return freezing.Frozen(frozen, inputs, self.like(frozen=frozen).compile, self.compile)

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

            if self.policy.often:
                return background.Seldom(self, self.policy.often)
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

    def make(self, digest: str | None, inputs: list[torch.Tensor]) -> Compiled:
        """Compile now, and store what came of it."""
        from aotdyn.backends import fresh

        return fresh.make(self, digest, inputs)

    def eager(self) -> Compiled:
        """The graph as plain calls."""
        return programs.to_function(self.program, self.locate)

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

    def at_once(self, inputs: list[torch.Tensor]) -> Compiled:
        """The same graph for inputs like these, whose kernel is ordered now."""
        return self.like(frozen=self.frozen, policy=msgspec.structs.replace(self.policy, often=0)).compile(inputs)

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
            from aotdyn.backends import failures

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
        held = frozenset(os.listdir(directory))
        if EAGER in held:
            return self.eager()
        if SHAPES in held:
            return self.per_shape()
        if ORDINARY in held and self.policy.later:
            log.info(
                "aotdyn: a graph that has no stored kernel runs eagerly (compile='now' compiles it in each process)"
            )
            return self.eager()
        run = self.assemble(data.decode_program((directory / OUTER).read_bytes()), directory, held, inputs)
        if CONDITIONS not in held:
            return run
        from aotdyn.backends import conditions

        return conditions.conditional(run, conditions.decode((directory / CONDITIONS).read_bytes()), self.per_shape)

    def assemble(self, outer: Program, directory: Path, held: frozenset[str], inputs: list[torch.Tensor]) -> Compiled:
        """Kernel and outer program as one callable; `held` are the files that there are."""
        if PLAN in held:
            run, self.written = self.trained(directory, held, inputs)
        elif MODEL in held:
            self.written = _written(outer)
            run = runner(directory / MODEL)
            if FROZEN in held:
                from aotdyn.backends import freezing

                run = freezing.without(run, (directory / FROZEN).read_bytes())
            if self.written:
                run = _apart(run, self.written)
        else:
            return programs.to_function(outer, self.locate)
        self.kernel = ORDINARY not in held
        first, outputs = len(self.program.inputs), outer.outputs
        if not outer.steps and outputs == tuple(programs.Ref(n) for n in range(first, len(outer.inputs))):
            return run
        around = programs.to_function(outer, self.locate)
        return lambda *args: around(*args, *run(*args))

    def trained(
        self, directory: Path, held: frozenset[str], inputs: list[torch.Tensor]
    ) -> tuple[Compiled, tuple[int, ...]]:
        """The training kernel in a directory, and the inputs that the program around it writes to."""
        from aotdyn.backends import training

        plan = msgspec.msgpack.decode((directory / PLAN).read_bytes(), type=training.Plan)
        plan.check()
        program = (directory / training.PROGRAM).read_bytes()

        def eager() -> Compiled:
            return programs.to_function(data.decode_program(program), self.locate)

        if ORDINARY in held:
            from aotdyn.backends import fresh, nested

            return nested.Nested(plan, fresh.ordinary(self, program, inputs), None, eager), tuple(plan.written)
        backward = runner(directory / training.BACKWARD) if training.BACKWARD in held else None
        return training.Kernel(plan, runner(directory / training.FORWARD), backward, eager), tuple(plan.written)

    def of_one_size(self) -> Job:
        """The same for the graph with every size fixed."""
        return self.like(programs.static(self.program), self.frozen)

    def like(self, program: Program | None = None, frozen: Sequence[int] = (), policy: Policy | None = None) -> Job:
        """A job in the same store, under the same policy or another."""
        chosen = policy or self.policy
        return Job(program or self.program, self.options, self.store, self.key, self.locate, chosen, frozen)

    def per_shape(self) -> Compiled:
        """A kernel for each tuple of sizes."""
        from aotdyn.backends import context

        return context.PerShape(self.program, self.again)

    def save(self, digest: str | None, files: dict[str, bytes | Path]) -> Path | None:
        """Store a kernel's files; None where there is no store, or it can't be written."""
        if self.store is None or digest is None:
            return None
        return self.store.save_kernel(digest, files, self.key or "", self.about)


def _apart(run: Compiled, written: tuple[int, ...]) -> Compiled:
    """The same kernel with no result in the memory of a written input, where inductor may put a `cat` of one tensor."""

    def call(*args: torch.Tensor) -> list[torch.Tensor]:
        taken = {tensors.storage(args[index]) for index in written}
        return [result.clone() if tensors.storage(result) in taken else result for result in run(*args)]

    return call


def _written(outer: Program) -> tuple[int, ...]:
    """Indices of the inputs whose versions a kernel's outer program moves."""
    moves = [step for step in outer.steps if step.target is torch.autograd.graph.increment_version]
    return tuple(index for step in moves for index in programs.refs(step.args))
