"""Logins: finds the principal by the credentials of a request. Wrong ones are slowed, logged and counted
[M5]."""

from __future__ import annotations

import hashlib
import logging
from collections import Counter, OrderedDict
from typing import Final

from windlass.operations.principal import Principal
from windlass.presentation.text import one_line
from windlass.running.outages import OutageLog
from windlass.web.http.credentials import Credentials
from windlass.web.http.login_throttle import DELAY, LoginThrottle
from windlass.web.http.problems import Problem

logger: Final = logging.getLogger("windlass.web")
_MAX_REMEMBERED: Final = 1_000


class Logins:
    """The credentials of an app, and the logins that failed."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials
        self._throttle = LoginThrottle()
        self._known: OrderedDict[bytes, Principal] = OrderedDict()
        self._outages = OutageLog(logger)
        self.refused: Final = Counter(wrong=0, throttled=0)
        """Refused logins since this process began."""

    def __bool__(self) -> bool:
        return bool(self._credentials)

    async def check(self, authorization: str | None, address: str) -> Principal:
        """The principal with these credentials: by a table of those accepted before, else by comparing.
        Raises a Problem, which is the same whatever was wrong."""
        if not authorization:
            raise Problem(
                401, "unauthenticated", "send a name and its secret (Basic), or a secret alone (Bearer)"
            )
        digest = hashlib.sha256(authorization.encode(errors="surrogatepass")).digest()
        principal = self._known.get(digest)
        if principal is None:
            if self._throttle.blocks(address):
                self._throttled(address)
                raise _too_many(DELAY)
            principal = self._credentials.find(authorization)
            if principal is None:
                raise await self._wrong(authorization, address)
            self._known[digest] = principal
            while len(self._known) > _MAX_REMEMBERED:
                self._known.popitem(last=False)
        return principal

    async def _wrong(self, authorization: str, address: str) -> Problem:
        name = self._credentials.name(authorization)
        if pause := self._throttle.failed(address, name):
            self._throttled(address)
            await self._throttle.delay(address)
            return _too_many(pause)
        self.refused["wrong"] += 1
        # An unknown name may be a secret, typed into the wrong field.
        known = repr(one_line(name)) if self._credentials.has(name) else "an unknown name"
        logger.warning(
            "a login failed: wrong credentials for %s, from %s", known, address or "an unknown address"
        )
        return Problem(401, "unauthenticated", "unknown credentials")

    def _throttled(self, address: str) -> None:
        self.refused["throttled"] += 1
        message = "too many failed logins: wrong credentials are throttled, the last from %s"
        self._outages.failed("logins", message, address or "an unknown address")


def _too_many(pause: float) -> Problem:
    message = "too many failed logins; correct credentials are still accepted"
    return Problem(429, "too_many_attempts", message, retry_after=pause)
