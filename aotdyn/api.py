"""The public functions: `compile` with torch.compile's meaning, and what user code may call about compilation."""

from __future__ import annotations

import functools
import types
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from aotdyn import collecting, config, errors
from aotdyn.runtime.extent import Extent

if TYPE_CHECKING:
    from aotdyn.rewrite.patches import Stubbing


def compile(
    model: Any = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: Any = None,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    disable: bool = False,
) -> Any:
    """Compile a function, method or `nn.Module`; as a decorator too. `model` itself is left alone.

    Args:
        model: what to compile; None gives a decorator.
        fullgraph: raise `GraphBreakError` instead of breaking the graph.
        dynamic: as torch.compile's.
        backend: a name, or a callable `(graph_module, example_inputs) -> callable`; None: the configured one.
        mode: inductor's preset, as torch.compile's.
        options: the backend's own.
        disable: give `model` back as it is.

    Raises:
        BackendError: no backend has this name.
        UserError: `model` can't be compiled at all.
    """
    keywords = {
        "fullgraph": fullgraph,
        "dynamic": dynamic,
        "backend": backend,
        "mode": mode,
        "options": options,
        "disable": disable,
    }
    if model is None:
        return functools.partial(compile, **keywords)
    if disable or config.current().disable:
        return model
    with collecting.put_off():
        return _compile(model, _extent(fullgraph, dynamic, backend, mode, options))


def _extent(
    fullgraph: bool, dynamic: bool | None, backend: Any, mode: str | None, options: dict[str, Any] | None
) -> Extent:
    from aotdyn.backends import registry
    from aotdyn.report import imports, logs
    from aotdyn.runtime import dispatch

    if backend is not None:
        backend = registry.resolve(backend)
    imports.watch()
    logs.setup()
    dispatch.install_runtime()
    return Extent.new(
        backend=backend, backend_options=_backend_options(mode, options), fullgraph=fullgraph, dynamic=dynamic
    )


def _backend_options(mode: str | None, options: dict[str, Any] | None) -> dict[str, Any]:
    if mode is None or mode == "default":
        return dict(options or {})
    if options:
        raise errors.UserError(None, "give either mode or options, not both")
    if mode not in ("reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"):
        raise errors.UserError(
            None, f"unknown mode {mode!r}: there are default, reduce-overhead, max-autotune, max-autotune-no-cudagraphs"
        )
    return {"max_autotune": True} if mode.startswith("max-autotune") else {}


def _compile(model: Any, extent: Extent) -> Any:
    import torch

    if isinstance(model, torch.nn.Module):
        from aotdyn.module import optimized

        return optimized(model, extent)
    if isinstance(model, types.FunctionType):
        return _function(model, extent)
    if isinstance(model, types.MethodType):
        return types.MethodType(_compile(model.__func__, extent), model.__self__)
    if isinstance(model, type):
        raise errors.UserError(None, f"{model.__qualname__} is a class: compile an instance, or one of its methods")
    if callable(model):
        return _callable(model, extent)
    raise errors.UserError(None, f"{type(model).__qualname__} object is not callable and can't be compiled")


def _function(function: types.FunctionType, extent: Extent) -> Callable[..., Any]:
    from aotdyn.rewrite import frames, originals

    code = originals.original(function.__code__)
    if getattr(function, "__aotdyn_disable__", False) or getattr(function, "_torchdynamo_disable", False):
        return function
    spec = frames.spec_of(code, function.__globals__.get("__name__") or "")
    found = stubbing(code, spec, extent)
    if found.obstacle():
        return function
    made = stubbed(function, found, spec, extent)
    made.__dict__["_torchdynamo_orig_callable"] = function
    return made


def stubbing(code: types.CodeType, spec: Any, extent: Extent) -> Stubbing:
    """How `code` becomes a stub: the store may have it."""
    from aotdyn.rewrite.patches import Stubbing
    from aotdyn.runtime import cold

    return Stubbing(code, spec.module, None if cold.forgotten() else cold.store(extent))


def stubbed(function: types.FunctionType, stubbing: Stubbing, spec: Any, extent: Extent) -> types.FunctionType:
    """A copy of `function` whose body stands behind a dispatcher of `extent`."""
    stub, entry = _behind_dispatcher(stubbing, spec, extent, function.__globals__)
    made = types.FunctionType(
        stub, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    made.__kwdefaults__ = function.__kwdefaults__
    made.__qualname__ = function.__qualname__
    made.__module__ = function.__module__
    made.__doc__ = function.__doc__
    made.__annotations__ = function.__annotations__
    made.__dict__.update(function.__dict__)
    follow(function, made, entry)
    return made


def _behind_dispatcher(
    stubbing: Stubbing, spec: Any, extent: Extent, globals: dict[str, Any]
) -> tuple[types.CodeType, Any]:
    """The stub of a code under a dispatcher of `extent`, and the entry behind that."""
    from aotdyn.rewrite import originals
    from aotdyn.rewrite.frames import dispatcher_name
    from aotdyn.runtime import cold, home

    name, code = dispatcher_name(spec, extent.number), stubbing.code
    originals.register(name, code)
    entry = cold.make_entry(name, spec, extent, globals, lambda: code)
    if not entry.homes and home.blocks_wanted():
        entry.homes.append(home.Hosted(name, entry.code))
    return stubbing.stub(name), entry


def follow(function: types.FunctionType, made: types.FunctionType, entry: Any) -> None:
    """Let `made`, behind `entry`, take over what is set on `function` later: defaults, code."""
    from aotdyn.rewrite import frames, originals
    from aotdyn.runtime import cold
    from aotdyn.runtime.origin import Follower

    reference = weakref.ref(made)
    weakref.finalize(made, cold.gone.append, entry.extent.number).atexit = False

    def renew() -> Any:
        made = reference()
        if made is None:
            return None
        code = originals.original(function.__code__)
        spec = frames.spec_of(code, entry.spec.module)
        found = stubbing(code, spec, entry.extent)
        if found.obstacle():
            made.__code__ = code
            return None
        made.__code__, renewed = _behind_dispatcher(found, spec, entry.extent, function.__globals__)
        return renewed

    Follower(function, made, entry, renew)


def _callable(model: Any, extent: Extent) -> Callable[..., Any]:
    """A callable object or builtin: compiled through a function that calls it."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return model(*args, **kwargs)

    import msgspec

    from aotdyn.rewrite import frames

    spec = frames.spec_of(call.__code__, __name__)

    kind = type(model) if not hasattr(model, "__qualname__") else model
    spec = msgspec.structs.replace(
        spec, module=getattr(kind, "__module__", None) or "builtins", qualname=f"{kind.__qualname__}"
    )
    made = stubbed(cast(types.FunctionType, call), stubbing(call.__code__, spec, extent), spec, extent)
    try:
        functools.update_wrapper(made, model)
    except AttributeError:
        return made
    return made


def disable(function: Any = None, *, recursive: bool = True, reason: str | None = None) -> Any:
    """Leave `function`, and with `recursive` all that it calls, to plain Python. A decorator; also for modules."""
    if function is None:
        return functools.partial(disable, recursive=recursive, reason=reason)
    import torch

    if isinstance(function, torch.nn.Module):
        function.forward = disable(function.forward, recursive=recursive)
        return function
    if not recursive:
        function.__aotdyn_disable__ = True
        return function

    from aotdyn.runtime.entry import tracing

    @functools.wraps(function)
    def disabled(*args: Any, **kwargs: Any) -> Any:
        before, tracing.active = tracing.active, True
        try:
            return function(*args, **kwargs)
        finally:
            tracing.active = before

    disabled.__dict__["__aotdyn_disable__"] = True
    return disabled


def graph_break() -> None:
    """End the graph here; in plain Python nothing."""


def is_compiling() -> bool:
    """Whether this code is being traced; in all code that Python runs False."""
    return False


def allow_in_graph(function: Any) -> Any:
    """Put calls of `function` into the graph as they are, without tracing into it. A decorator; takes lists too."""
    if isinstance(function, (list, tuple)):
        return [allow_in_graph(each) for each in function]
    from aotdyn import marks

    marks.IN_GRAPH.add(function)
    return function


def reset() -> None:
    """Forget what is compiled in memory. The store isn't read or written any more until the process ends."""
    from aotdyn.runtime import cold

    cold.leave_store()
    cold.forget()
