"""Which backends there are, and one way to have a graph compiled by any of them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import torch
from torch import fx

from aotdyn import config, interrupted
from aotdyn.backends.choice import NOW, Policy
from aotdyn.backends.stored import Compiled
from aotdyn.errors import BackendError
from aotdyn.graph import program as programs
from aotdyn.graph.program import Locate, Program, locate
from aotdyn.report import events

if TYPE_CHECKING:
    from aotdyn.store.store import Store

log = logging.getLogger("aotdyn.backends")

OURS = ("eager", "inductor")


class UnknownBackend(BackendError, ValueError):
    """No backend has this name."""


class Backend(msgspec.Struct, frozen=True):
    """A backend by name; `function` is the user's or torch's, None for ours."""

    name: str
    function: Callable[..., Any] | None = None


def resolve(backend: str | Callable[..., Any] | Backend | None = None) -> Backend:
    """The backend that is meant: a name, a callable as `torch.compile` takes it, or None for the default.

    torch's own registry (which imports `torch._dynamo`) is asked for names that aren't ours alone.

    Raises:
        UnknownBackend: no backend has this name; the message lists those there are.
    """
    if isinstance(backend, Backend):
        return backend
    if backend is None or backend == "":
        return Backend(default_backend())
    if isinstance(backend, str):
        return Backend(backend) if backend in OURS else Backend(backend, _of_torch(backend))
    if callable(backend):
        function = getattr(backend, "compiler_fn", backend)
        name = getattr(function, "__qualname__", None) or type(function).__qualname__
        return Backend(name, backend)
    raise UnknownBackend(f"a backend is a name or a callable, not {type(backend).__qualname__}")


def default_backend() -> str:
    """`inductor` where a C++ compiler is found, else `eager` with one log line."""
    return config.default_backend()


def compile(
    graph: fx.GraphModule | Program,
    example_inputs: Sequence[torch.Tensor],
    backend: Backend | str | Callable[..., Any] | None = None,
    options: Mapping[str, Any] | None = None,
    store: Store | None = None,
    key: str | None = None,
    *,
    fresh: bool = True,
    locate: Locate = locate,
    policy: Policy = NOW,
) -> Compiled:
    """Compile a graph for inputs like these, or load what an earlier process compiled.

    Args:
        graph: just traced, or from the store (`graph.data.decode_program` is the lightest form).
        example_inputs: the real tensors of the call at hand.
        options: the backend's own, as `torch.compile(options=...)` takes them.
        store: where inductor's kernels are kept, None for nowhere.
        key: the graph's key in the store: its kernels are collected with it.
        fresh: whether the graph was traced in this process; counts in `graphs_compiled` for what compiles each time.
        locate: gives file, line and function of a stored frame, for tracebacks.
        policy: whether inductor's kernels come later, and are measured.

    Raises:
        BackendError: a user's backend failed; inductor's own failure falls back to `eager` with a warning.
    """
    chosen = resolve(backend)
    program = graph if isinstance(graph, Program) else programs.of_module(graph)
    if chosen == Backend("inductor"):
        return _inductor(program, example_inputs, options, store, key, locate, policy)
    if fresh:
        events.count("graphs_compiled")
    if chosen.function is None:
        if fresh:
            events.count("graphs_eager")
        return programs.to_function(program, locate)
    from aotdyn.backends import called

    module = graph if isinstance(graph, fx.GraphModule) else programs.to_module(program)
    return called.compiled(module, program, example_inputs, chosen, options)


def _of_torch(name: str) -> Callable[..., Any]:
    from torch._dynamo.backends import registry as torch_registry
    from torch._dynamo.exc import InvalidBackend

    try:
        return torch_registry.lookup_backend(name)
    except InvalidBackend:
        names = sorted({*OURS, *torch_registry.list_backends()})
        raise UnknownBackend(
            f"no backend is named {name!r}", backend=name, hint=f"there are {', '.join(names)}, and any callable"
        ) from None
    except Exception as error:
        hint = "install what it needs, or take another backend (`inductor`, `eager`)"
        raise BackendError(f"backend {name!r} can't be loaded: {error}", backend=name, hint=hint) from error


def _inductor(
    program: Program,
    inputs: Sequence[torch.Tensor],
    options: Mapping[str, Any] | None,
    store: Store | None,
    key: str | None,
    locate: Locate,
    policy: Policy,
) -> Compiled:
    from aotdyn.backends import inductor

    try:
        return inductor.compile(program, inputs, dict(options or {}), store, key, locate, policy)
    except (RecursionError, MemoryError, BackendError):
        raise
    except Exception as error:
        interrupted.hand_on(error)
        events.count("backend_failures")
        line = str(error).strip().partition("\n")[0]
        log.warning(
            "aotdyn: inductor can't compile a graph, which runs eagerly instead: %s: %s", type(error).__name__, line
        )
        log.debug("inductor's failure", exc_info=error)
        return programs.to_function(program, locate)
