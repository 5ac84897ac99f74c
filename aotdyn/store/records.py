"""Variants as bytes: how a frame is keyed, a variant written, and two of them known to be the same."""

from __future__ import annotations

import msgspec

from aotdyn.runtime.variant import FrameSpec, Variant
from aotdyn.store.integrity import Damaged, digest

_ENCODER = msgspec.msgpack.Encoder(order="deterministic")
_DECODER = msgspec.msgpack.Decoder(Variant)

DEPTH = 200
"Nesting that no record has: what lies deeper can't be decoded with any stack."


def frame_key(spec: FrameSpec) -> str:
    """Key of a frame's entry: module, qualified name, code digest, offset and shape, as 32 hex digits."""
    return digest(_ENCODER.encode(spec), 16)


def encode(variant: Variant) -> bytes:
    """A variant as MessagePack, without what belongs to this process.

    Raises:
        TypeError, OverflowError, ValueError: it holds something that isn't data.
    """
    return _ENCODER.encode(msgspec.structs.replace(variant, locals=None))


def decode(payload: bytes | memoryview) -> Variant:
    """The variant in verified bytes.

    Raises:
        Damaged: they aren't one, or one that could never have been stored.
    """
    try:
        variant = _DECODER.decode(payload)
    except (msgspec.MsgspecError, ValueError, TypeError, OverflowError) as error:
        raise Damaged(f"not a record: {error}") from error
    except RecursionError:
        if (found := depth(payload)) <= DEPTH:
            raise  # the program's own stack is at its end
        raise Damaged(f"not a record: nested {found} deep, where {DEPTH} is allowed") from None
    if variant.process_local or variant.locals is not None:
        raise Damaged("not a record: it belongs to another process")
    return variant


_FIXED = {0xCA: 4, 0xCB: 8, **{0xCC + n: 1 << n for n in range(4)}, **{0xD0 + n: 1 << n for n in range(4)}}
_EXTENSIONS = {0xD4 + n: 1 + (1 << n) for n in range(5)}
_SIZED = {0xC4: (1, 0), 0xC5: (2, 0), 0xC6: (4, 0), 0xC7: (1, 1), 0xC8: (2, 1), 0xC9: (4, 1)}
_SIZED |= {0xD9: (1, 0), 0xDA: (2, 0), 0xDB: (4, 0)}
_CONTAINERS = {0xDC: (2, 1), 0xDD: (4, 1), 0xDE: (2, 2), 0xDF: (4, 2)}
"By MessagePack's first byte: bytes of a number; of an extension; of a length, and of a type; of a count, and its unit."


def depth(payload: bytes | memoryview) -> int:
    """How deep MessagePack nests, told without recursion; what is cut off counts as far as it goes."""
    place, deepest = 0, 0
    open_items: list[int] = []
    while place < len(payload):
        byte = payload[place]
        place += 1
        inside = 0
        if 0x80 <= byte < 0xA0:
            inside = (byte & 15) * (2 if byte < 0x90 else 1)
        elif 0xA0 <= byte < 0xC0:
            place += byte & 31
        elif byte in _CONTAINERS:
            size, unit = _CONTAINERS[byte]
            inside = int.from_bytes(payload[place : place + size], "big") * unit
            place += size
        elif byte in _SIZED:
            size, more = _SIZED[byte]
            place += size + more + int.from_bytes(payload[place : place + size], "big")
        else:
            place += _FIXED.get(byte, 0) or _EXTENSIONS.get(byte, 0)
        while open_items and not open_items[-1]:
            open_items.pop()
        if open_items:
            open_items[-1] -= 1
        if inside:
            open_items.append(inside)
            deepest = max(deepest, len(open_items))
    return deepest


def identity(variant: Variant) -> str:
    """What a variant's file is named by: the same for the same variant traced twice.

    Compiled code is left out: marshal's bytes differ between equal code
    objects, and all of it follows from the rest and the digests in it. So are
    lines of files: a function that moved in its file is the same.
    """
    resumes = [msgspec.structs.replace(point, code=b"", origin=b"") for point in variant.resumes]
    return digest(encode(msgspec.structs.replace(variant, code=b"", resumes=resumes, places=[])), 16)
