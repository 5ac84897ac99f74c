"""The account of a run under the hook: what was captured, and what Python made because no graph served the call."""

from __future__ import annotations

import json
import types
from typing import Any

from aotdyn.runtime import eager, thrift
from aotdyn.runtime.entry import Entry
from aotdyn.runtime.variant import FrameSpec, Inlined, Variant

PACKAGE = """
    def inner(x):
        return x.mul(2).sin().cos()

    def outer(x):
        return inner(x).relu()
"""

PROGRAM = """
    import torch, pkg

    x = torch.ones(3)
    for _ in range(5):
        print(pkg.inner(x).sum().item())
    for _ in range(3):
        print(pkg.outer(x).sum().item())
"""


def test_what_a_callees_graph_captures_python_has_not_run(project: Any) -> None:
    """The third call is traced: two of `inner` and the own operation of two of `outer` are Python's."""
    project.beside(PACKAGE, PROGRAM)
    options = ("--backend", "eager", "--stats", "stats.json", "--package", "pkg", "--exclude", "__main__", "app.py")
    done = project.run(*options, env={"AOTDYN_THRIFT": "packages", "AOTDYN_THRIFT_SHARE": "1000"})
    assert done.returncode == 0, done.stderr
    assert done.stdout == project.python("app.py").stdout
    seen = json.loads((project.folder / "stats.json").read_text())
    assert (seen["traced"], seen["calls_left"]) == (2, 4)
    assert seen["tensor_calls_captured"] == 3 * 3 + 2 * 3 + 4
    assert seen["tensor_calls_eager"] == 2 * 3 + 2 * 1


def _entry(name: str, left: int, *variants: Variant, offset: int = 0) -> Any:
    spec = FrameSpec("m", name, "d", offset)
    return types.SimpleNamespace(spec=spec, variants=list(variants), left_to_python=lambda: left)


def _variant(own: int, shares: list[tuple[int, int, int]] | None = None, **more: Any) -> Variant:
    inlined = [Inlined("m", "callee", "d")]
    spec = FrameSpec("m", "f", "d", 0)
    more.setdefault("operations", own + sum(each for *_, each in shares or []))
    return Variant(spec, [], [], [], None, [], inlined=inlined, own=own, shares=shares or [], **more)


def test_operations_that_python_made() -> None:
    """By what was traced of a function: by itself, all its pieces together, or where it was inlined."""
    caller = _variant(2, [(0, 2, 6)])
    assert eager.operations([_entry("caller", 4, caller)]) == 8
    assert eager.operations([_entry("caller", 4, caller), _entry("callee", 5)]) == 8 + 5 * 3
    assert eager.operations([_entry("caller", 4, caller), _entry("callee", 5, _variant(7))]) == 8 + 5 * 7
    assert eager.operations([_entry("nobody", 5), _entry("caller", 0, caller)]) == 0
    pieces = [_entry("f", 3, _variant(2, eager_operations=1)), _entry("f", 2, _variant(5), offset=8)]
    assert eager.operations(pieces) == 3 * (2 + 1 + 5) + 2 * 5
    assert eager.operations([_entry("f", 3, _variant(2, leave="a loop", eager_operations=2))]) == 6
    assert eager.operations([_entry("f", 3, _variant(4, operations=3))]) == 9  # one wasn't wanted in the graph


def test_what_is_put_off_is_owed_whether_there_are_variants_or_not(monkeypatch: Any) -> None:
    kept: list[str] = []
    monkeypatch.setattr(thrift, "_keep", lambda entry, reason: kept.append(entry.spec.qualname))
    some = {
        name: types.SimpleNamespace(spec=FrameSpec("m", name, "d", 0), ran=ran, silent=silent, variants=variants)
        for name, ran, silent, variants in (
            ("none", 4, False, []),
            ("more", 4, False, [1]),
            ("rare", 3, False, []),
            ("silent", 15, True, []),
            ("hot", 16, True, [1]),
        )
    }
    monkeypatch.setattr(thrift, "_owing", dict(some))
    monkeypatch.setattr(thrift, "_put_off", dict.fromkeys(some, "why"))
    thrift._keep_owed()
    assert kept == ["none", "more", "hot"]


def test_how_many_calls_are_waited_for(monkeypatch: Any) -> None:
    """More for each variant that hasn't proved itself; none where an earlier process has waited."""
    calls = thrift.chosen().thrift_calls
    monkeypatch.setattr(thrift, "warm", False)
    entry: Any = types.SimpleNamespace(ripe=False, postponed=0, unserved=0, silent=False, variants=[])
    for made, times in ((0, 1), (1, 1), (2, 2), (4, 8)):
        entry.made_for = lambda args, enough, made=made: made if enough == thrift.PROVEN * calls else -1
        assert thrift._wanted(entry, ()) == calls * times
    entry.ripe, entry.postponed = True, 1
    assert thrift._wanted(entry, ()) == 1
    entry.postponed = 0  # it has been made up for
    assert thrift._wanted(entry, ()) == calls * 8


def test_variants_that_have_served_well_delay_none() -> None:
    first, second = (_variant(1), _variant(1))
    line = types.SimpleNamespace(variant=first, graph_calls=lambda: 6)
    served = types.SimpleNamespace(others=lambda variant, args: False)
    entry: Any = types.SimpleNamespace(lines=[line], variants=[first, second], _served=served)
    assert [Entry.made_for(entry, (), enough) for enough in (6, 7)] == [1, 2]


def test_callees_of_what_is_given_up_wait_no_more() -> None:
    """A function past its limit runs as Python: nobody is inlined in it."""
    entry: Any = types.SimpleNamespace(account=thrift.Account(), closed=False, rests=[], needs=0.0)
    assert Entry.undecided(entry)
    entry.rests = [_variant(0, rest=True)]
    assert not Entry.undecided(entry)
