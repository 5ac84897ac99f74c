"""Which names and places are hooked."""

from __future__ import annotations

import os

import pytest

from aotdyn.hook.select import NEVER, Selection, matches, program_folder


@pytest.mark.parametrize(
    ("pattern", "name", "fits"),
    [
        ("pkg", "pkg", True),
        ("pkg", "pkg.a.b", True),
        ("pkg", "pkgs", False),
        ("pkg.*", "pkg", False),
        ("pkg.*", "pkg.a.b", True),
        ("pkg.model_*", "pkg.model_a", True),
        ("pkg.model_*", "pkg.data", False),
        ("*", "anything.at.all", True),
        ("*", "json.decoder", False),
        ("*", "__main__", False),
        ("json", "json.decoder", True),
    ],
)
def test_patterns(pattern, name, fits):
    assert matches(pattern, name) is fits


def test_exclude_wins_and_some_are_never_hooked():
    selection = Selection(["*", "torch"], ["pkg.cli"])
    assert selection.named("pkg.model")
    assert not selection.named("pkg.cli.main")
    assert not any(selection.named(name) or selection.named(f"{name}.x") for name in NEVER)


def test_place(tmp_path):
    selection = Selection(folder=str(tmp_path), exclude=["skipped"])
    assert selection.by_place("sibling")
    assert not selection.by_place("json")
    assert not selection.by_place("torch")
    assert not selection.by_place("skipped.x")
    assert selection.placed(str(tmp_path / "sub" / "sibling.py"))
    assert not selection.placed(str(tmp_path / ".venv" / "lib" / "site-packages" / "numpy" / "__init__.py"))
    assert not selection.placed(str(tmp_path) + "2/x.py")
    assert not selection.placed(os.__file__)
    assert not selection.placed(None)


def test_a_linked_file_is_where_it_leads_to(tmp_path):
    """So is one in a linked folder."""
    inside, outside = tmp_path / "app", tmp_path / "elsewhere"
    for folder in (inside, outside):
        folder.mkdir()
        (folder / "real.py").touch()
    (inside / "out.py").symlink_to(outside / "real.py")
    (outside / "in.py").symlink_to(inside / "real.py")
    (inside / "linked").symlink_to(outside)
    selection = Selection(folder=str(inside))
    names = (inside / "real.py", outside / "in.py", inside / "out.py", inside / "linked" / "real.py")
    assert [selection.placed(str(each)) for each in names] == [True, True, False, False]


def test_program_folder_is_that_of_the_outermost_package(tmp_path):
    inner = tmp_path / "pkg" / "sub"
    inner.mkdir(parents=True)
    for folder in (tmp_path / "pkg", inner):
        (folder / "__init__.py").touch()
    assert program_folder(str(inner / "app.py")) == os.path.realpath(tmp_path / "pkg")
    assert program_folder(str(tmp_path / "app.py")) == os.path.realpath(tmp_path)
