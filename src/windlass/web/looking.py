"""What can be seen of queues, jobs and workers through the desk. Nothing here changes anything."""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import Final

from windlass.core.rollup import MINUTE
from windlass.core.states import State
from windlass.errors import JobNotFound
from windlass.store.measures import EventRecord
from windlass.store.protocol import Store
from windlass.store.records import JobFilter, JobRecord, Page, ParentRecord, QueueRecord
from windlass.web import views
from windlass.web.asking import Asking
from windlass.web.points import rate
from windlass.web.problems import Invalid, NotFound
from windlass.web.shapes import FoundEvents, JobView, ListedJobs, QueueView, WorkerView
from windlass.web.timeline import timeline
from windlass.web.who import Role, Who
from windlass.words.cause_shapes import CausesShape, causes_shape
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
"""Events of some kinds are looked for in so many steps back at most."""
ENOUGH: Final = 0.05
"""Seconds that a listing may go back through the log."""
MOST_RATES: Final = 50
"""Of so many queues, the busiest, the rate is asked for."""
MOST_HELD: Final = 5
"""Of so many queues in which nothing runs, a job is asked what it waits for."""
MOST_DEAD: Final = 10_000
"""So many dead jobs, the newest, are counted by what they died of."""
_OF_JOB: Final = 200


class Looking(Asking):
    """Queues, jobs, workers, events."""

    # -- queues -----------------------------------------------------------------------------------------

    async def queues(self, who: Who) -> list[QueueView]:
        """Every queue, by name."""
        who.must(Role.READ)
        sample = await self.sample()
        per_minute, held = await self._rates(sample), await self._held(sample)
        return [views.queue_view(sample, name, per_minute, held) for name in sample.names()]

    async def queue(self, who: Who, name: str) -> QueueView:
        """One queue. Raises NotFound."""
        who.must(Role.READ)
        sample = await self.sample()
        if name not in sample.names():
            self.memo.forget("sample")  # it may have been declared a moment ago
            sample = await self.sample()
            if name not in sample.names():
                raise NotFound(f"there is no queue {name[:64]!r}; the list of queues shows those there are")
        return views.queue_view(sample, name, await self._rates(sample), await self._held(sample))

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

    async def _held(self, sample: Sample) -> dict[str, str]:
        """What the jobs of queues wait for in which nothing runs though some are ready: the newest of them
        says it for all. Nothing is asked while nobody stands aside."""
        names = views.standing(sample)[:MOST_HELD] if sample.gates else []

        async def ask(store: Store) -> dict[str, str]:
            found = {}
            for name in names:
                page = await store.jobs(JobFilter(queue=name, state=State.READY), 1)
                if page.jobs and page.jobs[0].reason:
                    found[name] = page.jobs[0].reason
            return found

        return await self.shared("held", 5.0, ask) if names else {}

    # -- jobs -------------------------------------------------------------------------------------------

    async def jobs(
        self, who: Who, where: JobFilter, limit: int = 50, cursor: str | None = None
    ) -> ListedJobs:
        """A page of jobs, newest first. It walks back in bounded steps, and says how far it has come: a page
        may be short or empty and still have a cursor."""
        who.must(Role.READ)
        page = await self.ask(lambda store: _page(store, where, max(1, min(limit, MOST_JOBS)), cursor))
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
        error: str | None = None,
    ) -> ListedJobs:
        """A page of dead jobs, newest first."""
        where = JobFilter(queue=queue, task=task, state=State.DEAD, error=error)
        return await self.jobs(who, where, limit, cursor)

    async def causes(self, who: Who, queue: str | None = None, task: str | None = None) -> CausesShape:
        """What jobs died of, from the newest dead ones. One answer for a queue does for all of its tasks."""
        who.must(Role.READ)
        found = await self.shared(
            ("causes", queue), 5.0, lambda store: store.causes(queue=queue, limit=MOST_DEAD)
        )
        shape = causes_shape(found)
        if task is None:
            return shape
        mine = [group for group in shape.groups if group.task == task]
        return CausesShape(groups=mine, looked=shape.looked, more=shape.more)

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
        queue = sample.steering.queues.get(record.queue, QueueRecord(name=record.queue))
        task = self.app.tasks.get(record.task)
        began = views.running_since(record, sample.workers)
        limit = views.time_limit(record, queue, None if task is None else task.timeout)
        return JobView(
            **job_fields(record),
            state_text=state_in_words(record),
            why=why_it_waits(record, sample.steering.queues.get(record.queue), serving, now),
            running_since=iso(began),
            deadline=None if began is None else iso(began + limit),
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
        return (await self.find_events(who, queue, job, limit, before)).events

    async def find_events(
        self,
        who: Who,
        queue: str | None = None,
        job: int | None = None,
        limit: int = 100,
        before: int | None = None,
        kinds: Collection[str] = (),
    ) -> FoundEvents:
        """Events of these kinds (none: of any), the latest first, and how far back they were looked for: no
        store finds them by kind."""
        who.must(Role.READ)
        limit = max(1, min(limit, MOST_EVENTS))

        async def ask(store: Store) -> FoundEvents:
            return await _sift(store, queue, job, limit, before, kinds)

        # Many look at the latest, and nobody else at the page that one has come to.
        alone = job is not None or before is not None
        key = ("events", queue, limit, *sorted(kinds))
        return await (self.ask(ask) if alone else self.shared(key, 1.0, ask))


async def _sift(
    store: Store, queue: str | None, job: int | None, limit: int, before: int | None, kinds: Collection[str]
) -> FoundEvents:
    """Pages of events until there are enough, or enough was looked at."""
    found: list[EventRecord] = []
    size, looked, back_to, last = (MOST_EVENTS if kinds else limit), 0, None, False
    for _ in range(STEPS if kinds else 1):
        page = await store.events(queue=queue, job=job, limit=size, before=before)
        for event in page:
            before, looked = event.id, looked + 1
            back_to = event.at if back_to is None else min(back_to, event.at)
            if not kinds or event.kind in kinds:
                found.append(event)
                if len(found) == limit:
                    break
        last = len(found) < limit and len(page) < size
        if last or len(found) == limit:
            break
    return FoundEvents(
        events=[event_shape(event) for event in found],
        looked=looked,
        before=None if last or before is None else str(before),
        back_to=iso(back_to),
    )


async def _page(store: Store, where: JobFilter, limit: int, word: str | None) -> Page:
    cursor = None if word is None else _cursor(word)
    try:
        return await store.jobs(where, limit, cursor, ENOUGH)
    except (ValueError, TypeError, LookupError):
        if word is None:
            raise
        raise _no_cursor() from None


def _cursor(word: str) -> str:
    try:
        return unwrap(word)
    except ValueError:
        raise _no_cursor() from None


def _no_cursor() -> Invalid:
    return Invalid("this is not a cursor; take it from a listing", "cursor")
