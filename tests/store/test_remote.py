"""The second tier: read through, written behind, and worth no more than one time-out when it is down or slow."""

from __future__ import annotations

import logging
import os
import shutil
import socket
import subprocess
import time

import pytest

from aotdyn.store import remote as tier
from aotdyn.store.remote import Remote
from aotdyn.store.store import Store

fsspec = pytest.importorskip("fsspec")


def _fill(store, make) -> None:
    assert store.save_graph("g1", b"graph")
    for number in (2, 1):
        assert store.save(make.breaking(number, graph="g1"))
    assert store.save_kernel("k1", {"a.so": b"123", "b": b"4"}, "g1") is not None


def _check(store, make) -> None:
    assert store.load(make.spec) == [make.breaking(2, graph="g1"), make.breaking(1, graph="g1")]
    assert store.graph("g1") == b"graph"
    assert (store.kernel_path("k1") / "a.so").read_bytes() == b"123"
    assert store.load(make.after) == []
    assert store.graph("none") is None
    assert store.kernel_path("none") is None


@pytest.fixture(params=["file", "memory"])
def url(request, tmp_path):
    yield f"file://{tmp_path}/remote" if request.param == "file" else f"memory://{tmp_path.name}"
    fsspec.filesystem("memory").store.clear()


def _round_trip(url, root, make, timeout=20.0) -> None:
    writer = Remote(url, timeout)
    _fill(Store(root / "one", remote=writer), make)
    assert writer.flush()
    reader = Remote(url, timeout)
    _check(Store(root / "two", remote=reader), make)
    assert not reader.down
    _check(Store(root / "two"), make)  # it lies here from now on


def test_round_trip(url, root, make):
    _round_trip(url, root, make)


def test_damage_is_a_miss(tmp_path, root, make, listed, caplog):
    there = tmp_path / "remote"
    writer = Remote(f"file://{there}", 20.0)
    _fill(Store(root / "one", remote=writer), make)
    writer.flush()
    for path in listed(there):
        path.write_bytes(path.read_bytes()[:-1] + b"?")
    store = Store(root / "two", remote=Remote(f"file://{there}", 20.0))
    assert store.load(make.spec) == []
    assert store.graph("g1") is None
    assert store.kernel_path("k1") is None
    assert not listed(root / "two", "*.rec")
    assert "remote cache" in caplog.text


def test_what_a_stranger_signed_is_not_fetched(url, root, make, tmp_path):
    pytest.importorskip("cryptography")
    from aotdyn.store.signing import Keys

    alice = Keys(True, tmp_path / "alice")
    alice.new()
    writer = Remote(url, 20.0)
    _fill(Store(root / "one", remote=writer, signing=alice), make)
    writer.flush()
    store = Store(root / "two", remote=Remote(url, 20.0), signing=Keys(False, tmp_path / "none"))
    assert store.load(make.spec) == []
    assert store.kernel_path("k1") is None
    _check(Store(root / "three", remote=Remote(url, 20.0), signing=alice), make)


class Slow:
    """A file system that takes its time."""

    protocol = "slow"

    def __init__(self, seconds: float, error: Exception | None = None) -> None:
        self.seconds = seconds
        self.error = error
        self.asked = 0

    def _wait(self, *_, **__):
        self.asked += 1
        time.sleep(self.seconds)
        if self.error is not None:
            raise self.error
        return []

    cat_file = ls = exists = pipe_file = _wait


def _timed(function, spent):
    def timed(*args):
        begun = time.monotonic()
        try:
            return function(*args)
        finally:
            spent.append(time.monotonic() - begun)

    return timed


@pytest.mark.parametrize(("seconds", "error"), [(60.0, None), (0.3, None), (0.0, OSError("refused")), (0.3, OSError())])
def test_down_or_slow_it_costs_one_time_out_in_all(root, make, monkeypatch, caplog, seconds, error):
    files = Slow(seconds, error)
    monkeypatch.setattr(tier, "_files", lambda url, timeout: files)
    remote = Remote("slow://x", 0.5)
    store = Store(root, remote=remote)
    spent = []
    for name in ("_ask", "flush"):
        monkeypatch.setattr(remote, name, _timed(getattr(remote, name), spent))
    with caplog.at_level(logging.WARNING):
        for number in range(30):
            store.save(make.variant(number))
            store.graph(f"g{number}")
            store.load(make.after)
        remote.flush()
    assert sum(spent) < 0.5 + 1.5  # the rest is a busy machine's, which wakes late
    assert remote.down
    assert files.asked < 20
    assert len([record for record in caplog.records if "left alone" in record.getMessage()]) == 1
    assert len(store.load(make.spec)) == 30


def test_it_is_asked_again_when_it_is_back(root, monkeypatch):
    files = Slow(0.0, OSError("refused"))
    monkeypatch.setattr(tier, "_files", lambda url, timeout: files)
    monkeypatch.setattr(tier, "BACK_OFF", (0.0, 0.0))
    remote = Remote("slow://x", 0.4)
    for _ in range(10):
        remote.read("x")
    assert remote.down
    files.error = None
    end = time.monotonic() + 20
    while remote.down and time.monotonic() < end:
        remote.read("x")
        time.sleep(0.01)
    assert not remote.down


def test_a_fork_goes_on_by_itself(tmp_path, root, make):
    remote = Remote(f"file://{tmp_path}/remote", 20.0)
    store = Store(root / "one", remote=remote)
    store.save(make.variant(1))
    remote.flush()
    if (child := os.fork()) == 0:
        store.save(make.variant(2))
        os._exit(0 if remote.flush() else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    other = Store(root / "two", remote=Remote(f"file://{tmp_path}/remote", 20.0))
    assert len(other.load(make.spec)) == 2


@pytest.mark.skipif(not shutil.which("moto_server"), reason="needs moto's server (pip install moto[server] s3fs)")
def test_s3_on_loopback(root, make, monkeypatch):
    pytest.importorskip("s3fs")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen([shutil.which("moto_server"), "-H", "127.0.0.1", "-p", str(port)],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
    try:
        for name, value in {
            "AWS_ACCESS_KEY_ID": "testing",
            "AWS_SECRET_ACCESS_KEY": "testing",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        }.items():
            monkeypatch.setenv(name, value)
        _until(port, server)
        files = tier._files("s3://bucket", 20.0)
        files.mkdir("bucket")
        _round_trip("s3://bucket/cache", root, make, 60.0)
    finally:
        server.kill()
        server.wait()


def _until(port: int, server: subprocess.Popen) -> None:
    end = time.monotonic() + 60
    while time.monotonic() < end and server.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.1)
    pytest.skip("moto's server doesn't come up")
