"""What a pyproject.toml says of aotdyn, and the cache's note of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from aotdyn import project
from aotdyn.errors import ConfigError
from aotdyn.store.inventory import Inventory

TABLE = "[project]\nname = 'app'\n[tool.aotdyn]\nmax_nodes = 7\nexclude = ['a']\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A project's file; its cache is `cache` beside it."""
    path = tmp_path / "pyproject.toml"
    path.write_text(TABLE)
    return path


def _cache(file: Path) -> Path:
    return file.parent / "cache"


def _read(file: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[object, bool]:
    """The table, and whether it was parsed for that."""
    parsed = []
    true = project._parsed
    monkeypatch.setattr(project, "_parsed", lambda *args: parsed.append(1) or true(*args))
    found = project.nearest(file.parent / "below", str(_cache(file)))
    monkeypatch.setattr(project, "_parsed", true)
    return found and found[1], bool(parsed)


def test_a_file_is_parsed_once_for_each_content(file, monkeypatch):
    expected = {"max_nodes": 7, "exclude": ["a"]}
    assert _read(file, monkeypatch) == (expected, True)
    assert _read(file, monkeypatch) == (expected, False)
    file.write_text(TABLE.replace("7", "8"))
    assert _read(file, monkeypatch) == ({**expected, "max_nodes": 8}, True)
    assert _read(file, monkeypatch) == ({**expected, "max_nodes": 8}, False)
    file.write_text("[project]\ndependencies = ['aotdyn']")
    assert _read(file, monkeypatch) == (None, True)
    assert _read(file, monkeypatch) == (None, False), "that there is no table is noted as well"


@pytest.mark.parametrize("value", ["2026-11-30", "123456789012345678901234567890", "nan", "07:32:00"])
def test_what_a_note_would_change_is_not_noted(file, monkeypatch, value):
    file.write_text(f"[tool.aotdyn]\nmax_seconds = {value}")
    first, second = _read(file, monkeypatch), _read(file, monkeypatch)
    assert second[1], "parsed again"
    assert repr(first) == repr(second)


def test_a_file_that_cannot_be_read_is_told_each_time(file, monkeypatch):
    file.write_text("[tool.aotdyn]\nmax_nodes = ")
    for _ in range(2):
        with pytest.raises(ConfigError, match="can't be read"):
            _read(file, monkeypatch)


@pytest.mark.parametrize("harm", [lambda note: note.write_bytes(b"x" * 200), lambda note: note.chmod(0o666)])
def test_a_note_that_is_damaged_or_not_to_be_trusted_is_none(file, monkeypatch, harm):
    assert _read(file, monkeypatch)[1]
    harm(_cache(file) / "v1" / "projects")
    assert _read(file, monkeypatch)[1], "parsed"
    assert not _read(file, monkeypatch)[1], "and noted anew"


def test_notes_are_bounded_and_go_with_the_cache(file, monkeypatch):
    monkeypatch.setattr(project, "MANY", 2)
    cache = _cache(file)
    for name in ("a", "b", "c"):
        (file.parent / name).mkdir()
        (file.parent / name / "pyproject.toml").write_text(TABLE)
        assert project.nearest(file.parent / name, str(cache))
    assert list(project.Notes(str(cache)).known) == [str(file.parent / name / "pyproject.toml") for name in ("b", "c")]
    inventory = Inventory(cache)
    assert inventory.foreign() == []
    inventory.clear()
    assert not (cache / "v1").exists()


def test_a_cache_that_others_can_write_to_gets_no_note(file, monkeypatch):
    cache = _cache(file)
    cache.mkdir()
    cache.chmod(0o777)
    assert _read(file, monkeypatch)[1]
    assert not (cache / "v1").exists()
