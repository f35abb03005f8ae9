"""Throughput, waits and run times of queues and tasks, as points of charts: evenly spaced, gaps filled
[M1]."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Final, NamedTuple

import msgspec

from windlass.core.histogram import percentile
from windlass.core.rollup import HOUR, MINUTE, Sample, standing
from windlass.operations.operation import Name, Ops, Subject
from windlass.operations.refusals import Invalid
from windlass.presentation.text import iso, rounded
from windlass.store.protocol import Store

FINE: Final = 6 * 3600.0
"""Up to this span a chart is drawn minute by minute, beyond it hour by hour."""
LONGEST: Final = 30 * 86400.0
SHORTEST: Final = 60.0
FAILED: Final = ("retry", "dead")

Last = Annotated[float, msgspec.Meta(ge=SHORTEST, le=LONGEST)]
measures: Final = Subject("measures")


class Percentiles(msgspec.Struct, frozen=True, kw_only=True):
    """How long jobs waited and ran, in milliseconds; null where nothing ran."""

    wait_p50: float | None = None
    wait_p95: float | None = None
    wait_p99: float | None = None
    run_p50: float | None = None
    run_p95: float | None = None
    run_p99: float | None = None


class Point(Percentiles, frozen=True, kw_only=True):
    """The measures of one minute or hour. Percentiles are in milliseconds, null where nothing ran."""

    at: str
    counts: dict[str, int] = {}
    per_second: float = 0.0
    """Jobs that succeeded, per second."""
    failed_per_second: float = 0.0
    """Attempts that failed, per second, whether they are retried or not."""
    ready: float = 0.0
    """Ready jobs, averaged over the samples that found any."""
    oldest: float = 0.0
    """How long the oldest of them had waited, in seconds, averaged likewise."""


class Points(msgspec.Struct, frozen=True):
    """Measures in order of time."""

    points: list[Point]


@measures.get("/measures")
async def list_measures(
    ops: Ops, queue: Name | None = None, task: Name | None = None, last: Last = 3600.0
) -> Points:
    """Get throughput, waits and run times: by the minute up to six hours, by the hour beyond

    Of a queue, a task in a queue, or everything; over how many seconds."""
    if task and not queue:
        raise Invalid("a task is measured per queue; name the queue, too", "queue")
    wanted = range_of(last, await ops.now())

    async def read(store: Store) -> Points:
        return Points(points(await _rows(store, wanted, queue or "", task or ""), wanted))

    # `wanted` moves with time and must not be in the key: the cache would keep an answer a minute.
    return await ops.shared(("measured", queue, task, wanted.span, int(last)), 2.0, read)


async def last_hour(ops: Ops) -> tuple[float, Range, list[Sample]]:
    """Return the store's time, and the rows of the last hour over everything."""
    now = await ops.now()
    wanted = range_of(HOUR, now)
    return now, wanted, await ops.shared("hour", 2.0, lambda store: _rows(store, wanted))


async def _rows(store: Store, wanted: Range, queue: str = "", task: str = "") -> list[Sample]:
    return await store.measured(wanted.span, wanted.since, wanted.until + MINUTE, queue=queue, task=task)


class Range(NamedTuple):
    """The rows that a chart is drawn from: those of `span` seconds that begin from `since` on and before
    `until`."""

    span: int
    since: int
    until: float


def range_of(last: float, now: float) -> Range:
    """Return the rows of the last so many seconds, bounded."""
    last = min(max(last, SHORTEST), LONGEST)
    span = MINUTE if last <= FINE else HOUR
    since = int(now - last)
    return Range(span, since - since % span, now)


def points(samples: Iterable[Sample], wanted: Range) -> list[Point]:
    """Return a point for each minute or hour, also where nothing ran."""
    found = {sample.at: sample for sample in samples}
    return [
        point(found.get(at) or Sample(at=at), min(wanted.span, max(wanted.until - at, 1.0)))
        for at in range(wanted.since, int(wanted.until) + 1, wanted.span)
    ]


def point(sample: Sample, seconds: float) -> Point:
    """Return the point of a sample. The present minute has lasted only so many seconds."""
    counts = sample.counts
    ready, oldest = standing(sample)
    return Point(
        at=iso(sample.at) or "",
        counts=counts,
        per_second=round(counts.get("succeeded", 0) / seconds, 3),
        failed_per_second=round(sum(counts.get(kind, 0) for kind in FAILED) / seconds, 3),
        ready=round(ready, 1),
        oldest=round(oldest, 3),
        **percentiles(sample),
    )


def percentiles(sample: Sample) -> dict[str, float | None]:
    """Return the fields of `Percentiles` for one sample."""
    return {
        f"{name}_p{share}": rounded(percentile(counts, share / 100))
        for name, counts in (("wait", sample.waits), ("run", sample.runs))
        for share in (50, 95, 99)
    }


def summed(samples: Iterable[Sample]) -> Sample:
    """Return all of them as one."""
    whole = Sample(at=0)
    for sample in samples:
        whole.add(sample)
    return whole
