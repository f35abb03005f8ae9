"""What is done with keys, budgets and schedules by a real worker in this process, each time on a new store:
chains that every finish carries on, order, tokens by hand, and single jobs that are timed."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Sequence
from typing import Final

import msgspec

from bench.engine.figures import Taken
from bench.engine.flow.claims import BUDGET, KEYED_BUDGET, PLENTY, declare_plenty, hold, payloads
from bench.engine.flow.plan import FlowPlan
from bench.engine.flow.worker import MANY, SINGLE, Stage
from bench.engine.jobs import QUEUE
from bench.engine.places import OpenStore, Places
from bench.engine.rounds import Progress
from bench.servers import pinned_snapshot
from windlass.store.factory import SQLITE
from windlass.store.records import DEFAULT_OPTIONS, NewJob, NewSchedule, Options

ONCE_A_YEAR: Final = "0 0 1 1 *"
"""A schedule that fires once, when it is told to, and not again while the run lasts."""
ROOMY: Final = 1000
"""A limit on what runs that is more than the worker has slots."""
LEAD: Final = 0.3
"""Seconds before the first schedule of a run is due."""
AHEAD: Final = 500
"""Jobs that a producer sends at once, where it stays ahead of the worker by four times as many."""
SPREAD: Final = 0.1
"""Seconds between one timed job and the next, about."""


class Waits(msgspec.Struct):
    """How long single jobs waited, in milliseconds: from the answer to their enqueue, and from the call."""

    answered: list[float] = []
    called: list[float] = []
    ran_out: bool = False
    """The jobs beside which they were timed came to an end first."""


class Thirds(msgspec.Struct):
    """Keyed jobs while somebody holds a snapshot open, in three thirds of the time: jobs a second; dead rows
    for each job at the end. Nothing where the store has no such thing."""

    rates: list[float] = []
    dead: float = 0.0


class Scenarios:
    """The scenarios on one kind of store."""

    def __init__(self, places: Places, plan: FlowPlan) -> None:
        self._places = places
        self._plan = plan
        self._plain = [NewJob(task=MANY, payload=payload, queue=QUEUE) for payload in payloads(plan)]

    # -- rates ------------------------------------------------------------------------------------------

    async def plain_enqueue(self) -> Taken:
        """Enqueue jobs without a key."""
        return await self._enqueue(self._plain)

    async def keyed_enqueue(self) -> Taken:
        """Enqueue jobs of as many concurrency keys as planned, in turn."""
        return await self._enqueue(self._keyed("concurrency_key", self._plan.keys))

    async def one_key(self) -> Taken:
        """A chain: all jobs have one concurrency key with a limit of 1."""
        return await self._through(self._keyed("concurrency_key", 1))

    async def many_keys(self) -> Taken:
        """As many chains as there are keys."""
        return await self._through(self._keyed("concurrency_key", self._plan.keys))

    async def ordered(self) -> Taken:
        """As many ordering keys."""
        return await self._through(self._keyed("ordering_key", self._plan.keys))

    async def fair(self) -> Taken:
        """As many fair keys, which take turns."""
        return await self._through(self._keyed("fair_key", self._plan.keys))

    async def all_keys(self) -> Taken:
        """Each job has a concurrency key of its own: no limit is ever reached."""
        return await self._through(self._each("concurrency_key"))

    async def task_limit(self) -> Taken:
        """The task has a limit that is never reached."""
        limited = msgspec.structs.replace(DEFAULT_OPTIONS, task_limit=ROOMY)
        return await self._through([msgspec.structs.replace(job, options=limited) for job in self._plain])

    async def queue_limit(self) -> Taken:
        """The queue has one."""
        return await self._through(self._plain, concurrency=ROOMY)

    async def budget(self) -> Taken:
        """Each run takes a token of one budget, which has plenty."""
        return await self._through(self._plain, budgets=[BUDGET])

    async def budget_by_key(self) -> Taken:
        """The same, of a bucket for each of as many keys as planned."""
        return await self._through(self._plain, budgets=[KEYED_BUDGET])

    async def unkeyed(self) -> Taken:
        """The same without keys, to compare."""
        return await self._through(self._plain)

    async def acquire(self) -> Taken:
        """Acquire tokens by hand, one after the other."""
        async with self._places.fresh() as place:
            app = Stage(place, self._plan.patience).app
            budget = app.budget("by_hand", rate=PLENTY, burst=PLENTY)
            async with app:
                for _ in range(10):
                    await budget.aacquire()
                began = time.perf_counter()
                until, done = began + self._plan.seconds, 0
                while done < self._plan.singles and time.perf_counter() < until:
                    await budget.aacquire()
                    done += 1
                return Taken(done, time.perf_counter() - began)

    # -- times ------------------------------------------------------------------------------------------

    async def beside_fair(self, progress: Progress) -> Waits:
        """Single jobs of other fair keys, while one fair key holds a great many."""
        return await self._beside("fair_key", Options(fair_key="great"), progress)

    async def beside_limited(self, progress: Progress) -> Waits:
        """Single jobs of other concurrency keys, while one with a limit of 2 holds a great many."""
        return await self._beside("concurrency_key", Options(concurrency_key="great", key_limit=2), progress)

    async def pinned(self, progress: Progress) -> Thirds:
        """Jobs of as many concurrency keys as planned, of which a few thousand always wait, and a transaction
        that looked once and stays open."""
        found = Thirds()
        if self._places.kind == SQLITE:
            return found
        jobs = self._keyed("concurrency_key", self._plan.keys)[:AHEAD]
        async with self._places.fresh() as place:
            stage = Stage(place, self._plan.patience)
            before = place.meter.read()
            async with stage.working():
                with pinned_snapshot(place.url):
                    sent = 0
                    for third in range(3):
                        progress(f"third {third + 1}")
                        began, done = time.perf_counter(), stage.count
                        until = began + 2 * self._plan.seconds
                        while time.perf_counter() < until:
                            if sent - stage.count < 4 * AHEAD:
                                await place.store.enqueue(jobs)
                                sent += len(jobs)
                            else:
                                await asyncio.sleep(0.001)
                        found.rates.append((stage.count - done) / (time.perf_counter() - began))
            after = place.meter.read()
            if before.dead is not None and after.dead is not None:
                found.dead = (after.dead - before.dead) / max(stage.count, 1)
        return found

    async def fires(self) -> list[float]:
        """Milliseconds from the time a schedule is due until its job begins."""
        tries = self._plan.tries
        async with self._places.fresh() as place:
            store, stage = place.store, Stage(place, self._plan.patience)
            async with stage.working():
                await self._warm_up(place, stage)
                asked = time.monotonic()
                now = await store.now()
                ahead = now - (asked + time.monotonic()) / 2
                due = [now + LEAD + (n + random.random()) * SPREAD for n in range(tries)]
                expected = [stage.expect(n) for n in range(tries)]
                for n, moment in enumerate(due):
                    schedule = NewSchedule(
                        name=f"bench.{n}", cron=ONCE_A_YEAR, task=SINGLE, payload=f'{{"n": {n}}}', queue=QUEUE
                    )
                    await store.seed_schedule(schedule, moment)
                begun = [await stage.began(each) for each in expected]
        return [max(0.0, at + ahead - moment) * 1000 for at, moment in zip(begun, due, strict=True)]

    # -- how --------------------------------------------------------------------------------------------

    def _keyed(self, name: str, keys: int) -> list[NewJob]:
        options = [_with(name, f"bench:{key}") for key in range(keys)]
        return [
            msgspec.structs.replace(job, options=options[number % keys])
            for number, job in enumerate(self._plain)
        ]

    async def _enqueue(self, jobs: list[NewJob]) -> Taken:
        async with self._places.fresh() as place:
            await hold(place.store, jobs, len(jobs), _silent)
            return await hold(place.store, jobs, self._plan.keyed, _silent)

    def _each(self, name: str) -> list[NewJob]:
        return [
            msgspec.structs.replace(self._plain[n % len(self._plain)], options=_with(name, f"bench:{n}"))
            for n in range(self._plan.keyed)
        ]

    async def _through(
        self, jobs: list[NewJob], *, concurrency: int | None = None, budgets: Sequence[str] = ()
    ) -> Taken:
        """Work off what waits when the worker starts. `concurrency` is that of the queue."""
        plan = self._plan
        async with self._places.fresh() as place:
            await declare_plenty(place.store)
            if concurrency is not None:
                await place.store.set_queue(QUEUE, {"concurrency": concurrency})
            await hold(place.store, jobs, plan.keyed, _silent)
            stage = Stage(place, plan.patience, budgets=budgets)
            stage.app.budget(BUDGET, rate=PLENTY, burst=PLENTY)
            stage.app.budget(KEYED_BUDGET, rate=PLENTY, burst=PLENTY, key="key")
            async with stage.working():
                return await stage.counted(plan.keyed, plan.seconds)

    async def _beside(self, key: str, great: Options, progress: Progress) -> Waits:
        found = Waits()
        plan = self._plan
        async with self._places.fresh() as place:
            held = [msgspec.structs.replace(job, options=great) for job in self._plain]
            await hold(place.store, held, plan.crowd, progress)
            stage = Stage(place, plan.patience)
            async with stage.working():
                await self._warm_up(place, stage)
                await stage.begun(1)
                for n in range(plan.tries):
                    progress(f"single job {n + 1} of {plan.tries}")
                    await asyncio.sleep(SPREAD * random.uniform(0.5, 1.5))
                    found.ran_out = found.ran_out or stage.count >= plan.crowd
                    called, answered, began = await self._single(place, stage, n, _with(key, f"small:{n}"))
                    found.called.append(max(0.0, began - called) * 1000)
                    found.answered.append(max(0.0, began - answered) * 1000)
        return found

    async def _warm_up(self, place: OpenStore, stage: Stage) -> None:
        """A few jobs that do not count: a new connection plans its statements, and so on."""
        for n in range(-3, 0):
            await self._single(place, stage, n, DEFAULT_OPTIONS)

    async def _single(
        self, place: OpenStore, stage: Stage, n: int, options: Options
    ) -> tuple[float, float, float]:
        """Send one job: when that was, when it was answered, and when the job began."""
        job = NewJob(task=SINGLE, payload=f'{{"n": {n}}}', queue=QUEUE, options=options)
        expected = stage.expect(n)
        called = time.monotonic()
        await place.store.enqueue([job])
        answered = time.monotonic()
        return called, answered, await stage.began(expected)


def _with(key: str, value: str) -> Options:
    return msgspec.structs.replace(DEFAULT_OPTIONS, **{key: value})


def _silent(text: str) -> None:
    """Nobody wants to know how far this is."""
