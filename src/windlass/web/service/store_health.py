"""How the store itself is doing, and how it did: sizes, connections, segments, and what it finds wrong with
itself [M3]."""

from __future__ import annotations

import time

from windlass.core.rollup import HOUR
from windlass.operations.principal import Principal, Role
from windlass.presentation.text import iso, rounded
from windlass.store.records import Health
from windlass.web.service import views
from windlass.web.service.findings import Findings, worst_first
from windlass.web.service.measures import Shown, history
from windlass.web.service.shapes import Operations, StorePoint
from windlass.web.service.store_access import StoreAccess


class StoreHealth:
    """What can be seen of the store."""

    def __init__(self, store: StoreAccess, findings: Findings) -> None:
        self._store = store
        self._findings = findings
        self._wal: tuple[float, int] | None = None
        """When the size of the write-ahead log was last read, and what it was."""

    async def get(self, principal: Principal) -> Operations:
        """How the store is doing."""
        principal.require(Role.READ)
        return await self._store.cache.get("operations", 2.0, self._read)

    async def history(self, principal: Principal, last: float = HOUR) -> list[StorePoint]:
        """What its gauges showed."""
        principal.require(Role.READ)
        return [_point(each) for each in await history(self._store, last, "store")]

    async def _read(self) -> Operations:
        begun = time.perf_counter()
        now = await self._store.ask(lambda store: store.now())
        latency = (time.perf_counter() - begun) * 1000
        health = await self._store.ask(lambda store: store.health())
        found = await self._findings.diagnosis()
        return views.operations(
            health,
            now,
            latency_ms=round(latency, 3),
            wal_per_second=self._wal_growth(health),
            findings=worst_first(map(views.finding_shape, found)),
        )

    def _wal_growth(self, health: Health) -> float | None:
        """Bytes per second by which the write-ahead log has grown since the last read."""
        before, now = self._wal, time.monotonic()
        if health.wal is None:
            return None
        self._wal = (now, health.wal)
        if before is None or now <= before[0] or health.wal < before[1]:
            return None
        return round((health.wal - before[1]) / (now - before[0]), 1)


def _point(each: Shown) -> StorePoint:
    means = ("bytes", "wal_file", "connections", "cache_hits", "lock_waits")
    return StorePoint(
        at=iso(each.at) or "",
        wal_per_second=rounded(each.mean("wal_rate")),
        **{name: rounded(each.mean(name)) for name in means},
        **each.latency(),
    )
