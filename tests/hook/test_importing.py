"""Garbage collection under the hook: seldom while modules are imported, then as the program would have it."""

import gc
import importlib.util
import json
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


FROZEN = """
    import gc, sys

    class Loud:
        "In a cycle with itself; heard when it goes."
        def __init__(self, name):
            self.name, self.me = name, self
        def __del__(self):
            print("gone:", self.name, flush=True)

    class Quiet(Loud):
        "In no cycle."
        def __init__(self, name):
            self.name = name

    class Holder:
        pass
"""


KEEPER = """
    class Keeper:
        "A module's one object, in a cycle, which comes to hold a file that nobody closes."
        def __init__(self):
            self.me = self
        def open(self):
            self.file = open("kept.txt", "w")
            self.file.write("all of it")
    keeper = Keeper()
"""


def both(project, *argv):
    """The output of a program, plainly and under the hook: the same."""
    plain = project.python("main.py")
    hooked = project.run("--backend", "eager", *argv, *(() if "main" in argv else ("main.py",)))
    assert plain.returncode == hooked.returncode == 0, hooked.stderr
    assert hooked.stdout == plain.stdout
    return hooked.stdout


def test_what_imports_made_is_frozen_and_a_programs_objects_are_not(project):
    project.write("loud.py", FROZEN)
    project.write("late.py", "import email.message")
    project.write(
        "main.py",
        """
        import torch
        import gc, loud
        frozen = gc.get_freeze_count()
        made = loud.Loud("before a late import")
        import late
        del made
        print(gc.collect() > 0)
        open("frozen.txt", "w").write(f"{frozen} {gc.get_freeze_count() - frozen}")
        """,
    )
    assert both(project) == "gone: before a late import\nTrue\n"
    frozen, more = map(int, (project.folder / "frozen.txt").read_text().split())
    assert frozen > 100_000
    assert more <= 0  # the program had begun


def test_what_is_in_a_cycle_at_the_end_has_its_end(project):
    project.write("loud.py", FROZEN)
    project.write("keeper.py", KEEPER)
    project.write("main.py", "import torch, loud, keeper\nkeeper.keeper.open()\nmine = loud.Loud('mine')\n")
    assert both(project) == "gone: mine\n"
    assert (project.folder / "kept.txt").read_text() == "all of it"


@pytest.mark.parametrize(
    "body",
    [
        "kept = loud.Loud('of a module')",
        "class Holder:\n    kept = loud.Quiet('of a class')",
        "holder = loud.Holder()\nholder.me, holder.kept = holder, loud.Quiet('beside a cycle')",
        "kept = loud.Quiet('of a module, without a cycle')",
    ],
)
def test_what_an_import_made_has_its_end(project, body):
    project.write("loud.py", FROZEN)
    project.write("made.py", f"import loud\n{body}\n")
    project.write("main.py", "import torch\nimport made\nimport wave\n")
    assert both(project).startswith("gone: ")


LATE = """
    import contextlib, sys
    state = {}
    log = open("kept.txt", "w")
    state["log"] = log
    class Owner:
        def __init__(self):
            self.parts = []
        def __del__(self):
            print("gone: an owner", flush=True)
    owner = Owner()
    @contextlib.contextmanager
    def block():
        try:
            yield
        finally:
            print("gone: a block", flush=True)
    opened = block()
    opened.__enter__()
"""


def test_what_was_frozen_and_is_put_into_a_cycle_later(project):
    project.write("late.py", LATE)
    project.write(
        "main.py",
        """
        import torch, late
        late.log.write("all of it")
        late.state["self"] = late.state
        late.owner.parts += [late.owner, late.opened]
        del late.owner, late.opened
        """,
    )
    assert project.python("main.py").returncode == 0
    kept = (project.folder / "kept.txt").read_text()
    assert sorted(both(project).splitlines()) == ["gone: a block", "gone: an owner"]
    assert (project.folder / "kept.txt").read_text() == kept == "all of it"


def test_the_end_of_a_modules_objects_where_calls_were_served(project):
    project.write("loud.py", FROZEN)
    project.write(
        "main.py",
        """
        import loud, torch
        def f(x):
            return x + 1
        def generate():
            try:
                yield 1
            finally:
                print("gone: a generator")
        print(f(torch.ones(1)), f(torch.ones(1)))
        kept, generator = loud.Quiet("of the program"), generate()
        next(generator)
        file = open("kept.txt", "w")
        file.write("all of it")
        """,
    )
    said = both(project, "--stats", "s.json")
    assert "gone: of the program" in said
    assert "gone: a generator" in said
    assert (project.folder / "kept.txt").read_text() == "all of it"
    assert json.loads((project.folder / "s.json").read_text())["graph_calls"] == 2
    assert both(project, "-m", "main").count("gone") == 2


def test_a_class_of_the_program_between_imports(project):
    project.write(
        "main.py",
        """
        import torch, weakref, gc
        class Old: pass
        old = weakref.ref(Old, lambda _: print("gone: a class"))
        import wave
        del Old
        gc.collect()
        print(old())
        """,
    )
    assert both(project) == "gone: a class\nNone\n"


def test_what_a_later_import_hangs_on_a_frozen_cycle(project):
    project.write("keeper.py", KEEPER)
    project.write("opens.py", "import keeper\nkeeper.keeper.open()\n")
    project.write("main.py", "import torch\nimport keeper\nimport opens\nimport wave\n")
    assert both(project) == ""
    assert (project.folder / "kept.txt").read_text() == "all of it"


def test_garbage_of_an_import_has_its_end(project):
    project.write("loud.py", FROZEN)
    project.write("leaves.py", "import loud\nloud.Loud('left by an import')\n")
    project.write("main.py", "import torch\nimport leaves\nimport wave\nprint('imported')\n")
    said = project.run("--backend", "eager", "main.py").stdout
    assert sorted(said.splitlines()) == ["gone: left by an import", "imported"]


def test_nothing_is_frozen_where_the_program_has_begun_or_collects_by_hand(project):
    counted = "import torch, gc\nprint(gc.get_freeze_count())\n"
    project.write("main.py", f"import gc\ngc.disable()\nimport aotdyn\naotdyn.install('nothing')\n{counted}")
    assert project.python("main.py").stdout == "0\n"
    project.write("main.py", f"class Mine: pass\nmine = Mine()\nimport aotdyn\naotdyn.install('nothing')\n{counted}")
    assert project.python("main.py").stdout == "0\n"
    project.write("main.py", f"import aotdyn\naotdyn.install('nothing')\n{counted}")
    assert int(project.python("main.py").stdout) > 100_000
