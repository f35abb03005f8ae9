"""The coordinator's clock: fires the schedules that are due [K4].

Each fire is a compare-and-swap of the schedule's next time together with its jobs, under the coordinator's
term: however many hosts think that they coordinate, and whatever their clocks say, a time fires once.
"""

from __future__ import annotations

import logging
import time
from typing import Final, NamedTuple

from windlass.core import cron
from windlass.core.counts import plural
from windlass.core.cron import BadSchedule
from windlass.errors import EnqueueError, StoreError
from windlass.store.protocol import Store
from windlass.store.records import Receipt, ScheduleRecord
from windlass.tasks.schedule_management import jobs_made
from windlass.worker.reports.recorder import Recorder

logger: Final = logging.getLogger("windlass.tasks.schedules")


LIMIT: Final = 100
"""Schedules fired in one look."""

SELDOM: Final = 60.0
"""Seconds between two fires of a schedule below which they are left out of the timeline: they would fill
it."""


class Look(NamedTuple):
    """The fires of a look at the schedules, and the time of the next look."""

    jobs: int
    next_in: float | None
    """Seconds until one is due; None: none ever is."""


async def fire_due(store: Store, term: int | None, record: Recorder | None = None) -> Look:
    """Fire what is due. Raises TermLost. A schedule that is wrong does not keep the others from firing: its
    error is recorded."""
    asked = time.monotonic()
    due = await store.due(LIMIT)
    made = 0
    failed: StoreError | None = None
    for schedule in due.schedules:
        try:
            receipts = await _fire(store, term, schedule, due.now)
        except StoreError as error:
            # Another job holds its unique key, say. It is tried again, and the others need not wait for that.
            logger.warning("schedule %s cannot fire yet: %s", schedule.name, error)
            failed = error
            continue
        made += jobs_made(receipts)
        if receipts and record is not None and not _is_frequent(schedule):
            message = f"schedule {schedule.name} fired, {plural(jobs_made(receipts), 'job')}"
            record.note(
                "fired", message, id=receipts[-1].id or None, queue=schedule.queue, task=schedule.task
            )
    if failed is not None:
        raise failed
    next_in = None if due.next_at is None else max(due.next_at - due.now - (time.monotonic() - asked), 0.0)
    return Look(made, 0.0 if len(due.schedules) == LIMIT else next_in)


def _is_frequent(schedule: ScheduleRecord) -> bool:
    assert schedule.next_at is not None  # it is due
    return cron.next_fire(schedule.cron, schedule.tz, schedule.next_at) - schedule.next_at < SELDOM


async def _fire(store: Store, term: int | None, schedule: ScheduleRecord, now: float) -> list[Receipt]:
    expected = schedule.next_at
    assert expected is not None  # it is due
    name = schedule.name
    if expected > now:
        await _clock_went_back(store, term, schedule, now)
        return []
    try:
        firing = cron.times_due(schedule.cron, schedule.tz, expected, now, schedule.missed, schedule.grace)
    except BadSchedule as bad:
        logger.error("schedule %s cannot fire: %s", name, bad)
        # The next start of a worker brings it back, where that one knows better.
        await store.fire(term, name, expected, [], next_at=None, error=str(bad))
        return []
    try:
        receipts = await store.fire(
            term, name, expected, firing.times, next_at=firing.next_at, skipped=firing.skipped
        )
    except EnqueueError as refused:
        logger.error("schedule %s cannot enqueue its job: %s", name, refused)
        await store.fire(
            term, name, expected, [], next_at=firing.next_at, skipped=firing.skipped, error=str(refused)
        )
        return []
    if firing.skipped:
        logger.warning(
            "schedule %s was due %.0f s ago; %s",
            name,
            now - expected,
            plural(firing.skipped, "fire was missed and is skipped", "fires were missed and are skipped"),
        )
    return receipts or []


async def _clock_went_back(store: Store, term: int | None, schedule: ScheduleRecord, now: float) -> None:
    """The clock was set back behind a schedule's last fire. It fires no time again, unless that would make it
    wait for longer than two of its own intervals: then it goes on from now."""
    expected = schedule.next_at
    assert expected is not None
    try:
        interval = cron.next_fire(schedule.cron, schedule.tz, expected) - expected
        again = cron.next_fire(schedule.cron, schedule.tz, now)
    except BadSchedule:
        return  # which is logged when it is due
    if expected - now > 2 * interval and again < expected:
        logger.warning(
            "the clock was set back to before the last fire of schedule %s; it fires again from now",
            schedule.name,
        )
        await store.fire(term, schedule.name, expected, [], next_at=again)
