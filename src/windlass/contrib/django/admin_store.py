"""What the admin's pages read from the store and do to it, without requests and templates. Texts are those of
`windlass.presentation`, the same that commands and Mission Control show."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final, Literal

import msgspec

from windlass.app import Windlass
from windlass.core.states import State
from windlass.handles import bulk
from windlass.presentation.audit import record, steered
from windlass.presentation.cluster_state import read_state
from windlass.presentation.jobs import priority_name, unwrap, wrap
from windlass.presentation.text import one_line, span
from windlass.presentation.waiting import state_in_words, why_or_reason
from windlass.store.protocol import Store
from windlass.store.records import JobFilter, JobRecord

logger: Final = logging.getLogger("windlass.django")
PAGE: Final = 50
LISTING_TIME: Final = 0.1
"""Seconds that a page may search back through the log. It may be short, and the next one goes on."""
Verb = Literal["retry", "cancel"]


class JobRow(msgspec.Struct, frozen=True):
    """A job in a listing."""

    id: str
    task: str
    queue: str
    priority: str
    state: str
    attempt: str
    enqueued_at: datetime
    why: str


class QueueRow(msgspec.Struct, frozen=True):
    """A queue in a listing; `counts` are ready, running, scheduled, retrying, dead."""

    name: str
    counts: tuple[int, ...]
    oldest: str
    workers: int
    state: str


class Listing(msgspec.Struct, frozen=True):
    """A page of jobs, and the cursor of the next one."""

    rows: list[JobRow]
    cursor: str | None


class JobDetails(msgspec.Struct, frozen=True):
    """Everything about one job."""

    job: JobRecord
    row: JobRow
    why: str
    times: dict[str, datetime]


def list_jobs(app: Windlass, where: JobFilter, cursor: str | None) -> Listing:
    """A page of jobs, newest first. Raises ValueError for an invalid cursor."""

    async def walk(store: Store) -> Listing:
        page = await store.jobs(where, PAGE, None if cursor is None else unwrap(cursor), LISTING_TIME)
        return Listing([_row(job) for job in page.jobs], None if page.cursor is None else wrap(page.cursor))

    return app._store_handle().call(walk)


def show_job(app: Windlass, id: int) -> JobDetails | None:
    """One job, or None."""

    async def ask(store: Store) -> JobDetails | None:
        job = await store.job(id)
        if job is None:
            return None
        why = why_or_reason(job, await store.cluster_view([]), time.time(), await store.workers()) or ""
        moments = {
            "enqueued": job.enqueued_at,
            "due": job.run_at,
            "claimed": job.claimed_at,
            "finished": job.finished_at,
        }
        times = {name: _moment(at) for name, at in moments.items() if at is not None}
        return JobDetails(job, _row(job), one_line(why), times)

    return app._store_handle().call(ask)


def list_queues(app: Windlass) -> list[QueueRow]:
    """Every queue, by name."""

    async def ask(store: Store) -> list[QueueRow]:
        state = await read_state(store)
        rows = []
        for name in state.names():
            depth = state.depth_of(name)
            oldest = "" if depth.oldest is None else span(depth.oldest)
            serving = state.view.serving.get(name, 0)
            rows.append(QueueRow(name, depth.counts, oldest, serving, state.in_words(name)))
        return rows

    return app._store_handle().call(ask)


def steer(
    app: Windlass, verb: Verb, ids: Sequence[int], by: str, only: State | None = None
) -> dict[int, str]:
    """Retry or cancel jobs, only those in the state `only` where it is given. Recorded in the timeline
    [M2]."""

    async def act(store: Store) -> dict[int, str]:
        found = [await store.job(id) for id in ids] if only is not None else []
        named = ids if only is None else [job.id for job in found if job is not None and job.state is only]
        answers = dict(await bulk.act(store, verb, named))
        if error := await record(store, steered(verb, answers), by):
            logger.warning("an action of %s is not in the timeline: %s", by, error)
        return {**dict.fromkeys(ids, "unchanged"), **answers}

    answers = app._store_handle().call(act)
    requested = frozenset(id for id, answer in answers.items() if answer == "requested")
    app._store_handle().notify_cancelled(requested)
    return answers


def _row(job: JobRecord) -> JobRow:
    last = job.errors[-1] if job.errors else None
    why = f"{last.type}: {last.message}" if last else job.reason or ""
    return JobRow(
        id=str(job.id),
        task=job.task,
        queue=job.queue,
        priority=priority_name(job.priority),
        state=state_in_words(job),
        attempt=f"{job.attempt}/{job.options.max_attempts}",
        enqueued_at=_moment(job.enqueued_at),
        why=one_line(why, 120),
    )


def _moment(at: float) -> datetime:
    return datetime.fromtimestamp(at, UTC)
