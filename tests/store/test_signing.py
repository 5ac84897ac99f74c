"""Signatures: what a key that isn't trusted has signed is not read, from a store or from a bundle."""

from __future__ import annotations

import logging

import pytest

from aotdyn.errors import CacheError
from aotdyn.graph import data
from aotdyn.graph.program import Program
from aotdyn.store import bundle, cli
from aotdyn.store.inventory import Inventory
from aotdyn.store.signing import Keys
from aotdyn.store.store import Store

GRAPH = data.encode(Program([], [], ()))

pytest.importorskip("cryptography")


@pytest.fixture
def alice(tmp_path):
    keys = Keys(True, tmp_path / "alice")
    keys.new()
    return keys


@pytest.fixture
def bob(tmp_path):
    keys = Keys(True, tmp_path / "bob")
    keys.new()
    return keys


def _fill(store, make) -> None:
    assert store.save(make.breaking(1))
    assert store.save_graph("g", GRAPH)
    assert store.save_module("m", b"module")
    assert store.save_kernel("k", {"a.so": b"x"}) is not None


def _read(store, make) -> list[bool]:
    found = (store.load(make.spec), store.graph("g"), store.module("m"), store.kernel_path("k"))
    return [bool(each) for each in found]


def test_what_a_trusted_key_signed_is_read(root, make, alice, bob):
    _fill(Store(root, signing=alice), make)
    assert _read(Store(root, signing=alice), make) == [True] * 4
    assert _read(Store(root, signing=bob), make) == [False] * 4
    bob.trust(next(iter(alice.trusted())), "alice")
    assert _read(Store(root, signing=bob), make) == [True] * 4


def test_whoever_asks_for_no_signatures_does_not_read_strangers_either(root, make, alice, tmp_path, caplog, listed):
    _fill(Store(root, signing=alice), make)
    plain = Store(root, signing=Keys(False, tmp_path / "none"))
    before = listed(root, "*.*")
    with caplog.at_level(logging.WARNING):
        assert _read(plain, make) == [False] * 4
    assert [record.getMessage() for record in caplog.records if "isn't trusted" in record.getMessage()]
    assert listed(root, "*.*") == before  # they are somebody's
    _fill(plain, make)
    assert _read(plain, make) == [True] * 4


def test_what_is_not_signed_is_not_read_where_signatures_are_asked_for(root, make, alice):
    _fill(Store(root), make)
    assert _read(Store(root, signing=alice), make) == [False] * 4


@pytest.mark.parametrize("pattern", ["*.rec", "*.graph", "*.mod", "MANIFEST"])
def test_a_signature_moved_to_other_content_is_damage(root, make, alice, listed, pattern):
    _fill(Store(root, signing=alice), make)
    other = root.parent / "other"
    _fill(Store(other), make)  # unsigned
    (signed,) = listed(root, pattern)
    (plain,) = listed(other, pattern)
    data = signed.read_bytes()
    plain.write_bytes(plain.read_bytes() + data[data.rindex(b"sign") :])
    plain.chmod(0o600)
    assert False in _read(Store(other, signing=alice), make)
    assert _read(Store(other, signing=alice), make).count(True) == 0


def test_keys_that_others_could_have_put_there(root, make, alice):
    _fill(Store(root, signing=alice), make)
    (alice.where / "trusted").chmod(0o777)
    assert _read(Store(root, signing=Keys(True, alice.where)), make) == [False] * 4
    (alice.where / "signing.key").chmod(0o644)
    with pytest.raises(CacheError, match="chmod 600"):
        Keys(True, alice.where).sign(b"")


def test_without_a_key_nothing_is_stored(root, make, tmp_path, caplog):
    store = Store(root, signing=Keys(True, tmp_path / "none"))
    assert not store.save(make.variant())
    assert "aotdyn cache key new" in caplog.text


def test_bundles(root, make, alice, bob, tmp_path):
    _fill(Store(root, signing=alice), make)
    file = tmp_path / "app.aotdyn"
    bundle.export(Inventory(root, signing=alice), file, [], alice)
    there = tmp_path / "there"
    with pytest.raises(CacheError, match="isn't trusted"):
        bundle.import_(there, file, bob)
    with pytest.raises(CacheError, match="isn't trusted"):
        bundle.import_(there, file, Keys(False, tmp_path / "none"))
    assert not there.exists()
    bob.trust(next(iter(alice.trusted())), "alice")
    bundle.import_(there, file, bob)
    assert Store(there, signing=bob).load(make.spec) == [make.breaking(1)]


def test_the_command(monkeypatch, tmp_path, capsys, alice):
    monkeypatch.setenv("AOTDYN_CACHE_KEYS", str(tmp_path / "mine"))
    assert cli.main(["key", "new"]) == 0
    public = capsys.readouterr().out.split()[0]
    assert cli.main(["key", "new"]) == 1
    assert "--replace" in capsys.readouterr().err
    assert cli.main(["key", "trust", next(iter(alice.trusted())).hex(), "--name", "alice"]) == 0
    assert cli.main(["key", "trust", "abc"]) == 1
    assert cli.main(["key", "trust"]) == 1
    capsys.readouterr()
    assert cli.main(["key", "ls"]) == 0
    out = capsys.readouterr().out
    assert public in out
    assert "alice" in out
