"""Bytes at random where entries should be: never a crash, a hang, or memory without bound; a miss, or the very entry.

AOTDYN_FULL=1 tries 100,000 of them; otherwise it is 3,000.
"""

from __future__ import annotations

import logging
import os
import random
import resource

import pytest

from aotdyn.graph import data
from aotdyn.graph.program import Input, Program
from aotdyn.store import kernels, records
from aotdyn.store.integrity import Damaged, Kind, seal, unseal
from aotdyn.store.signing import Keys
from aotdyn.store.store import Store

COUNT = 100_000 if os.environ.get("AOTDYN_FULL") else 3000


def _mutated(good: bytes, chance: random.Random) -> bytes:
    """`good` with a few bytes changed, cut, doubled, moved, or replaced by lengths that promise too much."""
    made = bytearray(good)
    for _ in range(chance.randrange(1, 6)):
        place = chance.randrange(len(made) + 1)
        match chance.randrange(7):
            case 0 if made:
                made[place % len(made)] ^= 1 << chance.randrange(8)
            case 1 if made:
                made[place % len(made)] = chance.choice((0x90, 0x9F, 0xC1, 0xDD, 0xDF, 0xC6, 0xDB, 0xC9, 0xFF, 0))
            case 2:
                del made[place : place + chance.randrange(1, 40)]
            case 3:
                made[place:place] = chance.randbytes(chance.randrange(1, 20))
            case 4:
                made[place:place] = made[place : place + chance.randrange(1, 60)]
            case 5:
                made[place : place + 5] = bytes([chance.choice((0xDD, 0xDF, 0xDB, 0xC6))]) + b"\xff\xff\xff\xff"
            case 6:
                made[place:place] = b"\x91" * chance.randrange(1, 3000)
    return bytes(made)


@pytest.fixture
def memory():
    """The most that this process took may not grow by more than 200 MiB."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 << 10


def test_envelopes(make, memory, tmp_path):
    payload = records.encode(make.breaking(1))
    good = seal(Kind.RECORD, "a/b", payload, 1, b'{"program": "x"}')
    keys = Keys(False, tmp_path / "keys")
    chance = random.Random(1)
    for _ in range(COUNT):
        changed = _mutated(good, chance)
        try:
            opened = unseal(Kind.RECORD, "a/b", changed, keys)
        except Damaged:
            continue
        assert bytes(opened.payload) == payload


def test_payloads_that_pass_the_digest(make, memory):
    """As an attacker would make them: what decodes is a variant by the schema, which is all that reading promises."""
    variant = make.breaking(1)
    manifest = kernels.msgspec.msgpack.encode(kernels.Manifest((kernels.File("a", 1, "d"),), "g"))
    graph = data.encode(Program([Input("x")], [], ()))
    decoders = (
        (records.encode(variant), records.decode),
        (manifest, kernels._DECODER.decode),
        (graph, data.check),
    )
    chance = random.Random(2)
    for number in range(COUNT):
        good, decode = decoders[number % 3]
        try:
            found = decode(_mutated(good, chance))
        except (Damaged, ValueError, kernels.msgspec.MsgspecError, RecursionError):
            continue
        if decode is records.decode:
            assert type(found) is type(variant)


def test_files(root, make, memory):
    """The same through a store, a file at a time: what is bad goes away, and the entry can be stored again."""
    logging.disable(logging.WARNING)
    try:
        _files(root, make)
    finally:
        logging.disable(logging.NOTSET)


def _files(root, make) -> None:
    store = Store(root)
    chance = random.Random(3)
    for number in range(COUNT // 10):
        store.save(make.breaking(1))
        kernel = store.save_kernel("k", {"a.so": b"123"})
        (record,) = root.rglob("*.rec")
        for path in (record, kernel / "MANIFEST", kernel / "a.so")[number % 3 : number % 3 + 1]:
            path.write_bytes(_mutated(path.read_bytes(), chance))
            path.chmod(0o600)
        assert store.load(make.spec) in ([make.breaking(1)], [])
        found = store.kernel_path("k")
        assert found is None or (found / "a.so").read_bytes() == b"123"
