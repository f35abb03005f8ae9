"""Runs the jobs of a test: those that are due, what they enqueue, and with a clock that moves, those that are
not due yet.

A drain of the kit is made of drains as `app.run_until_idle()` does them, with moves of the test's clock in
between. What is due next is a job, or a schedule while jobs wait or a time to stop at was given.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from windlass.cluster.schedules import fire_due
from windlass.core.durations import Duration, seconds
from windlass.core.states import State
from windlass.handles.details import JobDetails, details_of
from windlass.store.protocol import Store
from windlass.store.records import ClaimedJob, JobFilter, JobRecord, Outcome
from windlass.worker.engine.declare import declare
from windlass.worker.engine.run_until_idle import run_until_idle

if TYPE_CHECKING:
    from windlass.app import Windlass
    from windlass.testing.clock import Clock

MAX_MOVES: Final = 1000
"""How often a drain moves the clock before it says that this has no end."""
FIRST_STEP, LONGEST_STEP = 1.0, 3600.0
"""Seconds by which the clock is moved where a job is ready and cannot start."""
_PAGE: Final = 1000
_OPEN: Final = (State.DEAD, State.RETRYING)


class Ran(msgspec.Struct, frozen=True):
    """The result of a drain: every job that ran, in one of these lists, by where it stands now; each list in
    the order in which they ended by the clock. A chunked job stands for its parts and its finalizer."""

    succeeded: list[JobDetails]
    retrying: list[JobDetails]
    """Failed, and to be tried again at `run_at`."""
    dead: list[JobDetails]
    cancelled: list[JobDetails]
    waiting: list[JobDetails]
    """Snoozed, throttled, of a task that nobody knows, or parents whose parts are not through."""
    errors: list[BaseException]
    """The errors of jobs that are dead or retrying now, parts included."""

    def __repr__(self) -> str:
        """In a line, as a failed assertion shows it."""
        lists = ((name, getattr(self, name)) for name in self.__struct_fields__ if name != "errors")
        parts = [f"{len(jobs)} {name} ({_named(jobs)})" for name, jobs in lists if jobs]
        return f"<Ran {', '.join(parts) or 'nothing'}>"


def _named(jobs: Sequence[JobRecord | JobDetails]) -> str:
    return ", ".join(sorted({job.task for job in jobs}))


async def every(store: Store, where: JobFilter) -> list[JobRecord]:
    """The jobs that a filter finds, newest first."""
    found: list[JobRecord] = []
    cursor: str | None = None
    while True:
        page = await store.jobs(where, _PAGE, cursor)
        found += page.jobs
        cursor = page.cursor
        if cursor is None:
            return found


def every_ability(app: Windlass) -> frozenset[str]:
    """Return the abilities that any task of the app needs: a test has no other machine to run its jobs on
    [K14]."""
    needed = [task.abilities for task in app.tasks.values()]
    return app.settings.abilities | {name for needs in needed if needs for name in needs.split(",")}


class Draining:
    """One drain of a test's jobs."""

    def __init__(
        self, app: Windlass, store: Store, clock: Clock | None, queues: Sequence[str] | None
    ) -> None:
        self._app = app
        self._store = store
        self._clock = clock
        self._queues = queues
        self._ran: dict[int, None] = {}
        self._raised: dict[int, BaseException] = {}
        self._step = FIRST_STEP

    async def run(self, advance: Duration | bool) -> Ran:
        """Run what is due; with `advance`, also what will be, for so long or until no job waits."""
        moves = advance is not False
        end = None if isinstance(advance, bool) else self._now() + seconds(advance)
        await declare(self._app, self._store)
        await self._app.hooks.start()
        try:
            await self._run_due()
            for _ in range(MAX_MOVES) if moves else ():
                due = await self._next(end)
                if due is None:
                    break
                self._move_to(due)
                await self._run_due()
            else:
                if moves:
                    await self._has_no_end()
            if end is not None:
                self._move_to(end)
        finally:
            await self._app.hooks.stop()
        return await self._report()

    def _now(self) -> float:
        """The time, where it is a real database's about that."""
        return time.time() if self._clock is None else self._clock()

    def _move_to(self, moment: float) -> None:
        assert self._clock is not None, "who wants it moved has given a clock"
        self._clock.advance_to(moment)

    async def _run_due(self) -> None:
        await fire_due(self._store, None)
        await run_until_idle(
            self._store,
            self._app.tasks,
            queues=self._queues,
            observe=self._observe,
            hooks=self._app.hooks,
            settings=self._app.settings,
            threads=self._app._caller_thread,
            abilities=every_ability(self._app),
        )

    def _observe(self, job: ClaimedJob, outcome: Outcome, error: BaseException | None) -> None:
        part = job.options.part
        self._step = FIRST_STEP
        self._ran[job.id if part is None else part.parent] = None
        if error is not None and outcome.error is not None:
            self._raised[job.id] = error
        else:
            self._raised.pop(job.id, None)

    # -- what comes next ----------------------------------------------------------------------------------

    async def _next(self, end: float | None) -> float | None:
        """When something is due; None: nothing is, or not before the end."""
        now = self._now()
        jobs = await self._waiting()
        times = [job.run_at for job in jobs if job.run_at is not None]
        open = [queue.name for queue in await self._store.queues() if not queue.paused]
        wanted = [name for name in open if self._queues is None or name in self._queues]
        if any(depth.ready for depth in (await self._store.depth(wanted)).values()):
            # It waits for tokens, or for its queue to cool down: who knows how long.
            times.append(now + self._step)
            self._step = min(self._step * 2, LONGEST_STEP)
        if times or end is not None:
            schedules = await self._store.schedules()
            times += [each.next_at for each in schedules if each.next_at is not None and not each.paused]
        due = max(min(times), now) if times else None
        return None if due is None or (end is not None and due > end) else due

    async def _waiting(self) -> list[JobRecord]:
        found = [
            job
            for state in (State.SCHEDULED, State.RETRYING)
            for job in await every(self._store, JobFilter(state=state))
        ]
        return [job for job in found if self._queues is None or job.queue in self._queues]

    async def _has_no_end(self) -> None:
        waiting = _named(await self._waiting()) or "jobs that are ready and cannot start"
        raise AssertionError(
            f"the clock was moved {MAX_MOVES:,} times and jobs still wait: {waiting}; say how long to go on "
            "for: drain(advance='1h')"
        )

    # -- what came of it ----------------------------------------------------------------------------------

    async def _report(self) -> Ran:
        records = [record async for record in self._records(self._ran)]
        now = self._now()  # at one time of this clock, who ends first is up to chance
        records.sort(key=lambda record: (record.finished_at or now, record.enqueued_at, record.id))
        failed = {record.id async for record in self._records(self._raised) if record.state in _OPEN}

        def standing(*states: State) -> list[JobDetails]:
            return [details_of(record, self._app.codec) for record in records if record.state in states]

        ended = (State.SUCCEEDED, State.RETRYING, State.DEAD, State.CANCELLED)
        return Ran(
            succeeded=standing(State.SUCCEEDED),
            retrying=standing(State.RETRYING),
            dead=standing(State.DEAD),
            cancelled=standing(State.CANCELLED),
            waiting=standing(*(state for state in State if state not in ended)),
            errors=[error for id, error in self._raised.items() if id in failed],
        )

    async def _records(self, ids: Iterable[int]) -> AsyncIterator[JobRecord]:
        for id in ids:
            record = await self._store.job(id)
            if record is not None:
                yield record
