"""Bundles: the same bytes for the same cache, and what they hold is found under another root; damage is refused."""

from __future__ import annotations

import json
import os
import random
import tempfile
import zipfile
from pathlib import Path

import pytest
from msgspec.structs import replace

from aotdyn.errors import CacheError
from aotdyn.graph import data
from aotdyn.graph.program import Input, Program
from aotdyn.store import bundle, cli
from aotdyn.store.inventory import Inventory
from aotdyn.store.signing import Keys
from aotdyn.store.store import Store


def graph(number: int) -> bytes:
    """A graph with an input and nothing else."""
    return data.encode(Program([Input(f"x{number}")], [], ()))


@pytest.fixture
def keys(tmp_path):
    return Keys(False, tmp_path / "keys")


@pytest.fixture
def other(make):
    """A frame of another package."""
    return replace(make.spec, module="tool.main", qualname="run")


@pytest.fixture
def file(store, make, other, root, tmp_path, keys):
    for number in (3, 1, 2):
        store.save_graph(f"g{number}", graph(number))
        store.save(make.breaking(number, graph=f"g{number}"))
        store.save_kernel(f"k{number}", {"a.so": b"so %d" % number}, f"g{number}", {"machine": "this one"})
    store.save(make.variant(7, make.after))
    store.save(make.variant(8, other))
    store.save_graph("orphan", b"")
    path = tmp_path / "app.aotdyn"
    bundle.export(Inventory(root), path, [], keys)
    return path


def test_round_trip(file, make, other, tmp_path, keys):
    there = tmp_path / "there"
    counts = bundle.import_(there, file, keys)
    assert counts == {"variants": 5, "graphs": 3, "rewritten modules": 0, "kernels": 3}
    found = Store(there)
    assert found.load(make.spec) == [make.breaking(n, graph=f"g{n}") for n in (3, 1, 2)]
    assert found.load(make.after) == [make.variant(7, make.after)]
    assert found.graph("g2") == graph(2)
    assert found.graph("orphan") is None
    assert (found.kernel_path("k1") / "a.so").read_bytes() == b"so 1"
    assert Inventory(there).environments()[0].description()["torch"].startswith("2.")
    again = tmp_path / "again.aotdyn"
    bundle.export(Inventory(there), again, [], keys)
    assert again.read_bytes() == file.read_bytes()


def test_import_adds_to_what_is_there(file, make, tmp_path, keys):
    there = Store(tmp_path / "there")
    there.save(make.breaking(9))
    for _ in range(2):
        bundle.import_(there.root, file, keys)
        assert len(there.load(make.spec)) == 4


def test_packages(file, root, make, other, tmp_path, keys):
    for packages, frames in ((["tool"], 1), (["app"], 4), (["app.model", "tool.main"], 5)):
        path = tmp_path / "part.aotdyn"
        assert bundle.export(Inventory(root), path, packages, keys)["variants"] == frames
    with pytest.raises(CacheError, match=r"nothing of nope"):
        bundle.export(Inventory(root), tmp_path / "x", ["nope"], keys)


def test_damage_is_refused_and_nothing_of_it_stored(file, tmp_path, keys):
    good = file.read_bytes()
    there = tmp_path / "there"
    chance = random.Random(2)
    cases = [good[:n] for n in (0, 100, len(good) // 2, len(good) - 1)]
    with zipfile.ZipFile(file) as archive:
        places = [info.header_offset + 30 + len(info.filename) for info in archive.infolist() if info.file_size]
    cases += [good[:place] + bytes([good[place] ^ 1]) + good[place + 1 :] for place in places]
    for _ in range(200):
        place = chance.randrange(len(good))
        cases.append(good[:place] + bytes([good[place] ^ (1 << chance.randrange(8))]) + good[place + 1 :])
    refused = 0
    for case in cases:
        file.write_bytes(case)
        try:
            bundle.import_(there, file, keys)
        except CacheError:
            refused += 1
    assert refused >= 4 + len(places)  # a flipped date in the zip's own tables harms nobody
    for environment in Inventory(there).environments():
        assert environment.damaged()[1] == []


@pytest.mark.parametrize(
    "name", ["../../evil", "/etc/x", "e/records/../../x", "e/odd/a", "e/graphs/a/b", "e/graphs/.x"]
)
def test_names_never_lead_out(tmp_path, keys, name):
    path = tmp_path / "evil.aotdyn"
    name = name.replace("e/", "0123456789abcdef/", 1)
    entry = {"name": name, "size": 1, "digest": bundle.digest(b"x")}
    manifest = {"form": 1, "environments": {"0123456789abcdef": {}}, "entries": [entry]}
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("MANIFEST.json", json.dumps(manifest))
        archive.writestr(name, b"x")
    with pytest.raises(CacheError, match="no entry's name"):
        bundle.import_(tmp_path / "there", path, keys)


def test_a_bomb_is_refused(tmp_path, keys):
    path = tmp_path / "bomb.aotdyn"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("MANIFEST.json", b" " * 10_000_000)
    with pytest.raises(CacheError, match="compressed"):
        bundle.import_(tmp_path / "there", path, keys)


def test_the_command(file, root, tmp_path, capsys):
    there = str(tmp_path / "there")
    assert cli.main(["import", str(file), "--cache", there]) == 0
    assert "5 variants" in capsys.readouterr().out
    out = str(tmp_path / "out.aotdyn")
    assert cli.main(["export", out, "--cache", there, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["entries"]["kernels"] == 3
    assert cli.main(["import", str(tmp_path / "none"), "--cache", there]) == 1
    assert "can't be read" in capsys.readouterr().err
    assert cli.main(["show", "run", "--cache", there]) == 0
    assert "imported from app.aotdyn" in capsys.readouterr().out


def test_a_bundle_is_as_readable_as_any_file(root, file, tmp_path, keys):
    before = os.umask(0o027)
    try:
        bundle.export(Inventory(root), tmp_path / "b", [], keys)
    finally:
        os.umask(before)
    assert (tmp_path / "b").stat().st_mode & 0o777 == 0o640


OTHER = 54321
"A user who owns nothing here."


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can become another user")
def test_another_user_imports_it_and_owns_what_comes(file, make, keys):
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o755)
        mine, bundled = Path(name, "mine"), Path(name, "app.aotdyn")
        mine.mkdir(0o700)
        os.chown(mine, OTHER, OTHER)
        bundled.write_bytes(file.read_bytes())
        bundled.chmod(0o644)
        if (child := os.fork()) == 0:
            status = 1
            try:
                os.setgid(OTHER)
                os.setuid(OTHER)
                bundle.import_(mine / "cache", bundled, keys)
                found = Store(mine / "cache")
                good = found.kernel_path("k1") is not None and len(found.load(make.spec)) == 3
                status = 0 if good and not Inventory(mine / "cache").environments()[0].damaged()[1] else 2
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert {path.stat().st_uid for path in mine.rglob("*")} == {OTHER}
        with pytest.raises(CacheError, match="belongs to another user"):
            Inventory(mine / "cache")


def test_another_user_is_refused_the_first_ones_cache(file, root, tmp_path, keys, monkeypatch):
    for each in (root, *root.rglob("*")):
        os.chown(each, OTHER, -1) if os.geteuid() == 0 else None
    if os.geteuid():
        monkeypatch.setattr(os, "geteuid", lambda: OTHER)
    with pytest.raises(CacheError, match="belongs to another user"):
        bundle.import_(root, file, keys)
    with pytest.raises(CacheError, match="belongs to another user"):
        Store(root)
