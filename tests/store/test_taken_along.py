"""A program starts warm at another path, with another cache: from a bundle, or from a remote tier."""

from __future__ import annotations

import json
import os
import shutil

from aotdyn.store import cli

LIB = """
    import torch

    def inner(x):
        y = x * 2
        print("between")
        return y.sin()

    def f(x):
        return inner(x) + 1
"""


def test_bundle_and_remote(project, tmp_path, capsys):
    project.write("pkg/__init__.py", "")
    project.write("pkg/lib.py", LIB)
    project.write("app.py", "import torch\nfrom pkg.lib import f\nprint(f(torch.arange(3.0)).tolist())\n")
    remote = {"AOTDYN_CACHE_REMOTE": f"file://{tmp_path}/remote", "AOTDYN_CACHE_REMOTE_TIMEOUT": "60"}
    project.env = {"AOTDYN_BACKEND": "eager"}
    first = project.run("app.py", env=remote)
    assert first.returncode == 0, first.stderr
    file = tmp_path / "app.aotdyn"
    assert cli.main(["export", str(file), "--package", "pkg", "--cache", str(project.cache)]) == 0

    if os.environ.get("AOTDYN_FULL"):  # made anew, it is the same
        assert project.run("--cache", str(tmp_path / "anew"), "app.py", env={"PYTHONHASHSEED": "7"}).returncode == 0
        assert cli.main(["export", str(tmp_path / "b"), "--package", "pkg", "--cache", str(tmp_path / "anew")]) == 0
        assert (tmp_path / "b").read_bytes() == file.read_bytes()
    moved = tmp_path / "elsewhere" / "deep"
    shutil.copytree(project.folder, moved, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.rmtree(project.folder)
    project.folder = moved
    for number, env in (("bundle", {}), ("remote", remote)):
        project.cache = tmp_path / number
        if not env:
            assert cli.main(["import", str(file), "--cache", str(project.cache)]) == 0
        done = project.run("--require-warm", "--stats", "s.json", "app.py", env=env)
        assert (done.returncode, done.stdout) == (0, first.stdout), done.stderr
        stats = json.loads((moved / "s.json").read_text())
        assert stats["traced"] == 0
        assert stats["graph_calls"] >= 1
        assert str(project.folder) not in done.stderr
    capsys.readouterr()
    again = tmp_path / "again.aotdyn"
    assert cli.main(["export", str(again), "--package", "pkg", "--cache", str(tmp_path / "bundle")]) == 0
    assert again.read_bytes() == file.read_bytes()


PROGRAM = """
    import torch

    def scale(x, by):
        y = x * by
        print("between")
        return y.sin() / by

    def main():
        print(scale(torch.arange(3.0), 2).tolist())
        print(scale(torch.ones(2), torch.ones(3)))

    main()
"""


def test_the_program_itself(project, tmp_path, capsys):
    project.write("app.py", PROGRAM)
    project.env = {"AOTDYN_BACKEND": "eager"}
    first = project.run("app.py")
    assert (first.returncode, "between" in first.stdout) == (1, True), first.stderr
    assert "must match the size" in first.stderr
    file = tmp_path / "app.aotdyn"
    assert cli.main(["export", str(file), "--package", "__main__", "--cache", str(project.cache)]) == 0
    moved = tmp_path / "elsewhere"
    project.folder.rename(moved)
    old, project.folder, project.cache = project.folder, moved, tmp_path / "imported"
    assert cli.main(["import", str(file), "--cache", str(project.cache)]) == 0
    done = project.run("--stats", "s.json", "app.py")
    stats = json.loads((moved / "s.json").read_text())
    assert (done.returncode, done.stdout, stats["traced"]) == (1, first.stdout, 0), done.stderr
    assert stats["graph_calls"] >= 1
    assert done.stderr == first.stderr.replace(str(old), str(moved))
    project.write("app.py", PROGRAM.replace("y.sin()", "y.cos()"))
    other = project.run("--stats", "s.json", "app.py")
    assert json.loads((moved / "s.json").read_text())["traced"] >= 1
    assert other.stdout != first.stdout
