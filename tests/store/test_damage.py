"""Whatever is wrong with the disk or a file, a reader gets a miss and a line in the log, and results go on."""

from __future__ import annotations

import errno
import logging
import os
import random
import shutil
import time
from types import SimpleNamespace

import pytest

from aotdyn.errors import CacheError
from aotdyn.store import disk, integrity, records
from aotdyn.store.integrity import Damaged, Kind, seal, unseal
from aotdyn.store.store import Store, opened


@pytest.fixture
def log(caplog):
    caplog.set_level(logging.WARNING, "aotdyn.store")
    return caplog


def test_flipped_and_truncated_bytes_are_misses(store, root, make, listed):
    store.save(make.breaking())
    (file,) = listed(root, "*.rec")
    good = file.read_bytes()
    chance = random.Random(0)
    cases = [good[:n] for n in (0, 1, 20, integrity.HEADER_SIZE, len(good) - 1)] + [good + b"x", b"\0" * len(good)]
    for place in range(len(good)):
        cases.append(good[:place] + bytes([good[place] ^ (1 << chance.randrange(8))]) + good[place + 1 :])
    for case in cases:
        file.write_bytes(case)
        file.chmod(0o600)
        assert store.load(make.spec) == []
        assert not file.exists()
    assert store.save(make.breaking())
    assert store.load(make.spec) == [make.breaking()]


def test_what_passes_the_digest_is_still_read_by_schema(store, root, make, listed):
    store.save(make.variant())
    (file,) = listed(root, "*.rec")
    name = f"{file.parent.name}/{file.name}"
    payload = unseal(Kind.RECORD, name, file.read_bytes()).payload.tobytes()
    chance = random.Random(1)
    for _ in range(2000):
        changed = bytearray(payload)
        for _ in range(chance.randrange(1, 4)):
            changed[chance.randrange(len(changed))] = chance.randrange(256)
        try:
            records.decode(
                bytes(changed[: chance.randrange(1, len(changed) + 1)] if chance.random() < 0.2 else changed)
            )
        except Damaged:
            pass
    foreign = records.encode(make.variant(0, make.after))
    for wrong in (b"", b"\xc0", b"\x93\x01\x02\x03", b"\xff" * 50, foreign, payload + b"\0"):
        file.write_bytes(seal(Kind.RECORD, name, wrong, 1))
        file.chmod(0o600)
        assert store.load(make.spec) == []


def test_one_damaged_file_costs_no_other(store, root, make, listed, log):
    for number in range(3):
        store.save(make.variant(number))
    file = listed(root, "*.rec")[1]
    file.write_bytes(file.read_bytes()[:-1])
    assert len(store.load(make.spec)) == 2
    assert len(log.records) == 1
    assert str(file) in log.text
    assert len(store.load(make.spec)) == 2
    assert len(log.records) == 1


def test_a_file_moved_to_anothers_place_is_a_miss(store, root, listed):
    store.save_graph("aa1", b"one")
    store.save_graph("aa2", b"two")
    one, two = listed(root, "*.graph")
    os.replace(one, two)
    assert store.graph("aa2") is None


def test_another_format_is_a_miss(store, root, listed, monkeypatch):
    monkeypatch.setattr(integrity, "FORMAT", integrity.FORMAT + 1)
    store.save_graph("g", b"one")
    monkeypatch.undo()
    assert store.graph("g") is None


@pytest.mark.parametrize("harm", ["flip", "short", "gone", "manifest", "no manifest", "directory"])
def test_damaged_kernels_are_misses_and_can_be_stored_again(store, harm):
    path = store.save_kernel("k", {"a.so": b"123", "b.so": b"456"})
    match harm:
        case "flip":
            (path / "a.so").write_bytes(b"124")
        case "short":
            (path / "a.so").write_bytes(b"12")
        case "gone":
            (path / "b.so").unlink()
        case "manifest":
            (path / "MANIFEST").write_bytes(b"x")
        case "no manifest":
            (path / "MANIFEST").unlink()
        case "directory":
            (path / "a.so").unlink()
            (path / "a.so").mkdir()
    other = Store(store.root, readonly=True)
    assert other.kernel_path("k") is None
    assert path.exists()
    if harm != "short":  # then the writer finds the damage, not the reader
        assert store.kernel_path("k") is None
        assert not path.exists()
    assert store.save_kernel("k", {"a.so": b"123", "b.so": b"456"}) == path
    assert (store.kernel_path("k") / "a.so").read_bytes() == b"123"


def test_what_is_damaged_is_written_anew_when_it_is_stored_again(store, root, make, listed):
    store.save_graph("g", b"graph")
    store.save(make.variant(1, graph="g"))
    for pattern in ("*.rec", "*.graph"):
        (file,) = listed(root, pattern)
        file.write_bytes(file.read_bytes()[:-1])
    assert store.load(make.spec) == []  # so the function is traced again, and the same is stored
    store.save_graph("g", b"graph")
    store.save(make.variant(1, graph="g"))
    assert Store(root).graph("g") == b"graph"
    assert Store(root).load(make.spec)


def test_nesting_without_end_is_damage(store, root, make, listed):
    levels = 100_000
    deep = b"\x91" * levels + b"\xc0"
    assert records.depth(deep) == levels
    with pytest.raises(Damaged, match=r"not a record"):
        records.decode(deep)
    good = records.encode(make.variant([[1, {"a": [2]}]]))
    assert 3 < records.depth(good) < 12
    store.save(make.variant())
    (file,) = listed(root, "*.rec")
    # A guard's `expected` may be anything: this is what the schema alone doesn't refuse.
    payload = records.encode(make.variant(b"MARK")).replace(b"\xc4\x04MARK", deep)
    file.write_bytes(seal(Kind.RECORD, f"{file.parent.name}/{file.name}", payload, 1))
    file.chmod(0o600)
    assert store.load(make.spec) == []


def test_a_stack_at_its_end_is_not_taken_for_damage(make, monkeypatch):
    def out_of_stack(_):
        raise RecursionError

    monkeypatch.setattr(records, "_DECODER", SimpleNamespace(decode=out_of_stack))
    with pytest.raises(RecursionError):
        records.decode(records.encode(make.variant()))


def test_the_store_is_removed_while_it_is_in_use(store, root, make):
    store.save(make.variant(1))
    shutil.rmtree(root)
    assert store.load(make.spec) == []
    assert store.save(make.variant(2))
    assert store.save_kernel("k", {"a.so": b"x"})
    assert store.load(make.spec) == [make.variant(2)]
    assert next(root.glob("v1/*/environment.json"))


@pytest.mark.parametrize("damage", [b"", b"[]", b'{"python": '])
def test_a_damaged_description_is_made_anew_by_whoever_reads(store, root, make, listed, log, damage):
    store.save(make.variant())
    (about,) = listed(root, "environment.json")
    before = about.read_bytes()
    about.write_bytes(damage)
    reading = Store(root)
    assert reading.load(make.spec) == reading.load(make.spec) == [make.variant()]
    assert about.read_bytes() == before
    (record,) = log.records
    assert str(about) in record.getMessage()
    about.write_bytes(damage)
    assert Store(root, readonly=True).load(make.spec) == [make.variant()]
    assert about.read_bytes() == damage


def test_a_path_that_is_a_file(root, make, log):
    root.write_text("mine")
    store = Store(root)
    assert not store.save(make.variant())
    assert store.load(make.spec) == []
    assert store.save_kernel("k", {"a.so": b"x"}) is None
    assert store.kernel_path("k") is None
    assert len(log.records) == 1
    assert root.read_text() == "mine"


def test_links_on_the_way(root, make):
    there = root.parent / "there"
    root.symlink_to(there)
    with pytest.raises(CacheError, match=r"symbolic link to .*there.*isn't there"):
        Store(root)
    with pytest.raises(CacheError, match="symbolic link"):
        Store(root / "below")
    with pytest.raises(CacheError, match="symbolic link"):
        Store(root, trust=True)
    assert not there.exists()
    there.mkdir()
    assert Store(root).save(make.variant())
    assert Store(there).load(make.spec)
    open_to_all = root.parent / "open"
    open_to_all.mkdir()
    (open_to_all / "link").symlink_to(there)
    open_to_all.chmod(0o777)  # whoever can write there can make the link lead elsewhere
    with pytest.raises(CacheError, match="chmod go-w"):
        Store(open_to_all / "link")


def test_a_refused_cache_is_told_once(root, log):
    root.mkdir()
    root.chmod(0o777)
    for options in (None, "a", "b"):
        assert opened(root, options, trust=False).root is None
    assert len(log.records) == 1
    assert "--trust-cache" in log.text


def test_size_limits(store, root, monkeypatch, listed, log):
    store.save_graph("g", b"x" * 100)
    monkeypatch.setattr("aotdyn.store.store.LIMIT", 50)
    assert not store.save_graph("h", b"x" * 51)
    assert store.save_graph("i", b"x" * 50)
    monkeypatch.setattr(disk.read, "__kwdefaults__", {"limit": 120})
    assert store.graph("g") is None
    assert "allowed" in log.text


def test_what_is_no_regular_file(store, root, make, listed):
    store.save(make.variant())
    (file,) = listed(root, "*.rec")
    for create in (os.mkdir, os.mkfifo, lambda path: os.symlink("nowhere", path)):
        file.unlink(missing_ok=True)
        create(file)
        assert store.load(make.spec) == []
        if file.is_dir():
            file.rmdir()


def test_the_cache_is_a_file(root, make, log):
    root.write_text("not a directory")
    store = Store(root)
    assert store.load(make.spec) == []
    assert not store.save(make.variant())
    assert not store.save_graph("g", b"")
    assert store.save_kernel("k", {"a": b""}) is None
    assert len(log.records) == 1
    assert root.read_text() == "not a directory"


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EDQUOT])
def test_a_disk_that_takes_nothing_gives_one_warning(store, root, make, monkeypatch, log, listed, code):
    store.save(make.variant(0))

    def refuse(*_):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "replace", refuse)
    for number in range(1, 4):
        assert not store.save(make.variant(number))
    monkeypatch.undo()
    assert store.load(make.spec) == [make.variant(0)]
    assert len(log.records) == 1
    assert os.strerror(code) in log.text
    assert not listed(root, "*.tmp-*")


def test_what_cannot_be_read_is_a_miss_and_stays(store, root, make, monkeypatch, log, listed):
    store.save(make.variant())

    def refuse(*_):
        raise OSError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    assert store.load(make.spec) == []
    assert store.load(make.spec) == []
    monkeypatch.undo()
    assert len(log.records) == 1
    assert len(store.load(make.spec)) == 1


@pytest.mark.parametrize("which", ["root", "parent"])
@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777])
def test_a_cache_that_others_can_write_is_refused(root, make, which, mode):
    root.mkdir()
    directory = root if which == "root" else root.parent
    directory.chmod(mode)
    with pytest.raises(CacheError, match=r"chmod go-w .*AOTDYN_CACHE_TRUST=1"):
        Store(root)
    store = Store(root, trust=True)
    assert store.save(make.variant())
    assert store.load(make.spec)
    directory.chmod(0o1777)
    if which == "parent":
        Store(root)
    directory.chmod(0o755)
    Store(root)


def test_a_file_that_others_can_write_is_not_believed(store, root, make, listed, log):
    store.save(make.variant())
    listed(root, "*.rec")[0].chmod(0o620)
    assert len(Store(root, trust=True, readonly=True).load(make.spec)) == 1
    assert store.load(make.spec) == []
    assert "writable by others" in log.text


def test_a_kernel_in_a_directory_that_others_can_write_is_not_believed(store, log):
    path = store.save_kernel("k", {"a.so": b"x"})
    for directory in (path, path.parent, path.parent.parent):
        directory.chmod(0o777)
        assert Store(store.root, readonly=True).kernel_path("k") is None
        assert Store(store.root, readonly=True, trust=True).kernel_path("k") == path
        directory.chmod(0o700)
    assert store.kernel_path("k") == path
    assert "writable by others" in log.text


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="giving files away needs root")
def test_what_belongs_to_somebody_else_is_not_believed(store, root, make, listed):
    store.save(make.variant())
    os.chown(listed(root, "*.rec")[0], 12345, -1)
    assert store.load(make.spec) == []
    os.chown(root, 12345, -1)
    with pytest.raises(CacheError, match="another user"):
        Store(root)


def test_reading_renews_what_gc_goes_by(store, root, make):
    store.save(make.variant())
    store.save_module("m", b"")
    old = time.time() - 3 * disk.DAY
    entry = next(root.glob("v1/*/records/*/*"))
    module = next(root.glob("v1/*/modules/*/*"))
    for path in (entry, module):
        os.utime(path, (old, old))
    assert store.load(make.spec)
    assert store.module("m") == b""
    for path in (entry, module):
        assert time.time() - path.stat().st_mtime < 60
