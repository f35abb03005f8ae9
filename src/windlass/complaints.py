"""Says that something is wrong, and that it is over, without filling the log with it.

A store that is away fails every call of every part, several times a second. Of each kind of trouble there is
one line when it begins, then one every ten seconds that counts the others, and one when it is over. What
comes and goes all the time is held to the same measure.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final

EVERY: Final = 10.0
"""Seconds between two warnings about the same kind of trouble."""


class Trouble:
    """One kind of trouble, from its first failure to its end."""

    def __init__(self, since: float) -> None:
        self.since = since
        self.failures = 0
        self.told = 0
        """How many of the failures are in the log, by themselves or by their number."""


class Complaints:
    """What one part has to complain about. Threads that share one may miscount, and nothing worse."""

    def __init__(
        self, logger: logging.Logger, every: float = EVERY, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._logger = logger
        self._every = every
        self._clock = clock
        self._troubles: dict[str, Trouble] = {}
        self._said_at: dict[str, float] = {}

    def told(self, kind: str, message: str, *args: object, error: BaseException | None = None) -> None:
        """Something failed. `kind` is what fails, in words such as `heartbeats`; `message` and `args` are
        those of a log line, and `error`, where nobody foresaw it, is shown with its traceback."""
        now = self._clock()
        trouble = self._troubles.get(kind)
        if trouble is None:
            trouble = self._troubles[kind] = Trouble(now)
        trouble.failures += 1
        if now - self._said_at.get(kind, float("-inf")) < self._every:
            return
        self._said_at[kind] = now
        unsaid = trouble.failures - trouble.told - 1
        trouble.told = trouble.failures
        if unsaid:
            message, args = f"{message} (and %d times more since the last such line)", (*args, unsaid)
        self._logger.warning(message, *args, exc_info=error)

    def over(self, kind: str) -> None:
        """It works again, or still. Costs next to nothing where nothing was wrong."""
        if self._troubles and (trouble := self._troubles.pop(kind, None)) is not None and trouble.told:
            self._logger.info(
                "%s: all is well again, after %d failures in %.1f s",
                kind,
                trouble.failures,
                self._clock() - trouble.since,
            )
