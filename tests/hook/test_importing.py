"""Garbage collection while modules are imported under the hook: seldom, then as the program would have it."""

import gc
import importlib.util
import sys
import traceback
from importlib.machinery import PathFinder

import pytest

import aotdyn
from aotdyn.hook import importing as ours
from aotdyn.hook.finder import finder

ORDINARY = gc.get_threshold()


@pytest.fixture
def importing(tmp_path, monkeypatch):
    """Writes a module and imports it under a hook; what it binds to `seen`."""
    monkeypatch.syspath_prepend(str(tmp_path))
    made = []

    def write(name, text):
        (tmp_path / f"{name}.py").write_text(text)
        made.append(name)
        importlib.invalidate_caches()

    with aotdyn.install("hooked_none"):
        yield write
    gc.set_threshold(*ORDINARY)
    gc.enable()
    for name in made:
        sys.modules.pop(name, None)


def test_seldom_within_an_import_and_as_before_behind_it(importing):
    importing("inner_import", "import gc\nseen = gc.get_threshold()")
    importing("outer_import", "import gc, inner_import\nseen = [inner_import.seen, gc.get_threshold()]")
    from outer_import import seen

    assert seen == [(ours.IMPORTING, *ORDINARY[1:])] * 2
    assert gc.get_threshold() == ORDINARY


def test_what_a_module_sets_stays(importing):
    importing("sets_its_own", "import gc\ngc.set_threshold(5_000, 20, 20)")
    import sets_its_own  # noqa: F401

    assert gc.get_threshold() == (5_000, 20, 20)


def test_no_change_where_the_program_collects_by_hand(importing):
    importing("by_hand", "import gc\nseen = gc.isenabled(), gc.get_threshold()")
    gc.disable()
    from by_hand import seen

    assert seen == (False, ORDINARY)
    assert not gc.isenabled()


def test_a_failing_import_ends_as_well(importing):
    importing("fails_at_once", "import nowhere_at_all")
    with pytest.raises(ModuleNotFoundError) as raised:
        import fails_at_once  # noqa: F401
    assert gc.get_threshold() == ORDINARY
    assert [entry.name for entry in traceback.extract_tb(raised.value.__traceback__)][1:] == ["<module>"]


def test_to_look_for_a_module_changes_nothing(importing):
    importing("looked_for", "")
    assert importlib.util.find_spec("looked_for") is not None
    assert gc.get_threshold() == ORDINARY


def test_no_trace_is_left_on_the_loader(importing):
    importing("loads_once", "")
    import loads_once

    assert "exec_module" not in vars(loads_once.__loader__)
    assert importlib.reload(loads_once) is loads_once


def test_what_another_tool_puts_on_the_loader_runs(importing):
    class Theirs:
        @staticmethod
        def find_spec(name, path=None, target=None):
            spec = PathFinder.find_spec(name, path) if name == "watched_twice" else None
            if spec is not None:
                execute = spec.loader.exec_module
                spec.loader.exec_module = lambda module: (execute(module), told.append(module.__name__))
            return spec

    told = []
    importing("watched_twice", "")
    sys.meta_path.insert(sys.meta_path.index(finder) + 1, Theirs)
    try:
        import watched_twice

        assert told == ["watched_twice"]
        assert importlib.reload(watched_twice) is watched_twice
    finally:
        sys.meta_path.remove(Theirs)


def test_work_with_tensors_inside_of_an_import(project):
    project.write("worker.py", "import gc\ndef work(x):\n    return x + 1, gc.get_threshold()[0]\n")
    project.write("whole.py", "import torch, worker\nprint(worker.work(torch.ones(2))[1])")
    project.write("main.py", "import whole")
    done = project.run("--backend", "eager", "main.py")
    assert done.stdout == f"{ORDINARY[0]}\n", done.stderr
