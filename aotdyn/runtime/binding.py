"""Binding: one slow evaluation of a variant's guard data on real arguments, which fills its function's cells.

No name is resolved beyond those that guards and recipes hold, and no dummy
tensor is made: classes, code objects and tensor guards come from the live
objects, after their data was found to hold. Must not import the tracer,
rewrite's bytecode rooms, sympy or torch._dynamo.
"""

from __future__ import annotations

import builtins
import itertools
import marshal
import sys
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec
import torch

from aotdyn.guards import constants, naming, reads, shapes, tensors, versions
from aotdyn.guards.checks import CHECKS
from aotdyn.guards.globalstate import FACTS, state_guard
from aotdyn.guards.reads import class_attribute, dict_key, raw_getter
from aotdyn.guards.sources import Env, accessor, decode_sources
from aotdyn.runtime.variant import GuardData, Recipe, Variant

GENERATED_BUILTINS = {**vars(builtins), "__aotdyn_dynamo": torch.compiler.is_dynamo_compiling}
"""Builtins of generated functions. TorchDynamo, going through one, looks this name up in the true builtins."""


class BindingMiss(Exception):
    """A variant doesn't fit these arguments: the guard's index (-1: none in particular), and a sentence."""

    def __init__(self, guard: int, sentence: str) -> None:
        super().__init__(sentence)
        self.guard = guard
        self.sentence = sentence


class GuardFails(BindingMiss):
    """A guard doesn't hold; the sentence is made where somebody reads it."""

    def __init__(self, guard: int, variant: Variant, env: Env) -> None:
        super().__init__(guard, "")
        self.variant = variant
        self.env = env

    def __str__(self) -> str:
        from aotdyn.runtime import explain

        return str(explain.failure(self.variant, self.guard, self.env) or "a guard failed, and holds now")


class Host(msgspec.Struct, frozen=True):
    """What binding asks of the entry that it binds for."""

    graph: Callable[[list[Any]], Callable[..., Any]]
    "the compiled graph, given this call's inputs"
    continuation: Callable[[int, dict[str, Any], types.CodeType | None], Any]
    "the continuation object of a resume point, given the globals of its frame, and its code where that is known"
    code: Callable[[], types.CodeType]
    "the entry's original code"
    lowering: Callable[[Variant], tuple[types.CodeType, list[Recipe]]]
    "code and pool of a variant that holds none"
    reach: Callable[[Any], None] | None = None
    "stubs a callee in place"
    leave: Callable[[], Any] = lambda: None
    "runs the body of a frame left alone, as a continuation; None: the stub's own body does"


class Bound(msgspec.Struct, frozen=True):
    """A variant's function, bound; and the counter of its graph's calls."""

    function: types.FunctionType
    calls: itertools.count


def bind(
    variant: Variant,
    args: Sequence[Any],
    globals: dict[str, Any],
    host: Host,
    next: Callable[..., Any],
) -> Bound:
    """The function of a variant whose guards hold for `args`; where they fail, it gives way to `next`.

    It takes it that whoever calls it acts for a frame with `globals` (`kframe` says so).

    Args:
        args: a call's arguments, as the dispatcher was given them.
        globals: globals of the entry's frame.

    Raises:
        BindingMiss: a guard fails, or an object that the variant names can't be found.
    """
    env = environment(variant, args, globals)
    _verify(variant, env)
    if host.reach is not None:
        for callee in _callees(variant, env):
            host.reach(callee)
    code, recipes = (marshal.loads(variant.code), variant.pool) if variant.code else host.lowering(variant)
    filler = _Filler(variant, env, host)
    pool: dict[str, Any] = {"__builtins__": GENERATED_BUILTINS, "__name__": variant.spec.module, "knext": next}
    frame = types.SimpleNamespace(f_globals=globals)
    pool["kframe"] = lambda depth: frame
    for i, recipe in enumerate(recipes):
        pool[f"k{i}"] = filler.fill(recipe)
    return Bound(types.FunctionType(code, pool), filler.calls)


def _callees(variant: Variant, env: Env) -> list[Any]:
    found = []
    for row in variant.callees:
        try:
            found.append(env.read(env.sources[row]))
        except (LookupError, AttributeError, TypeError):
            continue  # not there in this call: no guard says that it is
    return found


def environment(variant: Variant, args: Sequence[Any], globals: dict[str, Any]) -> Env:
    """What a variant's sources are read from in one call."""
    try:
        sources = _sources(variant)
    except (LookupError, AttributeError, TypeError, ValueError) as error:
        raise BindingMiss(-1, f"sources can't be read here: {error}") from error
    return Env(args, globals, variant.locals, sources)


def _sources(variant: Variant) -> list[Any]:
    """The sources of a variant, decoded once: each call that misses looks at them."""
    rows, found = _decoded.get(id(variant), (None, []))
    if rows is not variant.sources:
        found = decode_sources(variant.sources)
        while len(_decoded) >= DECODED:
            _decoded.pop(next(iter(_decoded)), None)
        _decoded[id(variant)] = (variant.sources, found)
    return found


DECODED = 256
_decoded: dict[int, tuple[Any, list[Any]]] = {}


def _verify(variant: Variant, env: Env) -> None:
    for i in failures(variant, env):
        raise GuardFails(i, variant, env)


def failures(variant: Variant, env: Env) -> Iterator[int]:
    """The guards that don't hold, by number."""
    return (i for i, guard in enumerate(variant.guards) if not holds(guard, env))


def holds(guard: GuardData, env: Env) -> bool:
    """Whether a guard holds. What can't be evaluated doesn't."""
    source = guard.source
    try:
        obj = env.read(env.sources[source]) if source >= 0 else None
        return bool(CHECKS[guard.kind](obj, guard.expected, env))
    except (RecursionError, MemoryError):
        raise
    except Exception:
        return False


class _Filler:
    """Fills cells of one variant's pool; `fill_<op>` says how each recipe is followed."""

    def __init__(self, variant: Variant, env: Env, host: Host) -> None:
        self.variant = variant
        self.env = env
        self.host = host
        self.calls = itertools.count()
        self._quick: versions.Versions | None = None

    def fill(self, recipe: Recipe) -> Any:
        """The object for one cell."""
        try:
            fill = getattr(self, f"fill_{recipe.op}")
        except AttributeError:
            raise BindingMiss(-1, f"unknown recipe {recipe.op!r}") from None
        return fill(*recipe.args)

    def read(self, source: int) -> Any:
        """The live object at a source."""
        return self._find(self.env.read, self.env.sources[source])

    def fill_object(self, module: str, qualname: str) -> Any:
        return self._find(naming.find, module, qualname)

    def fill_const(self, data: Any) -> Any:
        return self._find(constants.decode, data)

    def fill_globals(self, module: str) -> Any:
        return vars(self._find(naming.find, module, "")) if module else self.env.globals

    def fill_modules(self) -> Any:
        return sys.modules

    def fill_live(self, source: int) -> Any:
        return self.read(source)

    def fill_live_type(self, *sources: int) -> Any:
        first, *others = (type(self.read(source)) for source in sources)
        if any(other is not first for other in others):
            raise BindingMiss(-1, f"there are two classes {first.__module__}.{first.__qualname__}")
        return first

    def fill_quick_find(self, levels: list[int], static: list[int]) -> Any:
        return self._versions(levels, static).find

    def fill_quick_arm(self, levels: list[int], static: list[int]) -> Any:
        return self._versions(levels, static).arm

    def _versions(self, levels: list[int], static: list[int]) -> versions.Versions:
        if self._quick is None:
            usable = all(versions.is_static(type(self.read(source))) for source in static)
            self._quick = versions.Versions(levels, self.calls, usable)
        return self._quick

    def fill_live_code(self, source: int) -> Any:
        return self.read(source).__code__

    def fill_live_mro(self, source: int) -> Any:
        return self.read(source).__mro__

    def fill_raw_getter(self, source: int) -> Any:
        return raw_getter(self.read(source))

    def fill_raw_len(self, source: int) -> Any:
        return reads.raw_len(self.read(source))

    def fill_contains(self, source: int) -> Any:
        return reads.contains(self.read(source))

    def fill_keys_getter(self, source: int) -> Any:
        return reads.keys_getter(self.read(source))

    def fill_relation(self, name: str) -> Any:
        return shapes.FUNCTIONS[name]

    def fill_pure(self, name: str) -> Any:
        return accessor(name)

    def fill_fact(self, name: str) -> Any:
        return FACTS[name].read

    def fill_state(self) -> Any:
        return state_guard()

    def fill_foreign(self) -> Any:
        from aotdyn.runtime.dispatch import foreign_tracer

        return foreign_tracer

    def fill_helper(self, name: str) -> Any:
        return SOURCE_HELPERS.get(name) or self._find(_helper, name)

    def fill_local(self, i: int) -> Any:
        return self.env.locals[i]

    def fill_tensors(self, *guards: int) -> Any:
        rows = [self.variant.guards[i] for i in guards]
        live = [self.read(row.source) for row in rows]
        check = tensors.batch(live, [row.expected for row in rows]).check
        if not check(*live):
            names = ", ".join(f"`{self.env.sources[row.source]}`" for row in rows)
            raise BindingMiss(guards[0], f"one tensor is given twice, or under other modes, among {names}")
        return check

    def fill_code(self, source: int, path: list[int]) -> Any:
        if source < 0:
            code = self.host.code()
        else:
            from aotdyn.rewrite.originals import original

            code = original(self.read(source).__code__)
        for i in path:
            code = code.co_consts[i]
        return code

    def fill_leave(self) -> Any:
        return self.host.leave()

    def fill_count(self) -> Any:
        return self.calls.__next__

    def fill_graph(self) -> Any:
        return self.host.graph([self.read(source) for source in self.variant.inputs])

    def fill_continuation(self, point: int) -> Any:
        source = self.variant.resumes[point].globals
        globals = self.env.globals if source < 0 else self.read(source)
        return self.host.continuation(point, globals, self._code(point))

    def _code(self, point: int) -> types.CodeType | None:
        """The code, as it stands in this process, of the frame that a point continues; None where no guard leads to it.

        The outermost frame's point is the first.
        """
        if point == 0:
            return self.host.code()
        frame = self.variant.resumes[point].frame
        for guard in self.variant.guards:
            if guard.kind == "FUNCTION" and guard.expected[1:3] == [frame.qualname, frame.digest]:
                return self.read(guard.source).__code__
        return None

    def _find(self, find: Callable[..., Any], *args: Any) -> Any:
        try:
            return find(*args)
        except (LookupError, AttributeError) as error:
            raise BindingMiss(-1, f"{'.'.join(map(str, args))} isn't there: {error}") from error


def _helper(name: str) -> Callable[..., Any]:
    """What an epilogue's `helper` names; the table loads with the first that does."""
    from aotdyn.runtime.helpers import HELPERS

    return HELPERS[name]


SOURCE_HELPERS: dict[str, Callable[..., Any]] = {"class_attribute": class_attribute, "dict_key": dict_key}
"""Helpers that reads of sources call."""
