"""No guard is dropped: each fact that a stored variant recorded is changed in turn, and the variant misses."""

from __future__ import annotations

import copy
import functools
import types
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

import program_of_facts as facts
import pytest
import torch

import aotdyn
from aotdyn.guards import sources as S
from aotdyn.guards.sources import decode_sources
from aotdyn.report import events
from aotdyn.runtime import entry as entries
from aotdyn.runtime.variant import GuardData


class World:
    """Fresh arguments for `program`; the same values each time."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.args: list[Any] = [
            torch.ones(2, 4),
            torch.ones(2, 4),
            2,
            [1, torch.ones(3)],
            facts.Thing(),
            facts.Net().eval(),
        ]
        self.args += [facts.make_closure(1), []]


@pytest.fixture
def _own_cache(tmp_path, monkeypatch):
    tmp_path.chmod(0o700)
    monkeypatch.setenv("AOTDYN_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("AOTDYN_STRICT", "1")
    monkeypatch.setenv("AOTDYN_RECOMPILE_LIMIT", "100000")
    monkeypatch.setenv("AOTDYN_AUTOMATIC_DYNAMIC_SHAPES", "0")


def other_function(x: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
    return x - 1


CONSTANTS: dict[type, Any] = {int: 7919, float: 0.123, str: "other", bool: None, type(None): 5, bytes: b"other"}


def changed(obj: Any, kind: str) -> Any:
    """An object of which what the guard says of `obj` doesn't hold."""
    if kind == "CONST":
        return (not obj) if isinstance(obj, bool) else CONSTANTS.get(type(obj), "other")
    if kind == "TENSOR":
        return torch.nn.Parameter(obj.detach().clone()[..., :1].repeat(*[3] * obj.dim()), not obj.requires_grad)
    if kind == "FUNCTION":
        return other_function
    if isinstance(obj, types.BuiltinFunctionType):
        return functools.wraps(obj)(lambda *args, **kwargs: obj(*args, **kwargs))
    if isinstance(obj, types.ModuleType):
        new = types.ModuleType(obj.__name__)
        vars(new).update(vars(obj))
        return new
    if isinstance(obj, torch.nn.Module):
        return torch.nn.Identity()
    if isinstance(obj, Mapping):
        return dict(obj) if type(obj) is not dict else OrderedDict(obj)
    if kind == "LEN":
        longer = copy.copy(obj)
        return type(obj)([*longer, *list(longer)[-1:], 5])
    return types.SimpleNamespace()


def write(world: World, read: Callable[[Any], Any], source: Any, new: Any) -> Callable[[], None] | None:
    """Put `new` where `source` reads from; what undoes it, None where a program can't (the root of a module, say)."""
    if isinstance(source, S.Arg):
        world.args[source.index] = new
        return lambda: None
    if source.bases == (S.Globals("builtins"),) and not callable(new):
        return None  # nothing would work
    if not isinstance(source, (S.Attr, S.Item, S.RawItem, S.Cell, S.ClassAttr)):
        return None
    base = read(source.bases[0])
    if isinstance(source, S.Cell):
        old = base.cell_contents
        base.cell_contents = new
        return lambda: setattr(base, "cell_contents", old)
    if isinstance(source, S.Attr):
        old = getattr(base, source.key)
        try:
            setattr(base, source.key, new)
        except (AttributeError, TypeError):
            return None
        return lambda: setattr(base, source.key, old)
    if isinstance(source, S.ClassAttr):
        owner = next(each for each in base.__mro__ if source.key in vars(each))
        held = vars(owner)[source.key]
        try:
            setattr(owner, source.key, new)
        except TypeError:
            return None
        return lambda: setattr(owner, source.key, held)
    if isinstance(base, tuple):
        return write(world, read, source.bases[0], (*base[: source.key], new, *base[source.key + 1 :]))
    held = base[source.key]
    try:
        base[source.key] = new
    except TypeError:
        return None
    return lambda: base.__setitem__(source.key, held)


def break_guard(
    world: World, read: Callable[[Any], Any], table: list[Any], guard: GuardData
) -> Callable[[], None] | None:
    """Make a guard's fact untrue; what undoes it, None where this test doesn't know how."""
    source = table[guard.source]
    obj = read(source)
    if guard.kind == "LACKS":
        key = guard.expected
        obj[key] = 1
        return lambda: obj.pop(key)
    if guard.kind == "NOATTR":
        setattr(obj, guard.expected, 1)
        return lambda: delattr(obj, guard.expected)
    if guard.kind == "KEYS" and isinstance(obj, dict):
        obj["a key that wasn't there"] = 1
        return lambda: obj.pop("a key that wasn't there")
    if guard.kind == "LEN" and isinstance(obj, list):
        obj.append(5)
        return lambda: obj.pop()
    if guard.kind == "SAME":
        return write(world, read, source, changed(obj, "FUNCTION" if isinstance(obj, types.FunctionType) else "SAME"))
    if guard.kind == "DISTINCT":
        other = read(table[guard.expected])
        before = list(other)
        return write(world, read, source, other) and (lambda: other.__setitem__(slice(None), before))
    return write(world, read, source, changed(obj, guard.kind))


def outcome(function: Callable[..., Any], args: list[Any]) -> tuple[str, Any]:
    torch.manual_seed(1)
    try:
        return "value", function(*args)
    except Exception as error:
        return "raises", (type(error), str(error))


def misses() -> int:
    """How often a function was to be traced again, whether or not that succeeded."""
    return len(events.snapshot()["recompiles"])


def same(a: Any, b: Any) -> bool:
    return torch.equal(a, b) if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor) else a == b


@pytest.mark.usefixtures("_own_cache")
@pytest.mark.parametrize("warm", [False, True], ids=["fast guards", "binding"])
def test_every_recorded_source(warm: bool) -> None:
    older = set(entries.entries)
    compiled: Any = aotdyn.compile(facts.program, backend="eager", fullgraph=True)
    compiled(*World().args)
    (entry,) = [each for each in set(entries.entries) - older if each.spec.qualname == "program" and each.lines]
    variant = entry.variants[0]
    table = decode_sources(variant.sources)
    tried = set()
    unknown = []
    for guard in variant.guards:
        if guard.kind == "GLOBAL":
            continue
        world = World()
        before = misses()
        compiled(*world.args)
        assert misses() == before, f"the variant doesn't fit its own arguments before {guard}"
        world = World()
        env = S.Env(world.args, vars(facts), None, table)
        undo = break_guard(world, env.read, table, guard)
        if undo is None:
            unknown.append((guard.kind, str(table[guard.source])))
            continue
        try:
            if warm:
                entry.forget()
            before = misses()
            got = outcome(compiled, world.args)
            seen = misses()
            assert seen > before, f"{guard.kind} of {table[guard.source]} is not seen: {got}"
            wanted = outcome(facts.program, world.args)
            if got[0] == "value" and wanted[0] == "value" and guard.kind != "DISTINCT":  # there the first call shows
                assert same(got[1], wanted[1]), (guard, table[guard.source])
        finally:
            undo()
        tried.add(guard.kind)
    assert {"CONST", "TENSOR", "FUNCTION", "TYPE", "LEN"} <= tried
    # A property's function can't be written; the property itself is a source, too.
    told = ("CONST", "TENSOR", "FUNCTION", "LEN")
    unreachable = [text for kind, text in unknown if kind in told and not text.endswith(".fget")]
    assert not unreachable, unreachable


FACTS: dict[str, Callable[[], Any]] = {
    "grad_enabled": torch.no_grad,
    "inference_mode": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
    "default_dtype": lambda: _set(torch.set_default_dtype, torch.float64, torch.float32),
    "deterministic": lambda: _set(torch.use_deterministic_algorithms, True, False),
}


class _set:
    def __init__(self, function: Callable[[Any], None], inside: Any, outside: Any) -> None:
        self.function, self.inside, self.outside = function, inside, outside

    def __enter__(self) -> None:
        self.function(self.inside)

    def __exit__(self, *_: Any) -> None:
        self.function(self.outside)


@pytest.fixture
def global_program() -> Callable[[torch.Tensor], torch.Tensor]:
    def reads_state(x: torch.Tensor) -> torch.Tensor:
        return (x @ x.T) + torch.zeros(2)

    return reads_state


@pytest.mark.usefixtures("_own_cache")
@pytest.mark.parametrize("fact", sorted(FACTS))
def test_every_global_fact(fact: str, global_program: Callable[[torch.Tensor], torch.Tensor]) -> None:
    compiled: Any = aotdyn.compile(global_program, backend="eager")
    x = torch.ones(2, 2, requires_grad=True)
    compiled(x)
    before = events.snapshot()["traced"]
    with FACTS[fact]():
        got, wanted = compiled(x), global_program(x)
        assert events.snapshot()["traced"] == before + 1
        assert (got.dtype, got.requires_grad, got.is_inference()) == (
            wanted.dtype,
            wanted.requires_grad,
            wanted.is_inference(),
        )
    compiled(x)
    assert events.snapshot()["traced"] == before + 1
