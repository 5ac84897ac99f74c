"""Modules loaded through the hook look and act as they do without it."""

from __future__ import annotations

import os
import zipfile

import pytest

CHECK = """
    import aotdyn, builtins, sys
    def stubbed(*names):
        "The functions that have a dispatcher, of those given by module and qualified name."
        from aotdyn.hook.attach import attached, modules
        return sorted(f"{module}.{stub.qualname}" for module in modules() for stub in attached(module).values())
"""


def check(project, body, **options):
    """Run a program under CHECK; its output."""
    import textwrap

    text = textwrap.dedent(CHECK) + textwrap.dedent(body)
    done = project.python("-c", text, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def package(project):
    project.write("pkg/__init__.py", "from pkg.a import f")
    project.write(
        "pkg/a.py",
        '''
        """Docstring of the module."""
        import functools

        def f(x: int, *rest, k=1, **more) -> int:
            """Add one.

            >>> f(1)
            2
            """
            return x + k

        def deco(g):
            @functools.wraps(g)
            def wrapper(*args):
                return g(*args)
            return wrapper

        @deco
        def wrapped(x):
            "Wrapped."
            return (lambda y: y * 2)(x)

        class C:
            def method(self):
                return super().__init__, __class__
            @property
            def p(self):
                return len("abc")
            @staticmethod
            def s():
                return 4

        def gen():
            yield 1

        async def co():
            return 5
        ''',
    )
    project.write("pkg/cli.py", "def main(): return 0")
    return project


def test_functions_become_stubs_and_work(package):
    out = check(
        package,
        """
        aotdyn.install("pkg", exclude="pkg.cli")
        import pkg.cli
        from pkg.a import f, wrapped, C, gen
        print(f(1), f(1, k=3), wrapped(4), C().p, C.s(), C().method()[1] is C, list(gen()))
        print(type(pkg.cli.__loader__).__name__, type(pkg.a.__loader__).__name__)
        print(stubbed())
        """,
    ).splitlines()
    assert out[0] == "2 4 8 3 4 True [1]"
    assert out[1] == "SourceFileLoader HookedSourceLoader"
    for name in ("pkg.a.f", "pkg.a.deco", "pkg.a.deco.<locals>.wrapper", "pkg.a.C.method", "pkg.a.C.p"):
        assert repr(name) in out[2]
    assert "cli" not in out[2]


@pytest.mark.parametrize("warm", [False, True])
def test_introspection(package, warm):
    body = """
        aotdyn.install("pkg")
        import copy, doctest, inspect, linecache, pickle, pkg.a as a
        print(inspect.getsource(a.f).splitlines()[0])
        print(inspect.signature(a.f), a.f.__doc__.split()[0], a.f.__defaults__, a.f.__kwdefaults__)
        print(a.__file__ == a.f.__code__.co_filename == inspect.getsourcefile(a.f), a.__doc__)
        print(a.__spec__.origin == a.__file__, a.__cached__.endswith(".pyc"), a.__spec__.name, a.__package__)
        print(pickle.loads(pickle.dumps(a.f)) is a.f, pickle.loads(pickle.dumps(a.C)) is a.C, copy.deepcopy(a.f) is a.f)
        print(a.wrapped.__name__, a.wrapped.__doc__, a.wrapped.__wrapped__(2), inspect.signature(a.wrapped))
        print(doctest.testmod(a))
        print(a.f.__code__.co_firstlineno, a.f.__code__.co_name, a.C.method.__code__.co_qualname)
        print(inspect.getsource(a.C.method).strip().splitlines()[0], inspect.getmodule(a.f) is a)
    """
    plain = check(package, body.replace('aotdyn.install("pkg")', ""))
    if warm:
        check(package, body)
    assert check(package, body) == plain


def test_a_second_process_takes_the_rewritten_code_from_the_cache(package):
    body = """
        aotdyn.install("pkg")
        from aotdyn.hook import modules
        made = []
        rewrite = modules.rewrite
        modules.rewrite = lambda *args: made.append(args[1]) or rewrite(*args)
        import pkg.a
        print(made, pkg.a.f(1), pkg.a.f.__code__.co_filename == pkg.a.__file__, aotdyn.stats()["functions_stubbed"])
    """
    cold, warm = check(package, body), check(package, body)
    assert cold.startswith("['pkg', 'pkg.a'] 2 True")
    assert warm == cold.replace("['pkg', 'pkg.a']", "[]")
    package.write("pkg/a.py", "def f(x): return x + 2")
    assert check(package, body).startswith("['pkg.a'] 3 True")


@pytest.mark.parametrize("lost", [False, True])
def test_originals_come_from_the_stubs(package, lost):
    body = """
        aotdyn.install("pkg")
        import pkg.a, os, shutil
        from aotdyn.rewrite import originals
        if LOST:
            shutil.rmtree(os.environ["AOTDYN_CACHE_DIR"])
            os.unlink(pkg.a.__file__)
        code = originals.original(pkg.a.f.__code__)
        assert code is not pkg.a.f.__code__
        print(code.co_qualname, code.co_filename == pkg.a.__file__, code.co_argcount)
    """
    assert check(package, body.replace("LOST", "False")) == "f True 1\n"
    assert check(package, body.replace("LOST", str(lost))) == "f True 1\n"


def test_a_settled_source_is_found_by_its_place(package):
    body = """
        import os, time
        aotdyn.install("pkg")
        from aotdyn.hook import modules
        later = time.time() + 3  # than the source was written
        modules.time = type("Clock", (), {"time": staticmethod(lambda: later)})
        read = []
        digest = modules.by_digest
        modules.by_digest = lambda name, source: read.append(name) or digest(name, source)
        import pkg.a
        print(sorted(set(read)), pkg.a.f(1), aotdyn.stats()["functions_stubbed"])
    """
    cold, warm = check(package, body), check(package, body)
    assert cold.startswith("['pkg', 'pkg.a'] 2 ")
    assert warm == cold.replace("['pkg', 'pkg.a']", "[]")
    # Another content of the same size and time of modification: the time of change tells.
    path = package.folder / "pkg/a.py"
    times = (path.stat().st_atime_ns, path.stat().st_mtime_ns)
    path.write_text(path.read_text().replace("return x + k", "return x - k"))
    os.utime(path, ns=times)
    assert check(package, body).startswith("['pkg.a'] 0 ")
    assert check(package, body).startswith("[] 0 ")


def test_a_source_that_just_changed_is_read(package):
    body = """
        import os
        aotdyn.install("pkg")
        from aotdyn.hook import modules
        now = os.stat("pkg/a.py").st_ctime + 1
        modules.time = type("Clock", (), {"time": staticmethod(lambda: now)})
        import pkg.a
        print(modules.by_place("pkg.a", pkg.a.__file__))
    """
    package.write("pkg/a.py", "def f(x): return x + 2")
    assert check(package, body) == check(package, body) == "\n"
    assert len(list(package.cache.rglob("*.mod"))) == 2


def test_stubs_are_made_of_the_pyc_where_it_is_younger_than_its_source(package):
    body = """
        import os, time
        aotdyn.install("pkg")
        from aotdyn.hook import loader, modules
        later = time.time() + 3  # than the source was written
        modules.time = type("Clock", (), {"time": staticmethod(lambda: later)})
        compiled = []
        compile_ = loader.HookedSourceLoader.source_to_code
        loader.HookedSourceLoader.source_to_code = lambda *args: compiled.append(args[2]) or compile_(*args)
        import pkg.a
        print(len(compiled), pkg.a.f(1), os.path.basename(pkg.a.f.__code__.co_filename))
    """
    check(package, "import pkg.a", env={"PYTHONDONTWRITEBYTECODE": ""})
    assert check(package, body) == "0 2 a.py\n"
    # Another content of the same size and second, which plain Python wouldn't see: what is there now is compiled.
    path = package.folder / "pkg/a.py"
    times = (path.stat().st_atime_ns, path.stat().st_mtime_ns)
    path.write_text(path.read_text().replace("return x + k", "return x - k"))
    os.utime(path, ns=times)
    assert check(package, body) == "1 0 a.py\n"


@pytest.mark.parametrize("called", [0, 1])
def test_torch_compile_goes_past_the_stubs(project, called):
    project.write("net.py", "def f(x, n): return g(x) * n\ndef g(x): return x.sin() + 1")
    body = """
        aotdyn.install("net")
        import net, torch
        x = torch.ones(3)
        if CALLED: net.f(x, 2)
        compiled = torch.compile(net.f, backend="eager", fullgraph=True)
        print(torch.equal(compiled(x, 2), (x.sin() + 1) * 2), aotdyn.stats()["graph_calls"])
    """
    assert check(project, body.replace("CALLED", str(called))) == f"True {called}\n"


def test_calls_while_torch_is_imported_run_their_bodies(project):
    project.write("early.py", "def f(x): return [x] * 2")
    project.write("torch.py", "import early; r = early.f(1)")
    assert check(project, "aotdyn.install('early'); import torch; print(torch.r)") == "[1, 1]\n"


def test_a_moved_project_stays_warm_and_names_its_new_files(package):
    body = 'aotdyn.install("pkg"); import pkg.a; print(pkg.a.f.__code__.co_filename)'
    check(package, body)
    moved = package.folder.with_name("moved")
    package.folder.rename(moved)
    package.folder = moved
    assert check(package, body) == f"{moved}/pkg/a.py\n"


def test_the_ordinary_pyc_stays_ordinary(package):
    check(package, 'aotdyn.install("pkg"); import pkg.a')
    assert not list(package.folder.rglob("*.pyc"))
    plain = check(package, "import pkg.a; print(hash(pkg.a.f.__code__.co_code))", env={"PYTHONHASHSEED": "0"})
    hooked = check(package, 'aotdyn.install("pkg"); import pkg.a, importlib.util; print(pkg.a.f(1))')
    assert hooked == "2\n"
    again = check(package, "import pkg.a; print(hash(pkg.a.f.__code__.co_code))", env={"PYTHONHASHSEED": "0"})
    assert again == plain


def test_runpy_gets_ordinary_code(package):
    out = check(
        package,
        """
        aotdyn.install("pkg")
        import pkg.a, runpy
        print(runpy.run_module("pkg.a")["f"](1), "dispatch" in str(pkg.a.__loader__.get_code("pkg.a").co_consts))
        """,
    )
    assert out.startswith("2 ")


def test_namespace_package_zip_and_extension(project):
    project.write("space/inner/mod.py", "def f(): return int(1)")
    with zipfile.ZipFile(project.folder / "lib.zip", "w") as archive:
        archive.writestr("zipped/__init__.py", "")
        archive.writestr("zipped/mod.py", "def g():\n    return int(2)\n")
    out = check(
        project,
        """
        import inspect
        sys.path.append("lib.zip")
        aotdyn.install("space", "zipped", "_bisect", "bisect")
        import space.inner.mod, zipped.mod, _bisect
        print(space.inner.mod.f(), zipped.mod.g(), [n for n in stubbed() if n[0] in "sz"])
        print(inspect.getsource(zipped.mod.g).strip().splitlines()[-1].strip(), zipped.__path__)
        """,
    )
    assert out.splitlines()[0] == "1 2 ['space.inner.mod.f', 'zipped.mod.g']"
    assert out.splitlines()[1].startswith("return int(2)")


def test_module_without_source(project):
    source = project.write("bare.py", "def f(): return 1")
    out = check(
        project,
        """
        import py_compile, os
        py_compile.compile("bare.py", "bare.pyc"); os.unlink("bare.py")
        aotdyn.install("bare")
        import bare
        print(bare.f())
        """,
    )
    assert not source.exists()
    assert out == "1\n"


def test_reload_takes_the_new_code(package):
    out = check(
        package,
        """
        import importlib, pathlib
        aotdyn.install("pkg")
        import pkg.a
        f = pkg.a.f
        pathlib.Path("pkg/a.py").write_text("def f(x):\\n    return x + 100\\n")
        importlib.reload(pkg.a)
        print(f(1), pkg.a.f(1), type(pkg.a.__loader__).__name__)
        """,
    )
    assert out == "2 101 HookedSourceLoader\n"


def test_errors_while_loading_are_those_of_plain_python(project):
    project.write("bad.py", "x = 1\ndef f(:\n")
    project.write("fails.py", "import sys\ndef f():\n    raise KeyError('k')\nf()\n")
    project.write("missing.py", "import not_there\n")
    body = """
        import traceback
        if len(sys.argv) > 1: aotdyn.install("bad", "fails", "missing")
        for name in ("bad", "fails", "missing"):
            try:
                __import__(name)
            except Exception:
                print(traceback.format_exc())
    """
    import textwrap

    project.write("app.py", textwrap.dedent(CHECK) + textwrap.dedent(body))
    plain, hooked = project.python("app.py"), project.python("app.py", "hook")
    assert hooked.stdout == plain.stdout
    assert "KeyError" in plain.stdout


def test_resources_are_found(package):
    package.write("pkg/data.txt", "hello")
    out = check(
        package,
        """
        aotdyn.install("pkg")
        import importlib.resources, pkgutil, pkg
        print(importlib.resources.files("pkg").joinpath("data.txt").read_text(), pkgutil.get_data("pkg", "data.txt"))
        print(sorted(m.name for m in pkgutil.iter_modules(pkg.__path__)))
        """,
    )
    assert out == "hello b'hello'\n['a', 'cli']\n"


def test_a_failing_rewrite_leaves_the_module_to_python(package):
    body = """
        aotdyn.install("pkg")
        from aotdyn.hook import modules
        def rewrite(*args): raise ZeroDivisionError("oops")
        modules.rewrite = rewrite
        import pkg.a
        print(pkg.a.f(1))
    """
    import textwrap

    text = textwrap.dedent(CHECK) + textwrap.dedent(body)
    lenient = package.python("-c", text, env={"AOTDYN_STRICT": "0"})
    assert lenient.stdout == "2\n"
    assert "pkg.a is left to Python" in lenient.stderr
    assert "oops" in lenient.stderr
    assert "ZeroDivisionError" in package.python("-c", text).stderr


def test_a_damaged_record_is_made_anew(package):
    body = 'aotdyn.install("pkg"); import pkg.a; print(pkg.a.f(1))'
    check(package, body)
    for path in package.cache.rglob("*.mod"):
        path.write_bytes(path.read_bytes()[:-3])
    assert check(package, body) == "2\n"


def test_debugger_and_trace_functions(package):
    package.write(
        "app.py",
        """
        import aotdyn
        aotdyn.install("pkg")
        import pkg.a
        print(pkg.a.f(41))
        """,
    )
    commands = "break pkg/a.py:10\ncontinue\nargs\nwhere\ncontinue\nquit\n"
    env = {"AOTDYN_STRICT": "0"}
    done = package.python("-m", "pdb", "app.py", input=commands, env=env)
    assert "x = 41" in done.stdout, done.stdout + done.stderr
    assert "-> return x + k" in done.stdout
    done = package.python("-m", "trace", "--count", "--coverdir", "cover", "app.py", env=env)
    assert "42" in done.stdout, done.stderr
    cover = next((package.folder / "cover").glob("*pkg.a.cover")).read_text()
    assert any(line.split(":")[0].strip() == "1" and "return x + k" in line for line in cover.splitlines()), cover


def test_a_finder_of_the_programs_own_whose_methods_are_stubs(project):
    project.write(
        "main.py",
        """
        import sys, torch

        class Finder:
            def find_spec(self, name, path=None, target=None):
                seen.append(name)

        seen = []
        sys.meta_path.insert(0, Finder())
        import colorsys
        print("colorsys" in seen)
        """,
    )
    done = project.run("--backend", "eager", "main.py")
    assert (done.stdout, done.returncode) == ("True\n", 0), done.stderr[-2000:]


def test_an_import_of_the_programs_own_that_is_a_stub(project):
    project.write(
        "main.py",
        """
        import builtins
        real = builtins.__import__
        def ours(*args, **named):
            return real(*args, **named)
        builtins.__import__ = ours
        import torch
        def f(x):
            return x + 1
        print(f(torch.ones(1)), f(torch.ones(1)))
        """,
    )
    done = project.run("--backend", "eager", "main.py")
    assert (done.stdout, done.returncode) == ("tensor([2.]) tensor([2.])\n", 0), done.stderr[-2000:]


@pytest.mark.parametrize(
    "method",
    [
        "def __eq__(self, other): return type.__eq__(self, other)",
        "def __hash__(self): raise RuntimeError",
        "def __eq__(self, other): raise RuntimeError",
    ],
)
def test_classes_that_have_no_hash(project, method):
    project.write(
        "main.py",
        f"""
        import torch
        class Meta(type):
            {method}
        class Odd(metaclass=Meta):
            def f(self, x):
                return x + 1
        print(Odd().f(torch.ones(1)), Odd().f(torch.ones(1)))
        """,
    )
    done = project.run("--backend", "eager", "main.py")
    assert (done.stdout, done.returncode) == ("tensor([2.]) tensor([2.])\n", 0), done.stderr[-2000:]
