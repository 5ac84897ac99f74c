"""`python -m aotdyn run`: the program can't tell it from `python`."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest

from aotdyn import config
from aotdyn.__main__ import main
from aotdyn.cli import run
from aotdyn.errors import BackendError, ConfigError

SHOW = """
    import sys, __main__
    names = sorted(n for n in globals() if n.startswith("__"))
    print(sys.argv, __name__, __file__, sys.path[0], __spec__ and __spec__.name, __package__, __doc__, names)
    print(__main__.__dict__ is globals(), sys.stdin.read())
"""


@pytest.fixture
def app(project):
    """A script with a module beside it."""
    project.write("sibling.py", "def g(x):\n    return x + 1\n")
    project.write(
        "app.py",
        """
        import sys
        import sibling

        def main(what):
            print("start", sibling.g(1), type(sibling.__loader__).__name__)
            if what == "raise":
                raise ValueError("oops")
            if what == "seven":
                sys.exit(7)
            if what == "message":
                sys.exit("bye")
            if what == "context":
                try:
                    {}["k"]
                except KeyError:
                    raise RuntimeError("outer")

        if __name__ == "__main__":
            main(*sys.argv[1:] or ["nothing"])
        """,
    )
    return project


@pytest.mark.parametrize("where", ["app.py", "sub/app.py"])
def test_script_sees_what_it_sees_under_python(project, where):
    project.write(where, SHOW)
    plain = project.python(where, "a", "--stats", "-m", "--", "b", input="from stdin")
    ours = project.run(where, "a", "--stats", "-m", "--", "b", input="from stdin")
    assert ours.stdout == plain.stdout, ours.stderr
    assert "from stdin" in ours.stdout


@pytest.mark.parametrize("module", ["tool", "pkg", "pkg.sub.mod"])
def test_module_sees_what_it_sees_under_python(project, module):
    for name in ("pkg/__init__.py", "pkg/sub/__init__.py"):
        project.write(name, "")
    for name in ("tool.py", "pkg/__main__.py", "pkg/sub/mod.py"):
        project.write(name, SHOW)
    plain = project.python("-m", module, "a", "--package", "b", input="from stdin")
    ours = project.run("-m", module, "a", "--package", "b", input="from stdin")
    assert ours.stdout == plain.stdout, ours.stderr


def test_folder_with_a_main(project):
    project.write("app/__main__.py", SHOW)
    plain, ours = project.python("app", "x", input=""), project.run("app", "x", input="")
    assert ours.stdout == plain.stdout, ours.stderr


@pytest.mark.parametrize("what", ["nothing", "raise", "seven", "message", "context"])
@pytest.mark.parametrize("by", ["script", "module"])
def test_ends_as_under_python(app, what, by):
    target = ["app.py"] if by == "script" else ["-m", "app"]
    plain, ours = app.python(*target, what), app.run("--stats", "s.json", *target, what)
    assert ours.returncode == plain.returncode
    expected = re.sub(r'  File "<frozen runpy>".*\n', "", plain.stderr)
    assert ours.stderr == expected
    assert ours.stdout == plain.stdout.replace(
        "SourceFileLoader", "HookedSourceLoader" if by == "script" else "SourceFileLoader"
    )
    assert json.loads((app.folder / "s.json").read_text())["functions_stubbed"] >= 1


def test_a_sibling_is_hooked_and_exclude_leaves_it_out(app):
    assert "HookedSourceLoader" in app.run("app.py").stdout
    assert "HookedSourceLoader" not in app.run("--exclude", "sibling", "app.py").stdout
    done = app.run("--exclude", "__main__,sibling", "--stats", "s.json", "app.py")
    assert json.loads((app.folder / "s.json").read_text())["functions_stubbed"] == 0, done.stderr


def test_packages_are_added(project):
    project.write("lib/one/__init__.py", "")
    project.write("lib/two/__init__.py", "")
    project.write("lib/three/__init__.py", "")
    show = "import one, two, three\nprint([type(m.__loader__).__name__[:6] for m in (one, two, three)])"
    project.write("bin/app.py", show)
    env = {"PYTHONPATH": os.pathsep.join([str(project.folder / "lib"), project.environment({})["PYTHONPATH"]])}
    assert project.run("bin/app.py", env=env).stdout == "['Source', 'Source', 'Source']\n"
    assert (
        project.run("--package", "one", "--package=two", "bin/app.py", env=env).stdout
        == "['Hooked', 'Hooked', 'Source']\n"
    )
    assert project.run("--package", "one,three", "bin/app.py", env=env).stdout == "['Hooked', 'Source', 'Hooked']\n"
    done = project.run("--package", "*", "--exclude", "two", "bin/app.py", env=env)
    assert done.stdout == "['Hooked', 'Source', 'Hooked']\n"
    assert project.run("bin/app.py", env={**env, "AOTDYN_PACKAGES": "two"}).stdout == "['Source', 'Hooked', 'Source']\n"


def test_package_of_a_module_is_hooked(project):
    project.write("pkg/__init__.py", "")
    project.write("pkg/model.py", "def f(): return 1")
    project.write("pkg/train.py", "from pkg import model\nprint(type(model.__loader__).__name__, model.f())")
    assert project.run("-m", "pkg.train").stdout == "HookedSourceLoader 1\n"


def test_stats_at_exit_come_after_the_programs_own_handlers(project):
    project.write(
        "app.py",
        """
        import atexit, os
        import aotdyn.report.events as events
        atexit.register(events.count, "graph_calls", 5)
        os.mkdir("elsewhere"); os.chdir("elsewhere")
        if os.fork() == 0:
            raise SystemExit
        os.wait()
        """,
    )
    done = project.run("--stats", "s.json", "app.py")
    assert json.loads((project.folder / "s.json").read_text())["graph_calls"] == 5, done.stderr


def test_require_warm(project):
    project.write(
        "app.py",
        "import aotdyn.report.events as e, sys\n"
        "if sys.argv[1] == 'cold': e.traced('app.f')\n"
        "sys.exit(int(sys.argv[2]))",
    )
    assert project.run("--require-warm", "app.py", "warm", "0").returncode == 0
    cold = project.run("--require-warm", "app.py", "cold", "0")
    assert (cold.returncode, "1 trace had to be made" in cold.stderr, "app.f" in cold.stderr) == (3, True, True)
    assert project.run("--require-warm", "app.py", "cold", "7").returncode == 7
    assert project.run("app.py", "cold", "0").returncode == 0


def test_missing_programs(project):
    script = project.run("nothing.py")
    assert script.returncode == 2
    assert f"can't open file '{project.folder}/nothing.py': [Errno 2] No such file or directory" in script.stderr
    for module in ("nothing", "nothing.at.all", "json"):
        plain, ours = project.python("-m", module), project.run("-m", module)
        assert (ours.returncode, ours.stderr) == (plain.returncode, plain.stderr)


def test_explaining_a_missing_program_says_that_alone(project):
    done = project.python("-m", "aotdyn", "explain", "--package", "nopkg", "nothing.py")
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1


def test_an_unknown_variable_is_said_once(project):
    project.write("app.py", "import aotdyn\n\n@aotdyn.compile\ndef f(x):\n    return x\n\nf(1)\n")
    for command in (("run", "app.py"), ("cache", "path")):
        done = project.python("-m", "aotdyn", *command, env={"AOTDYN_BAKEND": "eager"})
        assert done.stderr.count("no option AOTDYN_BAKEND (did you mean AOTDYN_BACKEND?)") == 1
        assert len(done.stderr.splitlines()) == 1


def test_syntax_error_in_the_program(project):
    project.write("app.py", "x = 1\ndef f(:\n")
    plain, ours = project.python("app.py"), project.run("app.py")
    assert (ours.returncode, ours.stderr) == (plain.returncode, plain.stderr)


def test_unknown_backend_lists_those_there_are(app):
    done = app.run("--backend", "nonsense", "app.py")
    assert done.returncode == 2
    assert "'nonsense'" in done.stderr
    assert "eager" in done.stderr
    assert "inductor" in done.stderr
    assert done.stdout == ""


def test_backends_are_known_without_asking_torchs_registry():
    assert all(run._may_be_registered(name) for name in run.LIGHT if name)
    assert run._may_be_registered("aot_eager_default_partitioner")  # the registry itself is asked for such a name
    assert not run._may_be_registered("nonsense")
    with pytest.raises(BackendError) as caught:
        run.check_backend("nonsense")
    assert "debug" not in str(caught.value)


def test_wrong_usage(capsys):
    for command, argv, said in (
        ("run", [], "name a program to run"),
        ("explain", ["--stats"], "expected one argument"),
        ("run", ["--nonsense", "app.py"], "--nonsense"),
        ("run", ["--exit-wait", "soon", "app.py"], "argument --exit-wait: it is 'soon'; allowed: a number from 0 on"),
        ("run", ["--jobs", "-1", "app.py"], "argument --jobs: it is '-1'; allowed: a whole number from 0 on"),
        ("build", ["--exit-wait", "3", "app.py"], "build waits for every kernel"),
        ("cache", ["nonsense"], "invalid choice"),
        ("doctor", ["nonsense"], "unrecognized"),
    ):
        with pytest.raises(SystemExit) as caught:
            main([command, *argv])
        shown = capsys.readouterr().err
        assert caught.value.code == 2
        assert f"usage: python -m aotdyn {command}" in shown
        assert said in shown
        assert f"  hint: see `python -m aotdyn {command}" in shown


def test_wrong_options_in_the_environment_are_said(app):
    done = app.run("app.py", env={"AOTDYN_RECOMPILE_LIMIT": "x"})
    assert done.returncode == 2
    assert "AOTDYN_RECOMPILE_LIMIT is 'x'" in done.stderr


def test_disabled(app):
    done = app.run("--stats", "s.json", "app.py", "seven", env={"AOTDYN_DISABLE": "1"})
    assert (done.returncode, done.stdout) == (7, "start 2 SourceFileLoader\n")
    assert json.loads((app.folder / "s.json").read_text())["functions_stubbed"] == 0
    assert not app.cache.exists()


def test_cache_options(app):
    app.run("--cache", "here", "app.py")
    assert (app.folder / "here").is_dir()
    assert not app.cache.exists()
    app.run("--no-cache", "app.py")
    assert not app.cache.exists()
    app.run("app.py")
    assert app.cache.is_dir()


def test_project_file_beside_the_script(app):
    app.write("sub/pyproject.toml", "[tool.aotdyn]\ncache_dir = 'own'")
    app.write("sub/app.py", "def f(): pass")
    env = {"AOTDYN_CACHE_DIR": ""}
    app.run("sub/app.py", env=env)
    assert (app.folder / "sub" / "own").is_dir()


def test_build_wants_a_cache(project, monkeypatch, capsys):
    project.write("app.py", "print('ran')\n")
    for argv, variable in ((["--no-cache"], ""), ([], "AOTDYN_DISABLE")):
        if variable:
            monkeypatch.setenv(variable, "1")
        config.reset()
        assert main(["build", *argv, str(project.folder / "app.py")]) == 2
        shown = capsys.readouterr()
        assert (shown.out, "build fills the cache" in shown.err, "hint: take back" in shown.err) == ("", True, True)
    config.reset()


def test_unwritable_cache(app):
    (app.folder / "file").write_text("not a folder")
    done = app.run("--cache", "file/inside", "app.py", env={"AOTDYN_STRICT": "0"})
    assert done.returncode == 0
    assert done.stdout == "start 2 HookedSourceLoader\n"
    assert len(done.stderr.strip().splitlines()) <= 2


def _interrupt(project, argv, number):
    project.write(
        "app.py",
        "import time, sys\nprint('ready', flush=True)\ntry:\n    time.sleep(30)\nfinally:\n    print('cleaned')\n",
    )
    options = {"env": project.environment({}), "cwd": project.folder, "text": True}
    # A background job of a shell ignores SIGINT, and its children inherit that.
    options["preexec_fn"] = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)
    process = subprocess.Popen([sys.executable, *argv], stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.1)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals(project, number):
    plain = _interrupt(project, ["app.py"], number)
    ours = _interrupt(project, ["-m", "aotdyn", "run", "--stats", "s.json", "app.py"], number)
    assert ours == plain
    if number == signal.SIGINT:
        assert plain[0] == -signal.SIGINT
        assert (project.folder / "s.json").exists()


def test_excepthook_of_the_program(project):
    project.write(
        "app.py",
        """
        import sys
        def hook(kind, error, traceback):
            print(kind.__name__, error, traceback.tb_frame.f_code.co_name, sys.last_type is kind)
        sys.excepthook = hook
        1 / 0
        """,
    )
    plain, ours = project.python("app.py"), project.run("app.py")
    assert (ours.returncode, ours.stdout) == (plain.returncode, plain.stdout)


def test_classes_of_main_pickle(project):
    project.write("app.py", "import pickle\nclass C: pass\nprint(type(pickle.loads(pickle.dumps(C()))) is C)")
    assert project.run("app.py").stdout == "True\n"


def test_multiprocessing_spawn(project):
    project.write(
        "app.py",
        """
        import multiprocessing
        def work(x):
            return x * 2
        if __name__ == "__main__":
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                print(pool.map(work, [1, 2]))
        """,
    )
    done = project.run("app.py")
    assert done.stdout == "[2, 4]\n", done.stderr


def test_torch_compile_becomes_ours(project):
    # A stand-in for aotdyn.compile shows what it is called with.
    project.write(
        "app.py",
        """
        import aotdyn
        aotdyn.compile = lambda model=None, **options: (model, options)
        import torch, inspect
        print(torch.compile(3, fullgraph=True, recompile_limit=2), torch.compile(backend="eager"))
        net = torch.nn.Linear(2, 2)
        net.compile(dynamic=False)
        print(net._compiled_call_impl[1])
        print("dynamic" in inspect.signature(torch.compile).parameters, torch.compile.__module__)
        """,
    )
    done = project.run("app.py")
    assert done.stdout.splitlines() == [
        "(3, {'fullgraph': True}) (None, {'backend': 'eager'})",
        "{'dynamic': False}",
        "True torch",
    ], done.stderr
    project.write("kept.py", "import torch\nprint(hasattr(torch.compile, '__aotdyn_original__'))")
    assert project.run("--keep-torch-compile", "kept.py").stdout == "False\n"
    assert project.run("kept.py").stdout == "True\n"


def test_verbose_and_explain(app):
    assert "graph calls" in app.run("-v", "app.py").stderr
    done = app.python("-m", "aotdyn", "explain", "app.py", "seven")
    assert done.returncode == 7
    assert "tensor calls captured" in done.stderr


def test_explain_tells_of_breaks_whatever_the_cache_holds(project):
    project.write(
        "app.py",
        """
        import torch, time
        def f(x):
            y = x + 1
            time.sleep(0)
            return y * 2
        print(f(torch.ones(2)).tolist())
        """,
    )
    project.run("--backend", "eager", "app.py")
    told = [project.python("-m", "aotdyn", "explain", "--backend", "eager", "app.py").stderr for _ in range(2)]
    assert all("the clock is read by Python" in each for each in told), told


def test_kernels_that_are_left_are_told_with_the_command(project):
    project.write("app.py", "import torch\n\ndef f(x):\n    return x.sin() + 1\n\nprint(f(torch.zeros(2)).tolist())\n")
    argv = ["--exit-wait", "0", "--jobs=1", "--mode", "default", "--thrift", "off", "app.py", "-v", "two words"]
    done = project.run(*argv)
    command = "python -m aotdyn build --jobs=1 --mode default app.py -v 'two words'"
    told = f"aotdyn: 0 of 1 kernel made, 1 left for later starts; `{command}` makes them all\n"
    assert (done.stdout, done.stderr) == ("[1.0, 1.0]\n", told)
    silent = project.run("-q", "--no-cache", *argv), project.run("--quiet", *argv), project.run("--no-cache", *argv)
    assert {(done.stdout, done.stderr) for done in silent} == {("[1.0, 1.0]\n", "")}


def test_disabled_is_said(project):
    project.write("app.py", "print('ran')\n")
    done = project.run("-v", "app.py", env={"AOTDYN_DISABLE": "1"})
    assert done.stdout == "ran\n"
    assert "disabled" in done.stderr
    assert "0 traced" not in done.stderr


def test_a_package_that_is_not_there_is_remarked(project, monkeypatch):
    assert "no module or package" in run._unknown(["nopkg"])[0]
    assert "imported nothing" in run._unknown(["json.nothing, os"])[0]
    assert run._unknown(["*", "json.*", "os"]) == []
    project.write("app.py", "print('ran')\n")
    done = project.run("--package", "nopkg", "app.py")
    assert done.returncode == 0
    assert "--package nopkg had no effect" in done.stderr


def test_stats_that_cannot_be_written_are_refused_before_the_program_runs(project, tmp_path):
    for path in (project.folder / "none" / "s.json", project.folder):
        with pytest.raises(ConfigError, match="--stats"):
            run.check_stats(str(path))
    run.check_stats(str(project.folder / "s.json"))
    project.write("app.py", "print('ran')\n")
    done = project.run("--stats", "none/s.json", "app.py")
    assert (done.returncode, done.stdout) == (2, "")
    assert "no directory" in done.stderr


def test_stats_that_cannot_be_written_at_the_end_are_told_by_the_exit_status(project):
    project.write("app.py", "import os, sys\nos.rmdir('there')\nsys.exit(int(sys.argv[1]))\n")
    for own, status in (("0", run.UNWRITTEN), ("7", 7)):
        (project.folder / "there").mkdir()
        done = project.run("--stats", "there/s.json", "app.py", own)
        assert done.returncode == status
        assert done.stderr.count("the stats can't be written") == 1


def test_eager_graphs_are_no_kernels(project):
    project.write("app.py", "import torch\n\ndef f(x):\n    return x + 1\n\nf(torch.ones(2))\n")
    done = project.run("--backend", "eager", "--require-warm", "app.py")
    assert done.returncode == run.COLD
    assert "not warm, 1 trace had to be made" in done.stderr


def test_a_graph_that_was_damaged_is_the_reason_why_its_function_is_traced_again(project):
    project.write("app.py", "import torch\n\ndef f(x):\n    return x + 1\n\nprint(f(torch.ones(2)))\n")
    before = project.run("--backend", "eager", "app.py")
    for path in project.cache.glob("**/*.graph"):
        path.write_bytes(path.read_bytes()[:-1] + b"?")
    done = project.run("--backend", "eager", "--stats", "s.json", "app.py")
    assert done.stdout == before.stdout
    (event,) = json.loads((project.folder / "s.json").read_text())["recompiles"]
    assert "its graph isn't in the cache any more" in event["reason"]


def test_a_cache_that_others_can_write_is_refused_once(project):
    project.write("lib.py", "import torch\n\ndef f(x):\n    return x + 1\n")
    project.write("app.py", "import torch, lib\nprint(lib.f(torch.ones(2)))\n")
    project.cache.mkdir()
    project.cache.chmod(0o777)
    env = {"AOTDYN_BACKEND": "eager", "AOTDYN_STRICT": "0"}
    done = project.run("app.py", env=env)
    assert done.stdout == "tensor([2., 2.])\n"
    assert done.stderr.count("could put code into it") == 1, done.stderr
    assert "--trust-cache" in done.stderr
    assert list(project.cache.iterdir()) == []
    strict = project.run("app.py", env={"AOTDYN_BACKEND": "eager"})
    assert (strict.returncode, strict.stdout) == (2, "")
    trusting = project.run("--trust-cache", "app.py", env={"AOTDYN_BACKEND": "eager"})
    assert trusting.stdout == "tensor([2., 2.])\n", trusting.stderr
    assert list(project.cache.iterdir())


def test_a_build_that_cannot_store_says_so(project):
    project.write("app.py", "import torch\n\ndef f(x):\n    return x + 1\n\nprint(f(torch.ones(1)).item())\n")
    argv = ("-m", "aotdyn", "build", "--backend", "eager", "--cache", "/proc/none", "app.py")
    done = project.python(*argv, env={"AOTDYN_STRICT": "0"})
    assert done.returncode == 4, done.stderr
    assert done.stdout == "2.0\n"
    assert "not stored" in done.stderr
