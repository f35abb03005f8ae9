"""A store as it looks after a busy day: a great many finished jobs, a backlog, dead and put-off ones, a
parent with many parts, rollups and events. All of it is brought about by the store's own operations."""

from __future__ import annotations

import itertools
import secrets
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeVar

import msgspec

from bench.engine.rounds import Progress
from bench.engine.web.plan import WebPlan
from windlass.core.histogram import bucket
from windlass.core.rollup import MINUTE, Sample
from windlass.core.states import Kind
from windlass.store.protocol import Store
from windlass.store.records import (
    ClaimedJob,
    Event,
    Failure,
    NewJob,
    Options,
    Outcome,
    PartPlan,
    Plan,
    Report,
    WorkerInfo,
)

QUEUES: Final = ("mail", "images", "reports", "sync")
BACKLOG: Final = "backlog"
TASKS: Final = tuple(f"shop.task_{number}" for number in range(10))
DAY: Final = 86_400.0
"""The lease of a worker that sends no heartbeat, and how long what is put off is put off."""
ERROR: Final = Failure(
    type="ConnectionError", message="the other side hung up", traceback="Traceback\n" * 20, attempt=1
)
_SAMPLES: Final = 200
"""In one call."""
T = TypeVar("T")


class Filled(msgspec.Struct, frozen=True, kw_only=True):
    """One job of each kind, for the pages that show one."""

    finished: int
    dead: int
    ready: int
    parent: int


class Filler:
    """One worker that brings a store into this state."""

    def __init__(self, store: Store, plan: WebPlan) -> None:
        self._store = store
        self._plan = plan
        self._worker = secrets.randbelow(2**62) + 1
        self._flush = 0

    async def fill(self, progress: Progress) -> Filled:
        """Do it all."""
        plan, queues = self._plan, (*QUEUES, BACKLOG)
        await self._store.register(WorkerInfo(id=self._worker, label="history", queues=queues, lease=DAY))
        parent = await self._split(plan.parts)
        rest = plan.jobs - plan.ready - plan.scheduled - plan.dead - plan.retrying - plan.running
        finished = await self._end(max(rest, 1), Kind.SUCCEEDED, progress)
        await self._end(plan.retrying, Kind.RETRY, progress)
        dead = await self._end(plan.dead, Kind.DEAD, progress)
        await self._offer(plan.scheduled, QUEUES[0], delay=DAY)
        await self._offer(plan.running, QUEUES[1])
        await self._store.claim(self._worker, [QUEUES[1]], plan.running)  # and they are never finished
        ready = await self._offer(plan.ready, BACKLOG)
        progress("filling: rollups and events")
        await self._tell()
        return Filled(finished=finished, dead=dead, ready=ready, parent=parent)

    async def _offer(self, count: int, queue: str, delay: float | None = None) -> int:
        """Enqueue so many jobs, and answer with the last."""
        last = 0
        for jobs in _batches(self._jobs(count, queue, delay), self._plan.enqueue_batch):
            last = (await self._store.enqueue(jobs))[-1].id
        return last

    async def _end(self, count: int, kind: Kind, progress: Progress) -> int:
        """Run so many jobs to this end, the queues in turn, and answer with the last."""
        last = 0
        for start, queue in zip(
            range(0, count, self._plan.enqueue_batch), itertools.cycle(QUEUES), strict=False
        ):
            progress(f"filling: {start:,} of {count:,} jobs {kind}")
            last = await self._offer(min(self._plan.enqueue_batch, count - start), queue)
            while jobs := await self._claim(queue):
                await self._finish(jobs, kind)
        return last

    async def _claim(self, queue: str) -> list[ClaimedJob]:
        claims = await self._store.claim(self._worker, [queue], self._plan.claim_batch)
        return [job for claim in claims for job in claim.jobs]

    async def _finish(self, jobs: Sequence[ClaimedJob], kind: Kind = Kind.SUCCEEDED) -> None:
        self._flush += 1
        failed = kind in (Kind.DEAD, Kind.RETRY)
        outcomes = [
            Outcome(
                job=job,
                kind=kind,
                run_ms=5.0,
                error=ERROR if failed else None,
                delay=DAY if kind is Kind.RETRY else 0.0,
            )
            for job in jobs
        ]
        await self._store.finish(self._worker, self._flush, outcomes)

    async def _split(self, parts: int) -> int:
        """A parent with so many parts, three of four of which are done."""
        options = Options(chunked=True, tags=("import",))
        [receipt] = await self._store.enqueue(
            [NewJob(task="shop.load", payload='{"path":"orders.ndjson"}', queue=QUEUES[2], options=options)]
        )
        [job] = await self._claim(QUEUES[2])
        self._flush += 1
        plan = Plan(parts=[PartPlan(span=f"[{n},{n + 1}]", size=1000) for n in range(parts)], parallel=parts)
        await self._store.split(self._worker, self._flush, job, plan)
        held: list[ClaimedJob] = []
        while more := await self._claim(QUEUES[2]):
            held += more
        await self._finish(held[: parts * 3 // 4])  # the others run on
        return receipt.id

    async def _tell(self) -> None:
        source, now = secrets.randbelow(2**62) + 1, time.time()
        numbers = itertools.count(1)
        for samples in _batches(self._samples(int(now)), _SAMPLES):
            await self._store.report(source, next(numbers), Report(samples=samples))
        events = (
            Event(
                at=now - n,
                kind="retry",
                text="the other side hung up",
                queue=QUEUES[n % 4],
                task=TASKS[n % 10],
            )
            for n in range(self._plan.events)
        )
        for batch in _batches(events, _SAMPLES):
            await self._store.report(source, next(numbers), Report(events=batch))
        while (await self._store.rollup()).more:
            pass

    def _samples(self, now: int) -> Iterator[Sample]:
        """Ten tasks, each in its queue, minute by minute; busier at some hours than at others."""
        for minute in range(self._plan.minutes):
            at = now - now % MINUTE - minute * MINUTE
            for number, task in enumerate(TASKS):
                runs = 100 + (minute * (number + 1)) % 240
                yield Sample(
                    at=at,
                    queue=QUEUES[number % len(QUEUES)],
                    task=task,
                    counts={"succeeded": runs, "retry": runs // 50, "claims": runs // 4, "claimed": runs},
                    waits={bucket(2.0 + number): runs // 2, bucket(40.0): runs - runs // 2},
                    runs={bucket(5.0 + number): runs - 3, bucket(200.0): 3},
                )

    def _jobs(self, count: int, queue: str, delay: float | None) -> Iterator[NewJob]:
        filler = "x" * self._plan.payload_bytes
        tags = (Options(), Options(tags=("eu",)), Options(tags=("us", "night")))
        for number in range(count):
            yield NewJob(
                task=TASKS[number % len(TASKS)],
                payload=f'{{"n": {number}, "text": "{filler}"}}',
                queue=queue,
                delay=delay,
                options=tags[number % len(tags)],
            )


def _batches(items: Iterable[T], size: int) -> Iterator[list[T]]:
    each = iter(items)
    while batch := list(itertools.islice(each, size)):
        yield batch
