"""The overview, what was measured, and how the store itself is doing, through the desk [M1] [M3]."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from windlass.core.names import check_name
from windlass.core.rollup import MINUTE
from windlass.core.rollup import Sample as Measured
from windlass.store.measures import Health
from windlass.store.protocol import Store
from windlass.web import views
from windlass.web.judging import RANK, Judging
from windlass.web.parts import Parts
from windlass.web.points import FAILED, Range, percentiles, points, range_of, rate, summed
from windlass.web.problems import Invalid
from windlass.web.shapes import FindingShape, Operations, Overview, PointShape, QueueView, Totals
from windlass.web.who import Role, Who
from windlass.words.alarms import lost
from windlass.words.sample import Sample
from windlass.words.text import iso

HOURS: Final = 3600.0
LATELY: Final = 300.0
"""The percentiles of the overview are those of the last so many seconds."""


class Overseeing(Judging):
    """Everything at one glance."""

    _wal: tuple[float, int] | None

    async def overview(self, who: Who) -> Overview:
        """One glance: healthy or not, where, since when."""
        who.must(Role.READ)
        return await self.memo.get("overview", 0.9, lambda: self._overview(who))

    async def _overview(self, who: Who) -> Overview:
        parts = Parts()
        sample, hour, events = await asyncio.gather(
            parts.get("totals", self.sample()),
            parts.get("rates", self._hour()),
            parts.get("events", self.events(who, limit=20)),
        )
        parts.check()
        now, wanted, rows = hour or (time.time(), None, [])
        queues: list[QueueView] = []
        found: list[FindingShape] | None = None
        if sample is None:
            parts.missing["queues"] = parts.missing["findings"] = parts.missing["totals"]
        else:
            per_minute, held, found = await asyncio.gather(
                parts.get("rates of queues", self._rates(sample)),
                parts.get("gates", self._held(sample)),
                parts.get("findings", self._findings(sample, rows, now)),
            )
            queues = [views.queue_view(sample, name, per_minute or {}, held or {}) for name in sample.names()]
        found = [*_missing(parts.missing), *(found or ())]
        return Overview(
            at=iso(now) or "",
            healthy=found[0].level if found else "ok",
            findings=found,
            queues=sorted(queues, key=views.worst_first),
            **({} if sample is None else _standing(sample)),
            **({} if wanted is None else _rates(rows, now, wanted)),
            events=events or [],
            missing=parts.missing,
        )

    async def _hour(self) -> tuple[float, Range, list[Measured]]:
        """What was measured in the last hour, and when that was."""
        now = await self.now()
        wanted = range_of(HOURS, now)
        return now, wanted, await self.shared("hour", 2.0, lambda store: _rows(store, wanted))

    # -- measures ---------------------------------------------------------------------------------------

    async def measured(
        self, who: Who, queue: str | None = None, task: str | None = None, last: float = HOURS
    ) -> list[PointShape]:
        """What was measured of a queue, a task in a queue, or everything: minute by minute up to six hours,
        hour by hour beyond; the gaps are filled."""
        who.must(Role.READ)
        queue = "" if not queue else check_name("queue", queue)
        task = "" if not task else check_name("task", task)
        if task and not queue:
            raise Invalid("a task is measured in each of its queues; name one", "queue")
        wanted = range_of(last, await self.now())

        async def read() -> list[PointShape]:
            return points(await self.ask(lambda store: _rows(store, wanted, queue, task)), wanted)

        # The range moves with time, and `last` does not: a key that moved would keep an answer for each
        # minute that somebody looks on.
        return await self.memo.get(("measured", queue, task, wanted.span, int(last)), 2.0, read)

    # -- the store --------------------------------------------------------------------------------------

    async def operations(self, who: Who) -> Operations:
        """How the store is doing, and what it finds wrong with itself."""
        who.must(Role.READ)
        return await self.memo.get("operations", 2.0, self._operations)

    async def _operations(self) -> Operations:
        begun = time.perf_counter()
        now = await self.ask(lambda store: store.now())
        latency = (time.perf_counter() - begun) * 1000
        health = await self.ask(lambda store: store.health())
        found = await self._diagnosis()
        return Operations(
            **views.health_fields(health, now),
            at=iso(now) or "",
            latency_ms=round(latency, 3),
            wal_per_second=self._growth(health),
            findings=sorted(map(views.finding_shape, found), key=lambda shape: RANK[shape.level]),
        )

    def _growth(self, health: Health) -> float | None:
        """By how much the write-ahead log grows in a second, between this look and the last."""
        before, now = self._wal, time.monotonic()
        if health.wal is None:
            return None
        self._wal = (now, health.wal)
        if before is None or now <= before[0] or health.wal < before[1]:
            return None
        return round((health.wal - before[1]) / (now - before[0]), 1)


async def _rows(store: Store, wanted: Range, queue: str = "", task: str = "") -> list[Measured]:
    return await store.measured(wanted.span, wanted.since, wanted.until + MINUTE, queue=queue, task=task)


def _missing(parts: Mapping[str, str]) -> list[FindingShape]:
    """That something cannot be shown is itself what an operator should know."""
    if not parts:
        return []
    told = f"not all of this can be shown: {', '.join(parts)}"
    return [FindingShape(name="overview", level="error", told=told, advice=next(iter(parts.values())))]


def _standing(sample: Sample) -> dict[str, Any]:
    """What one look shows."""
    gone = lost(sample.workers, sample.at)
    vitals = [worker.vitals for worker in sample.workers if worker.alive and worker.vitals is not None]
    depths = sample.depth.values()
    return {
        "totals": Totals(
            ready=sum(depth.ready for depth in depths),
            running=sum(depth.running for depth in depths),
            scheduled=sum(depth.scheduled for depth in depths),
            retrying=sum(depth.retrying for depth in depths),
            dead=sum(depth.dead for depth in depths),
        ),
        "oldest": max((depth.oldest for depth in depths if depth.oldest is not None), default=None),
        "workers_alive": len(sample.workers) - len(gone),
        "workers_lost": len(gone),
        "slots": sum(told.slots for told in vitals),
        "running": sum(told.running for told in vitals),
    }


def _rates(rows: Sequence[Measured], now: float, wanted: Range) -> dict[str, Any]:
    """What was measured lately."""
    return {
        "succeeded_per_second": rate(rows, now),
        "failed_per_second": rate(rows, now, FAILED),
        **percentiles(summed(row for row in rows if row.at >= now - LATELY - MINUTE))._asdict(),
        "spark": points(rows, wanted),
    }
