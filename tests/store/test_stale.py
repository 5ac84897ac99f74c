"""What has changed since it was stored is a miss, always; and `cache show --why-miss` says what that was."""

from __future__ import annotations

import os
import sys

import pytest
import torch

from aotdyn import config
from aotdyn.backends import ambient, inductor
from aotdyn.graph.program import Input, Program, Ref, Step
from aotdyn.store import cli, environment, why
from aotdyn.store.store import Store

MODULES = {
    "same": "def f(x): return x + 1\n",
    "touched": "def f(x): return x * 2\n",
    "patched": "def helper(x): return x + 1\n\ndef f(x): return helper(x) * 2\n",
    "upgrades": "from dep import scale\n\ndef f(x): return scale(x) + 1\n",
    "variable": "import os\n\ndef f(x): return x * float(os.environ['SCALE'])\n",
    "constant": "import json\nN = json.load(open('n.json'))\n\ndef f(x): return x * N\n",
    "default": "def f(x, n=2): return x * n\n",
    "klass": "class C:\n    n = 2\n    def m(self, x): return x * self.n\n\nc = C()\n\ndef f(x): return c.m(x)\n",
    "method": "class C:\n    def m(self, x): return x * 2\n\nc = C()\n\ndef f(x): return c.m(x)\n",
    "torchs": "import torch\n\ndef f(x): return torch.nn.functional.softsign(x)\n",
    "closure": "import json\ndef make(n):\n    def f(x): return x * n\n    return f\n\n"
    "f = make(json.load(open('n.json')))\n",
    "module": "import torch\nclass M(torch.nn.Module):\n    def forward(self, x): return x * 2\n\nm = M()\n\n"
    "def f(x): return m(x)\n",
    "hooks": "import torch\nm = torch.nn.Identity()\n\ndef f(x): return m(x) + 1\n",
    "dtype": "import torch\n\ndef f(x): return x + torch.ones(2)\n",
}
APP = f"""
    import os, torch
    names = {list(MODULES)!r}
    modules = {{name: __import__(name) for name in names}}

    if os.environ.get("CHANGED"):
        def helper(x): return x - 7
        modules["patched"].helper = helper
        modules["default"].f.__defaults__ = (5,)
        modules["klass"].C.n = 5
        modules["method"].C.m = lambda self, x: x * 5
        torch.nn.functional.softsign = lambda x: x - 3
        modules["module"].m.forward = lambda x: x * 5
        modules["hooks"].m.register_forward_hook(lambda module, args, out: out * 5)

    for name in names:
        if name == "dtype" and os.environ.get("CHANGED"):
            torch.set_default_dtype(torch.float64)
        print(name, modules[name].f(torch.tensor([1.0, 2.0], dtype=torch.float32)))
"""


def _change(project) -> None:
    """Everything that lies on the disk: the source with its size and time of modification as they were."""
    touched = project.folder / "touched.py"
    before = touched.stat()
    touched.write_text(MODULES["touched"].replace("2", "5"))
    os.utime(touched, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (touched.stat().st_mtime_ns, touched.stat().st_size) == (before.st_mtime_ns, before.st_size)
    project.write("site/dep/__init__.py", "__version__ = '2'\n\ndef scale(x): return x * 5\n")
    project.write("n.json", "5")


@pytest.fixture
def changed(project):
    """A program that was stored before everything changed."""
    for name, text in MODULES.items():
        project.write(f"{name}.py", text)
    project.write("app.py", APP)
    project.write("n.json", "2")
    project.write("site/dep/__init__.py", "__version__ = '1'\n\ndef scale(x): return x * 2\n")
    path = os.pathsep.join([str(project.folder / "site"), project.environment({})["PYTHONPATH"]])
    project.env = {"PYTHONPATH": path, "SCALE": "2", "AOTDYN_BACKEND": "eager"}
    done = project.run("app.py")
    assert done.returncode == 0, done.stderr
    _change(project)
    project.env |= {"SCALE": "5", "CHANGED": "1"}
    return project


def _runs(project) -> tuple[str, set[str]]:
    done = project.run("--require-warm", "app.py")
    assert done.returncode in (0, 3), done.stderr
    return done.stdout, {line.split()[0].partition(".")[0] for line in done.stderr.splitlines() if line[:2] == "  "}


def test_every_kind_of_change(changed, monkeypatch, capsys):
    plain = changed.python("app.py", env={"PYTHONPYCACHEPREFIX": str(changed.folder / "new")})  # not by an old .pyc
    assert plain.returncode == 0, plain.stderr
    out, traced = _runs(changed)
    assert out == plain.stdout
    assert traced >= set(MODULES) - {"same"}
    assert not {name for name in traced if name == "same"}
    assert _runs(changed) == (out, set())
    monkeypatch.chdir(changed.folder)
    monkeypatch.setattr(sys, "path", [str(changed.folder / "site"), *sys.path])
    reasons = {}
    for name in ("touched", "patched", "variable", "upgrades", "default"):
        assert cli.main(["show", f"{name}.f", "--why-miss", "--cache", str(changed.cache)]) == 0
        reasons[name] = capsys.readouterr().out
    assert "touched.f has other code now" in reasons["touched"]
    assert "traced again at" in reasons["patched"]
    assert "helper" in reasons["patched"]
    assert "SCALE" in reasons["variable"]
    assert "dep.scale has other code now" in reasons["upgrades"]
    assert "n" in reasons["default"].partition("traced again")[2]


def test_every_fact_of_the_environment_is_in_its_key(monkeypatch):
    keys = [environment.environment_key()]

    def now_other() -> None:
        assert environment.environment_key() not in keys
        keys.append(environment.environment_key())

    monkeypatch.setattr(environment, "torch_version", lambda: b"__version__ = '2.13.1'")
    now_other()
    monkeypatch.setattr(environment, "FORMAT", environment.FORMAT + 1)
    now_other()
    monkeypatch.setattr(sys, "version_info", (3, 11, 99, "final", 0))
    now_other()
    monkeypatch.setattr("importlib.util.MAGIC_NUMBER", b"1234")
    now_other()
    monkeypatch.setattr(sys, "platform", "other")
    now_other()


@pytest.mark.parametrize("name", config.TRACING)
def test_every_option_that_changes_tracing_is_in_the_key(name):
    value = getattr(config.Options(), name)
    other = "never" if isinstance(value, str) else not value if isinstance(value, bool) else value + 1
    options = config.msgspec.structs.replace(config.Options(), **{name: other})
    assert environment.environment_key(options) != environment.environment_key(config.Options())


@pytest.fixture
def key():
    """The key of a small kernel, as it would be now."""
    program = Program([Input("x")], [Step(torch.sin, (Ref(0),), {})], (Ref(1),))
    return lambda: inductor.kernel_key(program, [torch.ones(2)], {})


def test_another_machine_modes_and_settings_are_other_kernels(key, monkeypatch):
    keys = [key()]

    def now_other() -> None:
        assert key() not in keys
        keys.append(key())

    version, system, kind, capability, flags, library = ambient.machine()
    monkeypatch.setattr(ambient, "machine", lambda: [version, system, kind, capability, flags + " more", library])
    now_other()
    monkeypatch.setattr(ambient, "machine", lambda: [version, system, kind, "other", flags, library])
    now_other()
    monkeypatch.undo()
    assert key() == keys[0]
    monkeypatch.setenv("TORCHINDUCTOR_FREEZING", "1")
    now_other()
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "/elsewhere")
    assert key() == keys[-1]
    monkeypatch.undo()
    import torch._inductor.config as settings

    assert key() == keys[0]  # it is loaded by now, and nothing is set
    with settings.patch(max_autotune=True):
        now_other()
    with settings.patch({"cpp.simdlen": 256}):
        now_other()
    with ambient.compiling():
        settings.aot_inductor.metadata = {"note": "inductor's own"}
    try:
        assert key() == keys[0]
    finally:
        settings.aot_inductor.metadata = {}


def test_why_of_other_machines_and_environments(root, make, monkeypatch, capsys):
    store = Store(root)
    store.save(make.variant(1, graph="g"))
    store.save_graph("g", b"")
    here = ambient.about()
    store.save_kernel("k", {"a.so": b""}, "g", {**here, "processor": here["processor"] + " avx9000", "threads": "two"})
    show = ["show", "forward", "--why-miss", "--cache", str(root)]
    assert cli.main(show) == 0
    out = capsys.readouterr().out
    assert "a processor with avx9000" in out
    assert "threads two" in out
    store.save_kernel("k2", {"a.so": b""}, "g", here)
    assert cli.main(show) == 0
    assert "nothing is known" in capsys.readouterr().out
    monkeypatch.setattr(why, "describe", lambda options: {**environment.describe(options), "torch": "9.9"})
    monkeypatch.setattr(why, "environment_key", lambda options: "0" * 16)
    assert cli.main(show) == 0
    assert "(here 9.9)" in capsys.readouterr().out
