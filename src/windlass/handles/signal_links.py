"""Addresses that send one signal, for a button in a mail or a chat: signed, good for a while, used once [W2].

    https://jobs.example.com/signal/<what it sends>.<signature>

Whoever has the address may send the signal, and nothing else. What it sends can be read in it. The signature
is an HMAC-SHA256 with the app's `secret`; that it was used is for the store to remember.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
from typing import Any, Final

import msgspec

from windlass.errors import ConfigurationError, PayloadTooLarge

PATH: Final = "/signal/"
MIN_SECRET: Final = 32
MAX_VALUE: Final = 1024
MAX_TOKEN: Final = 4096
_KEY: Final = b"windlass signal link 1"


class Link(msgspec.Struct, frozen=True, array_like=True):
    """The signal that an address sends."""

    job: int
    name: str
    value: str
    """JSON text."""
    expires: float
    """Seconds since the epoch."""
    nonce: str


def make(secret: str, job: int, name: str, value: str, expires: float) -> str:
    """The part of an address that says what it sends. Raises ConfigurationError without a secret."""
    if not secret:
        raise ConfigurationError(
            f"signal_url() needs a secret to sign with: set WINDLASS_SECRET, or Windlass(secret=…), to "
            f"{MIN_SECRET} characters or more, the same for those who make addresses and for `windlass web`. "
            "`python -c 'import secrets; print(secrets.token_urlsafe(32))'` makes one"
        )
    if len(value.encode()) > MAX_VALUE:
        raise PayloadTooLarge(
            f"the value of signal {name!r} takes more than {MAX_VALUE:,} bytes, too many for an address; "
            "send a word that the handler knows, and keep the rest elsewhere"
        )
    body = msgspec.json.encode(Link(job, name, value, expires, secrets.token_urlsafe(16)))
    return f"{_coded(body)}.{_coded(_signature(secret, body))}"


def read(secret: str, token: str) -> Link | None:
    """Return the signal that an address sends; None where its signature is not ours."""
    if not secret or len(token) > MAX_TOKEN or not token.isascii():
        return None
    coded, _, signed = token.partition(".")
    try:
        body, signature = _decoded(coded), _decoded(signed)
    except (ValueError, binascii.Error):
        return None
    if not hmac.compare_digest(signature, _signature(secret, body)):
        return None
    return msgspec.json.decode(body, type=Link)


def base_of(base: object) -> str:
    """Where Mission Control is, without a slash at its end. Raises ConfigurationError."""
    if not isinstance(base, str) or not base.startswith(("https://", "http://")):
        raise ConfigurationError(
            f"signal_url(base={base!r}): write where `windlass web` is reached, such as "
            "https://jobs.example.com"
        )
    return base.rstrip("/")


def _signature(secret: str, body: bytes) -> bytes:
    key = hmac.digest(secret.encode(), _KEY, hashlib.sha256)
    return hmac.digest(key, body, hashlib.sha256)


def _coded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decoded(text: str) -> Any:
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
