"""Schedules: when each fires; firing, pausing and removing; making and changing them at run time [K4]."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from itertools import islice
from typing import Annotated, Any, Final, Self

import msgspec

from windlass.core import cron
from windlass.core.counts import plural
from windlass.core.cron import BadSchedule, Missed, Overlap, zone
from windlass.errors import ConfigurationError, WindlassError
from windlass.operations.bodies import Maker, NewJobBody
from windlass.operations.operation import Help, Name, Ops, Removed, Subject
from windlass.operations.refusals import Conflict, Invalid, NotFound
from windlass.presentation.jobs import priority_name
from windlass.presentation.text import in_zone, iso, one_line, parsed, shaped
from windlass.store.fields import JobOptions
from windlass.store.protocol import Store
from windlass.store.records import NewJob, NewSchedule, ScheduleRecord, WorkerRecord
from windlass.store.schedules import Origin, differences, origin
from windlass.tasks import schedule_management as management
from windlass.tasks.schedule_options import as_before, call_of, changed, made_of

schedules: Final = Subject("schedules")
UPCOMING: Final = 3
_ORIGINS: Final[dict[Origin, str]] = {
    "code": "",
    "changed": "changed at run time",
    "live": "made at run time",
    "left": "no longer in the code",
}


class ScheduleView(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule, and when it fires next."""

    name: str
    cron: str
    task: str
    tz: str
    payload: Any
    queue: str
    priority: str
    missed: Missed
    overlap: Overlap
    grace: float
    jitter: float
    paused: bool
    next_at: str | None
    last_at: str | None
    last_job: str | None
    skipped: int
    error: str | None
    origin: Origin
    """code; changed: declared by code and changed at run time; live: made at run time; left: no worker that
    runs declares it any more."""
    declared_at: str | None
    differences: dict[str, str]
    """Where it was changed at run time: what the code says, by field."""
    state_text: str
    origin_text: str
    upcoming: list[str]
    """The next few times it fires for."""

    @classmethod
    def of(cls, schedule: ScheduleRecord, now: float, workers: Iterable[WorkerRecord]) -> Self:
        """Return the view of a record."""
        found = origin(schedule, workers)
        state = filter(None, ("paused" if schedule.paused else "", schedule.error or ""))
        return shaped(
            cls,
            schedule,
            payload=parsed(schedule.payload),
            priority=priority_name(schedule.priority),
            origin=found,
            differences=differences(schedule),
            state_text="; ".join(state),
            origin_text=_ORIGINS[found],
            upcoming=_upcoming(schedule, now),
        )


def _upcoming(schedule: ScheduleRecord, now: float) -> list[str]:
    if schedule.paused or schedule.next_at is None:
        return []
    try:
        return _isos(islice(cron.upcoming(schedule.cron, schedule.tz, now), UPCOMING))
    except BadSchedule:  # `error` says what is wrong with it
        return []


def _isos(times: Iterable[float]) -> list[str]:
    return [iso(time) or "" for time in times]


class Schedules(msgspec.Struct, frozen=True):
    """Every schedule, by name."""

    schedules: list[ScheduleView]


class Fired(msgspec.Struct, frozen=True):
    """The job that a schedule enqueued; null where its unique key is parked."""

    job: str | None


class Times(msgspec.Struct, frozen=True):
    """Times of a schedule, and its time zone."""

    schedule: str
    times: list[str]
    tz: str


class Backfilled(msgspec.Struct, frozen=True):
    """The times of a schedule in a past period, and how many jobs were made for them."""

    schedule: str
    times: list[str]
    made: int


Span = Annotated[float | str | None, msgspec.Meta(description="Seconds, or a text such as 5m.")]


class ScheduleClock(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """When a schedule fires, and its policies. A field that is null or left out stays as it is, or is the
    default."""

    cron: str | None = None
    """Five fields, six with seconds first, @daily, or @every 10s."""
    every: Span = None
    """Instead of an expression: fire once in each such span."""
    tz: str | None = None
    missed: Missed | None = None
    overlap: Overlap | None = None
    grace: Span = None
    jitter: Span = None

    def clock(self) -> dict[str, Any]:
        """Return what was given besides the expression."""
        names = [name for name in ScheduleClock.__struct_fields__ if name != "cron"]
        return {name: value for name in names if (value := getattr(self, name)) is not None}


class NewScheduleBody(ScheduleClock, kw_only=True, forbid_unknown_fields=True):
    """A schedule to make at run time, and the job that it enqueues."""

    name: str
    job: NewJobBody


class ScheduleChanges(ScheduleClock, kw_only=True, forbid_unknown_fields=True):
    """A change of a schedule."""

    job: NewJobBody | None = None
    """The job it enqueues from now on, with all its options; null: as before."""


# -- looking --------------------------------------------------------------------------------------------


@schedules.get("/schedules")
async def list_schedules(ops: Ops) -> Schedules:
    """List schedules

    Each with when it fires next and fired last, whether it is paused, and its error if any."""
    found, now = await ops.shared("schedules", 1.0, _read)
    workers = await ops.shared("workers", 1.0, lambda store: store.workers())
    return Schedules([ScheduleView.of(schedule, now, workers) for schedule in found])


async def _read(store: Store) -> tuple[list[ScheduleRecord], float]:
    return await store.schedules(), await store.now()


@schedules.command()
async def next_times(
    ops: Ops,
    name: Name,
    n: Annotated[int, msgspec.Meta(ge=1, le=1000), Help("How many times to print.", option="-n")] = 5,
) -> Times:
    """Print the next times of a schedule, in its own time zone"""
    with _refusals(name):
        found = await management.find(ops.store, name)
        times = await management.next_times(ops.store, name, n)
    return Times(name, _isos(time.timestamp() for time in times), found.tz)


# -- making and changing --------------------------------------------------------------------------------


@schedules.post("/schedules", 201)
async def add_schedule(ops: Ops, schedule: NewScheduleBody) -> ScheduleView:
    """Add a schedule at run time; it survives deploys, until it is removed"""
    job = await Maker(ops.app).make(schedule.job)
    with _refusals(schedule.name):
        record = await management.add(ops.store, made_of(schedule.name, schedule.cron, job, schedule.clock()))
    ops.did(f"schedule {record.name}: added: {record.cron}")
    return await _view(ops, record)


@schedules.put("/schedules/{name}")
async def change_schedule(ops: Ops, name: Name, changes: ScheduleChanges) -> ScheduleView:
    """Change a schedule; the change stays, whatever the code declares, until it is reverted"""
    job = None if changes.job is None else await Maker(ops.app).make(changes.job)
    return await _changed(ops, name, changes, lambda _: job)


@schedules.command()
async def set_schedule(
    ops: Ops,
    name: Name,
    changes: ScheduleClock,
    task: str | None,
    call: tuple[list[Any], dict[str, Any]] | None,
    options: JobOptions,
) -> ScheduleView:
    """Change a schedule, and single options of its jobs; what is not given stays as it is"""
    other = None if task is None else await ops.app.named(task).using(**options)._aplaced()

    def job(known: ScheduleRecord) -> NewJob | None:
        if other is None and call is None and not options:
            return None
        wanted = other or as_before(ops.app.named(known.task), known).using(**options)
        if other is None and call is None:  # its arguments stay as they are, sealed or not
            return wanted._template.job(known.task, known.payload, known.queue)
        args, kwargs = call or ([], {})
        return call_of(name, wanted, {"args": args, "kwargs": kwargs})

    return await _changed(ops, name, changes, job)


async def _changed(
    ops: Ops, name: str, changes: ScheduleClock, job: Callable[[ScheduleRecord], NewJob | None]
) -> ScheduleView:
    def wanted(known: ScheduleRecord) -> NewSchedule:
        return changed(known, changes.cron, job(known), changes.clock())

    with _refusals(name):
        record = await management.change(ops.store, name, wanted)
    ops.did(f"schedule {name}: changed: {record.cron}")
    return await _view(ops, record)


@schedules.post("/schedules/{name}/revert")
async def revert_schedule(ops: Ops, name: Name) -> ScheduleView:
    """Go back to what the code declares

    What was changed of the schedule at run time is undone."""
    with _refusals(name):
        record = await management.revert(ops.store, name)
    ops.did(f"schedule {name}: back to what the code declares: {record.cron}")
    return await _view(ops, record)


# -- managing --------------------------------------------------------------------------------------


@schedules.post("/schedules/{name}/run")
async def run_schedule(ops: Ops, name: Name) -> Fired:
    """Fire a schedule now

    Even if it is paused or its last job still runs; its next time does not change. Exit code 1 where it makes
    no job."""
    with _refusals(name):
        job = await management.run_now(ops.store, name)
    said = f"{name} made job {job}; follow it with `windlass job show {job}`"
    if job is None:
        said = (
            f"{name} made no job: the runs of its unique key died again and again, and it is parked for a "
            "while; enqueue the task by hand to run it all the same"
        )
    ops.did(f"schedule {name}: run now", said=said, job=job)
    return Fired(None if job is None else str(job))


@schedules.post("/schedules/{name}/pause")
async def pause_schedule(ops: Ops, name: Name) -> ScheduleView:
    """Pause a schedule: it does not fire until it is resumed"""
    with _refusals(name):
        record = await management.pause(ops.store, name)
    ops.did(f"schedule {name}: paused", said=f"{name} paused")
    return await _view(ops, record)


@schedules.post("/schedules/{name}/resume")
async def resume_schedule(ops: Ops, name: Name) -> ScheduleView:
    """Resume a schedule: it fires again from its next time on

    Times missed during the pause are not made up."""
    with _refusals(name):
        record = await management.resume(ops.store, name)
    assert record.next_at is not None  # it was computed just now
    when = in_zone(record.next_at, zone(record.tz), await ops.store.now())
    ops.did(f"schedule {name}: resumed", said=f"{name} resumed; it fires next {when}")
    return await _view(ops, record)


@schedules.command()
async def backfill_schedule(
    ops: Ops, name: Name, start: datetime, end: datetime, dry_run: bool = False
) -> Backfilled:
    """Fire a schedule once for each of its times in a past period; each makes a job

    Times without an offset are in the schedule's own time zone."""
    with _refusals(name):
        found = await management.find(ops.store, name)
        span = (each if each.tzinfo else each.replace(tzinfo=zone(found.tz)) for each in (start, end))
        times = await management.times_between(ops.store, name, *span)
    ends = [
        f"{datetime.fromtimestamp(time, zone(found.tz)):%Y-%m-%d %H:%M %Z}" for time in times[:1] + times[-1:]
    ]
    shown = f": {' to '.join(dict.fromkeys(ends))}" if ends else ""
    ops.said = f"{name} has {plural(len(times), 'time')} in this span{shown}"
    made = 0
    if not dry_run:
        made = await management.fire_at(ops.store, name, times)
        jobs = f"{plural(made, 'job')} made"
        others = "; for the others one stands that has the same unique key" if made < len(times) else ""
        ops.did(f"schedule {name}: backfill: {jobs}", said=f"{ops.said}\n{jobs}{others}")
    return Backfilled(name, _isos(times), made)


@schedules.delete("/schedules/{name}")
async def remove_schedule(ops: Ops, name: Name) -> Removed:
    """Remove a schedule; while code declares it, the next worker to start brings it back

    Its jobs stay."""
    with _refusals(name):
        await management.find(ops.store, name)
    await ops.store.drop_schedule(name)
    said = f"{name} is removed; if code still declares it, the next worker to start adds it again"
    ops.did(f"schedule {name}: removed", said=said)
    return Removed(name)


async def _view(ops: Ops, record: ScheduleRecord) -> ScheduleView:
    return ScheduleView.of(record, await ops.store.now(), await ops.store.workers())


@contextmanager
def _refusals(name: str) -> Iterator[None]:
    """Turn what a schedule cannot be, or have done to it, into a refusal."""
    try:
        yield
    except ConfigurationError as error:
        raise Invalid(one_line(str(error))) from error
    except WindlassError:
        raise
    except LookupError as error:
        raise NotFound(one_line(str(error))) from error
    except BadSchedule as error:
        raise Conflict(one_line(f"schedule {name}: {error}")) from error
    except ValueError as error:
        raise Conflict(one_line(str(error))) from error
