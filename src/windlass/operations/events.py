"""Events by queue, job and kind, and the timeline of a job, made from its events and its record [M2].

A plain success makes no event, since the record knows when the job was enqueued, claimed and finished. Where
both know of something, the event is used: it knows the worker and how long the run took."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any, Final, Self

import msgspec

from windlass.core.states import FINISHED
from windlass.endings import FOR_EVER
from windlass.operations.operation import JobId, Limit, Name, Ops, Subject, given_id
from windlass.presentation.text import iso, one_line, shaped, span
from windlass.store.protocol import Store
from windlass.store.records import EventKind, EventRecord, JobRecord

PAGE: Final = 500
MAX_PAGES: Final = 10
"""Pages that are read back for events of some kinds, at most."""

events: Final = Subject("events")


class EventView(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened. Those of a job's timeline that no store keeps, since the job itself tells of
    them (enqueued, claimed, failed, ended), have no id."""

    id: str | None = None
    at: str
    kind: str
    text: str = ""
    job: str | None = None
    queue: str = ""
    task: str = ""
    worker: str = ""
    attempt: int = 0
    ms: float | None = None

    @classmethod
    def of(cls, event: EventRecord) -> Self:
        """Return the view of a record."""
        return shaped(cls, event)


class FoundEvents(msgspec.Struct, frozen=True, kw_only=True):
    """Events, the latest first. A page may be short or empty and still have a `before`: one request searches
    a bounded number of events."""

    events: list[EventView]
    looked: int
    """How many events were searched for it."""
    before: str | None
    """Where the next page starts; null on the last one."""
    back_to: str | None
    """The time of the oldest event that was searched."""


@events.get("/events")
async def list_events(
    ops: Ops,
    queue: Name | None = None,
    job: JobId | None = None,
    kind: EventKind | None = None,
    limit: Limit = 100,
    before: JobId | None = None,
) -> FoundEvents:
    """List events, the latest first

    Those of a job, of a queue or all; of one kind or any. With `before`, those with a lower id."""
    kinds = () if kind is None else (kind,)
    return await find_events(
        ops,
        queue,
        None if job is None else given_id(job),
        limit,
        None if before is None else given_id(before),
        kinds,
    )


@events.get()
async def find_events(
    ops: Ops,
    queue: str | None = None,
    job: int | None = None,
    limit: int = 100,
    before: int | None = None,
    kinds: Collection[str] = (),
) -> FoundEvents:
    """List events of these kinds, none for any, and say how far back the search went

    No store has an index by kind."""

    async def read(store: Store) -> FoundEvents:
        return await _search(store, queue, job, limit, before, kinds)

    # Many viewers read the latest events; older pages and those of one job are rarely read twice.
    if job is not None or before is not None:
        return await read(ops.store)
    return await ops.shared(("events", queue, limit, *sorted(kinds)), 1.0, read)


async def _search(
    store: Store, queue: str | None, job: int | None, limit: int, before: int | None, kinds: Collection[str]
) -> FoundEvents:
    """Read pages of events until there are enough, or MAX_PAGES were read."""
    found: list[EventRecord] = []
    size, looked, back_to, last = (max(limit, PAGE) if kinds else limit), 0, None, False
    for _ in range(MAX_PAGES if kinds else 1):
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
        events=[EventView.of(event) for event in found],
        looked=looked,
        before=None if last or before is None else str(before),
        back_to=iso(back_to),
    )


_FAILED: Final = frozenset({"retry", "dead"})
_RAN: Final = frozenset({"retry", "snooze", "throttled", "unknown"})
"""After these a job is due when what they wait for is over."""


def timeline(job: JobRecord, events: Iterable[EventRecord], worker: str | None) -> list[EventView]:
    """Return what happened to a job, the earliest first."""
    shown = list(events)
    moments = [(event.at, 1, EventView.of(event)) for event in shown]
    seen: set[tuple[str, int]] = {(event.kind, event.attempt) for event in shown}
    moments += [(at, 0, view) for at, view in _derived(job, seen, worker)]
    moments.sort(key=lambda moment: moment[:2])
    return [view for _, _, view in moments]


def _derived(
    job: JobRecord, seen: set[tuple[str, int]], worker: str | None
) -> Iterator[tuple[float, EventView]]:
    """Yield what the record tells."""
    put_off = job.run_at - job.enqueued_at if job.run_at is not None and not job.errors else 0.0
    begun = job.attempt > 1 or any(
        kind in _RAN for kind, _ in seen
    )  # else it may be due when its wait is over
    message = f"to run after {span(put_off)}" if 0 < put_off < FOR_EVER and not begun else ""
    yield _moment(job, job.enqueued_at, "enqueued", message)
    for error in job.errors:
        if not any((kind, error.attempt) in seen for kind in _FAILED):
            message = one_line(f"{error.type}: {error.message}", 500)
            yield _moment(job, error.at, "failed", message, attempt=error.attempt)
    if job.claimed_at is not None:
        yield _moment(job, job.claimed_at, "claimed", worker=worker or "", attempt=job.attempt)
    if job.finished_at is not None and job.state in FINISHED and (str(job.state), job.attempt) not in seen:
        began = job.claimed_at
        ran = None if began is None else round(max(job.finished_at - began, 0.0) * 1000, 3)
        message = one_line(job.reason or "", 500)
        yield _moment(job, job.finished_at, str(job.state), message, attempt=job.attempt, ms=ran)


def _moment(job: JobRecord, at: float, kind: str, text: str = "", **more: Any) -> tuple[float, EventView]:
    about = {"job": str(job.id), "queue": job.queue, "task": job.task, **more}
    return at, EventView(at=iso(at) or "", kind=kind, text=text, **about)
