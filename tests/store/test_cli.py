"""`python -m aotdyn cache`: what it prints and removes, and its exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import zipfile

import pytest

from aotdyn import config
from aotdyn.graph import data
from aotdyn.graph.program import Program
from aotdyn.store import cli, disk, leases
from aotdyn.store.store import Store


@pytest.fixture
def cache(root):
    return lambda *arguments: cli.main([*arguments, "--cache", str(root)])


@pytest.fixture
def filled(store, make):
    store.save_graph("g1", data.encode(Program([], [], ())))
    store.save(make.breaking(1, graph="g1", operations=7))
    store.save(make.variant(2, leave="too small"))
    store.save(make.variant(3, make.after))
    store.save_kernel("k1", {"a.so": b"x"}, graph="g1")
    store.save_module("m1", b"")
    return store


def test_path(cache, root, capsys):
    assert cache("path") == 0
    assert capsys.readouterr().out == f"{root}\n"


def test_ls(cache, filled, capsys):
    assert cache("ls") == 0
    out = capsys.readouterr().out
    row = next(line for line in out.splitlines() if "app.model.Net.forward" in line)
    assert row.split()[:6] == ["app.model.Net.forward", "2", "1", "7", "1", "1"]
    assert "torch 2." in out
    assert "kernels: 1" in out


def test_ls_of_nothing(cache, capsys):
    assert cache("ls") == 0


@pytest.mark.parametrize("name", ["app.model.Net.forward", "Net.forward", "forward", "model.Net.forward"])
def test_show(cache, filled, capsys, name):
    assert cache("show", name) == 0
    out = capsys.readouterr().out
    assert "variant 1 of 2" in out
    assert "variant 2 of 2" in out
    assert "left to Python where the guards hold: too small" in out
    assert "__aotdyn_resume_Net_forward_ab" in out
    assert "app/model.py:12 in Net.forward: call of print" in out
    assert "app.model.Net.forward +24: variant 1 of 1" in out


def test_what_the_policy_has_noted(cache, store, make, capsys):
    store.save(make.variant(1, leave="calls pay", verdict=True, pays=True))
    assert cache("show", "Net.forward") == 0
    assert "noted by the hook's policy: calls pay" in capsys.readouterr().out
    assert cache("ls", "--json") == 0
    assert json.loads(capsys.readouterr().out)["environments"][0]["functions"][0]["left"] == 0


def test_show_follows_breaks_into_other_functions(cache, store, make, capsys):
    from msgspec.structs import replace

    inner = replace(make.after, qualname="helper", module="app.other")
    (point,) = make.breaking().resumes
    store.save(make.variant(resumes=[replace(point, exits=(inner,))]))
    store.save(make.variant(5, inner))
    assert cache("show", "Net.forward") == 0
    assert "app.other.helper +24: variant 1 of 1" in capsys.readouterr().out


@pytest.mark.parametrize(("name", "near"), [("Net.forwrd", "app.model.Net.forward"), ("zzz", "cache ls")])
def test_show_unknown(cache, filled, capsys, name, near):
    assert cache("show", name) == 1
    error = capsys.readouterr().err
    assert name in error
    assert near in error


def test_show_with_nothing_stored(cache, capsys):
    assert cache("show", "f") == 1
    assert "no function is stored" in capsys.readouterr().err


def test_verify(cache, filled, root, listed, capsys):
    assert cache("verify") == 0
    assert "6 good, 0 damaged" in capsys.readouterr().out
    listed(root, "*.rec")[0].write_bytes(b"x")
    listed(root, "a.so")[0].write_bytes(b"y")
    assert cache("verify") == 1
    assert cache("verify", "--repair") == 0
    assert "4 good, 0 damaged" in capsys.readouterr().out
    assert cache("verify") == 0


def test_verify_finds_what_describes_nothing_and_what_lacks_its_graph(cache, filled, root, listed, capsys):
    (about,) = listed(root, "environment.json")
    about.write_text(about.read_text()[:-5])
    listed(root, "g1.graph")[0].unlink()
    assert cache("verify") == 1
    out = capsys.readouterr().out
    assert "environment.json: it can't be read" in out
    assert "its graph g1 isn't there" in out
    assert "cache verify --repair" in out
    assert cache("verify", "--repair") == 0
    assert "made anew by the next run" in capsys.readouterr().out
    filled._prepared = False
    assert filled.save_graph("g2", b"")
    assert about.exists()


@pytest.mark.parametrize("damage", [lambda file: file.unlink(), lambda file: file.write_text("x")])
def test_repair_describes_this_environment_anew(cache, root, make, listed, capsys, damage):
    Store(root, config.current()).save(make.variant())
    (about,) = listed(root, "environment.json")
    before = about.read_text()
    damage(about)
    assert cache("verify") == 1
    assert cache("verify", "--repair") == 0
    assert f"made anew: {about}" in capsys.readouterr().out
    assert about.read_text() == before
    assert cache("verify") == 0


def test_gc_says_what_it_leaves(cache, filled, capsys):
    assert cache("gc", "--limit", "0") == 0
    assert "over the limit of 0 B: what was used within 15 minutes" in capsys.readouterr().err


def test_json(cache, filled, capsys):
    for arguments, keys in (
        (("ls",), {"root", "bytes", "limit", "environments"}),
        (("show", "forward"), {"variants"}),
        (("show", "forward", "--why-miss"), {"reasons"}),
        (("verify",), {"root", "good", "damaged"}),
        (("gc",), {"removed", "kept"}),
        (("path",), {"path"}),
        (("clear",), {"removed", "kept", "left_alone"}),
    ):
        cache(*arguments, "--json")
        assert set(json.loads(capsys.readouterr().out)) == keys


def test_origin_uses_and_age_are_shown(cache, filled, make, capsys):
    filled.load(make.spec)
    leases.account(filled._layout.base).end()
    assert cache("show", "forward") == 0
    assert "loaded by 1 process, last used just now" in capsys.readouterr().out


def test_clear_leaves_what_is_not_ours(cache, filled, root, make, capsys):
    (root / "README.md").write_text("mine")
    assert cache("clear") == 0
    out = capsys.readouterr().out
    assert "removed frames: 2" in out
    assert "removed kernels: 1" in out
    assert os.listdir(root) == ["README.md"]
    assert cache("clear") == 0
    assert "nothing was stored" in capsys.readouterr().out
    assert Store(root).load(make.spec) == []


def _everything(folder):
    return {path.relative_to(folder): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def _foreign(root):
    """A package of the user's in a folder of the cache's name, with names that the cache uses, too."""
    package = root / "v1" / "api"
    for path in (
        package / "__init__.py",
        package / "records" / "ab" / "cd" / "x.py",
        package / "environment.json",
        root / "v1" / "0123456789abcdef" / "mine.py",
        root / "v1" / "notes.tmp-old",
        root / "v1" / "__init__.py",
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("mine")
    for path in (root / "v1").rglob("*"):
        _age(path, 90)


COMMANDS = (("clear",), ("gc",), ("gc", "--limit", "0"), ("verify",), ("verify", "--repair"), ("ls",))


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_folder_of_the_same_name_is_left_alone(cache, root, capsys, command):
    _foreign(root)
    before = _everything(root)
    assert cache(*command) == 0
    printed = capsys.readouterr()
    assert _everything(root) == before
    assert "api" not in printed.out
    assert ("left alone" in printed.err and "api" in printed.err) == (command == ("clear",))
    assert len(printed.err.splitlines()) == (command == ("clear",))


def test_what_cannot_be_removed_is_one_message(cache, filled, root, listed, capsys, monkeypatch):
    """As on a disk that is mounted read-only."""
    monkeypatch.setattr(disk, "remove", lambda path: False)
    assert cache("clear") == 1
    printed = capsys.readouterr()
    assert "removed" not in printed.out
    first, hint = printed.err.splitlines()
    assert first.startswith("aotdyn: 6 entries can't be removed: ")
    assert first.endswith(", ...")
    assert "read-only" in hint


def test_clear_beside_what_is_foreign(cache, filled, root, make, capsys):
    _foreign(root)
    (root / "v1" / "size").write_text("1")
    before = {path: data for path, data in _everything(root).items() if b"mine" in data}
    assert cache("ls") == 0
    assert capsys.readouterr().out.count("environment ") == 1
    assert cache("verify") == 0
    assert "6 good, 0 damaged" in capsys.readouterr().out
    assert cache("clear") == 0
    assert "removed frames: 2" in capsys.readouterr().out
    assert _everything(root) == before
    assert Store(root).load(make.spec) == []


def test_an_environment_that_lost_its_description_is_still_the_caches(cache, filled, root, listed):
    listed(root, "environment.json")[0].unlink()
    assert cache("clear") == 0
    assert os.listdir(root) == []


def test_import_into_what_is_foreign(cache, filled, root, tmp_path, capsys):
    bundle = tmp_path / "all.aotdyn"
    assert cache("export", str(bundle)) == 0
    there = tmp_path / "there"
    mine = there / "v1" / filled.environment / "mine.py"
    mine.parent.mkdir(parents=True)
    mine.write_text("mine")
    assert cli.main(["import", str(bundle), "--cache", str(there)]) == 1
    assert "isn't the cache's" in capsys.readouterr().err
    assert list(_everything(there).values()) == [b"mine"]


def test_export_writes_over_bundles_alone(cache, filled, tmp_path, capsys):
    file = tmp_path / "model.py"
    file.write_text("mine")
    assert cache("export", str(file)) == 1
    assert "--force" in capsys.readouterr().err
    assert file.read_text() == "mine"
    assert cache("export", str(file), "--force") == 0
    assert cache("export", str(file)) == 0
    assert cache("export", str(tmp_path)) == 1
    assert cache("export", str(tmp_path / "none" / "x.aotdyn")) == 1
    assert f"there is no directory {tmp_path / 'none'}" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()


def _age(path, days):
    then = time.time() - days * disk.DAY
    os.utime(path, (then, then))


def test_gc(cache, filled, root, make, capsys):
    assert cache("gc") == 0
    assert "nothing to remove" in capsys.readouterr().out
    filled.save_graph("orphan", b"")
    filled.save_module("m2", b"of a source that is another today")
    _age(next(root.glob("v1/*/modules/*/m2.mod")), 40)
    for path in list(root.rglob("*")):
        if path.name in ("orphan.graph", "g1.graph", "MANIFEST"):
            _age(path, 3)
    _age(next(path for path in root.glob("v1/*/records/*/*") if len(list(path.iterdir())) == 1), 40)
    assert cache("gc") == 0
    out = capsys.readouterr().out
    assert "removed graphs: 1" in out
    assert "removed frames: 1" in out
    assert "removed rewritten modules: 1" in out
    assert "kernels" not in out
    assert len(filled.load(make.spec)) == 2
    assert filled.graph("g1")
    for path in list(root.rglob("*")):
        _age(path, 40)
    assert cache("gc") == 0
    out = capsys.readouterr().out
    for kind, number in (("frames", 1), ("graphs", 1), ("kernels", 1), ("rewritten modules", 1)):
        assert f"removed {kind}: {number}" in out


def test_a_cache_that_others_can_write(cache, root, capsys):
    root.mkdir()
    root.chmod(0o777)
    assert cache("ls") == 1
    assert "AOTDYN_CACHE_TRUST" in capsys.readouterr().err


def test_a_reader_that_leaves(filled, root):
    command = [sys.executable, "-m", "aotdyn", "cache", "show", "forward", "--dir", str(root)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 1


@pytest.mark.parametrize("command", ["ls", "gc", "verify", "clear"])
@pytest.mark.parametrize("below", ["", "inside"])
def test_a_cache_that_is_a_file(root, capsys, command, below):
    root.write_text("a file")
    assert cli.main([command, "--cache", str(root / below)]) == 1
    error = capsys.readouterr().err
    assert f"{root}, above the cache directory," in error if below else "the cache directory is a file" in error
    assert "name a directory with `--cache`" in error


def test_a_cache_that_is_a_file_is_said_by_what_stores_there(root, make, caplog):
    root.write_text("a file")
    assert not Store(root).save(make.variant())
    assert "name a directory with `--cache` or AOTDYN_CACHE_DIR" in caplog.text


def test_import_of_what_is_no_bundle(root, tmp_path, capsys):
    junk, archive = tmp_path / "junk", tmp_path / "x.zip"
    junk.write_text("junk")
    with zipfile.ZipFile(archive, "w") as made:
        made.writestr("readme", "mine")
    for file in (junk, archive):
        assert cli.main(["import", str(file), "--cache", str(root)]) == 1
        error = capsys.readouterr().err
        assert "isn't an aotdyn bundle" in error
        assert "`aotdyn cache export`" in error


def test_clear_tells_what_it_leaves_as_data(cache, filled, root, capsys):
    _foreign(root)
    cache("clear", "--json")
    printed = capsys.readouterr()
    assert str(root / "v1" / "api") in json.loads(printed.out)["left_alone"]
    assert printed.err == ""
