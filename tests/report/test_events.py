"""Counters, events, phases, logs and notices."""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
import time

import pytest

from aotdyn.report import events, imports, logs, notice


@pytest.fixture(autouse=True)
def _fresh(monkeypatch):
    monkeypatch.setattr(events, "_sources", [])
    events.reset()
    yield
    events.reset()


def test_a_snapshot_has_every_key_from_the_start():
    seen = events.snapshot()
    assert seen.pop("account") == {"work": pytest.approx(time.process_time(), 1), "spent": {}, "saved": 0, "put_off": 0}
    assert seen == {
        **dict.fromkeys(events.COUNTERS, 0),
        **{name: [] for name in events.LISTS},
        "compiler_modules_imported": imports.ours(),
        "seconds": {},
    }


def test_the_account():
    """What phases have spent, in work; what kernels save, by what was measured; how much was put off."""
    with events.phase("trace"):
        pass
    events.saves("a graph", 0.25)
    events.add_source(lambda: {"put_off": [{"function": "f", "reason": "no time"}]})
    events.add_source(
        lambda: {"seconds_saved": 3 * events.saved_per_call("a graph") + events.saved_per_call("no graph")}
    )
    account = events.snapshot()["account"]
    assert (list(account["spent"]), account["saved"], account["put_off"]) == (["trace"], 0.75, 1)


def test_counts_and_events():
    events.count("graph_calls")
    events.count("graph_calls", 2)
    events.traced("m.f")
    events.traced("m.f")
    events.traced("m.g")
    for _ in range(2):
        events.graph_break("f", "a.py", 3, "print")
        events.left_alone("g", "too long")
        events.recompile("f", "x.shape[0] was 8, is 9")
    events.graph_break("f", "a.py", 4, "print", 0)
    events.process_local("h", "a lambda")
    seen = events.snapshot()
    assert (seen["graph_calls"], seen["traced"], events.traced_functions()) == (3, 3, ["m.f", "m.g"])
    assert seen["graph_breaks"] == [
        {"function": "f", "file": "a.py", "line": 3, "reason": "print", "count": 2},
        {"function": "f", "file": "a.py", "line": 4, "reason": "print", "count": 0},
    ]
    assert seen["left_alone"] == [{"function": "g", "reason": "too long"}]
    assert len(seen["recompiles"]) == 2
    assert seen["process_local"] == [{"function": "h", "fact": "a lambda"}]


def test_sources_are_read_at_each_snapshot():
    events.graph_break("f", "a.py", 3, "print")
    events.add_source(
        lambda: {
            "graph_calls": 5,
            "graph_breaks": [{"function": "f", "file": "a.py", "line": 3, "reason": "print", "count": 9}],
            "left_alone": [{"function": "g", "reason": "why"}],
        }
    )
    for _ in range(2):
        seen = events.snapshot()
        assert seen["graph_calls"] == 5
        assert seen["graph_breaks"][0]["count"] == 10
        assert seen["left_alone"] == [{"function": "g", "reason": "why"}]


def test_phases_count_for_themselves():
    start = time.perf_counter()
    with events.phase("trace"):
        time.sleep(0.02)
        with events.phase("compile"):
            time.sleep(0.05)
        with events.phase("store"):
            pass
    whole = time.perf_counter() - start
    seconds = events.snapshot()["seconds"]
    assert seconds["compile"] >= 0.05
    assert seconds["trace"] < whole - 0.05 + 0.001
    assert sum(seconds.values()) == pytest.approx(whole, abs=0.01)


def test_counting_from_threads_loses_nothing():
    def work():
        for _ in range(2000):
            events.count("graph_calls")

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert events.snapshot()["graph_calls"] == 8000


def test_write_replaces_the_file_whole(tmp_path):
    path = tmp_path / "stats.json"
    path.write_text("old")
    events.count("traced")
    events.write(path)
    assert json.loads(path.read_text())["traced"] == 1
    assert os.listdir(tmp_path) == ["stats.json"]
    with pytest.raises(OSError):
        events.write(tmp_path / "missing" / "stats.json")
    events.write(os.devnull)
    assert not os.path.isfile(os.devnull)


@pytest.mark.parametrize(
    ("program", "ours"),
    [
        ("import sympy", []),
        ("from aotdyn.report import imports_probe", ["sympy"]),
        ("import torch._dynamo", []),
        ("import torch; torch.optim.SGD([torch.ones(1, requires_grad=True)], 0.1)", []),
        ("import libcst; from aotdyn.report import imports_probe", ["sympy"]),
    ],
)
def test_a_module_is_ours_if_our_frame_imports_it(project, program, ours):
    # The probe is a module whose file lies in aotdyn's folder, made in memory.
    done = project.python(
        "-c",
        "import os, sys, types, importlib.abc, importlib.machinery, aotdyn\n"
        "from aotdyn.report import events, imports\n"
        "path = os.path.join(os.path.dirname(aotdyn.__file__), 'report', 'imports_probe.py')\n"
        "class Probe(importlib.abc.MetaPathFinder, importlib.abc.Loader):\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.endswith('imports_probe'): return importlib.machinery.ModuleSpec(name, self)\n"
        "    def exec_module(self, module): exec(compile('import sympy', path, 'exec'), module.__dict__)\n"
        "sys.meta_path.insert(0, Probe())\n"
        "imports.watch(); imports.watch()\n"
        f"{program}\n"
        "print(events.snapshot()['compiler_modules_imported'])",
    )
    assert done.stdout == f"{ours}\n", done.stderr


def test_logs_named_are_on_and_others_off(monkeypatch, capsys):
    monkeypatch.setattr(logs, "_handler", None)
    root = logging.getLogger("aotdyn")
    before, propagate = list(root.handlers), root.propagate
    try:
        logs.setup(("guards",))
        assert logs.enabled("guards")
        assert not logs.enabled("breaks")
        logs.logger("guards").debug("x is a tensor")
        logs.logger("breaks").debug("print")
        assert capsys.readouterr().err == "aotdyn.guards: x is a tensor\n"
        logs.setup(("all",))
        assert logs.enabled("breaks")
    finally:
        root.handlers[:], root.propagate = before, propagate
        logs.setup(())
    assert not logs.enabled("guards")


class _Terminal:
    def __init__(self, terminal: bool) -> None:
        self.terminal, self.text = terminal, ""

    def isatty(self) -> bool:
        return self.terminal

    def write(self, text: str) -> None:
        self.text += text

    def flush(self) -> None:
        pass


@pytest.mark.parametrize(("terminal", "slow", "said"), [(True, True, 1), (True, False, 0), (False, True, 0)])
def test_a_user_who_waits_at_a_terminal_is_told(monkeypatch, terminal, slow, said):
    err = _Terminal(terminal)
    monkeypatch.setattr(sys, "stderr", err)
    monkeypatch.setattr(notice, "PATIENCE", 0.02 if slow else 5.0)
    with notice.waiting("m.f"), notice.waiting("m.g"):
        time.sleep(0.15)
    assert err.text.count("compiling m.f for the first time") == said
    assert "m.g" not in err.text
