"""Variants as bytes: how a frame is keyed, a variant written, and two of them known to be the same."""

from __future__ import annotations

import msgspec

from aotdyn.runtime.variant import FrameSpec, Variant
from aotdyn.store.integrity import Damaged, digest

_ENCODER = msgspec.msgpack.Encoder(order="deterministic")
_DECODER = msgspec.msgpack.Decoder(Variant)


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
    if variant.process_local or variant.locals is not None:
        raise Damaged("not a record: it belongs to another process")
    return variant


def identity(variant: Variant) -> str:
    """What a variant's file is named by: the same for the same variant traced twice.

    Compiled code is left out: marshal's bytes differ between equal code
    objects, and all of it follows from the rest and the digests in it. So are
    lines of files: a function that moved in its file is the same.
    """
    resumes = [msgspec.structs.replace(point, code=b"", origin=b"") for point in variant.resumes]
    return digest(encode(msgspec.structs.replace(variant, code=b"", resumes=resumes, places=[])), 16)
