"""Tells dead workers from living ones by their heartbeats alone [C8].

A worker is dead when its heartbeat counter has not moved for one lease of the observer's own monotonic clock.
No wall clock is compared with another, so a clock step kills no worker; and after the observer itself was cut
off from the store it counts anew, so neither does an outage.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Final

from windlass.store.records import WorkerRecord

SHORTEST: Final = 0.05
"""Seconds between two looks at least."""


class HeartbeatWatch:
    """The heartbeats that one observer has seen."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: dict[int, tuple[int, float, float]] = {}
        """By worker: its counter, since when it stands there, and the lease."""

    def look(self, workers: Iterable[WorkerRecord], took: float = 0.0) -> list[WorkerRecord]:
        """Note where the counters stand now, and answer with the workers to be taken for dead.

        `took` is how long the store needed to say so: while it did not answer us, it may not have answered
        them either, so after a long time the counting starts over. One that is known to be dead already,
        with jobs not yet taken back, is among them at once."""
        now = self._clock()
        before, self._seen = self._seen, {}
        dead: list[WorkerRecord] = []
        for worker in workers:
            heartbeat, since, _ = before.get(worker.id, (-1, now, 0.0))
            if heartbeat != worker.heartbeat or took >= worker.lease / 3:
                since = now
            self._seen[worker.id] = (worker.heartbeat, since, worker.lease)
            if not worker.alive or now - since >= worker.lease:
                dead.append(worker)
        return dead

    def pause(self) -> float:
        """Seconds until the next lease is over, if no heartbeat comes. One that is over and could not be
        acted upon is none."""
        now = self._clock()
        left = (since + lease - now for _, since, lease in self._seen.values())
        return max(SHORTEST, min((seconds for seconds in left if seconds > 0), default=float("inf")))

    def forget(self) -> None:
        """The store could not be asked for a while: start over."""
        self._seen.clear()
