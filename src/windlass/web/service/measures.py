"""What was measured, as points of charts: evenly spaced, gaps filled. Of queues and tasks [M1]; and what the
gauges of workers and of the store showed [M3]."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from windlass.core.histogram import percentile
from windlass.core.names import check_name
from windlass.core.rollup import GAUGES, HOUR, MINUTE, Gauges, Reading, Sample, Subject, standing
from windlass.operations.principal import Principal, Role
from windlass.presentation.text import iso, rounded
from windlass.store.protocol import Store
from windlass.web.http.problems import Invalid
from windlass.web.service.shapes import PointShape
from windlass.web.service.store_access import StoreAccess


class Measures:
    """What can be seen of throughput, waits and run times."""

    def __init__(self, store: StoreAccess) -> None:
        self._store = store

    async def points(
        self, principal: Principal, queue: str | None = None, task: str | None = None, last: float = HOUR
    ) -> list[PointShape]:
        """What was measured of a queue, a task in a queue, or everything: by the minute up to six hours, by
        the hour beyond. Gaps are filled."""
        principal.require(Role.READ)
        queue = "" if not queue else check_name("queue", queue)
        task = "" if not task else check_name("task", task)
        if task and not queue:
            raise Invalid("a task is measured per queue; name the queue, too", "queue")
        wanted = range_of(last, await self._store.now())

        async def read() -> list[PointShape]:
            return points(await self._store.ask(lambda store: _rows(store, wanted, queue, task)), wanted)

        # `wanted` moves with time and must not be in the key: the cache would keep an answer a minute.
        return await self._store.cache.get(("measured", queue, task, wanted.span, int(last)), 2.0, read)

    async def last_hour(self) -> tuple[float, Range, list[Sample]]:
        """The store's time, and the rows of the last hour over everything."""
        now = await self._store.now()
        wanted = range_of(HOUR, now)
        return now, wanted, await self._store.shared("hour", 2.0, lambda store: _rows(store, wanted))


async def _rows(store: Store, wanted: Range, queue: str = "", task: str = "") -> list[Sample]:
    return await store.measured(wanted.span, wanted.since, wanted.until + MINUTE, queue=queue, task=task)


FINE: Final = 6 * 3600.0
"""Up to this span a chart is drawn minute by minute, beyond it hour by hour."""
LONGEST: Final = 30 * 86400.0
SHORTEST: Final = 60.0
FAILED: Final = ("retry", "dead")


class Range(NamedTuple):
    """Which rows a chart is drawn from: those of `span` seconds that begin from `since` on and before
    `until`."""

    span: int
    since: int
    until: float


def range_of(last: float, now: float) -> Range:
    """The rows of the last so many seconds, bounded."""
    last = min(max(last, SHORTEST), LONGEST)
    span = MINUTE if last <= FINE else HOUR
    since = int(now - last)
    return Range(span, since - since % span, now)


def points(samples: Iterable[Sample], wanted: Range) -> list[PointShape]:
    """A point for each minute or hour, also where nothing ran."""
    found = {sample.at: sample for sample in samples}
    return [
        point(found.get(at) or Sample(at=at), min(wanted.span, max(wanted.until - at, 1.0)))
        for at in range(wanted.since, int(wanted.until) + 1, wanted.span)
    ]


def point(sample: Sample, seconds: float) -> PointShape:
    """One of them. The present minute has lasted only so many seconds."""
    counts = sample.counts
    ready, oldest = standing(sample)
    return PointShape(
        at=iso(sample.at) or "",
        counts=counts,
        per_second=round(counts.get("succeeded", 0) / seconds, 3),
        failed_per_second=round(sum(counts.get(kind, 0) for kind in FAILED) / seconds, 3),
        ready=round(ready, 1),
        oldest=round(oldest, 3),
        **percentiles(sample),
    )


def percentiles(sample: Sample) -> dict[str, float | None]:
    """The fields of `Percentiles` for one sample."""
    return {
        f"{name}_p{share}": rounded(percentile(counts, share / 100))
        for name, counts in (("wait", sample.waits), ("run", sample.runs))
        for share in (50, 95, 99)
    }


def summed(samples: Iterable[Sample]) -> Sample:
    """All of them as one."""
    whole = Sample(at=0)
    for sample in samples:
        whole.add(sample)
    return whole


# -- gauges ----------------------------------------------------------------------------------------------

DAY: Final = 86400.0
"""Up to this span gauges are drawn from the rows of minutes, which are kept for little longer."""
COARSE: Final = 10 * MINUTE
"""Seconds between two points of the last day."""
_LATE: Final = 75.0
"""Seconds until a minute has surely been reported, after it began."""


class Shown(NamedTuple):
    """What gauges showed between one point of a chart and the next."""

    at: int
    gauges: Gauges | None
    minutes: float
    """How many minutes of it were reported."""

    def mean(self, name: str) -> float | None:
        """What a gauge showed on average: of one worker, one machine or the store."""
        reading = self._reading(name)
        return None if reading is None else reading.total / reading.n / GAUGES[name]

    def together(self, name: str) -> float | None:
        """What the gauges of several workers showed together."""
        reading = self._reading(name)
        return None if reading is None else reading.total / self.minutes / GAUGES[name]

    def workers(self) -> float | None:
        """How many workers showed anything, on average."""
        reading = self._reading("cpu")
        return None if reading is None else reading.n / self.minutes

    def most(self, name: str) -> float | None:
        """The highest moment of any of them."""
        reading = self._reading(name)
        return None if reading is None else reading.most / GAUGES[name]

    def latency(self) -> dict[str, float | None]:
        """How long the store took to answer: the fields of `Latency`."""
        calls = {} if self.gauges is None else self.gauges.calls
        return {f"latency_p{share}": rounded(percentile(calls, share / 100)) for share in (50, 95)}

    def _reading(self, name: str) -> Reading | None:
        return None if self.gauges is None else self.gauges.values.get(name)


async def history(store: StoreAccess, last: float, of: Subject, name: str = "") -> list[Shown]:
    """What gauges showed: by the minute up to six hours, every ten minutes up to a day, by the hour beyond.
    Gaps are filled."""
    now = await store.now()
    last = min(max(last, SHORTEST), LONGEST)
    span = MINUTE if last <= DAY else HOUR
    step = span if last <= FINE or span == HOUR else COARSE
    since = int(now - last) // step * step

    async def read() -> list[Shown]:
        rows = await store.ask(lambda found: found.history(span, since, now + MINUTE, of, name))
        return shown(rows, Range(span, since, now), step)

    return await store.cache.get(("history", of, name, span, int(last)), 2.0, read)


def shown(rows: Iterable[Gauges], wanted: Range, step: int) -> list[Shown]:
    """Rows put together, one of these for each step."""
    found: dict[int, Gauges] = {}
    minutes: dict[int, float] = {}
    for row in rows:
        at = row.at - row.at % step
        if at not in found:
            found[at] = Gauges(at=at, of=row.of, name=row.name)
        found[at].add(row)
        passed = (wanted.until - _LATE - at) / MINUTE
        minutes[at] = (
            minutes.get(at, 0.0) + 1.0 if wanted.span == MINUTE else min(max(passed, 1.0), HOUR / MINUTE)
        )
    return [
        Shown(at, found.get(at), minutes.get(at, 0.0))
        for at in range(wanted.since, int(wanted.until) + 1, step)
    ]
