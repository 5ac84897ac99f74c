"""The command line's other commands, and the text of reports."""

from __future__ import annotations

import re
import sys
from types import SimpleNamespace

import pytest

import aotdyn
from aotdyn.__main__ import COMMANDS, main
from aotdyn.cli import build, text
from aotdyn.hook import startup
from aotdyn.report import events, progress


def test_usage(capsys):
    assert main([]) == 2
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    assert re.findall(r"^  (\S+) ", out, re.MULTILINE) == list(COMMANDS)  # what an unknown command is told, too
    assert main(["--version"]) == 0
    assert aotdyn.__version__ in capsys.readouterr().out
    assert main(["nonsense"]) == 2
    assert "known are run" in capsys.readouterr().err


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_every_command_has_help(command, capsys):
    with pytest.raises(SystemExit) as caught:
        main([command, "--help"])
    assert caught.value.code == 0
    assert f"python -m aotdyn {command}" in capsys.readouterr().out


def test_activate_and_deactivate(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(startup, "path", lambda: str(tmp_path / startup.FILE))
    assert main(["deactivate"]) == 0
    assert main(["activate"]) == 0
    assert (tmp_path / startup.FILE).read_text() == startup.LINE
    assert main(["deactivate"]) == 0
    assert not (tmp_path / startup.FILE).exists()
    monkeypatch.setattr(startup, "path", lambda: str(tmp_path / "missing" / startup.FILE))
    assert main(["activate"]) == 1
    assert "can't write" in capsys.readouterr().err


def test_doctor(project):
    done = project.python("-m", "aotdyn", "doctor")
    assert done.returncode == 0, done.stdout
    assert all(word in done.stdout for word in ("torch", "compiler", str(project.cache), sys.executable))
    done = project.python("-m", "aotdyn", "doctor", env={"AOTDYN_BACKEND": "eager", "AOTDYN_MAX_NODES": "-1"})
    assert done.returncode == 1
    assert "BAD options" in done.stdout


def test_report_in_words(monkeypatch):
    monkeypatch.setattr(events, "_sources", [])
    events.reset()
    events.count("graph_calls")
    events.graph_break("main", "app.py", 3, "call of print", 2)
    events.graph_break("f", "lib.py", 8, "call of exec, which is written in C")
    events.recompile("f", "`x.shape[0]` was 8, is 9")
    events.left_alone("g", "no tensor operations")
    shown = text.report(events.snapshot())
    events.reset()
    assert "1 graph call, 0 traced" in shown
    assert shown.count("-> ") == 1
    assert "  call of print\n      app.py:3 in main (2 graphs ended there)\n" in shown
    assert "  call of exec, which is written in C\n      lib.py:8 in f\n    -> The function is written in C" in shown
    assert "about 0 tensor calls" not in shown
    assert "processor time: " in shown
    assert "f: `x.shape[0]` was 8, is 9" in shown
    assert "g: no tensor operations" in shown
    cold = {"traced": 2, "graphs_compiled": 1, "graphs_requested": 0}
    told = text.not_warm(cold, ["a.f", "a.g"])
    assert told.startswith("aotdyn: not warm, 2 traces and 1 kernel had to be made:\n  a.f\n  a.g\n  hint: ")
    assert "--why-miss" in told, "traces are missed for a reason"
    assert "--why-miss" not in text.not_warm({**cold, "traced": 0}, [])
    assert not text.not_warm({"traced": 0, "graphs_compiled": 0}, [])
    told = text.not_warm({"traced": 0, "graphs_compiled": 0}, [], {"a.f": "too slow"})
    assert told.startswith("aotdyn: not warm, 1 function put off:\n  a.f: put off, too slow\n  hint: ")


def test_a_build_says_what_it_made():
    stats = {"traced": 2, "graphs_compiled": 3}
    assert build._made(stats, False) == "3 kernels compiled, 2 traces made"
    assert build._made({**stats, "graphs_eager": 3}, False) == "2 traces made; the backend eager compiles no kernels"
    assert "all was stored already" in build._made({"traced": 0, "graphs_compiled": 0}, False)
    assert build._made({"traced": 0, "graphs_compiled": 0}, True) == "0 kernels compiled, 0 traces made"


def test_progress_without_a_terminal_is_a_line_now_and_then(monkeypatch, capsys):
    now = [0.0]
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: now[0]))
    with progress.line("aotdyn: build compiles 4 kernels") as say:
        for now[0], done in ((1.0, 0), (31.0, 1), (40.0, 2), (62.0, 2)):
            say(done, 4, "f")
    assert capsys.readouterr().err.splitlines() == [
        "aotdyn: build compiles 4 kernels",
        "aotdyn: 1 of 4 done, 31 s, about 93 s left: f",
        "aotdyn: 2 of 4 done, 62 s, about 62 s left: f",
    ]
