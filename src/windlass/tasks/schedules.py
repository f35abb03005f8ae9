"""Schedules: tasks that run by the clock, each fire once for the whole cluster [K4].

    @app.schedule("0 9 * * MON-FRI", tz="Europe/Paris", missed="latest", overlap="skip")
    @app.task(queue="reports")
    async def daily_report() -> None: ...

    app.schedules.next("shop.daily_report", 3)      # when it fires
    app.schedules.pause("shop.daily_report")        # until `resume`; also `windlass schedules pause`

A worker that starts puts the schedules of its app into the store, where the coordinator of the cluster fires
them by the store's clock. One that is new waits for its first time; a changed expression takes effect with
the next start of a worker. One that is no longer in the code goes on until `remove`. A wrong expression or
time zone is refused by the decorator. A worker whose system lacks the time zone records and logs that, and
the others go on.

`missed` says what becomes of fires that nobody was there for (later than `grace`): skip them, make up for the
latest, or for all. `overlap` says what a fire does whose last job has not ended: skip, queue another, or
cancel the old one first. `jitter` spreads the starts.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice, takewhile
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypedDict, TypeVar, cast, get_args, overload
from zoneinfo import ZoneInfo

from windlass.core import cron as crons
from windlass.core.cron import BadSchedule, Missed, Overlap
from windlass.core.durations import Duration, seconds
from windlass.core.names import check_name
from windlass.errors import ConfigurationError
from windlass.handles.details import ScheduleDetails, schedule_details
from windlass.store.records import NewSchedule, Receipt, ScheduleRecord
from windlass.tasks.functions import check_options
from windlass.tasks.options import Template
from windlass.tasks.task import AsyncTask, RegisteredTask, SyncTask

if TYPE_CHECKING:
    from windlass.app import Windlass
    from windlass.running.store_handle import StoreHandle
    from windlass.store.protocol import Store

P = ParamSpec("P")
R = TypeVar("R")
K = TypeVar("K", bound=RegisteredTask[..., Any])
logger: Final = logging.getLogger("windlass.tasks.schedules")
MAX_BACKFILLED: Final = 10_000
_LEFT_OUT: Final = ("delay", "run_at", "on_conflict", "idempotency_key", "connection")
"""What `task.using(...)` takes and a schedule does not keep."""
_MADE: Final = frozenset({"enqueued", "scheduled", "held", "replaced"})


class ScheduleOptions(TypedDict, total=False):
    """What `@app.schedule(...)` takes besides the expression."""

    name: str
    """The schedule's name; without it, that of its task."""
    tz: str | ZoneInfo
    """The IANA time zone of the expression; UTC without it."""
    args: Sequence[Any]
    """Positional arguments of its jobs."""
    kwargs: Mapping[str, Any]
    """Named arguments of its jobs."""
    missed: Missed
    """What becomes of fires that nobody was there for: skip, latest (default) or all."""
    overlap: Overlap
    """What a fire does whose last job has not ended: skip (default), queue or cancel."""
    grace: Duration
    """A fire that is later than this is missed; a minute without it."""
    jitter: Duration
    """Its jobs are put off by up to this time."""


class Scheduled:  # the overloads are those of `app.task`
    """What `app.schedule(...)` returns: a decorator for a task, or for a function, which becomes one."""

    def __init__(self, app: Windlass, cron: str, options: ScheduleOptions) -> None:
        check_options("a schedule", options, ScheduleOptions.__annotations__)
        if not isinstance(cron, str):
            raise ConfigurationError(
                f"app.schedule({cron!r}) needs an expression: write @app.schedule('0 9 * * MON-FRI')"
            )
        self._app = app
        self._cron = cron
        self._options = options

    @overload
    def __call__(self, task: K, /) -> K: ...
    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, task: Callable[P, Coroutine[Any, Any, R]], /
    ) -> AsyncTask[P, R]: ...
    @overload
    def __call__(self, task: Callable[P, R], /) -> SyncTask[P, R]: ...
    def __call__(self, task: Any, /) -> Any:
        """Declare the schedule, and give back the task."""
        known = task if isinstance(task, RegisteredTask) else cast("Any", self._app).task(task)
        self._app.schedules.declare(self._schedule(known))
        return known

    def _schedule(self, task: RegisteredTask[..., Any]) -> NewSchedule:
        options = self._options
        job = task._job(task._encode(tuple(options.get("args", ())), dict(options.get("kwargs", {}))))
        name = check_name("schedule", options.get("name", task.name))
        _check_kept(name, task._template)
        tz = _zone(name, options.get("tz", "UTC"))
        try:
            crons.check(self._cron, tz)
        except BadSchedule as error:
            raise ConfigurationError(f"schedule {name}: {error}") from None
        return NewSchedule(
            name=name,
            cron=self._cron,
            task=task.name,
            tz=tz,
            payload=job.payload,
            queue=job.queue,
            priority=job.priority,
            options=job.options,
            missed=_word(name, "missed", options.get("missed", "latest"), Missed),
            overlap=_word(name, "overlap", options.get("overlap", "skip"), Overlap),
            grace=_span(name, "grace", options.get("grace", 60.0)),
            jitter=_span(name, "jitter", options.get("jitter", 0.0)),
        )


class Schedules:
    """The schedules of an app, and what can be done with those in its store; `app.schedules` gives it."""

    def __init__(self, app: Windlass) -> None:
        self._app = app
        self._declared: dict[str, NewSchedule] = {}

    @property
    def declared(self) -> list[NewSchedule]:
        """Those that the code declares."""
        return list(self._declared.values())

    def declare(self, schedule: NewSchedule) -> None:
        """Add one that workers of this app put into the store when they start."""
        known = self._declared.get(schedule.name)
        if known is not None and known.cron != schedule.cron:
            raise ConfigurationError(
                f"two schedules are called {schedule.name}; give one of them another name="
            )
        self._declared[schedule.name] = schedule

    async def aseed(self, store: Store) -> None:
        """Put what the code declares into the store; a worker does so when it starts."""
        now = await store.now() if self._declared else 0.0
        for schedule in self._declared.values():
            next_at, error = None, None
            try:
                next_at = crons.next_fire(schedule.cron, schedule.tz, now)
            except BadSchedule as bad:
                error = str(bad)
                logger.error("schedule %s never fires: %s", schedule.name, bad)
            await store.seed_schedule(schedule, next_at, error)

    # -- what can be done, in two tongues -----------------------------------------------------------------

    def records(self) -> list[ScheduleDetails]:
        """Every schedule in the store."""
        return self._details(self._store_handle.call(lambda store: store.schedules()))

    async def arecords(self) -> list[ScheduleDetails]:
        """Every schedule in the store."""
        return self._details(await self._store_handle.acall(lambda store: store.schedules()))

    def run(self, name: str) -> int | None:
        """Fire it now, whatever its clock, its pause and its overlap say; the answer is its job's id, None
        where its unique key is parked."""
        return self._store_handle.call(lambda store: run_now(store, name))

    async def arun(self, name: str) -> int | None:
        """Fire it now; see `run`."""
        return await self._store_handle.acall(lambda store: run_now(store, name))

    def pause(self, name: str) -> ScheduleDetails:
        """Fire it no more until `resume`."""
        return self._details([self._store_handle.call(lambda store: pause(store, name))])[0]

    async def apause(self, name: str) -> ScheduleDetails:
        """Fire it no more until `aresume`."""
        return self._details([await self._store_handle.acall(lambda store: pause(store, name))])[0]

    def resume(self, name: str) -> ScheduleDetails:
        """Let it fire again, from its next time on: what the pause covered is not made up for."""
        return self._details([self._store_handle.call(lambda store: resume(store, name))])[0]

    async def aresume(self, name: str) -> ScheduleDetails:
        """Let it fire again; see `resume`."""
        return self._details([await self._store_handle.acall(lambda store: resume(store, name))])[0]

    def next(self, name: str, n: int = 5) -> list[datetime]:
        """The next times it fires for, in its own time zone."""
        return self._store_handle.call(lambda store: next_times(store, name, n))

    async def anext(self, name: str, n: int = 5) -> list[datetime]:
        """The next times it fires for; see `next`."""
        return await self._store_handle.acall(lambda store: next_times(store, name, n))

    def backfill(self, name: str, start: datetime, end: datetime) -> int:
        """Fire it once for each of its times from `start` up to `end`, whatever its overlap says; the answer
        is how many jobs that made."""
        return self._store_handle.call(lambda store: backfill(store, name, start, end))

    async def abackfill(self, name: str, start: datetime, end: datetime) -> int:
        """Fire it for past times; see `backfill`."""
        return await self._store_handle.acall(lambda store: backfill(store, name, start, end))

    def remove(self, name: str) -> bool:
        """Forget it. While the code declares it, the next start of a worker brings it back."""
        return self._store_handle.call(lambda store: store.drop_schedule(name))

    async def aremove(self, name: str) -> bool:
        """Forget it; see `remove`."""
        return await self._store_handle.acall(lambda store: store.drop_schedule(name))

    def _details(self, found: Sequence[ScheduleRecord]) -> list[ScheduleDetails]:
        return [schedule_details(each, self._app.codec) for each in found]

    @property
    def _store_handle(self) -> StoreHandle:
        return self._app._store_handle()


# -- the same on a store: what the commands use, too ------------------------------------------------------


async def find(store: Store, name: str) -> ScheduleRecord:
    """The schedule of this name. Raises LookupError."""
    for schedule in await store.schedules():
        if schedule.name == name:
            return schedule
    raise LookupError(f"there is no schedule {name!r}; `windlass schedules list` shows those there are")


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


def _check_kept(name: str, template: Template) -> None:
    """Refuse what would be given and then not heeded."""
    plain = Template()
    lost = [option for option in _LEFT_OUT if getattr(template, option) != getattr(plain, option)]
    if lost:
        raise ConfigurationError(
            f"schedule {name}: its task has {', '.join(lost)} from using(…), which a schedule cannot keep; "
            "leave it out: the expression and jitter= set the time, overlap= handles fires that overlap"
        )


def _zone(name: str, value: Any) -> str:
    """The name of a time zone."""
    zone = value.key if isinstance(value, ZoneInfo) else value
    if not isinstance(zone, str):
        raise ConfigurationError(f"schedule {name}: tz={value!r} is not a time zone; write tz='Europe/Paris'")
    return zone


def _word(name: str, option: str, value: Any, words: Any) -> Any:
    if value not in get_args(words):
        raise ConfigurationError(
            f"schedule {name}: {option}={value!r} is not one of {', '.join(get_args(words))}"
        )
    return value


def _span(name: str, option: str, value: Any) -> float:
    try:
        return seconds(value)
    except ValueError as error:
        raise ConfigurationError(f"schedule {name}: {option}: {error}") from None
