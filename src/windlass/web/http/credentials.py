"""The names and secrets of each role, compared in constant time [M5].

A secret is sent as a password: with its name as HTTP Basic, or alone as a Bearer token. It is never shown.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Iterable
from typing import Final

from windlass.errors import ConfigurationError
from windlass.operations.principal import Principal, Role

SHORTEST: Final = 8
"""The fewest characters of a secret."""


class Credentials:
    """The name:secret pairs of both roles."""

    def __init__(self, read: Iterable[str] = (), operate: Iterable[str] = ()) -> None:
        self._pairs = [
            (_digest(name), _digest(secret), Principal(name, role))
            for role, pairs in ((Role.READ, read), (Role.OPERATE, operate))
            for name, secret in map(split, pairs)
        ]

    def __bool__(self) -> bool:
        return bool(self._pairs)

    def __repr__(self) -> str:
        return f"<Credentials of {len(self._pairs)}>"

    def name(self, authorization: str) -> str:
        """The name in this header, known or not; a token has none."""
        kind, _, given = authorization.partition(" ")
        return _basic(given.strip())[0] if kind.lower() == "basic" else ""

    def has(self, name: str) -> bool:
        """Return whether a pair has this name."""
        return any(principal.name == name for _, _, principal in self._pairs)

    def find(self, authorization: str) -> Principal | None:
        """The principal of this header, or None. Every pair is compared, so that the time reveals nothing."""
        kind, _, given = authorization.partition(" ")
        match kind.lower():
            case "bearer":
                name, secret = None, given.strip()
            case "basic":
                name, secret = _basic(given.strip())
            case _:
                return None
        found: Principal | None = None
        name_digest, secret_digest = _digest(name or ""), _digest(secret)
        for known, kept, principal in self._pairs:
            fits = hmac.compare_digest(kept, secret_digest)
            if name is not None:
                fits = hmac.compare_digest(known, name_digest) and fits
            if fits and (found is None or principal.role > found.role):
                found = principal
        return found


def split(pair: str) -> tuple[str, str]:
    """A pair as it is written in settings. Raises a ConfigurationError that does not show it."""
    name, colon, secret = pair.partition(":")
    if not colon or not name.strip() or len(secret) < SHORTEST:
        raise ConfigurationError(
            f"a credential is written name:secret, with at least {SHORTEST} characters of secret; make one "
            'with `python -c "import secrets; print(secrets.token_urlsafe())"`'
        )
    if not (secret.isascii() and secret.isprintable() and secret == secret.strip()):
        raise ConfigurationError(
            "the secret of a name:secret pair must be printable ASCII without spaces around it: browsers and "
            "programs encode other characters in different ways"
        )
    return name.strip(), secret


def _basic(given: str) -> tuple[str, str]:
    try:
        name, _, secret = base64.b64decode(given, validate=True).decode().partition(":")
    except (binascii.Error, ValueError):
        return "", ""
    return name, secret


def _digest(text: str) -> bytes:
    """All digests have one length, so comparing them takes constant time."""
    return hashlib.sha256(text.encode(errors="surrogatepass")).digest()
