"""The things that lie around, each in a store of its own: how more of them are made, by the store's own
operations, and which calls are timed beside them."""

from __future__ import annotations

import asyncio
import itertools
import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from bench.engine.growth.plan import GrowthPlan
from bench.engine.places import OpenStore
from bench.meters import spent
from windlass.core.states import Kind
from windlass.presentation.parents import read_parts
from windlass.store.factory import sqlite_path
from windlass.store.records import (
    ClaimedJob,
    NewJob,
    NewSchedule,
    Options,
    Outcome,
    PartPlan,
    Plan,
    Step,
    WorkerInfo,
)

DAY: Final = 86_400.0
TASK: Final = "bench.growth"
STALE: Final = 1.1
"""Seconds after which a worker asks anew which of its queues have jobs."""
PATIENCE: Final = 12.0
"""Seconds within which a coordinator counts what stands aside."""
BATCH: Final = 500
DUE: Final = 10_000
"""Sleeping jobs that are due at once."""
DUE_IN: Final = 4.0
"""Seconds that they sleep; they are made and due after twice as long."""
PACE: Final = 0.05
"""Seconds between two jobs for a worker that is watched."""
Call = Callable[[], Awaitable[object]]


class Thing(ABC):
    """One kind of thing in one store, with one worker."""

    name: str

    def __init__(self, place: OpenStore, plan: GrowthPlan) -> None:
        self.place = place
        self.store = place.store
        self.plan = plan
        self.worker = secrets.randbelow(2**62) + 1
        self._flushes = itertools.count(1)

    @classmethod
    @abstractmethod
    def most(cls, plan: GrowthPlan) -> int:
        """How many there are at the end."""

    async def begin(self) -> None:
        """Make the store ready for them."""
        await self.store.register(WorkerInfo(id=self.worker, label="growth", queues=("default",), lease=DAY))

    @abstractmethod
    async def grow(self, start: int, end: int) -> None:
        """Add those from `start` up to before `end`."""

    @abstractmethod
    def calls(self) -> Mapping[str, Call]:
        """What is timed, in milliseconds."""

    async def watched(self) -> dict[str, float]:
        """What is found out otherwise."""
        return {}

    async def enqueue(self, jobs: Iterable[NewJob]) -> None:
        """Enqueue all of these."""
        each = iter(jobs)
        while batch := list(itertools.islice(each, self.plan.enqueue_batch)):
            await self.store.enqueue(batch)

    async def claim(self, queues: Any = ("default",), limit: int = 1000) -> list[ClaimedJob]:
        """Claim with this thing's worker."""
        return [job for claim in await self.store.claim(self.worker, queues, limit) for job in claim.jobs]

    async def finish(self, jobs: Iterable[ClaimedJob], kind: Kind = Kind.SUCCEEDED) -> None:
        """End these."""
        outcomes = [Outcome(job=job, kind=kind, run_ms=1.0) for job in jobs]
        await self.store.finish(self.worker, next(self._flushes), outcomes)


class Jobs(Thing):
    """Jobs of one queue that are not to be run now."""

    options = Options()
    delay: float | None = None
    aside = False
    """Whether they wait beside their lane."""

    @classmethod
    def most(cls, plan: GrowthPlan) -> int:
        return plan.jobs

    async def grow(self, start: int, end: int) -> None:
        await self.enqueue(
            NewJob(task=TASK, payload="{}", delay=self.delay, options=self.options) for _ in range(start, end)
        )
        await self._count(end)

    async def _count(self, end: int) -> None:
        """What a coordinator does every few seconds, until it has counted jobs aside where it does that."""
        until = time.monotonic() + PATIENCE
        await self.store.count_ends()
        while (
            self.aside and end > 1000 and self.place.url.startswith("postgres") and time.monotonic() < until
        ):
            if any(depth.estimate for depth in (await self.store.depth()).values()):
                break
            await asyncio.sleep(0.5)
            await self.store.count_ends()

    def calls(self) -> Mapping[str, Call]:
        return {"depth": self.store.depth, "job elsewhere": self._elsewhere}

    async def _elsewhere(self) -> None:
        """One job in another queue, from its enqueue to its end."""
        await self.store.enqueue([NewJob(task=TASK, payload="{}", queue="other")])
        await self.finish(await self.claim(("other",)))


class Scheduled(Jobs):
    """Due in a day."""

    name = "scheduled jobs"
    delay = DAY
    aside = True


class Held(Jobs):
    """Behind one concurrency key with a limit of 1."""

    name = "held jobs"
    options = Options(concurrency_key="one", key_limit=1)
    aside = True


class Ready(Jobs):
    """That nobody claims."""

    name = "ready jobs"


class Sleeping(Jobs):
    """That have done one step and sleep for a day. Those that are due at once are timed until all run."""

    name = "sleeping jobs"
    aside = True

    async def begin(self) -> None:
        await super().begin()
        self._each = 0.0

    async def grow(self, start: int, end: int) -> None:
        before = self._size()
        await self._sleep(end - start, DAY)
        self._each = (self._size() - before) / max(end - start, 1)
        await self._count(end)

    def calls(self) -> Mapping[str, Call]:
        return {**super().calls(), "enqueue": self._enqueue}

    async def watched(self) -> dict[str, float]:
        """Those that are due at once, and the bytes of each that sleeps."""
        while jobs := await self.claim(("other",)):
            await self.finish(jobs)
        due = min(DUE, self.plan.jobs)
        began = time.monotonic()
        await self._sleep(due, DUE_IN)
        await asyncio.sleep(max(0.0, began + 2 * DUE_IN - time.monotonic()))
        began, running = time.perf_counter(), 0
        while running < due:
            await self.store.promote()
            while jobs := await self.claim():
                running += len(jobs)
                await self.finish(jobs)
        took = (time.perf_counter() - began) * 1000
        return {f"{due:,} due at once run": took, "bytes of each": self._each}

    async def _sleep(self, n: int, seconds: float) -> None:
        for _ in range(0, n, BATCH):
            await self.enqueue([NewJob(task=TASK, payload="{}")] * min(BATCH, n))
            jobs = await self.claim(limit=BATCH)
            for step in (
                Step(name="plan", result='{"n":1}', code="m.plan"),
                Step(name="sleep", sleep=seconds),
            ):
                await asyncio.gather(*(self.store.save_step(self.worker, job, step) for job in jobs))
            outcomes = [Outcome(job=job, kind=Kind.SNOOZE, delay=seconds, run_ms=1.0) for job in jobs]
            await self.store.finish(self.worker, next(self._flushes), outcomes)
            await self.store.heartbeat(self.worker)

    async def _enqueue(self) -> None:
        await self.store.enqueue([NewJob(task=TASK, payload="{}", queue="other")])

    def _size(self) -> int:
        size = self.place.meter.read().size
        if size is not None:
            return size
        path = Path(sqlite_path(self.place.url))
        return sum(file.stat().st_size for file in path.parent.glob(f"{path.name}*"))


class Dead(Jobs):
    """Of which there are fewer."""

    name = "dead jobs"

    @classmethod
    def most(cls, plan: GrowthPlan) -> int:
        return max(plan.jobs // 10, 1)

    async def grow(self, start: int, end: int) -> None:
        await super().grow(start, end)
        while jobs := await self.claim():
            await self.finish(jobs, Kind.DEAD)


class Queues(Thing):
    """Queues with a lane each and nothing in them, all served by one worker."""

    name = "queues"

    @classmethod
    def most(cls, plan: GrowthPlan) -> int:
        return plan.queues

    async def begin(self) -> None:
        await super().begin()
        self.took: float | None = None
        self._wants = {"q0": 10}
        await self.grow(0, 1)

    async def grow(self, start: int, end: int) -> None:
        names = [f"q{n}" for n in range(start, end)]
        await self.enqueue(NewJob(task=TASK, payload="{}", queue=name) for name in names)
        self._wants |= dict.fromkeys(names, 10)
        while jobs := await self.claim(dict.fromkeys(names, 10), 10 * len(names)):
            await self.finish(jobs)
        while await self.claim(self._wants, 1000):
            pass

    def calls(self) -> Mapping[str, Call]:
        store = self.store
        return {
            "depth": store.depth,
            "queues": store.queues,
            "cluster view": lambda: store.cluster_view([self.worker]),
            "claim, one job": self._one,
        }

    async def _one(self) -> None:
        """One job in one of them, to a worker that knows nothing of the last second."""
        await asyncio.sleep(STALE)
        began = time.perf_counter()
        await self.store.enqueue([NewJob(task=TASK, payload="{}", queue=self._some())])
        while not (jobs := await self.claim(self._wants)):
            pass
        self.took = time.perf_counter() - began
        await self.finish(jobs)

    async def watched(self) -> dict[str, float]:
        """The processor time of a claim loop and its server in a second with 20 jobs, in milliseconds."""
        ended = asyncio.Event()
        loop = asyncio.create_task(self._claim_until(ended))
        before = self.place.meter.read()
        began = time.monotonic()
        while time.monotonic() - began < self.plan.seconds:
            await asyncio.sleep(PACE)
            await self.store.enqueue([NewJob(task=TASK, payload="{}", queue=self._some())])
        seconds = time.monotonic() - began
        used = spent(before, self.place.meter.read())
        ended.set()
        await loop
        return {"work in a second": (used.client + (used.server or 0.0)) * 1000 / seconds}

    async def _claim_until(self, ended: asyncio.Event) -> None:
        while not ended.is_set():
            jobs = await self.claim(self._wants)
            if jobs:
                await self.finish(jobs)
            else:
                await self.store.wait(list(self._wants), 0.5)

    def _some(self) -> str:
        return f"q{secrets.randbelow(len(self._wants))}"


class Schedules(Thing):
    """Schedules, none of which is due."""

    name = "schedules"

    @classmethod
    def most(cls, plan: GrowthPlan) -> int:
        return plan.schedules

    async def grow(self, start: int, end: int) -> None:
        later = time.time() + DAY
        for n in range(start, end):
            schedule = NewSchedule(name=f"bench.{n}", cron="0 0 1 1 *", task=TASK)
            await self.store.seed_schedule(schedule, later + n)

    def calls(self) -> Mapping[str, Call]:
        return {"due": self.store.due}


class PartsOfOne(Thing):
    """Parts of a parent; a new parent at each size, whose parts are half done."""

    name = "parts of a parent"

    @classmethod
    def most(cls, plan: GrowthPlan) -> int:
        return plan.parts

    async def grow(self, start: int, end: int) -> None:
        [receipt] = await self.store.enqueue(
            [NewJob(task=TASK, payload="{}", queue=f"of{end}", options=Options(chunked=True))]
        )
        self._queue = (f"of{end}",)
        self._parent = receipt.id
        [job] = await self.claim(self._queue)
        plan = Plan(parts=[PartPlan(span=f"[{n},{n + 1}]", size=1) for n in range(max(end, 20))])
        await self.store.split(self.worker, next(self._flushes), job, plan)
        done = 0
        while done < end // 2:
            jobs = await self.claim(self._queue, min(64, end // 2 - done))
            await self.finish(jobs)
            done += len(jobs)
        await self.store.heartbeat(self.worker)

    def calls(self) -> Mapping[str, Call]:
        store = self.store
        return {
            "claim and finish a part": self._one,
            "parent": lambda: store.parent(self._parent),
            "strip": lambda: read_parts(store, self._parent),
            "depth": store.depth,
        }

    async def _one(self) -> None:
        await self.finish(await self.claim(self._queue, 1))


THINGS: Final[tuple[type[Thing], ...]] = (
    Ready,
    Scheduled,
    Sleeping,
    Held,
    Dead,
    Queues,
    Schedules,
    PartsOfOne,
)


def named(only: str | None) -> Iterator[type[Thing]]:
    """All of them, or those with this word in their name."""
    return (thing for thing in THINGS if only is None or only in thing.name)
