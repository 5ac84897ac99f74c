"""The policy of what is worth tracing (docs/design/policy.md): which functions of a package, when, and what is told."""

from __future__ import annotations

import json
import sys
import textwrap
import types
from typing import Any

import pytest
import torch

import aotdyn
from aotdyn import config
from aotdyn.runtime import thrift, worth
from aotdyn.runtime.variant import BreakInfo, FrameSpec, Variant

PACKAGE = """
    import torch

    class Layer:
        def __init__(self, w):
            self.w = torch.nn.Parameter(w * 2)

        def __call__(self, x):
            return (x * self.w).relu() + x.sum()

    def hot(layer, x):
        for _ in range(2):
            x = layer(x).tanh()
        return x

    def once(x):
        return (x * 3).sin().cos()

    def poor(x):
        print("poor", x.shape[0] - 1)
        return x

    def loop(layer, x):
        for _ in range(40):
            x = hot(layer, x)
        return x
"""

PROGRAM = """
    import torch, pkg

    def mine(x):
        return (x + 1).sin() * 2

    torch.manual_seed(0)
    x = torch.randn(4, 4)
    print(mine(x).sum().item())
    layer = pkg.Layer(torch.randn(4))
    print(pkg.loop(layer, x).sum().item(), pkg.once(x).sum().item())
    for i in range(12):
        pkg.poor(x)
    del layer
    print(pkg.Layer(x[0])(x).sum().item())
"""

ROOM = {"AOTDYN_THRIFT": "packages", "AOTDYN_THRIFT_SHARE": "1000"}
"No test rests on how fast the machine is."


def _run(project: Any, name: str, env: dict[str, str]) -> tuple[str, dict[str, Any]]:
    done = project.run(
        "--backend", "eager", "--stats", f"{name}.json", "--package", "pkg", "--exclude", "other", "app.py", env=env
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, json.loads((project.folder / f"{name}.json").read_text())


def test_what_pays_is_traced(project: Any) -> None:
    """The program at its first call; of packages the outermost that is called again and again, and not what is poor."""
    project.beside(PACKAGE, PROGRAM)
    plain = project.python("app.py").stdout
    cold, seen = _run(project, "cold", ROOM)
    assert cold == plain
    assert seen["traced"] == 4  # mine, hot, and poor twice
    assert seen["graph_calls"] > 20
    assert [each["function"] for each in seen["left_alone"]] == ["pkg.poor"]
    made, seen = _run(project, "next", ROOM)
    assert made == plain
    assert seen["traced"] == 2  # `loop`'s first calls of `hot`, and the layer's: they waited for callers
    warm, seen = _run(project, "warm", ROOM)
    assert warm == plain
    assert (seen["traced"], seen["guards_dropped"], seen["put_off"]) == (0, 0, [])
    assert seen["graph_calls"] > 20
    off, seen = _run(project, "off", {"AOTDYN_THRIFT": "off", "AOTDYN_CACHE_DIR": f"{project.cache}-off"})
    assert off == plain
    assert seen["traced"] > 4


def test_what_does_not_fit_is_put_off_and_told(project: Any) -> None:
    """Where tracing has had its share, packages go on as plain Python, and the next process may trace them."""
    nothing = "from aotdyn.runtime import thrift\nthrift.EARLY = 0.0\n"
    project.beside(PACKAGE, nothing + textwrap.dedent(PROGRAM))
    plain = project.python("app.py").stdout
    out, seen = _run(project, "cold", {**ROOM, "AOTDYN_THRIFT_SHARE": "1e-9"})
    assert out == plain
    assert seen["traced"] == 1  # the program's
    told = {each["function"]: each["reason"] for each in seen["put_off"]}
    assert "thrift_share" in told["pkg.hot"]
    out, seen = _run(project, "next", ROOM)
    assert out == plain
    assert seen["traced"] > 0
    assert seen["graph_calls"] > 20
    assert seen["put_off"] == []


LATE = """
    import torch
    from aotdyn.hook import attach

    looks = attach._worth or attach.with_torch()
    asked, looks.meets_tensors = [], (lambda meets: lambda args: asked.append(args) or meets(args))(looks.meets_tensors)

    def f(x):
        return x + 1

    for i in range(5000):
        f(i)
    print(len(asked) < 1000)
    for i in range(2000):
        last = f(torch.ones(2) * i)
    print(last)
    del asked[:]
    for i in range(5000):
        f(i)
    print(len(asked) < 1000)
"""


def test_what_meets_no_tensor_is_looked_at_more_rarely(project: Any) -> None:
    """The program's functions as well, and a tensor is found later."""
    project.write("app/app.py", LATE)
    project.folder = project.folder / "app"
    plain = project.python("app.py").stdout
    found, seen = _run(project, "cold", {**ROOM, "AOTDYN_CHOOSE": "always"})
    assert found == plain
    assert seen["traced"] == 1
    assert seen["graph_calls"] > 500


WEIGHED = """
    import torch
    from aotdyn.runtime import weighing

    weighing.INSTRUCTION, weighing.LEAST = {seconds}, 0.0

    def f(x):
        x = x * 2 + 1
        if x.sum() > -1e9:
            return x.relu() + x.sin()

    for i in range(400):
        last = f(torch.ones(2) * i)
    print(last)
"""


@pytest.mark.parametrize("pays", [False, True])
def test_what_costs_more_than_it_saves_is_left_alone(project: Any, pays: bool) -> None:
    """All pieces of a function together, and the next process leaves it alone from the start."""
    project.write("app/app.py", textwrap.dedent(WEIGHED).replace("{seconds}", "1.0" if pays else "0.0"))
    project.folder = project.folder / "app"
    plain = project.python("app.py").stdout
    found, seen = _run(project, "cold", ROOM)
    assert found == plain
    assert seen["traced"] == 2
    assert ("f" in "".join(each["function"] for each in seen["left_alone"])) is not pays
    assert (seen["graph_calls"] == 800) is pays
    found, seen = _run(project, "warm", ROOM)
    assert found == plain
    assert (seen["traced"], seen["graph_calls"]) == (0, 800 if pays else 0)
    found, seen = _run(project, "always", {"AOTDYN_THRIFT": "off"})
    assert (found, seen["graph_calls"]) == (plain, 800)


def test_stubs_that_do_not_fit_are_put_off(project: Any) -> None:
    """A package that there is no time to rewrite is loaded as it is; a later process gives it stubs."""
    nothing = "from aotdyn.runtime import thrift\nthrift.REWRITING = 0.0\n"
    project.beside(PACKAGE, f"{nothing}{textwrap.dedent(PROGRAM)}print(pkg.__cached__[-4:], pkg.__spec__.name)")
    plain = project.python("app.py").stdout
    cold, seen = _run(project, "cold", {**ROOM, "AOTDYN_THRIFT_SHARE": "1e-9"})
    assert cold == plain
    assert (seen["functions_stubbed"], seen["traced"]) == (1, 1)
    assert [each["function"] for each in seen["put_off"]] == ["pkg"]
    out, seen = _run(project, "next", ROOM)
    assert out == plain
    assert seen["functions_stubbed"] > 4
    assert seen["put_off"] == []
    out, seen = _run(project, "warm", {**ROOM, "AOTDYN_THRIFT_SHARE": "1e-9"})
    assert out == plain
    assert (seen["traced"], "pkg" in {each["function"] for each in seen["put_off"]}) == (0, False)
    assert seen["graph_calls"] > 20


def test_what_was_poor_is_remembered(project: Any) -> None:
    """The second poor trace is the verdict, whatever process the first was made in."""
    calls = "for _ in range(int(os.environ['CALLS'])):\n    pkg.poor(torch.ones(2))\n"
    project.beside(PACKAGE, f"import os, torch, pkg\n{calls}")
    found = [_run(project, calls, {**ROOM, "CALLS": calls})[1] for calls in ("3", "4", "60", "99")]
    assert [each["traced"] for each in found] == [1, 0, 1, 0]
    assert [bool(each["left_alone"]) for each in found] == [False, False, True, False]


def _variant(operations: int, guards: int = 1, offset: int = 0, **more: Any) -> Variant:
    return Variant(
        FrameSpec("m", "f", "d", offset),
        [],
        [None] * guards,
        [],
        None,
        [],
        operations=operations,
        **more,  # type: ignore[list-item]
    )


BREAK = BreakInfo("f", "f.py", 1, "print()")

PIECE = {"breaks": [BREAK]}

CASES = {
    "enough": ([_variant(5)] * 3, "", True),
    "too few operations": ([_variant(1), _variant(0)], "captures only 1 operations", False),
    "once is no proof": ([_variant(0)], "", False),
    "one is rich": ([_variant(9), _variant(0), _variant(0)], "", True),
    "more may follow": ([_variant(0, **PIECE)], "", True),
    "nothing follows": ([_variant(0, **PIECE), _variant(0, offset=2)], "", False),
    "nothing follows again": (
        [_variant(0, **PIECE), *[_variant(0, offset=2)] * 2],
        "captures only 0 operations",
        False,
    ),
    "guards": ([_variant(3, guards=400)] * 2, "400 guards cost more than 3 operations save", False),
    "in pieces": (
        [_variant(0, **PIECE), _variant(2, offset=2, **PIECE), _variant(0, offset=4, **PIECE)],
        "captures 2 operations in 3 graphs",
        True,
    ),
    "left": ([_variant(0, leave="a loop")], "a loop", False),
    "prepares": ([_variant(0, leave="lazy parameters", prepares=True)], "", True),
}


@pytest.mark.parametrize("case", CASES)
def test_verdicts(case: str) -> None:
    account = thrift.Account()
    variants, *verdict = CASES[case]
    found = [account.judge(each) for each in variants]
    assert list(found[-1]) == verdict
    assert not any(reason for reason, _ in found[:-1])


def test_terms() -> None:
    for chosen, whose in {
        "off": ("", ""),
        "packages": ("program", "packages"),
        "all": ("packages", "packages"),
    }.items():
        with config.overrides(thrift=chosen):
            assert (thrift.terms(True), thrift.terms(False)) == whose


LOADED = ("aotdyn.trace.api", "torch._dynamo")


@pytest.mark.parametrize(
    ("terms", "work", "known", "loaded", "left"),
    [
        ("packages", 100, "", (), 25 - 1.5 - 2),
        ("packages", 100, "", LOADED[1:], 25 - 0.5 - 2),
        ("packages", 100, "", LOADED, 25 - 2),
        ("packages", 4, "", LOADED, 1.25 - 2),
        ("packages", 100, "warm", LOADED, 2 - 2),
        ("packages", 40, "warm", LOADED, 0 - 2),
        ("packages", 100, "warm", (), 2 - 1.5 - 2),  # the tracer takes as long to load, however small the share
        ("packages", 100, "making_up", LOADED, 25 - 2),
        ("packages", 9, "making_up", LOADED, 6 - 2),
        ("packages", 5, "making_up", LOADED, 3 - 2),  # no more than the program itself has taken
        ("program", 100, "warm", (), 25 - 1.5 - 2),
        ("program", 100, "", LOADED, 25 - 2),
        ("program", 4, "warm", (), 2.0 - 2),
        ("program", 9, "making_up", (), 6 - 2),
        ("owed", 4, "warm", LOADED, 1 - 2),
    ],
)
def test_the_share(
    monkeypatch: pytest.MonkeyPatch, terms: str, work: float, known: str, loaded: tuple[str, ...], left: float
) -> None:
    """A quarter of the work, and some seconds at least where little is known yet; less where records are found."""
    monkeypatch.setattr(thrift, "time", types.SimpleNamespace(perf_counter=lambda: 1e9, process_time=lambda: work))
    monkeypatch.setattr(thrift, "_options", config.Options())
    monkeypatch.setattr(thrift, "warm", bool(known))
    monkeypatch.setattr(thrift, "making_up", known == "making_up")
    monkeypatch.setattr(thrift.events, "spent", lambda _: 2.0)
    monkeypatch.setattr(thrift, "sys", types.SimpleNamespace(modules=dict.fromkeys(loaded)))
    owed = terms == "owed"
    assert thrift.time_left("program" if owed else terms, owed) == pytest.approx(left)


def test_a_function_of_many_callers_waits_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """A helper that a hundred models call is hot by none of them."""
    from aotdyn.runtime import cold

    def first() -> bool:
        return thrift._waits(helper, sys._getframe())

    def second() -> bool:
        return thrift._waits(helper, sys._getframe())

    callers = {
        each.__name__: types.SimpleNamespace(name=each.__name__, ran=5, undecided=lambda: True)
        for each in (first, second)
    }
    monkeypatch.setattr(cold, "entry_of", lambda code: callers.get(code.co_name))
    helper: Any = types.SimpleNamespace(ran=79, ripe=False, callers_ran={})
    assert first()
    helper.ran = 80
    assert [first(), second(), first()] == [False, True, True]
    callers["second"].ran = 6
    helper.ran = 170
    assert [first(), second(), first()] == [False, True, True]


@pytest.mark.parametrize(
    ("parameters", "body", "found"),
    [
        ("*args", "return f(*args)", True),
        ("self, **options", "options['n'] = self.n - 1; return f(self, **options)", True),
        ("x", "return f(x)", False),
        ("*args", "return f(*args).relu()", False),
    ],
)
def test_what_is_a_wrapper(monkeypatch: pytest.MonkeyPatch, parameters: str, body: str, found: bool) -> None:
    """Code that takes what comes, has a hooked function in its closure, and names no operator."""
    from aotdyn.runtime import callers

    space: dict[str, Any] = {}
    exec(f"def outer(f):\n def inner({parameters}):\n  {body}\n return inner", space)
    inner = space["outer"](test_terms)
    assert not callers.wraps(inner.__code__, inner.__closure__)
    assert not callers.wraps(inner.__code__, [types.CellType()])
    monkeypatch.setattr(callers.switchboard, "seat_in", lambda code: code)
    assert callers.wraps(inner.__code__, [types.CellType(1), *inner.__closure__]) == found


def test_what_is_read_has_a_budget_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """However much tracing has taken, what is stored is looked up."""
    entry: Any = types.SimpleNamespace(lines=[], extent=types.SimpleNamespace(sparing="packages"))
    monkeypatch.setattr(thrift.events, "spent", lambda phases: 0.1 if phases == ("load",) else 1e6)
    assert not thrift.too_busy(entry)


@pytest.mark.parametrize(
    ("body", "names"),
    [
        ("return x.relu()", True),
        ("return torch.cat([x])", True),
        ("return [softmax(y) for y in x]", True),
        ("return x - 1", True),
        ("x *= 2", True),
        ("return self.layers(x)", False),
        ("return 'a' + x.name if isinstance(x, dict) else '%s' % x", False),
        ("return x.device, x.shape, x.requires_grad, x.numel(), x.size(0)", False),
        ("self.kept.update(x); return self.kept.items()", False),
    ],
)
def test_operations_in_a_code(body: str, names: bool) -> None:
    code = compile(f"def f(self, x):\n    {body}", "f.py", "exec").co_consts[0]
    assert worth.names_operations(code) == names
    assert worth.names_operations(code.replace(co_name="forward"))


def test_what_a_process_puts_off_the_next_makes_up_for(project: Any) -> None:
    """At once, from the first call on, outermost first; the third finds it all, or leaves off."""
    free = "thrift.EARLY = 0.0\nthrift.FREE = thrift.MAKES_UP = float(os.environ['FREE'])\n"
    free = f"import os\nfrom aotdyn.runtime import thrift\n{free}"
    told = "open('making', 'w').write(str(thrift.making_up))\n"
    project.beside(PACKAGE, free + textwrap.dedent(PROGRAM) + told)
    tight = {**ROOM, "AOTDYN_THRIFT_SHARE": "1e-9"}
    _, seen = _run(project, "cold", {**tight, "FREE": "0"})
    assert seen["graph_calls"] == 0
    assert "pkg.hot" in {each["function"] for each in seen["put_off"]}
    cold, seen = _run(project, "next", {**tight, "FREE": "9"})
    assert seen["graph_calls"] > 34  # of hot's 40: where its argument begins to want gradients, some calls wait
    assert "pkg.hot" not in {each["function"] for each in seen["put_off"]}
    assert (project.folder / "making").read_text() == "True"
    warm, seen = _run(project, "warm", {**tight, "FREE": "9"})
    making = (project.folder / "making").read_text()
    assert warm == cold == project.python("app.py", env={"FREE": "0"}).stdout
    assert (seen["traced"], seen["guards_dropped"]) == (0, 0)
    assert seen["graph_calls"] > 38
    assert making == "False"  # what was made, and was poor, isn't owed any more


def test_what_is_not_made_up_for_is_not_owed_again(project: Any) -> None:
    """Each process of a short program would spend its seconds on it, whatever the second had no time for."""
    project.write("lib/pkg.py", PACKAGE)
    project.write(
        "app/app.py",
        """
        import os, torch, pkg
        from aotdyn.runtime import thrift

        thrift.EARLY, thrift.MAKES_UP = 0.0, float(os.environ["FREE"])
        layer = pkg.Layer(torch.ones(4))
        for _ in range(int(os.environ["CALLS"])):
            pkg.hot(layer, torch.ones(4, 4))
        print(thrift.making_up)
        """,
    )
    project.folder = project.folder / "app"
    project.env["PYTHONPATH"] = f"{project.environment({})['PYTHONPATH']}:{project.folder.parent / 'lib'}"
    tight = {**ROOM, "AOTDYN_THRIFT_SHARE": "1e-9"}
    runs = (("12", "0"), ("1", "0"), ("12", "9"))
    found = [_run(project, calls, {**tight, "CALLS": calls, "FREE": free}) for calls, free in runs]
    assert [(told.strip(), seen["traced"]) for told, seen in found] == [("False", 0), ("True", 0), ("False", 0)]


WAITS = """
    import os, torch, pkg
    from aotdyn.runtime import thrift

    layer = pkg.Layer(torch.ones(4))
    for _ in range(thrift.WAITED):
        last = pkg.hot(layer, torch.ones(4, 4))
        if os.environ["BOTH"]:
            last = last + pkg.once(last)
    print(last.sum().item(), thrift.making_up)
"""


def test_what_waited_is_owed_to_the_next_process_and_to_no_other(project: Any) -> None:
    """The first counts, the second compiles, from the first call on; what that doesn't call isn't made up for later."""
    project.beside(PACKAGE, WAITS)
    runs = {"cold": "1", "next": "", "warm": "", "later": "1"}
    waits = {**ROOM, "AOTDYN_THRIFT_CALLS": "1000"}
    found = {name: _run(project, name, {**waits, "BOTH": both}) for name, both in runs.items()}
    assert [told.split()[1] for told, _ in found.values()] == ["False", "True", "False", "False"]
    assert [seen["traced"] for _, seen in found.values()] == [0, 1, 0, 0]
    assert found["next"][1]["graph_calls"] == found["warm"][1]["graph_calls"] == 12
    assert found["later"][0].split()[0] == found["cold"][0].split()[0]


RETIRED = """
    import torch, pkg
    import aotdyn
    from aotdyn.rewrite import switchboard

    def hooked(function):
        return switchboard.seat_in(function.__code__) is not None

    kept = pkg.poor
    print(hooked(pkg.poor), hooked(pkg.Layer.__call__))
    for i in range(20):
        pkg.poor(torch.ones(i))
    print(hooked(kept), hooked(pkg.Layer.__call__))
    for i in range(5000):
        pkg.plain(i, [i])
    print(hooked(pkg.plain))
    aotdyn.reset()
    print(hooked(kept), hooked(pkg.plain), pkg.plain(1, []), kept(torch.ones(3)).sum().item())
"""


def test_stubs_retire_where_nothing_is_expected_of_them(project: Any) -> None:
    """A function with a verdict, and one that never meets a tensor, have their own code back; `reset` undoes it."""
    package = textwrap.dedent(PACKAGE) + "\ndef plain(n, kept):\n    kept.append(n + 1)\n    return kept\n"
    project.beside(package, RETIRED)
    out, seen = _run(project, "cold", ROOM)
    lines = [line for line in out.splitlines() if not line.startswith("poor")]
    assert lines == ["True True", "False True", "False", "True True [2] 3.0"]
    assert [each["function"] for each in seen["left_alone"]] == ["pkg.poor"]
    out, seen = _run(project, "warm", ROOM)
    assert out.splitlines()[-1] == "True True [2] 3.0"
    assert seen["traced"] == 0


VARIES = """
    import torch, pkg

    layer = pkg.Layer(torch.ones(4))
    for i in range(900):
        last = pkg.hot(layer, torch.ones(4, 4) if i % 8 == 7 or i < 40 else torch.ones(i + 2, 4, dtype=torch.int64))
    print(last.sum().item())
"""


def test_what_seldom_fits_is_left_alone(project: Any) -> None:
    """Where most calls miss all variants, looking at these is all that they get from them."""
    project.beside(PACKAGE, VARIES)
    plain = project.python("app.py").stdout
    few = {**ROOM, "AOTDYN_RECOMPILE_LIMIT": "1", "AOTDYN_CHOOSE": "always"}
    found, seen = _run(project, "cold", few)
    assert found == plain
    assert {each["function"]: "fitted none" in each["reason"] for each in seen["left_alone"]}["pkg.hot"]
    found, seen = _run(project, "warm", few)
    assert found == plain
    assert (seen["traced"], seen["graph_calls"]) == (0, 0)


MODELS = """
    import functools
    import torch

    def handed_on(function):
        @functools.wraps(function)
        def wrapper(self, *args, **kwargs):
            if kwargs.get("twice", self.count - 1):
                kwargs["twice"] = True
            return function(self, *args, **kwargs)
        return wrapper

    def fill(parameter, value):
        with torch.no_grad():
            return (parameter * 0 + value).sin().add_(1)

    class Base(torch.nn.Module):
        count = 1

        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(3))
            for i in range(9):
                self.weight.data = self.filled(i)

        def filled(self, value):
            return fill(self.weight, value)

        @handed_on
        def forward(self, x, twice=False):
            return (x * self.weight).sin().relu() + self.count

    class First(Base): pass
    class Second(Base): count = 2
    class Third(Base): count = 3
    class Fourth(Base): count = 4

    class Other(Base):
        @handed_on
        def forward(self, x, twice=True):
            return x.cos().exp()
"""

USES_MODELS = """
    import torch, pkg

    for kind in (pkg.First, pkg.Second, pkg.Third, pkg.Fourth, pkg.Other):
        model = kind()
        for _ in range(4):
            print(model(torch.ones(3)).sum().item())
"""


def test_models_of_many_classes(project: Any) -> None:
    """Each class has its turn as the first has; what builds them, and what only hands on, isn't traced."""
    project.beside(MODELS, USES_MODELS)
    plain = project.python("app.py").stdout
    cold, seen = _run(project, "cold", ROOM)
    assert cold == plain
    # The third and the fourth call of each class: one trace a class, of `forward` itself.
    assert (seen["traced"], seen["graph_calls"], seen["put_off"], seen["left_alone"]) == (5, 10, [], [])
    warm, seen = _run(project, "warm", ROOM)
    assert warm == plain
    assert (seen["traced"], seen["graph_calls"], seen["guards_dropped"]) == (0, 20, 0)


def test_compile_knows_no_thrift(own_cache: None) -> None:
    """What a user names is compiled at its first call."""
    with config.overrides(thrift="all", thrift_share=1e-9):
        compiled = aotdyn.compile(lambda x: x + 1, backend="eager")
        before = aotdyn.stats()["graph_calls"]
        assert torch.equal(compiled(torch.zeros(2)), torch.ones(2))
        assert aotdyn.stats()["graph_calls"] == before + 1


SMALL = """
    import torch
    from aotdyn.runtime import thrift
    thrift.FREE = thrift.MAKES_UP = FREE

    def mine(x):
        return (x + 1).sin() * 2

    for _ in range(3):
        print(mine(torch.ones(4)).sum().item())
"""

TIGHT = {"AOTDYN_THRIFT": "packages", "AOTDYN_THRIFT_SHARE": "1e-9"}
"A program has its own seconds, and nothing beyond."


def _small(project: Any, free: str, *options: str, command: str = "run", env: dict[str, str] = TIGHT) -> Any:
    project.write("app.py", SMALL.replace("FREE\n", f"{free}\n"))
    return project.python("-m", "aotdyn", command, "-v", "--backend", "eager", *options, "app.py", env=env)


def test_what_is_damaged_of_the_program_is_made_anew(project: Any) -> None:
    """Its own functions have their seconds in a process that finds records, too."""
    first = _small(project, "9.0", "--cache", "c")
    assert "3 graph calls, 1 traced" in first.stderr
    graphs = list((project.folder / "c").rglob("*.graph"))
    assert graphs
    for graph in graphs:
        graph.write_bytes(graph.read_bytes()[:40])
    again = _small(project, "9.0", "--cache", "c", "--require-warm")
    assert (again.returncode, again.stdout) == (3, first.stdout)
    assert "3 graph calls, 1 traced" in again.stderr
    assert "put off" not in again.stderr
    last = _small(project, "9.0", "--cache", "c", "--require-warm")
    assert last.returncode == 0, last.stderr
    assert "3 graph calls, 0 traced" in last.stderr


def test_what_is_put_off_of_the_program_is_not_warm(project: Any) -> None:
    """Such a process fails --require-warm; the next, where the share has room, makes what was put off.

    The program's own seconds are spent on it once more, in the next process, or each would spend them.
    """
    first = _small(project, "0.0", "--cache", "other")
    assert "0 traced" in first.stderr
    assert "1 traced" in _small(project, "9.0", "--cache", "other").stderr
    _small(project, "0.0")
    off = _small(project, "0.0", "--require-warm")
    assert off.returncode == 3
    assert "not warm, 1 function put off:\n  __main__" in off.stderr
    assert "app.py.mine: put off, tracing has had its share" in off.stderr
    assert "captured, 1 put off" in off.stderr
    again = _small(project, "9.0", "--require-warm")
    assert again.returncode == 3
    assert "0 traced" in again.stderr
    made = _small(project, "0.0", env=ROOM)
    assert "1 traced" in made.stderr
    assert "9 of 9 tensor calls captured" in made.stderr
    warm = _small(project, "0.0", "--require-warm")
    assert warm.returncode == 0, warm.stderr
    assert "put off" not in warm.stderr
    assert "9 of 9 tensor calls captured" in warm.stderr


def test_what_is_put_off_of_the_program_is_not_warm_under_the_terms_of_packages(project: Any) -> None:
    """It is the program's, whatever `thrift` says."""
    nothing = "from aotdyn.runtime import thrift\nthrift.EARLY = 0.0\n"
    project.write("app.py", nothing + textwrap.dedent(SMALL.replace("FREE\n", "9.0\n")))
    env = {"AOTDYN_THRIFT": "all", "AOTDYN_THRIFT_SHARE": "1e-9"}
    off = project.python("-m", "aotdyn", "run", "--backend", "eager", "--require-warm", "app.py", env=env)
    assert off.returncode == 3, off.stderr
    assert "not warm, 1 function put off" in off.stderr
    assert "app.py.mine: put off, " in off.stderr


def test_build_knows_no_thrift(project: Any) -> None:
    """It compiles all that it meets, which a process without any time then finds."""
    built = _small(project, "0.0", command="build")
    assert built.returncode == 0, built.stderr
    warm = _small(project, "0.0", "--require-warm")
    assert warm.returncode == 0, warm.stderr
    assert "3 graph calls, 0 traced" in warm.stderr


VARYING = """
    import torch

    def grown(x, n):
        for _ in range(n):
            x = x + 1
        return x.sin().tolist()

    for n in (1, 2, 3, 4, 5, 6, 2, 3):
        print(len(grown(torch.ones(2), n)))
"""


def test_values_that_never_repeat(project: Any) -> None:
    """They are told with the option that has them made all the same, in each process, and count alike in each.

    Without thrift what it decided holds no more.
    """
    project.write("app.py", VARYING)
    told, counts = [], []
    for thrift_option in ("packages", "packages", "off"):
        done = project.run("-v", "--backend", "eager", "--thrift", thrift_option, "app.py", env=ROOM)
        assert done.stdout == "2\n" * 8, done.stderr
        told.append("grown (" in done.stderr and "too few calls each for another to pay" in done.stderr)
        assert told[-1] == ("`--thrift off`" in done.stderr)
        counts.append(done.stderr.strip().splitlines()[-1].rpartition("recompile")[2])
    assert told == [True, True, False]
    assert counts[0] == counts[1] == "s, 16 of about 25 tensor calls captured"
    assert counts[2] == "s, 34 of 34 tensor calls captured"
