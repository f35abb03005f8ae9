"""Measures: what processes report, the rollup of it, timelines, and how the store is doing [M1] [M2] [M3]."""

from __future__ import annotations

from collections import Counter, defaultdict

import msgspec

from tests.model.oracle.base import Base, atomic
from tests.model.oracle.job import Job
from tests.model.oracle.measured import Source
from windlass.core.rollup import EVER, Place, Sample
from windlass.core.states import State
from windlass.store.causes import Death, by_cause
from windlass.store.measures import REPORTS_COUNTED, kept
from windlass.store.records import (
    Causes,
    Counted,
    EventRecord,
    Health,
    Miscount,
    Report,
    Rolled,
    Table,
    TaskDepth,
)


class Measuring(Base):
    """What was measured; see `windlass.store.records`."""

    @atomic
    async def report(self, source: int, number: int, report: Report) -> float:
        now, measured = self._clock(), self._tables.measured
        reporter = measured.reporters.get(source)
        if reporter is None:
            reporter = measured.reporters[source] = Source(number, now)
        elif number <= reporter.number:
            return now
        reporter.number, reporter.at = number, now
        if report.vitals is not None:
            reporter.vitals, reporter.vitals_at = report.vitals, now
        if report.samples:
            measured.reports.append([_copy(sample) for sample in report.samples])
        for event in report.events:
            found = EventRecord(id=next(measured.numbers), **msgspec.structs.asdict(kept(event, now)))
            measured.events[found.id] = found
        return now

    @atomic
    async def rollup(self, limit: int = 1000) -> Rolled:
        now, measured = self._clock(), self._tables.measured
        folded, rows = measured.fold(limit)
        removed = measured.tidy(now, limit)
        alive = {worker.info.id for worker in self._tables.workers.values() if worker.alive}
        measured.forget(alive, now)
        return Rolled(folded, rows, removed, more=bool(measured.reports) or removed >= limit)

    @atomic
    async def measured(
        self, span: int, since: float, until: float, *, queue: str = "", task: str = ""
    ) -> list[Sample]:
        found = [
            _copy(sample)
            for place, sample in self._tables.measured.rows.items()
            if place == Place(span, place.at, queue, task) and since <= place.at < until
        ]
        return sorted(found, key=lambda sample: sample.at)

    @atomic
    async def totals(self) -> list[Sample]:
        rows = self._tables.measured.rows
        ever = sorted(place for place in rows if place.span == EVER)
        return [_copy(rows[place]) for place in ever]

    @atomic
    async def ended(self) -> list[Sample]:
        counts: defaultdict[tuple[str, str], dict[str, int]] = defaultdict(dict)
        for (queue, task, state), n in sorted(self._tables.ended.items()):
            counts[queue, task][state] = n
        return [Sample(at=0, queue=queue, task=task, counts=each) for (queue, task), each in counts.items()]

    @atomic
    async def count_ends(self, limit: int = 1000) -> Counted:
        return Counted()

    @atomic
    async def recount(self) -> list[Miscount]:
        return []

    @atomic
    async def events(
        self, *, job: int | None = None, queue: str | None = None, limit: int = 100, before: int | None = None
    ) -> list[EventRecord]:
        found = (
            event
            for event in reversed(self._tables.measured.events.values())
            if job in (None, event.job) and queue in (None, event.queue)
            if before is None or event.id < before
        )
        return [event for _, event in zip(range(limit), found, strict=False)]

    @atomic
    async def task_depths(self, most: int = 100_000) -> list[TaskDepth]:
        tables = self._tables
        standing: defaultdict[str, list[list[Job]]] = defaultdict(list)
        for lane in tables.lanes.values():
            standing[lane.queue].append(lane.waiting)
        for name, lines in standing.items():
            inside = {id(job) for line in lines for job in line}
            ready = (job for job in tables.jobs.values() if job.queue == name and job.state is State.READY)
            lines.append([job for job in ready if id(job) not in inside])
        return [
            TaskDepth(queue=name, task=task, ready=n, estimate=any(len(line) > most for line in lines))
            for name, lines in sorted(standing.items())
            for task, n in sorted(Counter(job.task for line in lines for job in line[:most]).items())
        ]

    @atomic
    async def causes(
        self,
        *,
        queue: str | None = None,
        task: str | None = None,
        since: float | None = None,
        limit: int = 10_000,
    ) -> Causes:
        jobs = sorted(self._tables.jobs.values(), key=lambda job: -job.number)
        dead = [job for job in jobs if job.state is State.DEAD and queue in (None, job.queue)]
        deaths = (
            Death(job.task, job.error, job.finished_at or 0.0, job.id)
            for job in dead[:limit]
            if task in (None, job.task) and (since is None or (job.finished_at or 0.0) >= since)
        )
        return Causes(by_cause(deaths, self._last_words), min(len(dead), limit), more=len(dead) > limit)

    def _last_words(self, id: int) -> str:
        job = self._tables.jobs[id]
        return job.errors[-1].message if job.errors else job.reason or ""

    @atomic
    async def health(self) -> Health:
        tables = self._tables
        sizes = {
            "job": len(tables.jobs),
            "worker": len(tables.workers),
            "event": len(tables.measured.events),
            "rollup": len(tables.measured.rows),
        }
        return Health(
            store="memory",
            tables=tuple(Table(name=name, bytes=0, rows=rows) for name, rows in sizes.items()),
            coordinator_until=tables.term.until or None,
            reports=min(len(tables.measured.reports), REPORTS_COUNTED),
        )


def _copy(sample: Sample) -> Sample:
    """A sample of one's own: they can be changed, by whoever told it and whoever asks."""
    return msgspec.structs.replace(
        sample, counts=dict(sample.counts), waits=dict(sample.waits), runs=dict(sample.runs)
    )
