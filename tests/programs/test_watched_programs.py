"""Programs under a trace function, under torch.compile, that look at their own frames, and that start processes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import coverage
import pytest

LIBRARY = """
    import inspect, logging, sys, traceback, warnings
    import torch

    def scale(x):
        y = x * 2
        return y.relu() + 1

    def told(x):
        y = scale(x).sin()
        warnings.warn("looked at", stacklevel=2)
        logging.getLogger("lib").warning("from here")
        return y

    def asked(x):
        y = scale(x)
        names = [frame.function for frame in inspect.stack()[:2]]
        return y, names, traceback.extract_stack(limit=1)[0].lineno

    def seen(x):
        y = scale(x)
        names = caller()
        return y, x, names

    def caller():
        frame = sys._getframe(1)
        return frame.f_code.co_name, frame.f_lineno, sorted(frame.f_locals)

    def fails(x):
        return scale(x) @ scale(x)[:1]
"""

PROGRAM = """
    import contextlib, io, logging, sys, traceback, warnings
    import torch
    import lib

    logging.basicConfig(stream=sys.stdout, format="%(filename)s:%(lineno)d %(funcName)s %(message)s")
    warnings.simplefilter("always")
    warnings.showwarning = lambda message, kind, file, line, *_: print(message, file.rpartition("/")[2], line)

    def use(x):
        for _ in range(3):
            print(lib.told(x).sum().item())
            print([each.tolist() if isinstance(each, torch.Tensor) else each for each in lib.asked(x)])
            print([each.tolist() if isinstance(each, torch.Tensor) else each for each in lib.seen(x)])
            try:
                lib.fails(x)
            except RuntimeError as error:
                print([(at.name, at.lineno) for at in traceback.extract_tb(error.__traceback__)])

    x = torch.ones(2, 3)
    with contextlib.redirect_stdout(io.StringIO()):
        use(x)  # the first frame that breaks goes on in a function of its own, behind one of ours
    use(x)

    lines = []
    def watch(frame, event, arg):
        if frame.f_code.co_filename.endswith("lib.py"):
            if event != "line" or frame.f_lineno != frame.f_code.co_firstlineno:  # where a stub asks
                lines.append((event, frame.f_code.co_name, frame.f_lineno))
            return watch
    sys.settrace(watch)
    lib.scale(x)
    sys.settrace(None)
    print(*lines)

    compiled = torch.compile(lib.told.__globals__["scale"], backend="eager", fullgraph=True)
    print(compiled(x).sum().item())
"""


def test_frames_traces_and_torch_compile(project: Any) -> None:
    """Who looks at the stack, traces lines or compiles by TorchDynamo meets what plain Python has."""
    project.write("lib.py", LIBRARY)
    project.write("app.py", PROGRAM)
    plain = project.python("app.py")
    assert plain.returncode == 0, plain.stderr
    assert "('line', 'scale'" in plain.stdout
    for way in ("cold", "warm"):
        command = ("--backend", "eager", "--keep-torch-compile", "--stats", f"{way}.json", "app.py")
        done = project.run(*command, env={"AOTDYN_STRICT": "0"})  # which fails under a trace function, by design
        assert (done.returncode, done.stdout) == (0, plain.stdout), done.stderr
        stats = json.loads((project.folder / f"{way}.json").read_text())
        assert stats["graph_calls"] > 5
    assert stats["traced"] == 0


COVERED = """
    import coverage
    import torch
    import lib

    def lines():
        data = measured.get_data()
        return [data.lines(file) for file in data.measured_files() if file.endswith("lib.py")]

    def use():
        for _ in range(3):
            print(lib.total(torch.ones(2)))

    use()
    measured = coverage.Coverage(data_file=None, include=["*/lib.py"])
    measured.start()
    use()
    measured.stop()
    print([sorted({*each} - {5, 10, 16}) for each in lines()])  # where functions begin: there a stub asks
    use()
"""

COUNTED = """
    import functools
    import torch

    def logged(f):
        @functools.wraps(f)
        def run(*args):
            return f(*args)
        return run

    def scale(x, up):
        if up:
            y = x * 2
            return y.relu() + 1
        return x - 1

    @logged
    def total(x):
        y = scale(x, True).sin()
        if y.sum() > 0:
            y = y + 1
        else:
            y = y - 1
        return y.sum().item()
"""


def test_coverage_sees_what_it_sees_of_plain_python(project: Any) -> None:
    """While it measures, bodies run and graphs don't: each line counts that plain Python would run, and no other.

    But for that of a function's `def`, where its stub asks: it counts at each call.

    It may begin and end while the program runs; before and behind that graphs run.
    """
    project.write("lib.py", COUNTED)
    project.write("app.py", COVERED)
    plain = project.python("app.py")
    assert plain.returncode == 0, plain.stderr
    assert "[[7, 11, 12, 13, 18, 19, 20, 23]]" in plain.stdout
    for way in ("cold", "warm"):
        done = project.run("--backend", "eager", "--stats", f"{way}.json", "app.py")
        assert (done.returncode, done.stdout, done.stderr) == (0, plain.stdout, plain.stderr)
        stats = json.loads((project.folder / f"{way}.json").read_text())
        assert stats["graph_calls"] >= 6
    assert stats["traced"] == 0
    command = ("-m", "coverage", "run", "--data-file", "c.db", "-m", "aotdyn", "run", "--backend", "eager")
    project.write("whole.py", "import torch, lib\nprint(lib.total(torch.ones(2)))\n")
    done = project.python(*command, "--stats", "whole.json", "whole.py")
    assert (done.returncode, done.stdout) == (0, plain.stdout.partition("\n")[0] + "\n"), done.stderr
    assert json.loads((project.folder / "whole.json").read_text())["graph_calls"] == 0
    data = coverage.CoverageData(basename=str(project.folder / "c.db"))
    data.read()
    assert data.lines(str(project.folder / "lib.py")) == [1, 2, 4, 5, 6, 7, 8, 10, 11, 12, 13, 16, 17, 18, 19, 20, 23]


CHILD = """
    import sys
    import torch, lib

    print(lib.scale(torch.ones(3)).tolist(), flush=True)
    hook = sys.modules.get("aotdyn.report.events")
    print(0 if hook is None else hook.snapshot()["graph_calls"], file=open("graphs.txt", "w"))
"""

PARENT = """
    import subprocess, sys
    import torch, lib

    print(lib.scale(torch.zeros(2)).tolist(), flush=True)
    subprocess.run([sys.executable, "child.py"], check=True)
"""


def test_subprocesses_stay_out_or_go_along(project: Any) -> None:
    """A process that a program starts is plain, unless the environment names packages to whatever starts with it."""
    from aotdyn.hook import startup

    project.write("lib.py", LIBRARY)
    project.write("app.py", PARENT)
    project.write("child.py", CHILD)
    plain = project.python("app.py")
    assert plain.returncode == 0, plain.stderr
    assert _graphs(project) == 0
    out = project.run("--backend", "eager", "app.py")
    assert (out.returncode, out.stdout) == (0, plain.stdout), out.stderr
    assert _graphs(project) == 0
    project.write("site/sitecustomize.py", startup.LINE)  # what `site` runs where the hook was activated
    path = f"{project.environment({})['PYTHONPATH']}:{project.folder / 'site'}"
    along = {"PYTHONPATH": path, "AOTDYN_PACKAGES": "lib", "AOTDYN_BACKEND": "eager"}
    done = project.python("app.py", env=along)
    assert (done.returncode, done.stdout) == (0, plain.stdout), done.stderr
    assert _graphs(project) == 1


def _graphs(project: Any) -> int:
    return int(Path(project.folder, "graphs.txt").read_text())


NET = """
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(3, 3)

        def forward(self, x):
            return SCALE(self.linear(x))
"""

LONG = """
    import gc, sys, weakref
    import torch
    import lib

    def kept():
        gc.collect()
        from aotdyn.rewrite import originals
        from aotdyn.runtime import cold
        from aotdyn.runtime.entry import entries
        names = sum(name.startswith("__aotdyn") for name in vars(__import__("builtins")))
        return len(cold._entries), len(cold._continuations), len(originals._table), names, sum(
            len(entry.variants) + len(entry.lines) for entry in list(entries)
        )

    NET

    torch.manual_seed(0)
    net, references = Net(), []
    with torch.no_grad():
        for i in range(2, 60):
            net(torch.ones(i, 3))
            lib.scale(torch.ones(i))
        for _ in range(20):
            Net()(torch.ones(4, 3))
        before = kept()
        for i in range(10_000):
            x = torch.ones(2 + i % 1000, 3)
            if i % 50 == 0:
                net = Net()
                references.append(weakref.ref(net.linear.weight))
            y = net(x)
            references += [weakref.ref(x), weakref.ref(y)] if i % 100 == 0 else []
        gc.collect()
        assert torch.equal(y, (net.linear(x) * 2).relu() + 1)
        alive = sum(each() is not None for each in references)
    print("kept", before, kept(), "alive", alive)
    assert kept() == before
    assert alive <= 4, alive
"""


@pytest.mark.parametrize("whose", ["program", "package"])
def test_a_long_program_under_the_hook_does_not_grow(project: Any, whose: str) -> None:
    """10,000 calls, 1,000 shapes, modules made and dropped: what is kept stays the same, and no dead tensor lives."""
    options = []
    if whose == "package":
        project.write("lib/lib.py", LIBRARY + NET.replace("SCALE", "scale"))
        project.env |= {"PYTHONPATH": f"{project.environment({})['PYTHONPATH']}:{project.folder / 'lib'}"}
        project.env |= {"AOTDYN_THRIFT": "packages", "AOTDYN_THRIFT_SHARE": "1000", "AOTDYN_CHOOSE": "always"}
        project.write("app/app.py", LONG.replace("NET", "Net = lib.Net"))
        options = ["--package", "lib"]
        project.folder = project.folder / "app"
    else:
        project.write("lib.py", LIBRARY)
        project.write("app.py", LONG.replace("    NET\n", NET.replace("SCALE", "lib.scale")))
    done = project.run("--backend", "eager", "--stats", "stats.json", *options, "app.py")
    assert done.returncode == 0, done.stderr + done.stdout
    assert json.loads((project.folder / "stats.json").read_text())["graph_calls"] > 9_000
