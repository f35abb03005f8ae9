"""Jobs: listings, causes of death, everything about one of them; enqueue, cancel, retry, delete, replay.

Enqueues are not in the timeline, since the job itself shows them. Many jobs by filter are in `bulk`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from windlass.core.flow.gates import budget_of
from windlass.errors import EnqueueError, JobNotFound
from windlass.handles import bulk as walks
from windlass.handles.bulk import Verb
from windlass.operations.bodies import Maker, NewJobBody
from windlass.operations.events import timeline
from windlass.operations.groups import group_of
from windlass.operations.parents import ParentShape
from windlass.operations.principal import Principal, Role
from windlass.presentation import audit
from windlass.presentation.jobs import CausesShape, causes_shape, job_fields, labels_of, unwrap, wrap
from windlass.presentation.retries import retrying_of
from windlass.presentation.steps import step_shapes
from windlass.presentation.text import iso
from windlass.presentation.waiting import state_in_words, why_it_waits
from windlass.store.protocol import Store
from windlass.store.records import (
    ChangeAnswer,
    EventRecord,
    JobFilter,
    JobRecord,
    Page,
    QueueRecord,
    Receipt,
    Step,
)
from windlass.web.http.intake_limit import IntakeLimit
from windlass.web.http.problems import Conflict, Invalid
from windlass.web.service import views
from windlass.web.service.audit import Actions, Audit
from windlass.web.service.shapes import JobView, ListedJobs, ReceiptShape
from windlass.web.service.store_access import StoreAccess

if TYPE_CHECKING:
    from windlass.app import Windlass

MAX_LISTED: Final = 500
MAX_AT_ONCE: Final = 1_000
"""Jobs that one request may enqueue or name."""
MAX_DEAD: Final = 10_000
"""Dead jobs, the newest, that are counted by cause."""
LISTING_TIME: Final = 0.05
"""Seconds that a listing may search back through the log."""
_MAX_EVENTS: Final = 200


class Jobs(Actions):
    """What can be seen of jobs and done to them."""

    def __init__(self, app: Windlass, store: StoreAccess, audit: Audit) -> None:
        super().__init__(store, audit)
        self._app = app
        self._intake = IntakeLimit()
        self._maker = Maker(app)

    # -- reads ------------------------------------------------------------------------------------------

    async def page(
        self, principal: Principal, where: JobFilter, limit: int = 50, cursor: str | None = None
    ) -> ListedJobs:
        """A page of jobs, newest first. The search goes back in bounded steps and says how far it came: a
        page may be short or empty and still have a cursor."""
        principal.require(Role.READ)
        page = await self._store.ask(
            lambda store: _page(store, where, max(1, min(limit, MAX_LISTED)), cursor)
        )
        labels = labels_of((await self._store.state()).workers)
        return ListedJobs(
            jobs=[views.listed_job(job, labels) for job in page.jobs],
            cursor=None if page.cursor is None else wrap(page.cursor),
            looked=page.looked,
            back_to=iso(page.back_to),
        )

    async def causes(
        self, principal: Principal, queue: str | None = None, task: str | None = None
    ) -> CausesShape:
        """What the newest dead jobs died of. One shared answer serves all tasks of a queue."""
        principal.require(Role.READ)
        found = await self._store.shared(
            ("causes", queue), 5.0, lambda store: store.causes(queue=queue, limit=MAX_DEAD)
        )
        shape = causes_shape(found)
        if task is None:
            return shape
        mine = [group for group in shape.groups if group.task == task]
        return CausesShape(groups=mine, looked=shape.looked, more=shape.more)

    async def get(self, principal: Principal, id: int) -> JobView:
        """Everything about one job: its state, why it waits, what has happened to it. Raises JobNotFound."""
        principal.require(Role.READ)

        async def read(store: Store) -> tuple[JobRecord, ParentShape | None, list[EventRecord], list[Step]]:
            found = await store.job(id)
            if found is None:
                raise JobNotFound(
                    f"there is no job {id}: it never existed, was deleted, or its retention has passed"
                )
            # Any job may be a parent: one enqueued by name does not know that its task is chunked.
            parent = None if found.options.part is not None else await store.parent(id)
            shape = None
            if parent is not None:
                retrying = (await retrying_of(store, [parent])).get(id)
                shape = ParentShape.of(parent, (time.time(), parent), retrying=retrying)
            return found, shape, await store.events(job=id, limit=_MAX_EVENTS), await store.steps(id)

        record, parent, events, steps = await self._store.ask(read)
        asked = budget_of(record.reason) is not None
        budgets = await self._store.ask(lambda store: store.budgets()) if asked else None
        state = await self._store.state()
        now = await self._store.now()
        labels = labels_of(state.workers)
        label = labels.get(record.worker or 0)
        serving = state.view.serving.get(record.queue, 0)
        queue = state.view.queues.get(record.queue, QueueRecord(name=record.queue))
        task = self._app.tasks.get(record.task)
        began = views.running_since(record, state.workers)
        limit = views.time_limit(record, queue, None if task is None else task.timeout)
        return JobView(
            **job_fields(record, labels),
            state_text=state_in_words(record),
            why=why_it_waits(
                record, state.view.queues.get(record.queue), serving, now, state.workers, budgets
            ),
            running_since=iso(began),
            deadline=None if began is None else iso(began + limit),
            timeline=timeline(record, events, label),
            parent=parent,
            group=await self._store.ask(lambda store: group_of(store, record)),
            steps=step_shapes(steps, now),
        )

    # -- actions ----------------------------------------------------------------------------------------

    async def enqueue(self, principal: Principal, jobs: Sequence[NewJobBody]) -> list[ReceiptShape]:
        """Add jobs, all or none. Of single ones only so many may be under way at once."""
        principal.require(Role.OPERATE)
        if not 1 <= len(jobs) <= MAX_AT_ONCE:
            raise Invalid(f"send 1 to {MAX_AT_ONCE:,} jobs at once, not {len(jobs):,}", "jobs")
        if len(jobs) == 1:
            made = [await self._maker.make(jobs[0])]
            with self._intake.admit(made):
                return [receipt_shape(receipt) for receipt in await self._app._producer.asend(made)]
        made = []
        for place, body in enumerate(jobs):
            try:
                made.append(await self._maker.make(body))
            except EnqueueError as error:
                error.args = (f"jobs[{place}]: {error}",)
                raise
        return [receipt_shape(receipt) for receipt in await self._app._producer.asend(made)]

    async def act(self, principal: Principal, verb: Verb, ids: Sequence[int]) -> dict[str, str]:
        """Cancel, retry or delete jobs by id [O5] [O6].

        Cancel ends waiting jobs now and asks running ones to stop. Retry offers dead, scheduled and retrying
        jobs again now, with their attempts reset. Delete removes jobs and their history; running ones are
        asked to stop instead."""
        principal.require(Role.OPERATE)
        named = list(dict.fromkeys(ids))
        if not 1 <= len(named) <= MAX_AT_ONCE:
            raise Invalid(f"name 1 to {MAX_AT_ONCE:,} jobs at once, not {len(named):,}", "ids")
        answers = await self._store.ask(lambda store: walks.act(store, verb, named))
        self._store.stop_local(frozenset(id for id, answer in answers.items() if answer == "requested"))
        await self._audit.done(principal, *audit.steered(verb, answers))
        return {str(id): answer for id, answer in answers.items()}

    async def change(self, principal: Principal, id: int, changes: Mapping[str, Any]) -> ChangeAnswer:
        """Change a waiting job in place [E8]. Raises Conflict for a part."""
        principal.require(Role.OPERATE)
        job = self._app.job(id)
        try:
            answer = await self._store.ask(lambda store: job._changed(store, changes))
        except EnqueueError as error:
            if type(error) is EnqueueError:
                raise Conflict(str(error)) from error
            raise
        await self._audit.done(principal, audit.changed(id, changes.items(), answer))
        return answer

    async def replay(self, principal: Principal, id: int) -> ReceiptShape:
        """Enqueue a copy of a job that has ended; the copy knows which job it repeats [O6]."""
        principal.require(Role.OPERATE)
        try:
            copy = await self._app.job(id).areplay()
        except EnqueueError as error:
            if type(error) is EnqueueError:  # it has not ended, or is a part
                raise Conflict(str(error)) from error
            raise
        await self._audit.done(principal, audit.replayed(id, copy.id))
        return receipt_shape(Receipt(copy.id, copy.receipt or "enqueued", copy.pressure))


def receipt_shape(receipt: Receipt) -> ReceiptShape:
    """A receipt as JSON has it."""
    id = str(receipt.id) if receipt.id else None
    return ReceiptShape(id=id, status=receipt.status, pressure=receipt.pressure)


async def _page(store: Store, where: JobFilter, limit: int, cursor: str | None) -> Page:
    try:
        return await store.jobs(where, limit, None if cursor is None else unwrap(cursor), LISTING_TIME)
    except (ValueError, TypeError, LookupError):
        if cursor is None:
            raise
        raise Invalid("this is not a cursor; take it from a listing", "cursor") from None
