"""The gauges of the store, as the coordinator reads them for everybody [M3].

What the store only counts, such as its write-ahead log, becomes a rate: by how much it grew since the last
look, in so many seconds.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from windlass.store.records import Health
from windlass.worker.reports.gauges import GaugeBuffer, Whose


class StoreGauges:
    """From one look at the store to the next."""

    def __init__(self, gauges: GaugeBuffer, clock: Callable[[], float] = time.monotonic) -> None:
        self._gauges = gauges
        self._clock = clock
        self._before: tuple[float, Health] | None = None

    def read(self, health: Health) -> None:
        """The store said how it is doing."""
        now = self._clock()
        before, self._before = self._before, (now, health)
        seconds, old = (0.0, health) if before is None else (now - before[0], before[1])
        hits, misses = _grew(old.cache_hits, health.cache_hits), _grew(old.cache_misses, health.cache_misses)
        looked = None if hits is None or misses is None else hits + misses
        self._gauges.read(
            Whose("store"),
            bytes=health.bytes,
            wal_rate=_per(_grew(old.wal, health.wal), seconds),
            wal_file=health.wal_file,
            connections=health.connections,
            cache_hits=hits / looked if hits is not None and looked else None,
            lock_waits=_per(_grew(old.lock_waits, health.lock_waits), seconds / 60),
        )

    def forget(self) -> None:
        """Another one has looked since."""
        self._before = None


def _grew(before: int | None, now: int | None) -> int | None:
    """By how much; None where that is not known, or it began again from zero."""
    return None if before is None or now is None or now < before else now - before


def _per(grown: int | None, time: float) -> float | None:
    return None if grown is None or time <= 0 else grown / time
