"""A clock that moves only when it is told to."""

from __future__ import annotations

import threading
import time
from datetime import datetime

from windlass.core.durations import Duration, seconds


class Clock:
    """The time as the store of a test sees it, in seconds since the epoch: `app.testing(clock=Clock())`.

    It stands still until `advance("5m")`. Without a start it begins at the present, so that a `run_at` made
    from `datetime.now(UTC)` means about what it says; what lies a moment ahead still needs an `advance`.
    """

    def __init__(self, start: float | None = None) -> None:
        self._now = time.time() if start is None else start
        self._lock = threading.Lock()

    def __call__(self) -> float:
        """The time now."""
        return self._now

    def advance(self, by: Duration) -> float:
        """Let this much time pass and return the new time. Time never goes back."""
        with self._lock:
            self._now += seconds(by)
            return self._now

    def advance_to(self, moment: float | datetime) -> float:
        """Let time pass until this moment and return it: seconds since the epoch, or a datetime with a time
        zone. A moment that has passed changes nothing."""
        if isinstance(moment, datetime):
            if moment.tzinfo is None:
                raise ValueError(f"{moment.isoformat()} has no time zone; write datetime(…, tzinfo=UTC)")
            moment = moment.timestamp()
        with self._lock:
            self._now = max(self._now, moment)
            return self._now
