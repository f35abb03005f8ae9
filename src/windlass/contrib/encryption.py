"""Encrypted payloads: a codec that keeps what jobs carry from whoever can read the database [E4].

    from windlass.contrib.encryption import Encrypted

    app = Windlass(codec=Encrypted.from_env("SHOP_KEYS"))       # SHOP_KEYS="2026-02:base64…,2026-01:base64…"
    app = Windlass(codec=Encrypted({"2026-02": key, "2026-01": old_key}))

The first key writes, every key reads: to rotate, put a new one in front once all processes have it somewhere,
and take the last one away when nothing is left that it wrote. `new_key()` makes one. A value is bound to its
task and to what it is for, so it cannot be moved to another place; within one task it can.

It is XAES-256-GCM as specified by C2SP: AES-256-GCM under a key made for each value from the first half of a
nonce of 192 random bits. With AES-GCM alone a nonce has 96 bits, which is too few to draw them at random for
more than 2³² values under one key, and a busy store writes as many in days.

Needs `pip install 'windlass[crypto]'`.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
from collections.abc import Mapping
from typing import Any, Final, Self

from windlass.codec import Purpose
from windlass.errors import CodecError, ConfigurationError, MissingKey

try:
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    from cryptography.hazmat.primitives.ciphers.algorithms import AES256
    from cryptography.hazmat.primitives.cmac import CMAC
except ImportError as _error:
    raise ConfigurationError(
        "encrypted payloads need the package cryptography: pip install 'windlass[crypto]'"
    ) from _error

KEY_SIZE: Final = 32
NONCE_SIZE: Final = 24
_ID: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")


def new_key() -> str:
    """A random key, as base64 text."""
    return base64.b64encode(os.urandom(KEY_SIZE)).decode()


class Encrypted:
    """Encrypts every value with the first of these keys, and decrypts those of all of them.

    `keys` maps ids, which are stored beside what they encrypt, to keys: 32 bytes, or their base64. With
    `require`, what was stored in plain, from SQL say, is refused; else it is read as it stands.
    """

    name: Final = "encrypted"

    def __init__(self, keys: Mapping[str, bytes | str], *, require: bool = False) -> None:
        if not keys or not hasattr(keys, "items"):
            raise ConfigurationError(
                "Encrypted(keys=…) takes at least one key, each with an id: Encrypted({'2026-01': key}); "
                "windlass.contrib.encryption.new_key() makes one"
            )
        self.require: Final = require
        self._keys = {_checked(id): _read(id, given) for id, given in keys.items()}
        self._first = next(iter(self._keys))

    @classmethod
    def from_env(cls, variable: str, *, require: bool = False) -> Self:
        """The keys of an environment variable: `id:base64`, with commas between several."""
        given = os.environ.get(variable, "")
        if not given.strip():
            raise ConfigurationError(
                f"{variable} is not set; put id:base64 there, with commas between several keys"
            )
        keys: dict[str, bytes | str] = {}
        for place, entry in enumerate(given.split(","), 1):
            id, colon, key = (word.strip() for word in entry.partition(":"))
            if not colon or not key or id in keys:
                raise ConfigurationError(  # without the text: it may be a key
                    f"{variable}: entry {place} is missing, repeats an id, or is not written as id:base64; "
                    "write 2026-02:base64…,2026-01:base64…"
                )
            keys[id] = key
        return cls(keys, require=require)

    def __repr__(self) -> str:
        return f"<Encrypted, keys {', '.join(self._keys)}>"

    def encode(self, data: bytes, purpose: Purpose) -> dict[str, str]:
        """Encrypt a value with the first key."""
        nonce = os.urandom(NONCE_SIZE)
        cipher = self._keys[self._first].cipher(nonce)
        sealed = nonce + cipher.encrypt(nonce[12:], data, _bound_to(purpose))
        return {"key": self._first, "data": base64.b64encode(sealed).decode()}

    def decode(self, fields: Mapping[str, Any], purpose: Purpose) -> bytes:
        """Decrypt a value with the key that it names. Raises MissingKey, or CodecError where it does not
        fit."""
        id = fields.get("key")
        what = f"task {purpose.task}: its {purpose.kind}"
        key = self._keys.get(id) if isinstance(id, str) else None
        if key is None:
            raise MissingKey(
                f"{what} is encrypted with the key {id!r}, which this app does not have (it has "
                f"{', '.join(self._keys)}); add that key to Encrypted(keys=…), behind the first",
                str(id),
            )
        try:
            sealed = base64.b64decode(fields["data"], validate=True)
            nonce = sealed[:NONCE_SIZE]
            return key.cipher(nonce).decrypt(nonce[12:], sealed[NONCE_SIZE:], _bound_to(purpose))
        except (InvalidTag, KeyError, TypeError, ValueError, binascii.Error):
            raise CodecError(
                f"{what} cannot be decrypted with the key {id!r}: that key is not the one it was encrypted "
                "with, or what is stored was changed or belongs elsewhere; compare the keys of this process "
                "and of the one that enqueued it"
            ) from None


class _Key:
    """A key, from which each value gets one of its own."""

    def __init__(self, key: bytes) -> None:
        self._mac = CMAC(AES256(key))

    def cipher(self, nonce: bytes) -> AESGCM:
        """AES-256-GCM under the key that the first half of a nonce makes of this one."""
        return AESGCM(self._half(b"\0\1X\0" + nonce[:12]) + self._half(b"\0\2X\0" + nonce[:12]))

    def _half(self, block: bytes) -> bytes:
        mac = self._mac.copy()  # to make it anew takes ten times as long
        mac.update(block)
        return mac.finalize()


def _read(id: str, given: bytes | str) -> _Key:
    """The key from bytes or base64 text, also that of URLs."""
    try:
        if isinstance(given, str):
            text = given.translate(str.maketrans("-_", "+/"))
            key = base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
        else:
            key = bytes(given)
    except (TypeError, ValueError):
        key = b""
    if len(key) != KEY_SIZE:
        raise ConfigurationError(
            f"the key {id!r} is not {KEY_SIZE} bytes, nor the base64 of so many; make one with "
            "windlass.contrib.encryption.new_key()"
        )
    return _Key(key)


def _bound_to(purpose: Purpose) -> bytes:
    """Return the bytes that must be the same when a value is read as when it was written."""
    return f"windlass/1 {purpose.kind} {purpose.task}".encode()


def _checked(id: Any) -> str:
    if not isinstance(id, str) or not _ID.fullmatch(id):
        raise ConfigurationError(f"{id!r} cannot be the id of a key; use letters, digits, _ . - and up to 64")
    return id
