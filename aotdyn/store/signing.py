"""Signatures: who signs what is stored, and whose signatures are believed.

Keys are Ed25519's, by the `cryptography` library (the extra `sign`). They lie
in a folder of the user's, outside of any cache: `signing.key`, which signs,
and `trusted/<name>.pub`, a public key a file, in hex digits.

What is signed by a key that isn't trusted is never read. What isn't signed is
read unless signatures are asked for (`cache_sign`): then only what a trusted
key signed is, and all that is stored is signed.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aotdyn.errors import CacheError
from aotdyn.store import disk
from aotdyn.store.integrity import Damaged, Untrusted, check_root

if TYPE_CHECKING:
    from aotdyn.config import Options

SIGNING_KEY, TRUSTED, SUFFIX = "signing.key", "trusted", ".pub"
_PUBLIC = 32


def folder(options: Options) -> Path:
    """Where this user's keys lie."""
    if options.cache_keys:
        return Path(options.cache_keys).expanduser().absolute()
    base = os.environ.get("XDG_CONFIG_HOME", "").strip() or os.path.expanduser("~/.config")
    return Path(base, "aotdyn", "keys")


def short(public: bytes) -> str:
    """A key's name for messages: its first digits."""
    return public.hex()[:16]


class Keys:
    """The keys in a folder, read when they are first needed; see `integrity.Signing`.

    Args:
        required: sign what is stored, and read nothing else than what a trusted key signed.
        where: the folder.
    """

    def __init__(self, required: bool, where: Path) -> None:
        self.required = required
        self.where = where
        self._trusted: dict[bytes, str] | None = None
        self._signing: Any = None

    def sign(self, message: bytes) -> bytes:
        """The public key and its signature of `message`; empty where nothing is to be signed.

        Raises:
            CacheError: there is no key to sign with.
        """
        if not self.required:
            return b""
        if self._signing is None:
            self._signing = self._load()
        return _raw(self._signing.public_key()) + self._signing.sign(message)

    def judge(self, block: bytes, message: bytes) -> None:
        """See whether content may be read.

        Raises:
            Untrusted: it isn't signed and must be, or by a key that isn't trusted.
            Damaged: the signature isn't one of this content.
        """
        if not block:
            if self.required:
                raise Untrusted("it isn't signed, and only what is signed is read (cache_sign)")
            return
        public, signature = block[:_PUBLIC], block[_PUBLIC:]
        try:
            trusted = self.trusted()
        except CacheError as error:
            raise Untrusted(f"it is signed, and no signature can be checked: {error.what}") from None
        if public not in trusted:
            raise Untrusted(f"it is signed by the key {short(public)}, which isn't trusted (`aotdyn cache key trust`)")
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        try:
            Ed25519PublicKey.from_public_bytes(public).verify(signature, message)
        except (InvalidSignature, ValueError):
            raise Damaged(f"the signature of the key {short(public)} doesn't match") from None

    def trusted(self) -> dict[bytes, str]:
        """Public keys to their names. Empty where signatures can't be checked at all."""
        if self._trusted is None:
            self._trusted = self._read_trusted()
        return self._trusted

    def _read_trusted(self) -> dict[bytes, str]:
        try:
            names = sorted(os.listdir(self.where / TRUSTED))
        except OSError:
            return {}
        _library()
        check_root(Path(os.path.realpath(self.where / TRUSTED)))
        found = {}
        for name in names:
            if name.endswith(SUFFIX):
                found[parse((self.where / TRUSTED / name).read_text())] = name.removesuffix(SUFFIX)
        return found

    def _load(self) -> Any:
        private = _library()
        path = self.where / SIGNING_KEY
        try:
            text = path.read_text()
            mode = path.stat().st_mode
        except OSError as error:
            raise CacheError(f"there is no key to sign with: {error.strerror}", where=str(path),
                             hint="make one with `aotdyn cache key new`, or unset cache_sign") from None  # fmt: skip
        if mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise CacheError("others can read the key that signs", where=str(path), hint=f"run `chmod 600 {path}`")
        return private.from_private_bytes(parse(text))

    def new(self, replace: bool = False) -> bytes:
        """Make a key, trust it, and give its public half.

        Raises:
            CacheError: there is one already, or it can't be written.
        """
        path = self.where / SIGNING_KEY
        if path.exists() and not replace:
            raise CacheError("there is a key already", where=str(path), hint="--replace makes another")
        made = _library().generate()
        self._write(path, made.private_bytes_raw().hex())
        public = _raw(made.public_key())
        self.trust(public, f"own-{short(public)}")
        self._signing = made
        return public

    def trust(self, public: bytes, name: str) -> None:
        """Believe what this key signs, from now on.

        Raises:
            CacheError: it can't be written.
        """
        if not name or "/" in name or name.startswith("."):
            raise CacheError(f"{name!r} can't be a key's name", hint="use letters and digits")
        self._write(self.where / TRUSTED / (name + SUFFIX), public.hex())
        self._trusted = None

    def _write(self, path: Path, text: str) -> None:
        try:
            disk.make_directory(str(path.parent))
            disk.write(str(path), text.encode() + b"\n")
        except OSError as error:
            raise CacheError(f"the key can't be written: {error.strerror}", where=str(path),
                             hint="name another folder with AOTDYN_CACHE_KEYS") from None  # fmt: skip


def parse(text: str) -> bytes:
    """A key of 64 hex digits.

    Raises:
        CacheError: it isn't one.
    """
    try:
        key = bytes.fromhex(text.strip())
    except ValueError:
        key = b""
    if len(key) != _PUBLIC:
        raise CacheError(f"{text.strip()[:20]!r}... isn't a key", hint="a key is 64 hex digits")
    return key


def _raw(public: Any) -> bytes:
    return public.public_bytes_raw()


def _library() -> Any:
    try:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    except ImportError:
        raise CacheError(
            "signatures need the library `cryptography`, which isn't installed", hint='pip install "aotdyn[sign]"'
        ) from None
    return Ed25519PrivateKey
