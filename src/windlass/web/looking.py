"""What can be seen of queues, jobs and workers through the desk. Nothing here changes anything."""

from __future__ import annotations

import time
from typing import Final

import click

from windlass.core.rollup import MINUTE
from windlass.core.states import State
from windlass.errors import JobNotFound
from windlass.store.measures import EventRecord
from windlass.store.protocol import Store
from windlass.store.records import JobFilter, JobRecord, Page, ParentRecord
from windlass.web import views
from windlass.web.asking import Asking
from windlass.web.points import rate
from windlass.web.problems import Invalid, NotFound
from windlass.web.shapes import JobView, ListedJobs, QueueView, WorkerView
from windlass.web.timeline import timeline
from windlass.web.who import Role, Who
from windlass.words.event_shapes import EventShape, event_shape
from windlass.words.job_shapes import job_fields
from windlass.words.parent_shapes import parent_shape
from windlass.words.sample import Sample
from windlass.words.shapes import unwrap, wrap
from windlass.words.text import iso
from windlass.words.waiting import state_in_words, why_it_waits

MOST_JOBS: Final = 500
MOST_EVENTS: Final = 500
STEPS: Final = 10
"""A listing takes so many steps back through the log at most, and none after so long:"""
ENOUGH: Final = 0.05
MOST_RATES: Final = 50
"""Of so many queues, the busiest, the rate is asked for."""
_OF_JOB: Final = 200


class Looking(Asking):
    """Queues, jobs, workers, events."""

    # -- queues -----------------------------------------------------------------------------------------

    async def queues(self, who: Who) -> list[QueueView]:
        """Every queue, by name."""
        who.must(Role.READ)
        sample = await self.sample()
        per_minute = await self._rates(sample)
        return [views.queue_view(sample, name, per_minute) for name in sample.names()]

    async def queue(self, who: Who, name: str) -> QueueView:
        """One queue. Raises NotFound."""
        who.must(Role.READ)
        sample = await self.sample()
        if name not in sample.names():
            self.memo.forget("sample")  # it may have been declared a moment ago
            sample = await self.sample()
            if name not in sample.names():
                raise NotFound(f"there is no queue {name[:64]!r}; the list of queues shows those there are")
        return views.queue_view(sample, name, await self._rates(sample))

    async def _rates(self, sample: Sample) -> dict[str, float]:
        """Jobs that succeeded in a minute, of the busiest queues: one small question each, and shared."""
        busiest = sorted(sample.depth, key=lambda name: -sample.depth[name].offered)[:MOST_RATES]
        now = await self.now()

        async def ask(store: Store) -> dict[str, float]:
            found = {}
            for name in busiest:
                rows = await store.measured(MINUTE, now - 180.0, now + MINUTE, queue=name)
                if rows:
                    found[name] = round(rate(rows, now) * 60, 1)
            return found

        return await self.shared("rates", 10.0, ask)

    # -- jobs -------------------------------------------------------------------------------------------

    async def jobs(
        self, who: Who, where: JobFilter, limit: int = 50, cursor: str | None = None
    ) -> ListedJobs:
        """A page of jobs, newest first. It walks back in bounded steps, and says how far it has come: a page
        may be short or empty and still have a cursor."""
        who.must(Role.READ)
        page = await self.ask(lambda store: _walk(store, where, max(1, min(limit, MOST_JOBS)), cursor))
        return ListedJobs(
            jobs=[views.listed_job(job) for job in page.jobs],
            cursor=None if page.cursor is None else wrap(page.cursor),
            looked=page.looked,
            back_to=iso(page.back_to),
        )

    async def dead(
        self,
        who: Who,
        queue: str | None = None,
        task: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> ListedJobs:
        """A page of dead jobs, newest first."""
        return await self.jobs(who, JobFilter(queue=queue, task=task, state=State.DEAD), limit, cursor)

    async def job(self, who: Who, id: int) -> JobView:
        """Everything about one job: how it stands, why it waits, what has happened to it. Raises
        JobNotFound."""
        who.must(Role.READ)

        async def look(store: Store) -> tuple[JobRecord, ParentRecord | None, list[EventRecord]]:
            found = await store.job(id)
            if found is None:
                raise JobNotFound(
                    f"there is no job {id}: it never existed, was deleted, or its retention has passed"
                )
            # Any job may be a parent: one enqueued by name does not know that its task is chunked.
            parent = None if found.options.part is not None else await store.parent(id)
            return found, parent, await store.events(job=id, limit=_OF_JOB)

        record, parent, events = await self.ask(look)
        sample = await self.sample()
        now = await self.now()
        label = next((worker.label for worker in sample.workers if worker.id == record.worker), None)
        serving = sample.steering.serving.get(record.queue, 0)
        return JobView(
            **job_fields(record),
            state_text=state_in_words(record),
            why=why_it_waits(record, sample.steering.queues.get(record.queue), serving, now),
            worker_label=label,
            timeline=timeline(record, events, label),
            parent=None if parent is None else parent_shape(parent, (time.time(), parent)),
        )

    # -- workers and events -----------------------------------------------------------------------------

    async def workers(self, who: Who) -> list[WorkerView]:
        """Every worker that is alive or still holds jobs."""
        who.must(Role.READ)
        sample = await self.sample()
        return [views.worker_view(worker, sample) for worker in sample.workers]

    async def events(
        self,
        who: Who,
        queue: str | None = None,
        job: int | None = None,
        limit: int = 100,
        before: int | None = None,
    ) -> list[EventShape]:
        """Events, the latest first; with `before`, those with a lower id."""
        who.must(Role.READ)
        limit = max(1, min(limit, MOST_EVENTS))
        found = await self.shared(
            ("events", queue, job, limit, before),
            1.0,
            lambda store: store.events(queue=queue, job=job, limit=limit, before=before),
        )
        return [event_shape(event) for event in found]


async def _walk(store: Store, where: JobFilter, limit: int, word: str | None) -> Page:
    """Pages of the store until there are enough jobs, or enough was looked at."""
    found: list[JobRecord] = []
    cursor = None if word is None else _cursor(word)
    looked, back_to = 0, None
    until = time.monotonic() + ENOUGH
    for _ in range(STEPS):
        try:
            page = await store.jobs(where, limit - len(found), cursor)
        except (ValueError, TypeError, LookupError):
            if word is None:
                raise
            raise _no_cursor() from None
        found += page.jobs
        looked += page.looked
        back_to = page.back_to if page.back_to is not None else back_to
        cursor = page.cursor
        if cursor is None or len(found) >= limit or time.monotonic() > until:
            break
    return Page(found, cursor, looked, back_to)


def _cursor(word: str) -> str:
    try:
        return unwrap(word)
    except (ValueError, click.ClickException):
        raise _no_cursor() from None


def _no_cursor() -> Invalid:
    return Invalid("this is not a cursor; take it from a listing", "cursor")
