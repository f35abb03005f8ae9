"""Who may come in: a name and a secret for each role, and the comparison that gives nothing away [M5].

A secret is as good as a password and is sent as one: `name` and `secret` as HTTP Basic, or the secret alone
as a Bearer token. It is never shown.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Iterable
from typing import Final

from windlass.errors import ConfigurationError
from windlass.web.who import Role, Who

SHORTEST: Final = 8
"""Characters of a secret, at least."""


class Credentials:
    """The pairs of both roles."""

    def __init__(self, read: Iterable[str] = (), operate: Iterable[str] = ()) -> None:
        self._pairs = [
            (_digest(name), _digest(secret), Who(name, role))
            for role, pairs in ((Role.READ, read), (Role.OPERATE, operate))
            for name, secret in map(split, pairs)
        ]

    def __bool__(self) -> bool:
        return bool(self._pairs)

    def __repr__(self) -> str:
        return f"<Credentials of {len(self._pairs)}>"

    def name(self, authorization: str) -> str:
        """The name in this header, whoever has it; a token comes without."""
        kind, _, given = authorization.partition(" ")
        return _basic(given.strip())[0] if kind.lower() == "basic" else ""

    def has(self, name: str) -> bool:
        """Whether somebody here has this name."""
        return any(who.name == name for _, _, who in self._pairs)

    def who(self, authorization: str) -> Who | None:
        """Who sends this header; None where nobody does. Every pair is looked at, whichever fits: how long
        that takes says nothing."""
        kind, _, given = authorization.partition(" ")
        match kind.lower():
            case "bearer":
                name, secret = None, given.strip()
            case "basic":
                name, secret = _basic(given.strip())
            case _:
                return None
        found: Who | None = None
        name_digest, secret_digest = _digest(name or ""), _digest(secret)
        for known, kept, who in self._pairs:
            fits = hmac.compare_digest(kept, secret_digest)
            if name is not None:
                fits = hmac.compare_digest(known, name_digest) and fits
            if fits and (found is None or who.role > found.role):
                found = who
        return found


def split(pair: str) -> tuple[str, str]:
    """A pair as it is written in settings. Raises ConfigurationError, which shows nothing of it."""
    name, colon, secret = pair.partition(":")
    if not colon or not name.strip() or len(secret) < SHORTEST:
        raise ConfigurationError(
            f"a credential is written name:secret, with at least {SHORTEST} characters of secret; make one "
            'with `python -c "import secrets; print(secrets.token_urlsafe())"`'
        )
    if not (secret.isascii() and secret.isprintable() and secret == secret.strip()):
        raise ConfigurationError(
            "the secret of a name:secret pair must be ASCII characters that can be seen, without spaces "
            "around it: browsers and programs send others in different ways, and it would not be recognised"
        )
    return name.strip(), secret


def _basic(given: str) -> tuple[str, str]:
    try:
        name, _, secret = base64.b64decode(given, validate=True).decode().partition(":")
    except (binascii.Error, ValueError):
        return "", ""
    return name, secret


def _digest(text: str) -> bytes:
    """Of one length, whatever the text's, so that comparing takes the same time."""
    return hashlib.sha256(text.encode(errors="surrogatepass")).digest()
