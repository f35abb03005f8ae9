"""One of the two stores under comparison, spoken to in labels.

Ids, claims and seqs differ from store to store. So every job carries its label as its task name, and a side
translates: labels in, store operations, labels out. What comes out of the two sides must be equal.
"""

import math
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from tests.conformance.kit import Clock
from tests.model.wishes import STEP
from windlass.core.retry import DeathPolicy
from windlass.core.states import FINISHED, Kind, State
from windlass.errors import AlreadyEnqueued, WindlassError
from windlass.store.protocol import Store
from windlass.store.records import (
    Checkpoint,
    ClaimedJob,
    Depth,
    Failure,
    JobFilter,
    JobRecord,
    NewJob,
    Options,
    Outcome,
    QueueRecord,
    WorkerInfo,
)

Answer = Any
GOES = frozenset({State.SUCCEEDED, State.CANCELLED})
"""States in which a job may be forgotten by a forced rotation."""


STANDS_FOR = frozenset({"skipped", "rerun", "repeated"})
"""What a receipt says when its id is another job's."""


def bare(queue: QueueRecord) -> QueueRecord:
    """A queue, with its cool-down in steps of the clock: the two sides are moments apart."""
    return msgspec.structs.replace(queue, cooling=float(math.ceil(queue.cooling / STEP)))


@dataclass(frozen=True)
class End:
    """How the machine wants an attempt to end."""

    label: str
    kind: Kind
    delay: float = 0.0
    forget: bool = False


@dataclass
class Side:
    """A store, its clock, and the translation of its ids."""

    store: Store
    clock: Clock
    run: Callable[[Coroutine[Any, Any, Any]], Any]
    ids: dict[str, int] = field(default_factory=dict)
    labels: dict[int, str] = field(default_factory=dict)
    seen: dict[str, JobRecord] = field(default_factory=dict)
    claimed: dict[tuple[int, str], ClaimedJob] = field(default_factory=dict)
    sent: dict[int, tuple[int, list[Outcome]]] = field(default_factory=dict)

    def do(self, name: str, *args: Any, **kwargs: Any) -> Answer:
        """Call the operation of this name below; an error on purpose is an answer, too."""
        try:
            return self.run(getattr(self, name)(*args, **kwargs))
        except (WindlassError, ValueError) as error:
            twin = self.labels.get(error.job or 0) if isinstance(error, AlreadyEnqueued) else None
            return type(error).__name__, twin

    async def look(self) -> dict[str, JobRecord]:
        """Every job there is, by label; also how ids become known."""
        self.seen = {}
        cursor: str | None = None
        while True:
            page = await self.store.jobs(JobFilter(), 200, cursor)
            for record in page.jobs:
                assert record.task not in self.seen, f"{record.task} is listed twice"
                self._know(record.id, record.task)
                self.seen[record.task] = record
            cursor = page.cursor
            if cursor is None:
                return self.seen

    def _know(self, id: int, label: str) -> None:
        assert self.ids.setdefault(label, id) == id, f"{label} changed its id"
        assert self.labels.setdefault(id, label) == label, f"{label} has the id of another job"

    # -- producers --------------------------------------------------------------------------------------

    async def enqueue(self, jobs: Sequence[NewJob]) -> Answer:
        receipts = await self.store.enqueue(jobs)
        for job, receipt in zip(jobs, receipts, strict=True):
            if receipt.status not in STANDS_FOR:
                self._know(receipt.id, job.task)
        return [(receipt.status, self.labels[receipt.id]) for receipt in receipts]

    # -- workers ----------------------------------------------------------------------------------------

    async def register(self, worker: int) -> None:
        await self.store.register(WorkerInfo(id=worker, queues=("a", "b")[: worker % 3]))

    async def beat(self, worker: int) -> Answer:
        return sorted(self.labels[job] for job in (await self.store.beat(worker)).cancel)

    async def retire(self, worker: int) -> int:
        return await self.store.retire(worker)

    async def rescue(self, worker: int, policy: DeathPolicy) -> Answer:
        beats = {record.id: record.beat for record in await self.store.workers()}
        rescued = await self.store.rescue(worker, beats.get(worker, 0), policy)
        assert await self.store.held(worker) == [] or rescued is None
        return rescued

    async def workers(self) -> Answer:
        return sorted((record.id, record.alive, record.beat) for record in await self.store.workers())

    async def claim(self, worker: int, queues: Sequence[str] | Mapping[str, int], limit: int) -> Answer:
        claims = await self.store.claim(worker, queues, limit)
        for number, claim in enumerate(claims):
            suspects = [job for job in claim.jobs if job.deaths]
            assert not suspects or (len(claim.jobs) == 1 and number == len(claims) - 1), "not claimed alone"
            assert {job.lane for job in claim.jobs} == {claim.lane}
        jobs = [job for claim in claims for job in claim.jobs]
        for job in jobs:
            assert self.labels[job.id] == job.task
            self.claimed[worker, job.task] = job
        return [(job.task, job.queue, job.priority, job.attempt, job.deaths, job.payload) for job in jobs]

    async def held(self, worker: int) -> Answer:
        jobs = [job for claim in await self.store.held(worker) for job in claim.jobs]
        assert await self.store.fences(worker) == {job.fence for job in jobs}
        for job in jobs:
            assert self.claimed[worker, job.task] == job, "held tells another story than claim"
        return sorted(job.task for job in jobs)

    async def finish(self, worker: int, flush: int, ends: Sequence[End]) -> Answer:
        self.sent[worker] = flush, [self._outcome(worker, end) for end in ends]
        return await self.resend(worker)

    async def finish_foreign(self, worker: int, owner: int, flush: int, label: str) -> Answer:
        outcome = Outcome(job=self.claimed[owner, label])
        finished = await self.store.finish(worker, flush, [outcome])
        return finished.applied, finished.repeated, [self.labels[job] for job in finished.refused]

    async def resend(self, worker: int) -> Answer:
        finished = await self.store.finish(worker, *self.sent[worker])
        return finished.applied, finished.repeated, [self.labels[job] for job in finished.refused]

    async def checkpoint(self, worker: int, label: str, data: str) -> None:
        await self.store.checkpoint(worker, self.claimed[worker, label], Checkpoint(data, done=1))

    def _outcome(self, worker: int, end: End) -> Outcome:
        job = self.claimed[worker, end.label]
        fails = end.kind in (Kind.RETRY, Kind.DEAD)
        return Outcome(
            job=job,
            kind=end.kind,
            delay=end.delay,
            error=Failure("Error", f"{end.label} failed") if fails else None,
            result=f'"{end.label}"' if end.kind is Kind.SUCCEEDED else None,
            forget=end.forget,
        )

    # -- steering ---------------------------------------------------------------------------------------

    async def steer(self, verb: str, labels: Sequence[str]) -> Answer:
        """Cancel, delete or retry."""
        answers = await getattr(self.store, verb)([self.ids[label] for label in labels])
        return {label: answers[self.ids[label]] for label in labels}

    async def promote(self, limit: int) -> Answer:
        return await self.store.promote(limit)

    async def expire(self) -> Answer:
        expired = await self.store.expire()
        return expired.dead, expired.keys

    async def rotate(self) -> None:
        await self.store.rotate(force=True)

    async def set_queue(self, queue: str, changes: dict[str, Any]) -> Answer:
        return bare(await self.store.set_queue(queue, changes))

    async def throttle(self, queue: str, hint: float | None) -> Answer:
        return math.ceil(await self.store.throttle(queue, hint) / STEP)

    async def warm(self, queue: str, force: bool) -> bool:
        return await self.store.warm(queue, force=force)

    async def lead(self, candidate: int, length: float) -> int | None:
        return await self.store.lead(candidate, length)

    async def resign(self, candidate: int) -> None:
        await self.store.resign(candidate)

    async def assign(self, term: int, slots: dict[int, dict[str, int]]) -> None:
        await self.store.assign(term, slots)

    async def steering(self, workers: Sequence[int]) -> Answer:
        seen = await self.store.steering(workers)
        return {name: bare(queue) for name, queue in seen.queues.items()}, seen.slots, seen.serving

    async def advance(self, seconds: float) -> None:
        await self.clock.advance(seconds)

    # -- what must be equal after every step ------------------------------------------------------------

    async def depth(self) -> dict[str, Depth]:
        return await self.store.depth()

    def unfinished(self) -> dict[str, Answer]:
        """All that is not to be forgotten, the dead included, with every comparable detail."""
        return {
            label: (
                str(record.state),
                record.queue,
                record.priority,
                record.attempt,
                record.deaths,
                self._options(record),
                record.payload,
                record.worker if record.state is State.RUNNING else None,
                record.cancel_requested if record.state is State.RUNNING else False,
                record.checkpoint.data if record.checkpoint else None,
                record.reason,
                [(error.message, error.attempt) for error in record.errors],
                (record.finished_at is None) == (record.state not in FINISHED),
            )
            for label, record in self.seen.items()
            if record.state not in GOES
        }

    @staticmethod
    def _options(record: JobRecord) -> Options:
        """Whether nobody knows its task, and not since when: each side has a clock of its own. Of a job that
        has ended nobody asks any more."""
        unknown = record.options.unknown_since is not None and record.state not in FINISHED
        return msgspec.structs.replace(record.options, unknown_since=1.0 if unknown else None)

    def finished(self) -> dict[str, Answer]:
        """What has ended well or was cancelled, for as long as it is remembered."""
        return {
            label: (str(record.state), record.result, len(record.errors))
            for label, record in self.seen.items()
            if record.state in GOES
        }
