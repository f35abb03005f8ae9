"""The health of the store itself: sizes, connections, segments, and what it finds wrong
with itself [M3]."""

from __future__ import annotations

import time
from typing import Any, Final, Self

import msgspec

from windlass.operations.findings import FindingView, diagnosis, worst_first
from windlass.operations.operation import Ops, Subject
from windlass.presentation.text import iso, shaped
from windlass.store.protocol import Store
from windlass.store.records import Health, Table

store_health: Final = Subject("store")


class SegmentView(msgspec.Struct, frozen=True, kw_only=True):
    """A segment of the logs."""

    no: int
    bytes: int
    state: str
    opened_at: str | None


class StoreHealth(msgspec.Struct, frozen=True, kw_only=True):
    """The health of the store. What it cannot know is null."""

    at: str
    store: str
    latency_ms: float
    """How long it took to answer a small query."""
    bytes: int
    tables: list[Table]
    segments: list[SegmentView]
    wal: int | None
    wal_per_second: float | None
    wal_file: int | None
    """On SQLite: bytes of the write-ahead log."""
    cache_hits: float | None
    """Share of pages that the server found in its cache, since its statistics began."""
    lock_waits: int | None
    """On SQLite: how often this process waited for the write of another one, since it started."""
    connections: int | None
    most_connections: int | None
    pool: int | None
    pool_idle: int | None
    oldest_snapshot: float | None
    locks_held: float | None
    """How long an open transaction has held lanes or rows that others want, in seconds; 0 where none does."""
    blocked: str | None
    blocked_since: str | None
    coordinator_until: str | None
    leads: bool
    """True if the cluster has a coordinator now."""
    reports: int
    findings: list[FindingView]

    @classmethod
    def of(cls, health: Health, now: float, **more: Any) -> Self:
        """Return the view of a record; `more` is what it does not tell."""
        return shaped(
            cls,
            health,
            at=iso(now),
            tables=list(health.tables),
            segments=[shaped(SegmentView, each) for each in health.segments],
            cache_hits=_share(health.cache_hits, health.cache_misses),
            leads=health.coordinator_until is not None and health.coordinator_until > now,
            **more,
        )


@store_health.get("/operations")
async def show_store_health(ops: Ops) -> StoreHealth:
    """Get the health of the store"""

    async def read(store: Store) -> StoreHealth:
        begun = time.perf_counter()
        now = await store.now()
        latency = round((time.perf_counter() - begun) * 1000, 3)
        health = await store.health()
        findings = worst_first(map(FindingView.of, await diagnosis(ops)))
        grown = _wal_growth(ops, health)
        return StoreHealth.of(health, now, latency_ms=latency, wal_per_second=grown, findings=findings)

    return await ops.shared("operations", 2.0, read)


def _share(hits: int | None, misses: int | None) -> float | None:
    return hits / (hits + misses) if hits is not None and misses is not None and hits + misses else None


def _wal_growth(ops: Ops, health: Health) -> float | None:
    """Return the bytes per second by which the write-ahead log has grown since the last read."""
    before: tuple[float, int] | None = ops.memory.get("wal")
    now = time.monotonic()
    if health.wal is None:
        return None
    ops.memory["wal"] = (now, health.wal)
    if before is None or now <= before[0] or health.wal < before[1]:
        return None
    return round((health.wal - before[1]) / (now - before[0]), 1)
