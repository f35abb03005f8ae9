"""Schedules: tasks that run by the clock, each fire once for the whole cluster [K4].

    @app.schedule("0 9 * * MON-FRI", tz="Europe/Paris", missed="latest", overlap="skip")
    @app.task(queue="reports")
    async def daily_report() -> None: ...

    app.schedules.next("shop.daily_report", 3)      # when it fires
    app.schedules.pause("shop.daily_report")        # until `resume`; also `windlass schedules pause`
    app.schedules.add("eu", every="10s", task=sweep, kwargs={"region": "eu"})       # made at run time

A worker that starts puts the schedules of its app into the store, where the coordinator of the cluster fires
them by the store's clock. One that is new waits for its first time; a changed expression takes effect with
the next start of a worker. What was made or changed at run time (`add`, `set`, the command, the page) is
never overwritten by code; `revert` goes back to it. One that is no longer in the code goes on until `remove`.
A wrong expression or time zone is refused by the decorator. A worker whose system lacks the time zone records
and logs that, and the others go on.

`missed` says what becomes of fires that nobody was there for (later than `grace`): skip them, make up for the
latest, or for all. `overlap` says what a fire does whose last job has not ended: skip, queue another, or
cancel the old one first. `jitter` spreads the starts.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Coroutine
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar, Unpack, cast, overload

from windlass.core import cron as crons
from windlass.core.cron import BadSchedule
from windlass.errors import ConfigurationError
from windlass.handles.details import ScheduleDetails, schedule_details
from windlass.store.records import NewSchedule, ScheduleRecord
from windlass.store.schedules import differences
from windlass.tasks import schedule_management as management
from windlass.tasks.functions import check_options
from windlass.tasks.schedule_options import (
    RunTimeOptions,
    ScheduleOptions,
    as_before,
    call_of,
    changed,
    made_of,
)
from windlass.tasks.task import AsyncTask, RegisteredTask, SyncTask, Task

if TYPE_CHECKING:
    from windlass.app import Windlass
    from windlass.running.store_handle import StoreHandle
    from windlass.store.protocol import Store

P = ParamSpec("P")
R = TypeVar("R")
K = TypeVar("K", bound=RegisteredTask[..., Any])
logger: Final = logging.getLogger("windlass.tasks.schedules")


class Scheduled:  # the overloads are those of `app.task`
    """The decorator of `app.schedule(...)` for a task, or for a function, which becomes one."""

    def __init__(self, app: Windlass, cron: str | None, options: ScheduleOptions) -> None:
        check_options("a schedule", options, ScheduleOptions.__annotations__)
        if (cron is None) is ("every" not in options) or not isinstance(cron, str | None):
            raise ConfigurationError(
                f"app.schedule({cron!r}) needs an expression, or every= in its place: write "
                "@app.schedule('0 9 * * MON-FRI'), or @app.schedule(every='10s')"
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
        name = self._options.get("name", task.name)
        return made_of(name, self._cron, call_of(name, task, self._options), self._options)


class Schedules:
    """The schedules of an app, and what can be done with those in its store; `app.schedules` gives it."""

    def __init__(self, app: Windlass) -> None:
        self._app = app
        self._declared: dict[str, NewSchedule] = {}

    @property
    def declared(self) -> list[NewSchedule]:
        """Return the schedules that the code declares."""
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
            stored = await store.seed_schedule(schedule, next_at, error)
            if stored.live:
                logger.warning(
                    "schedule %s is as it was changed at run time (%s), not as the code says; to go back: "
                    "windlass schedules revert %s",
                    schedule.name,
                    ", ".join(differences(stored)),
                    schedule.name,
                )

    # -- what can be done, in two tongues -----------------------------------------------------------------

    def records(self) -> list[ScheduleDetails]:
        """Every schedule in the store."""
        return self._store_handle.call(self._all)

    async def arecords(self) -> list[ScheduleDetails]:
        """Every schedule in the store."""
        return await self._store_handle.acall(self._all)

    def run(self, name: str) -> int | None:
        """Fire it now, whatever its clock, its pause and its overlap say; the answer is its job's id, None
        where its unique key is parked."""
        return self._store_handle.call(lambda store: management.run_now(store, name))

    async def arun(self, name: str) -> int | None:
        """Fire it now; see `run`."""
        return await self._store_handle.acall(lambda store: management.run_now(store, name))

    def pause(self, name: str) -> ScheduleDetails:
        """Fire it no more until `resume`."""
        return self._one(lambda store: management.pause(store, name))

    async def apause(self, name: str) -> ScheduleDetails:
        """Fire it no more until `aresume`."""
        return await self._aone(lambda store: management.pause(store, name))

    def resume(self, name: str) -> ScheduleDetails:
        """Let it fire again, from its next time on: what the pause covered is not made up for."""
        return self._one(lambda store: management.resume(store, name))

    async def aresume(self, name: str) -> ScheduleDetails:
        """Let it fire again; see `resume`."""
        return await self._aone(lambda store: management.resume(store, name))

    def next(self, name: str, n: int = 5) -> list[datetime]:
        """The next times it fires for, in its own time zone."""
        return self._store_handle.call(lambda store: management.next_times(store, name, n))

    async def anext(self, name: str, n: int = 5) -> list[datetime]:
        """The next times it fires for; see `next`."""
        return await self._store_handle.acall(lambda store: management.next_times(store, name, n))

    def backfill(self, name: str, start: datetime, end: datetime) -> int:
        """Fire it once for each of its times from `start` up to `end`, whatever its overlap says; the answer
        is how many jobs that made."""
        return self._store_handle.call(lambda store: management.backfill(store, name, start, end))

    async def abackfill(self, name: str, start: datetime, end: datetime) -> int:
        """Fire it for past times; see `backfill`."""
        return await self._store_handle.acall(lambda store: management.backfill(store, name, start, end))

    # -- at run time ------------------------------------------------------------------------------------

    def add(
        self,
        name: str,
        cron: str | None = None,
        /,
        *,
        task: Task[..., Any] | str,
        **options: Unpack[RunTimeOptions],
    ) -> ScheduleDetails:
        """Make a schedule now: `add("eu", "0 9 * * *", task=sweep, kwargs={"region": "eu"})`, or with
        `every="10s"`. It survives deploys, until `remove`. A task may be given by name; options of its jobs
        come from `task.using(…)`.

        Raises ConfigurationError for what makes no sense, ValueError where the name is taken."""
        wanted = _new(name, cron, self._task(task)._placed(), options)
        return self._one(lambda store: management.add(store, wanted))

    async def aadd(
        self,
        name: str,
        cron: str | None = None,
        /,
        *,
        task: Task[..., Any] | str,
        **options: Unpack[RunTimeOptions],
    ) -> ScheduleDetails:
        """Make a schedule now; see `add`."""
        wanted = _new(name, cron, await self._task(task)._aplaced(), options)
        return await self._aone(lambda store: management.add(store, wanted))

    def set(
        self,
        name: str,
        cron: str | None = None,
        /,
        *,
        task: Task[..., Any] | str | None = None,
        **options: Unpack[RunTimeOptions],
    ) -> ScheduleDetails:
        """Change a schedule now, also one that code declares: the change stays, whatever the code says,
        until `revert`. What is not given stays as it is.

        Raises ConfigurationError for what makes no sense, LookupError where there is none."""
        placed = None if task is None else self._task(task)._placed()
        changed = self._changed(cron, placed, options)
        return self._one(lambda store: management.change(store, name, changed))

    async def aset(
        self,
        name: str,
        cron: str | None = None,
        /,
        *,
        task: Task[..., Any] | str | None = None,
        **options: Unpack[RunTimeOptions],
    ) -> ScheduleDetails:
        """Change a schedule now; see `set`."""
        placed = None if task is None else await self._task(task)._aplaced()
        changed = self._changed(cron, placed, options)
        return await self._aone(lambda store: management.change(store, name, changed))

    def revert(self, name: str) -> ScheduleDetails:
        """Go back to what the code declares. Raises LookupError where there is none, ValueError where no code
        has declared it."""
        return self._one(lambda store: management.revert(store, name))

    async def arevert(self, name: str) -> ScheduleDetails:
        """Go back to what the code declares; see `revert`."""
        return await self._aone(lambda store: management.revert(store, name))

    def remove(self, name: str) -> bool:
        """Forget it. While the code declares it, the next start of a worker brings it back."""
        return self._store_handle.call(lambda store: store.drop_schedule(name))

    async def aremove(self, name: str) -> bool:
        """Forget it; see `remove`."""
        return await self._store_handle.acall(lambda store: store.drop_schedule(name))

    # -- how --------------------------------------------------------------------------------------------

    def _changed(
        self, cron: str | None, task: Task[..., Any] | None, options: RunTimeOptions
    ) -> Callable[[ScheduleRecord], NewSchedule]:
        check_options("a schedule", options, RunTimeOptions.__annotations__)

        def change(known: ScheduleRecord) -> NewSchedule:
            wanted = task
            if wanted is None and options.keys() & {"args", "kwargs"}:
                wanted = as_before(self._app.named(known.task), known)
            job = None if wanted is None else call_of(known.name, wanted, options)
            return changed(known, cron, job, options)

        return change

    def _task(self, task: Task[..., Any] | str) -> Task[..., Any]:
        return self._app.named(task) if isinstance(task, str) else task

    def _one(self, operation: Callable[[Store], Awaitable[ScheduleRecord]]) -> ScheduleDetails:
        return self._store_handle.call(lambda store: self._detailed(store, operation(store)))

    async def _aone(self, operation: Callable[[Store], Awaitable[ScheduleRecord]]) -> ScheduleDetails:
        return await self._store_handle.acall(lambda store: self._detailed(store, operation(store)))

    async def _all(self, store: Store) -> list[ScheduleDetails]:
        workers = await store.workers()
        return [schedule_details(each, self._app.codec, workers) for each in await store.schedules()]

    async def _detailed(self, store: Store, record: Awaitable[ScheduleRecord]) -> ScheduleDetails:
        return schedule_details(await record, self._app.codec, await store.workers())

    @property
    def _store_handle(self) -> StoreHandle:
        return self._app._store_handle()


def _new(name: str, cron: str | None, task: Task[..., Any], options: RunTimeOptions) -> NewSchedule:
    check_options("a schedule", options, RunTimeOptions.__annotations__)
    return made_of(name, cron, call_of(name, task, options), options)
