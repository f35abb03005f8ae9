"""Who sends a request, by its credentials; those that are wrong are slowed, logged and counted [M5]."""

from __future__ import annotations

import hashlib
import logging
from collections import Counter, OrderedDict
from typing import Final

from windlass.complaints import Complaints
from windlass.web.credentials import Credentials
from windlass.web.patience import SLOWED, Patience
from windlass.web.problems import Problem
from windlass.web.who import Who
from windlass.words.text import one_line

logger = logging.getLogger("windlass.web")
_REMEMBERED: Final = 1_000


class Logins:
    """The credentials of an app, and what was tried with others."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials
        self._patience = Patience()
        self._known: OrderedDict[bytes, Who] = OrderedDict()
        self._complaints = Complaints(logger)
        self.refused: Final = Counter(wrong=0, throttled=0)
        """How many were refused, since this process began."""

    def __bool__(self) -> bool:
        return bool(self._credentials)

    async def check(self, authorization: str | None, address: str) -> Who:
        """By a table of those that were right before, else by comparing. Raises a Problem, which is the same
        whatever was wrong."""
        if not authorization:
            raise Problem(401, "unauthenticated", "send a name and its secret, or a secret as Bearer token")
        digest = hashlib.sha256(authorization.encode(errors="surrogatepass")).digest()
        who = self._known.get(digest)
        if who is None:
            if self._patience.has_none(address):
                self._throttled(address)
                raise _too_many(SLOWED)
            who = self._credentials.who(authorization)
            if who is None:
                raise await self._wrong(authorization, address)
            self._known[digest] = who
            while len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
        return who

    async def _wrong(self, authorization: str, address: str) -> Problem:
        name = self._credentials.name(authorization)
        if pause := self._patience.wrong(address, name):
            self._throttled(address)
            await self._patience.hold(address)
            return _too_many(pause)
        self.refused["wrong"] += 1
        # A name that nobody has may be a secret, typed into the wrong field.
        known = repr(one_line(name)) if self._credentials.has(name) else "a name that nobody has"
        logger.warning("a login failed: wrong credentials for %s, from %s", known, address or "nowhere")
        return Problem(401, "unauthenticated", "these credentials are not known here")

    def _throttled(self, address: str) -> None:
        self.refused["throttled"] += 1
        told = "too many logins fail: wrong credentials are slowed, the last from %s"
        self._complaints.told("logins", told, address or "nowhere")


def _too_many(pause: float) -> Problem:
    told = "too many wrong credentials; those that are right are taken at any time"
    return Problem(429, "too_many_attempts", told, retry_after=pause)
