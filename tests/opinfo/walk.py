"""Runs cases plainly and compiled, and gathers what came of them."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import functools
import tempfile
import warnings
from collections.abc import Iterator
from typing import Any

import aotdyn
from aotdyn import config
from aotdyn.graph import codegen
from aotdyn.runtime import cold
from aotdyn.runtime.entry import entries

from .cases import Case, Wanted, cases
from .observe import EXACT, Cloner, Observation, difference

UNINITIALISED = (
    *("empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"),
    *("resize_", "resize_as_"),
)
"Operators that leave data as it happened to be."

ROUGH = {"linalg.lstsq": 1e-3, "linalg.lstsq.grad_oriented": 1e-3}
"Operators that plain torch doesn't round the same twice: LAPACK's gelsy begins with pivots left in memory."


@dataclasses.dataclass
class Outcome:
    """What came of one case."""

    case: str
    operator: str
    form: str
    differs: str | None = None
    broke: str | None = None
    "why it isn't captured whole"
    raises: bool = False
    "plain torch raises"
    local: list[str] = dataclasses.field(default_factory=list)
    "facts that keep it from being stored"


@dataclasses.dataclass
class Tally:
    """The outcomes of one operator."""

    operator: str
    outcomes: list[Outcome] = dataclasses.field(default_factory=list)

    def of(self, *forms: str) -> list[Outcome]:
        """The outcomes of some forms, or of all."""
        return [each for each in self.outcomes if not forms or each.form in forms]

    def equal(self, *forms: str) -> bool:
        """Whether every case is as in plain Python."""
        return all(each.differs is None for each in self.of(*forms))

    def captured(self, *forms: str) -> bool:
        """Whether every case that gives a result is one graph."""
        return all(each.broke is None for each in self.of(*forms))

    def reasons(self) -> dict[str, int]:
        """Why cases broke, with how many."""
        return dict(collections.Counter(each.broke for each in self.outcomes if each.broke))


@dataclasses.dataclass
class Watch:
    """What happened behind the doors of the runtime since the last `clear`."""

    raised: list[BaseException] = dataclasses.field(default_factory=list)
    "by graphs: one that gives way to the body hides it"
    traced: list[Any] = dataclasses.field(default_factory=list)
    "variants"

    def clear(self) -> None:
        """Forget it."""
        self.raised.clear()
        self.traced.clear()

    def broke(self) -> str | None:
        """Why what was traced isn't one graph."""
        for variant in self.traced:
            if variant.breaks:
                return str(variant.breaks[0].reason)
            if variant.leave:
                return str(variant.leave)
        return None if self.traced else "nothing was traced"


watch = Watch()


@contextlib.contextmanager
def settings(warm: bool = False) -> Iterator[None]:
    """The options under which the walk compiles: every sample by itself, nothing stored unless it runs warm."""
    with config.overrides(backend="eager", cache=warm, strict=True, recompile_limit=100_000), _watched():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield


@contextlib.contextmanager
def _watched() -> Iterator[None]:
    compiler, tracer, left = codegen.to_function, cold.trace, cold._forgotten

    def to_function(*args: Any) -> Any:
        function = compiler(*args)

        def run(*inputs: Any) -> Any:
            try:
                return function(*inputs)
            except Exception as error:
                watch.raised.append(error)
                raise

        return run

    def trace(*args: Any) -> Any:
        variant = tracer(*args)
        watch.traced.append(variant)
        return variant

    codegen.to_function, cold.trace, cold._forgotten = to_function, trace, False
    try:
        yield
    finally:
        codegen.to_function, cold.trace, cold._forgotten = compiler, tracer, left


def walk(name: str, op: Any, wanted: Wanted, warm: bool = False) -> Tally:
    """Run the cases of an operator."""
    tally = Tally(name)
    with tempfile.TemporaryDirectory() as folder, config.overrides(cache_dir=folder):
        for case in cases(name, op, wanted):
            tally.outcomes.append(run(case, warm))
            _forget()
    cold.forget()
    return tally


def run(case: Case, warm: bool = False) -> Outcome:
    """Run one case plainly, compiled and, if asked, from the store."""
    plain = _observed(case, case.function)
    outcome = Outcome(case.name, case.operator, case.form, raises=plain.error is not None)
    outcome.differs = _compared(case, plain)
    served = warm and not watch.traced  # an earlier case was the same
    outcome.broke = None if outcome.raises or served else watch.broke()
    outcome.local = [fact for variant in watch.traced for fact in variant.process_local]
    if warm and outcome.differs is None and not outcome.local:
        _forget()
        outcome.differs = _compared(case, plain)
        if outcome.differs is None and watch.traced and not outcome.raises:
            outcome.differs = f"warm, it traces {watch.traced[0].spec.qualname}"
    return outcome


def _observed(case: Case, function: Any) -> Observation:
    return Observation(function, Cloner()(case.args), case.gradients)


def _compared(case: Case, plain: Observation) -> str | None:
    """Run a case compiled; in what it differs from the plain run."""
    tolerance = None if case.operator.partition(".")[0] in UNINITIALISED else ROUGH.get(case.operator, EXACT)
    watch.clear()
    found = _observed(case, _compiled(case.function))
    different = difference(plain, found, tolerance)
    if different is None and watch.raised and plain.error is None:
        return f"the graph gave way: {type(watch.raised[0]).__name__}: {watch.raised[0]}"
    return different


@functools.cache
def _compiled(function: Any) -> Any:
    return aotdyn.compile(function, backend="eager")


def _forget() -> None:
    """Entries start anew: each case is traced by itself."""
    for entry in list(entries):
        if entry.loaded:
            entry.forget()
