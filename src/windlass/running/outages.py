"""Logs an outage once when it begins and once when it ends, not with every failed call.

A store that is away fails every call of every part, several times a second. Each kind of failure gets one
line when it begins, then one every ten seconds that counts the others, and one when it has recovered. What
flaps is held to the same rate.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final

from windlass.core.counts import plural

EVERY: Final = 10.0
"""Seconds between two warnings about the same kind of failure."""


class Outage:
    """One kind of failure, from the first one until it has recovered."""

    def __init__(self, since: float) -> None:
        self.since = since
        self.failures = 0
        self.logged = 0
        """How many of the failures are in the log, by themselves or by their number."""


class OutageLog:
    """The outages that one part has met. Threads that share one may miscount, and nothing worse."""

    def __init__(
        self, logger: logging.Logger, every: float = EVERY, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._logger = logger
        self._every = every
        self._clock = clock
        self._outages: dict[str, Outage] = {}
        self._logged_at: dict[str, float] = {}

    def failed(self, kind: str, message: str, *args: object, error: BaseException | None = None) -> None:
        """Something failed. `kind` is what fails, in words such as `heartbeats`; `message` and `args` are
        those of a log line, and `error`, where nobody foresaw it, is shown with its traceback."""
        now = self._clock()
        outage = self._outages.get(kind)
        if outage is None:
            outage = self._outages[kind] = Outage(now)
        outage.failures += 1
        if now - self._logged_at.get(kind, float("-inf")) < self._every:
            return
        self._logged_at[kind] = now
        skipped = outage.failures - outage.logged - 1
        outage.logged = outage.failures
        if skipped:
            message, args = (
                f"{message} (and %s more since the last such line)",
                (*args, plural(skipped, "time")),
            )
        self._logger.warning(message, *args, exc_info=error)

    def recovered(self, kind: str) -> None:
        """It works again, or still. Costs next to nothing where nothing was wrong."""
        if self._outages and (outage := self._outages.pop(kind, None)) is not None and outage.logged:
            self._logger.info(
                "%s: recovered after %s in %.1f s",
                kind,
                plural(outage.failures, "failure"),
                self._clock() - outage.since,
            )
