"""`install`, `uninstall`, what is imported already, and activation by the environment."""

from __future__ import annotations

import sys
import warnings
from importlib import import_module

import pytest

import aotdyn
from aotdyn import config
from aotdyn.errors import ConfigError
from aotdyn.hook import activate, attach, finder, startup
from aotdyn.hook.loader import HookedSourceLoader
from aotdyn.rewrite import originals, switchboard


@pytest.fixture(autouse=True)
def _undo(monkeypatch, tmp_path):
    monkeypatch.setenv("AOTDYN_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("AOTDYN_PACKAGES", raising=False)
    monkeypatch.delenv("AOTDYN_DISABLE", raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))
    tmp_path.chmod(0o700)
    config.reset()
    before = set(sys.modules)
    yield
    aotdyn.uninstall()
    attach.reattach()
    for name in set(sys.modules) - before:
        if name.startswith("hooked_"):
            del sys.modules[name]


def module(tmp_path, name, text="def f(x):\n    return x + 1\n"):
    (tmp_path / f"{name}.py").write_text(text)
    return name


def is_hooked(name):
    return isinstance(import_module(name).__loader__, HookedSourceLoader)


def test_call_and_uninstall(tmp_path):
    one, two = module(tmp_path, "hooked_one"), module(tmp_path, "hooked_two")
    aotdyn.install("hooked_*")
    assert is_hooked(one)
    aotdyn.uninstall()
    assert not is_hooked(two)
    assert finder.finder not in sys.meta_path
    assert sys.modules[one].f(1) == 2


def test_context_manager_hooks_its_block(tmp_path):
    one, two = module(tmp_path, "hooked_one"), module(tmp_path, "hooked_two")
    with aotdyn.install("hooked_one", "hooked_two") as hook:
        assert is_hooked(one)
    assert not is_hooked(two)
    hook.uninstall()


def test_two_hooks_stand_beside_each_other(tmp_path):
    one, two = module(tmp_path, "hooked_one"), module(tmp_path, "hooked_two")
    aotdyn.install(one)
    with aotdyn.install(two):
        pass
    assert is_hooked(one)
    assert not is_hooked(two)


def test_what_is_imported_already_is_named_and_stubbed_in_place(tmp_path):
    text = """
import functools
def f(x, k=1): return x + k
def deco(g):
    @functools.wraps(g)
    def wrapper(*a): return g(*a)
    return wrapper
@deco
def h(x): return x * 2
class C:
    def m(self): return lambda: self
    @property
    def p(self): return int(3)
def make():
    n = 0
    def inner():
        nonlocal n
        n += 1
        return n
    return inner
counter = make()
"""
    name = module(tmp_path, "hooked_late", text)
    late = import_module(name)
    f, counter = late.f, late.counter
    assert counter() == 1
    with pytest.warns(RuntimeWarning, match="'hooked_late'") as seen:
        aotdyn.install(name)
    assert seen[0].filename == __file__
    qualnames = {stub.qualname for stub in attach.attached(name).values()}
    assert {"f", "h", "C.p", "make.<locals>.inner", "deco.<locals>.wrapper"} <= qualnames
    assert late.f is f
    assert (f(1), f(1, k=5), late.h(4), late.C().p, counter(), late.make()()) == (2, 6, 8, 3, 2, 1)
    assert originals.dispatcher_of(f.__code__) in attach.attached(name)


def test_install_again_takes_uninstall_back(tmp_path):
    name = module(tmp_path, "hooked_one")
    aotdyn.install(name)
    import_module(name)
    code = sys.modules[name].f.__code__
    seat = switchboard.seat_in(code)
    board, number = seat.board, seat.number
    aotdyn.uninstall()
    assert switchboard.boards[board].ask[number] is attach.passive
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        aotdyn.install(name)
    assert sys.modules[name].f(1) == 2
    assert switchboard.boards[board].ask[number] is not attach.passive


def test_nothing_to_hook_is_a_mistake(monkeypatch):
    with pytest.raises(ConfigError, match="hook nothing"):
        aotdyn.install()
    with pytest.raises(ConfigError, match="can't be a package"):
        aotdyn.install(3)
    monkeypatch.setenv("AOTDYN_PACKAGES", "hooked_a,hooked_b")
    assert aotdyn.install().selection.packages == ("hooked_a", "hooked_b")


def test_disabled(monkeypatch, tmp_path):
    monkeypatch.setenv("AOTDYN_DISABLE", "1")
    with aotdyn.install("hooked_one"):
        assert not is_hooked(module(tmp_path, "hooked_one"))


def test_other_peoples_loaders_are_left_alone(tmp_path):
    from importlib.machinery import SourceFileLoader
    from importlib.util import spec_from_file_location

    class Theirs(SourceFileLoader):
        pass

    class Finder:
        @staticmethod
        def find_spec(name, path=None, target=None):
            if name == "hooked_theirs":
                file = str(tmp_path / "hooked_theirs.py")
                return spec_from_file_location(name, file, loader=Theirs(name, file))
            return None

    name = module(tmp_path, "hooked_theirs")
    sys.meta_path.insert(0, Finder)
    try:
        aotdyn.install(name)
        assert type(import_module(name).__loader__) is Theirs
    finally:
        sys.meta_path.remove(Finder)


def test_startup_file(project, monkeypatch, tmp_path):
    project.write("pkg.py", "def f(): return 1")
    project.write("site/placeholder.txt", "")
    site = project.folder / "site"
    monkeypatch.setattr(startup, "path", lambda: str(site / startup.FILE))
    assert startup.activate() == str(site / startup.FILE)
    assert startup.active()
    code = "import site; site.addsitedir('site'); import pkg, sys; "
    code += "print(type(pkg.__loader__).__name__, 'aotdyn' in sys.modules)"
    assert project.python("-c", code).stdout == "SourceFileLoader False\n"
    done = project.python("-c", code, env={"AOTDYN_PACKAGES": "pkg"})
    assert done.stdout == "HookedSourceLoader True\n", done.stderr
    done = project.python("-c", code, env={"AOTDYN_PACKAGES": "pkg", "AOTDYN_DISABLE": "1"})
    assert done.stdout == "SourceFileLoader True\n", done.stderr
    done = project.python("-c", code, env={"AOTDYN_PACKAGES": "pkg", "AOTDYN_LOG": "noise"})
    assert done.stdout == "SourceFileLoader True\n"
    assert "not active" in done.stderr
    assert "noise" in done.stderr
    assert startup.deactivate()
    assert not startup.deactivate()


def test_hook_is_a_hook():
    assert isinstance(aotdyn.install("hooked_none"), activate.Hook)
