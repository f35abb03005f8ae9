"""Acts on a schedule, on a store: find it, fire it, pause it, make up for past times; make one at
run time, change it, and go back to what code says [K4]. `app.schedules`, the commands, the API and the pages
all use this."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from itertools import islice, takewhile
from typing import Final

from windlass.core import cron as crons
from windlass.core.names import did_you_mean
from windlass.store.protocol import Store
from windlass.store.records import NewSchedule, Receipt, ScheduleRecord

MAX_BACKFILLED: Final = 10_000
_MADE: Final = frozenset({"enqueued", "scheduled", "held", "replaced"})


async def find(store: Store, name: str) -> ScheduleRecord:
    """The schedule of this name. Raises LookupError."""
    found = {schedule.name: schedule for schedule in await store.schedules()}
    if name in found:
        return found[name]
    hint = did_you_mean(name, found) or "; `windlass schedules list` shows those there are"
    raise LookupError(f"there is no schedule {name[:80]!r}{hint}")


async def run_now(store: Store, name: str) -> int | None:
    """Fire a schedule for this very moment."""
    await find(store, name)
    now = await store.now()
    receipts: list[Receipt] | None = await store.fire(None, name, None, [now], next_at=None)
    return receipts[0].id or None if receipts else None


async def pause(store: Store, name: str) -> ScheduleRecord:
    """Pause a schedule."""
    await find(store, name)
    changed = await store.set_schedule(name, paused=True)
    assert changed is not None
    return changed


async def resume(store: Store, name: str) -> ScheduleRecord:
    """Let a schedule go on from its next time."""
    found = await find(store, name)
    changed = await store.set_schedule(
        name, paused=False, next_at=crons.next_fire(found.cron, found.tz, await store.now())
    )
    assert changed is not None
    return changed


async def add(store: Store, schedule: NewSchedule) -> ScheduleRecord:
    """Make a schedule at run time. Raises ValueError where its name is taken, or it would never fire."""
    next_at = crons.next_fire(schedule.cron, schedule.tz, await store.now())
    made = await store.put_schedule(schedule, next_at, new=True)
    if made is None:
        raise ValueError(
            f"there is a schedule {schedule.name} already; change it (`windlass schedules set "
            f"{schedule.name} …`), or choose another name"
        )
    return made


async def change(store: Store, name: str, changed: Callable[[ScheduleRecord], NewSchedule]) -> ScheduleRecord:
    """Change a schedule at run time; `changed` is told how it stands. Raises LookupError where there is none,
    ValueError where it would never fire."""
    wanted = changed(await find(store, name))
    next_at = crons.next_fire(wanted.cron, wanted.tz, await store.now())
    found = await store.put_schedule(wanted, next_at, new=False)
    return found if found is not None else await find(store, name)


async def revert(store: Store, name: str) -> ScheduleRecord:
    """Go back to what code declares. Raises LookupError where there is none, ValueError where no code
    declares it."""

    def declared(schedule: ScheduleRecord) -> NewSchedule:
        if schedule.declared is None:
            raise ValueError(
                f"schedule {name} was made at run time, and no code declares it; change or remove it"
            )
        return schedule.declared

    return await change(store, name, declared)


async def next_times(store: Store, name: str, n: int) -> list[datetime]:
    """The next times of a schedule, in its time zone."""
    found = await find(store, name)
    return [
        datetime.fromtimestamp(time, UTC).astimezone(crons.zone(found.tz))
        for time in islice(crons.upcoming(found.cron, found.tz, await store.now()), n)
    ]


async def times_between(store: Store, name: str, start: datetime, end: datetime) -> list[float]:
    """The times of a schedule from one moment up to another, which is left out."""
    if start.tzinfo is None or end.tzinfo is None:
        raise ValueError("give both times a time zone: datetime(2026, 1, 1, tzinfo=UTC)")
    if start > end:
        raise ValueError(f"{start.isoformat()} is later than {end.isoformat()}; give the earlier time first")
    found = await find(store, name)
    first = crons.upcoming(found.cron, found.tz, start.timestamp() - 1.0)
    times = list(islice(takewhile(lambda time: time < end.timestamp(), first), MAX_BACKFILLED + 1))
    if len(times) > MAX_BACKFILLED:
        raise ValueError(f"these are more than {MAX_BACKFILLED:,} times; backfill a shorter span")
    return times


async def backfill(store: Store, name: str, start: datetime, end: datetime) -> int:
    """Make a job for each of these times."""
    return await fire_at(store, name, await times_between(store, name, start, end))


async def fire_at(store: Store, name: str, times: Iterable[float]) -> int:
    """Make a job for each of these times; the answer is how many were made. Where one stands that has the
    same unique key, none is."""
    made = 0
    for time in times:
        made += jobs_made(await store.fire(None, name, None, [time], next_at=None) or ())
    return made


def jobs_made(receipts: Iterable[Receipt]) -> int:
    """How many of the jobs that a schedule asked for are there because of it."""
    return sum(receipt.status in _MADE for receipt in receipts)
