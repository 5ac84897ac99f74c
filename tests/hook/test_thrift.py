"""The policy of what is worth tracing (docs/design/policy.md): which functions of a package, when, and what is told."""

from __future__ import annotations

import json
import textwrap
from typing import Any

import pytest
import torch

import aotdyn
from aotdyn import config
from aotdyn.runtime import thrift
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
        print("poor", x.shape[0])
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
    project.write("lib/pkg.py", PACKAGE)
    project.write("app/app.py", PROGRAM)
    project.folder = project.folder / "app"
    project.env["PYTHONPATH"] = f"{project.environment({})['PYTHONPATH']}:{project.folder.parent / 'lib'}"
    plain = project.python("app.py").stdout
    cold, seen = _run(project, "cold", ROOM)
    assert cold == plain
    assert seen["traced"] == 4  # mine, hot, and poor twice
    assert seen["graph_calls"] > 20
    assert [each["function"] for each in seen["left_alone"]] == ["pkg.poor"]
    warm, seen = _run(project, "warm", ROOM)
    assert warm == plain
    assert (seen["traced"], seen["guards_dropped"], seen["put_off"]) == (0, 0, [])
    assert seen["graph_calls"] > 20
    off, seen = _run(project, "off", {"AOTDYN_THRIFT": "off"})
    assert off == plain
    assert seen["traced"] > 4


def test_what_does_not_fit_is_put_off_and_told(project: Any) -> None:
    """Where tracing has had its share, packages go on as plain Python, and the next process may trace them."""
    project.write("lib/pkg.py", PACKAGE)
    nothing = "from aotdyn.runtime import thrift\nthrift.EARLY = 0.0\n"
    project.write("app/app.py", nothing + textwrap.dedent(PROGRAM))
    project.folder = project.folder / "app"
    project.env["PYTHONPATH"] = f"{project.environment({})['PYTHONPATH']}:{project.folder.parent / 'lib'}"
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


def test_compile_knows_no_thrift(own_cache: None) -> None:
    """What a user names is compiled at its first call."""
    with config.overrides(thrift="all", thrift_share=1e-9):
        compiled = aotdyn.compile(lambda x: x + 1, backend="eager")
        before = aotdyn.stats()["graph_calls"]
        assert torch.equal(compiled(torch.zeros(2)), torch.ones(2))
        assert aotdyn.stats()["graph_calls"] == before + 1
