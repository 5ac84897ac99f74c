"""Runs a program plainly, compiled, and warm from the store, and tells what each run did.

A corpus module declares programs with `@program()`. For each run the module is
executed anew under its name, so that what one run writes (globals, class
attributes, defaults) doesn't reach the next, and what the store knows must be
bound to new functions and classes.
"""

from __future__ import annotations

import contextlib
import dataclasses
import dis
import gc
import io
import math
import random
import sys
import types
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from describe import Describer

CORPUS = Path(__file__).resolve().parent / "corpus"


@dataclasses.dataclass
class Program:
    """A function to call `calls` times, each time with what `args` makes."""

    function: Any
    args: Callable[[], tuple[Any, ...]]
    calls: int = 2
    graphs: bool = True
    "False where nothing can be captured"
    keeps: bool = False
    "whether the arguments stay the same objects from call to call"
    whole: bool = False
    "whether one graph holds all of it"
    backward: bool = False
    "whether the gradients of what comes out are taken"
    close: bool = False
    "whether numbers are rounded in another way: torch.optim computes with tensors where it is compiled"
    durable: bool = True
    "False where a call rests on what no other run has: a class made by the call, a number counted up"
    apart: bool = False
    "whether the process isn't to be used for other tests: TorchDynamo, where it fails, stays in the interpreter"


def default_args() -> tuple[Any, ...]:
    """One small tensor with numbers of both signs."""
    return (torch.arange(6.0).reshape(2, 3) - 2,)


class Turns:
    """Arguments that differ from call to call: each maker in its turn."""

    def __init__(self, *makers: Callable[[], tuple[Any, ...]]) -> None:
        self.makers = makers
        self.turn = 0

    def __call__(self) -> tuple[Any, ...]:
        self.turn += 1
        return self.makers[(self.turn - 1) % len(self.makers)]()


def program(args: Callable[[], tuple[Any, ...]] = default_args, **options: Any) -> Callable[[Any], Any]:
    """Declare a function of a corpus module to be a program, with options as Program's fields."""

    def declare(function: Any) -> Any:
        function.__globals__.setdefault("PROGRAMS", {})[function.__name__] = Program(function, args, **options)
        return function

    return declare


def loud(*args: Any, **options: Any) -> None:
    """A print that breaks the graph."""
    print(*args, **options)


loud.__aotdyn_disable__ = True  # type: ignore[attr-defined]

_codes: dict[str, types.CodeType] = {}


def load(name: str, source: str, file: str) -> types.ModuleType:
    """The module `name`, executed anew."""
    if file not in _codes:
        _codes[file] = compile(source, file, "exec", dont_inherit=True)
    module = types.ModuleType(name)
    module.__file__ = file
    sys.modules[name] = module
    exec(_codes[file], vars(module))
    return module


def load_hooked(name: str, file: str) -> types.ModuleType:
    """The module `name`, imported from its file as the hook does."""
    from importlib import util

    from aotdyn.hook.loader import HookedSourceLoader

    spec = util.spec_from_file_location(name, file, loader=HookedSourceLoader(name, file))
    assert spec is not None
    module = util.module_from_spec(spec)
    sys.modules[name] = module
    HookedSourceLoader.exec_module(spec.loader, module)  # type: ignore[arg-type]
    return module


def corpus(name: str) -> types.ModuleType:
    """A module of the corpus, executed anew."""
    file = CORPUS / f"{name}.py"
    return load(f"aotdyn_corpus_{name}", "" if str(file) in _codes else file.read_text(), str(file))


def names(apart: bool = True) -> list[tuple[str, str]]:
    """Module and function of every program, or of those that don't want a process of their own."""
    found = []
    for file in sorted(CORPUS.glob("*.py")):
        programs = vars(corpus(file.stem)).get("PROGRAMS", {})
        found += [(file.stem, name) for name, each in programs.items() if apart or not each.apart]
    return found


def _line(tb: types.TracebackType) -> int:
    """The line of an entry of a traceback.

    CPython 3.11 runs some pairs of instructions as one once a function has run often enough, and an unbound name that
    the second one reads is then put down to the first (`SUPER_INSTRUCTIONS` of `Python/specialize.c`). A first one that
    can't raise says that it was the second.
    """
    code = tb.tb_frame.f_code
    if tb.tb_lasti < 0 or dis.opname[code.co_code[tb.tb_lasti]] not in ("STORE_FAST", "LOAD_CONST"):
        return tb.tb_lineno or 0
    return next(islice(code.co_positions(), tb.tb_lasti // 2 + 1, None))[0] or 0


def lines_of(error: BaseException, file: str) -> list[tuple[str, int]]:
    """The entries of a traceback in `file`: function and line."""
    found, tb = [], error.__traceback__
    while tb is not None:
        code = tb.tb_frame.f_code
        if code.co_filename == file:
            found.append((code.co_name, _line(tb)))
        tb = tb.tb_next
    return found


def _links(error: BaseException | None, file: str, describe: Describer, depth: int = 0) -> Any:
    if error is None or depth > 4:
        return None
    return {
        "type": f"{type(error).__module__}.{type(error).__qualname__}",
        "text": str(error),
        "args": describe(error.args),
        "attributes": describe(vars(error)),
        "lines": lines_of(error, file),
        "context": _links(error.__context__, file, describe, depth + 1),
        "cause": _links(error.__cause__, file, describe, depth + 1),
        "suppressed": error.__suppress_context__,
    }


def end_frames(error: BaseException) -> None:
    """Drop all tracebacks of an exception that was looked at, and of those that it refers to.

    What its frames hold ends here, rather than when the collector finds the cycles of frames and exceptions.
    """
    waiting: list[BaseException | None] = [error]
    seen: set[int] = set()
    while waiting:
        each = waiting.pop()
        if each is not None and id(each) not in seen:
            seen.add(id(each))
            each.__traceback__ = None  # `except*` makes groups that have none, of exceptions that have
            inner = each.exceptions if isinstance(each, BaseExceptionGroup) else ()
            waiting += [each.__context__, each.__cause__, *inner]


def modes() -> dict[str, Any]:
    """Modes of the process that a program might leave changed."""
    return {
        "grad": torch.is_grad_enabled(),
        "autocast": torch.is_autocast_enabled("cpu"),
        "dtype": torch.get_default_dtype(),
        "handled": sys.exc_info()[0],
    }


def observe(module: types.ModuleType, declared: Program, function: Any) -> list[Any]:
    """Call `function` as the program says; for each call, all that could be seen of it."""
    torch.manual_seed(0)
    random.seed(0)
    seen = []
    args: tuple[Any, ...] = ()
    for _ in range(declared.calls):
        if not declared.keeps or not seen:
            with contextlib.redirect_stdout(io.StringIO()):
                args = declared.args()
        seen.append(_call(module, declared, function, args))
    return seen


def differentiate(result: Any) -> None:
    """Take the gradients of all tensors in a result that have any."""
    leaves = torch.utils._pytree.tree_leaves(result)
    tensors = [each for each in leaves if isinstance(each, torch.Tensor) and each.requires_grad]
    if tensors:
        torch.autograd.backward([(each * each.detach().cos()).sum() for each in tensors])


def _call(module: types.ModuleType, declared: Program, function: Any, args: tuple[Any, ...]) -> dict[str, Any]:
    describe = Describer(module.__name__)
    out = io.StringIO()
    result: Any = None
    raised: Any = None
    with contextlib.redirect_stdout(out):
        try:
            result = function(*args)
            if declared.backward:
                differentiate(result)
        except Exception as error:
            # Program errors alone: a failure of ours must not look like one.
            if type(error).__module__.startswith("aotdyn."):
                raise
            raised = _links(error, str(module.__file__), describe)
            end_frames(error)
    with contextlib.redirect_stdout(out):
        gc.collect(1)  # a frame that holds its own exception, with all that its other variables hold
    globals_ = {
        name: value
        for name, value in vars(module).items()
        if not name.startswith("__")
        and name != "PROGRAMS"
        and not isinstance(value, types.ModuleType | types.FunctionType)
    }
    with contextlib.redirect_stdout(io.StringIO()):
        return {
            "printed": out.getvalue(),
            "raised": raised,
            "modes": modes(),
            "random": (torch.get_rng_state().sum().item(), random.random()),
            "result": describe(result),
            "args": describe(args),
            "globals": describe(globals_),
        }


def counters() -> tuple[int, int]:
    """Frames traced and graphs run so far."""
    from aotdyn.report import events

    found = events.snapshot()
    return found["traced"], found["graph_calls"]


class Unfit(Exception):
    """A program that doesn't end, or that runs out of stack: where it does isn't the same in any two runs."""


class Difference(AssertionError):
    """A run of a program differed from plain Python."""


def same(plain: list[Any], other: list[Any], how: str, close: bool = False) -> None:
    """Compare two lists of observations; raises Difference with what differs. Numbers may be `close`."""
    for number, (expected, found) in enumerate(zip(plain, other, strict=True)):
        for what in expected:
            if expected[what] != found[what] and not (close and near(expected[what], found[what])):
                path, left, right = parted(expected[what], found[what])
                raise Difference(f"{how}, call {number}: {what}{path}\n  plain: {left}\n  {how}: {right}")


def parted(a: Any, b: Any) -> tuple[str, Any, Any]:
    """Where two descriptions first differ: the way there, and what each has."""
    if type(a) is type(b) and isinstance(a, dict) and a.keys() == b.keys():
        pairs: Any = [(key, a[key], b[key]) for key in a]
    elif type(a) is type(b) and isinstance(a, list | tuple) and len(a) == len(b):
        pairs = [(i, *each) for i, each in enumerate(zip(a, b))]
        if len(a) == 2 and isinstance(a[0], str) and a[0] == b[0]:
            pairs = [(a[0], a[1], b[1])]  # a name and what it stands for
    else:
        return "", a, b
    key, left, right = next(each for each in pairs if each[1] != each[2])
    path, left, right = parted(left, right)
    return f"[{key}]{path}", left, right


def near(a: Any, b: Any) -> bool:
    """Whether two descriptions are equal but for the last digits of floats."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(near(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple) and type(a) is type(b):
        return len(a) == len(b) and all(map(near, a, b))
    if isinstance(a, str) and isinstance(b, str) and a != b:
        try:
            return math.isclose(float(a.removeprefix("float ")), float(b.removeprefix("float ")), rel_tol=1e-3)
        except ValueError:
            return False
    return bool(a == b)


def run(
    make: Callable[[], types.ModuleType],
    name: str,
    *,
    ways: tuple[str, ...] = ("cold", "warm"),
    hooked: Callable[[], types.ModuleType] | None = None,
) -> int:
    """Run a program plainly and in `ways`; raises Difference where one isn't the same, or a warm one traces.

    The program is compiled by `aotdyn.compile`; with `hooked`, it is that of the
    module that this imports (a process can be cold or warm for such a module, not both).
    Gives the number of graphs called.
    """
    import aotdyn
    from aotdyn.runtime import cold

    module = make()
    declared = module.PROGRAMS[name]
    try:
        plain = observe(module, declared, declared.function)
    except Expired:
        raise Unfit from None
    if "RecursionError" in repr(plain):
        raise Unfit
    graphs = 0
    for way in ways:
        module = (hooked or make)()
        declared = module.PROGRAMS[name]
        if way == "warm":
            cold.forget()
        before = counters()
        compiled = declared.function
        if not hooked:
            compiled = aotdyn.compile(compiled, backend="eager", fullgraph=declared.whole)
        same(plain, observe(module, declared, compiled), way, declared.close)
        traced, graphs = (now - then for now, then in zip(counters(), before, strict=True))
        if way == "warm" and traced and declared.durable:
            raise Difference(f"the warm run traced {traced} frames")
        if declared.graphs and not graphs:
            raise Difference(f"the {way} run called no graph")
    return graphs


class Expired(BaseException):
    """A program took too long. No `except Exception` of the program's catches it."""


@contextlib.contextmanager
def limit(seconds: int) -> Iterator[None]:
    """Stop a program that doesn't end; again each second, should it go on."""
    import signal

    def expired(*_: object) -> None:
        raise Expired(f"not done after {seconds} s")

    before = signal.signal(signal.SIGALRM, expired)
    signal.setitimer(signal.ITIMER_REAL, seconds, 1)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
