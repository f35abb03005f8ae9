"""Claim and finish: the lease of a job to one worker, and every way that lease ends [C1] [C5]."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence, Set
from contextlib import asynccontextmanager
from itertools import takewhile
from typing import Any

import msgspec

from tests.model.oracle.base import Base, atomic
from tests.model.oracle.family import claimed
from tests.model.oracle.gates import follow, is_called_back, passes_all
from tests.model.oracle.job import Job
from tests.model.oracle.tables import Lane, Worker
from tests.model.oracle.tokens import take_for
from tests.model.oracle.turns import refill
from windlass.core.abilities import NONE, SEND_ON, can_run
from windlass.core.order import LaneHead, claim_order
from windlass.core.slots import MAX_PARTS, fair_share
from windlass.core.states import FINISHED, WORKERS_OWN, Kind, State
from windlass.errors import ClaimLost, ConfigurationError
from windlass.store.protocol import NOTHING
from windlass.store.records import (
    Checkpoint,
    Claim,
    ClaimedJob,
    Emits,
    Emitted,
    Fence,
    Finished,
    KeptResult,
    Needs,
    Outcome,
    Parts,
    Room,
    Step,
    StreamPage,
    parts_of,
)

AT_ONCE = 64


class Claims(Base):
    """The worker's side of the store."""

    @atomic
    async def claim(
        self,
        worker: int,
        queues: Sequence[str] | Mapping[str, int],
        limit: int,
        needs: Needs = NOTHING,
        peers: Mapping[str, int] = NOTHING,
        abilities: Set[str] = NONE,
    ) -> list[Claim]:
        now = self._clock()
        room = dict(queues) if isinstance(queues, Mapping) else dict.fromkeys(queues, limit)
        for queue, workers in peers.items():
            if room.get(queue, 0) > 1:
                room[queue] = min(room[queue], fair_share(self._tables.waiting_in(queue, abilities), workers))
        claims = self._claim(worker, dict(room), limit, needs, abilities, now)
        left = limit - sum(len(claim.jobs) for claim in claims)
        if claims and claims[-1].jobs[0].deaths:
            left = 0
        more: list[Claim] = []
        for queue, mine in parts_of(claims).items():
            taken = sum(len(each.jobs) for each in claims if each.queue == queue)
            bound = min(left, room[queue] - taken, MAX_PARTS)
            self._make_way(mine, max(1, -(-bound // len(mine))), now)
            if bound > 0:
                found = self._claim(worker, {queue: bound}, bound, needs, abilities, now)
                left -= sum(len(claim.jobs) for claim in found)
                more += found
        for mine in parts_of(more).values():
            self._make_way(mine, 1, now)
        return claims + more

    def _make_way(self, parts: Parts, wanted: int, now: float) -> None:
        for id, jobs in parts.items():
            parent = self._tables.parents.get(id)
            if parent is not None:
                ids = {job.id for job in jobs}
                indexes = [part.index for part in parent.parts if part.job and part.job.id in ids]
                claimed(self._tables, parent, indexes, wanted, now)

    def _claim(
        self,
        worker: int,
        left: dict[str, int],
        limit: int,
        needs: Needs,
        abilities: Set[str],
        now: float,
    ) -> list[Claim]:
        wanted = [name for name, bound in left.items() if bound > 0]
        lanes = {lane.id: lane for lane in self._tables.open_lanes(wanted, now, abilities)}
        if not lanes or limit < 1:
            return []
        mine = self._tables.alive(worker)
        heads = [
            LaneHead(lane.id, lane.queue, lane.priority, now - lane.waiting[0].since)
            for lane in lanes.values()
        ]
        claims: list[Claim] = []
        for head in claim_order(heads, self._settings.ageing_step):
            lane = lanes[head.lane]
            while (room := self._room(lane, min(limit, left[lane.queue]), now)) > 0:
                if not lane.waiting and not refill(self._tables, lane):
                    break
                batch = self._batch(lane, room, needs, now)
                if not batch:
                    continue
                claims.append(self._lease(lane, batch, mine, now))
                limit = 0 if batch[0].deaths else limit - len(batch)
                left[lane.queue] -= len(batch)
            refill(self._tables, lane)  # so that the next claim finds something
        return claims

    def _room(self, lane: Lane, limit: int, now: float) -> int:
        """How many jobs of a lane may be claimed, by what is free in its queue [F2] [F3]."""
        return int(min(limit, self._tables.free(lane.queue, now)))

    def _batch(self, lane: Lane, limit: int, needs: Needs, now: float) -> list[Job]:
        """The next jobs of a lane that have a slot, where their task got a limit meanwhile [F3], and their
        tokens [F1]; the others go aside. One that has seen a worker die stands alone [C8]."""
        batch: list[Job] = []
        for job in list(lane.waiting):
            if len(batch) == limit or (batch and job.deaths):
                break
            tables, wanted = self._tables, needs.get(job.task, ())
            if tables.expire(job, now):
                continue
            if is_called_back(tables, job, batch) or not passes_all(tables, job):
                continue
            if not take_for(tables, job, wanted, now):
                continue
            batch.append(job)
            if job.deaths:
                break
        return batch

    def _lease(self, lane: Lane, batch: list[Job], worker: Worker, now: float) -> Claim:
        claim, pace = next(self._tables.claims), self._tables.pace(lane.queue, now)
        if pace is not None:
            pace.spend(len(batch), now)
        for job in batch:
            self._tables.lease(job, worker, claim, now)
        return Claim(claim, lane.id, lane.queue, lane.priority, [job.claimed() for job in batch])

    @atomic
    async def unfinished(self, worker: int) -> list[Claim]:
        known = self._tables.workers.get(worker)
        claims: dict[int, Claim] = {}
        for job in known.running if known else ():
            mine = job.claimed()
            empty = Claim(mine.claim, mine.lane, mine.queue, mine.priority, [])
            claims.setdefault(mine.claim, empty).jobs.append(mine)
        return list(claims.values())

    @atomic
    async def fences(self, worker: int, since: int = 0) -> set[Fence]:
        known = self._tables.workers.get(worker)
        fences = {job.claimed().fence for job in known.running} if known else set()
        return {fence for fence in fences if fence[1] >= since}

    @atomic
    async def finish(
        self, worker: int, flush: int, outcomes: Sequence[Outcome], room: Room | None = None
    ) -> Finished:
        for outcome in outcomes:
            if outcome.kind not in WORKERS_OWN:
                raise ValueError(f"a worker cannot end an attempt as {outcome.kind} (job {outcome.job.id})")
        mine = self._tables.alive(worker)
        now = self._clock()
        applied = repeated = 0
        refused: list[int] = []
        quiet = self._quiet(room, mine.info.abilities)
        for outcome in outcomes:
            fence = outcome.job.fence
            job = self._running(mine, outcome.job)
            if job is not None:
                mine.ended[fence] = flush
                self._apply(job, outcome, now)
                applied += 1
            elif mine.ended.get(fence) == flush:
                repeated += 1
            else:
                refused.append(outcome.job.id)
        handed = () if room is None or repeated else self._claim_freed(mine, room, quiet, now)
        return Finished(applied, repeated, tuple(refused), tuple(handed))

    def _quiet(self, room: Room | None, abilities: Set[str]) -> dict[str, int]:
        """The queues with room in which nobody waits to be claimed by a worker with these abilities."""
        lanes = [lane for lane in self._tables.lanes.values() if can_run(lane.needs, abilities)]
        busy = {lane.queue for lane in lanes if lane.waiting}
        return {name: n for name, n in room.queues.items() if n > 0 and name not in busy} if room else {}

    def _claim_freed(self, worker: Worker, room: Room, left: dict[str, int], now: float) -> list[Claim]:
        """What a flush has let into these queues goes to its worker, as far as a claim could give it out."""
        tables, claims = self._tables, list[Claim]()
        for lane in tables.open_lanes(left, now, worker.info.abilities):
            queue = lane.queue
            known = tables.queues[queue]
            longest = 0 if known.concurrency is not None or known.governor else room.runs.get(queue, 0)
            free = self._room(lane, left[queue], now)
            simple = lambda job: not (job.deaths or job.options.part or job.task in room.tokens)  # noqa: E731
            batch = list(takewhile(simple, lane.waiting[:free]))
            left[queue] -= len(batch)
            if not batch:
                continue
            claim = self._lease(lane, batch, worker, now)
            runs = [
                job
                for first in batch
                if not lane.waiting
                for job in follow(tables, first, longest, room.tokens)
            ]
            for job in runs:
                job.seq, job.reason, run = lane.draw(), None, job.run
                tables.lease(job, worker, claim.id, now)
                job.run = run
            jobs = [job.claimed() for job in (*batch, *runs)]
            claims.append(msgspec.structs.replace(claim, jobs=jobs))
        return claims

    def _running(self, worker: Worker, claimed: ClaimedJob) -> Job | None:
        """The job, if this worker runs it under this very claim [C5]."""
        job = self._tables.jobs.get(claimed.id)
        if job is None or job.place is not worker.running:
            return None
        return job if (job.lane, job.claim, job.seq) == (claimed.lane, claimed.claim, claimed.seq) else None

    def _own(self, worker: Worker, claimed: ClaimedJob) -> Job:
        """The same, for those who cannot go on without it."""
        job = self._running(worker, claimed)
        if job is None:
            raise ClaimLost(
                f"job {claimed.id} is no longer held by claim {claimed.claim}; nothing was written"
            )
        return job

    def _apply(self, job: Job, outcome: Outcome, now: float) -> None:
        tables = self._tables
        if outcome.forget and outcome.kind is Kind.SUCCEEDED:
            job.errors = ()
        if outcome.error is not None:
            job.fail(outcome.error, now)
        match outcome.kind:
            case Kind.SUCCEEDED:
                job.result = outcome.result
                tables.end(job, State.SUCCEEDED, now)
            case Kind.CANCELLED:
                tables.end(job, State.CANCELLED, now)
            case Kind.DEAD:
                message = outcome.error.message if outcome.error is not None else ""
                tables.end(job, State.DEAD, now, reason=outcome.reason or message or "dead")
            case Kind.RETRY if not job.cancel_requested:
                self._try_again(job, outcome.delay, now)
            case Kind.SNOOZE | Kind.THROTTLED | Kind.UNKNOWN:
                delay = outcome.delay
                if outcome.kind is Kind.SNOOZE:
                    delay = job.suspend(outcome.job.claim, delay, now)
                else:
                    job.suspend(0, delay, now)
                tables.put_back(job, now, delay, outcome.kind)
            case Kind.RELEASED if outcome.needs is not None and not job.cancel_requested:
                job.options = msgspec.structs.replace(job.options, needs=outcome.needs)
                tables.put_back(job, now, SEND_ON)
                job.lane = tables.lane(job.queue, job.priority, outcome.needs).id
            case _:  # released, or a retry that nobody wants any more
                tables.put_back(job, now, began=outcome.began)

    def _try_again(self, job: Job, delay: float, now: float) -> None:
        if job.attempt >= job.options.max_attempts:
            self._tables.end(job, State.DEAD, now, reason="exhausted")
        else:
            job.attempt += 1
            self._tables.put_back(job, now, delay, Kind.RETRY)

    @asynccontextmanager
    async def transaction(
        self, worker: int, flush: int, outcome: Callable[[], Outcome]
    ) -> AsyncIterator[Any]:
        yield _no_transaction()

    @atomic
    async def checkpoint(
        self, worker: int, job: ClaimedJob, checkpoint: Checkpoint, *, connection: Any = None
    ) -> None:
        if connection is not None:
            raise ConfigurationError("the oracle has no transaction to join: leave out connection=")
        running = self._own(self._tables.alive(worker), job)
        running.checkpoint = msgspec.structs.replace(checkpoint, at=self._clock())

    @asynccontextmanager
    async def saving(
        self, worker: int, job: ClaimedJob, checkpoint: Callable[[], Checkpoint]
    ) -> AsyncIterator[Any]:
        yield _no_transaction()

    @atomic
    async def checkpoints(self, jobs: Sequence[int]) -> dict[int, Checkpoint]:
        known = (self._tables.jobs[job] for job in jobs if job in self._tables.jobs)
        return {job.id: job.checkpoint for job in known if job.checkpoint is not None}

    @atomic
    async def results(self, jobs: Sequence[int]) -> dict[int, KeptResult]:
        found = {id: job.record() for id, job in self._tables.jobs.items() if id in jobs}
        return {id: KeptResult(each.task, each.state, each.result) for id, each in found.items()}

    @atomic
    async def save_step(self, worker: int, job: ClaimedJob, step: Step) -> Step:
        running = self._own(self._tables.alive(worker), job)
        now = self._clock()
        return _read(running.steps.setdefault(step.name, msgspec.structs.replace(step, at=now)), now)

    @atomic
    async def spent(
        self,
        worker: int,
        job: ClaimedJob,
        budget: str,
        key: str,
        *,
        before: int,
        tokens: int,
        age: float = 0.0,
    ) -> None:
        self._own(self._tables.alive(worker), job)
        said = self._tables.spent
        more = tokens - said.get((*job.fence, budget), before)
        said[*job.fence, budget] = tokens
        known = self._tables.budgets.get(budget)
        if known is not None:
            known.settle(key, more, self._clock(), age)

    @asynccontextmanager
    async def saving_step(self, worker: int, job: ClaimedJob, step: Callable[[], Step]) -> AsyncIterator[Any]:
        yield _no_transaction()

    @atomic
    async def steps(self, job: int) -> list[Step]:
        known, now = self._tables.jobs.get(job), self._clock()
        return [] if known is None else [_read(step, now) for step in known.steps.values()]

    @atomic
    async def emit(self, worker: int, emits: Sequence[Emits]) -> list[int | None]:
        self._tables.alive(worker)
        return [self._append(worker, each) for each in emits]

    def _append(self, worker: int, emits: Emits) -> int | None:
        job, claim = self._running(self._tables.alive(worker), emits.job), emits.job.claim
        if job is None:
            return None
        stream = job.stream
        last, emitter = stream[-1] if stream else (None, 0)
        position, run = (last.position, last.run) if last else (0, 0)
        if emitter == claim if emits.after is None else position > emits.after:
            return position
        position = max(position, emits.after or 0)
        end, attempt, at = position + emits.n, emits.job.attempt, self._clock()
        run += emitter != claim
        made = Emitted(position=end, n=emits.n, attempt=attempt, run=run, at=at, events=emits.events)
        stream.append((made, claim))
        keep = self._settings.stream_limit
        piece = max(keep // 4, 1)
        if end > keep and end // piece > position // piece:
            stream[:] = [each for each in stream if each[0].position > end - keep]
        return end

    async def wait_stream(self, job: int, after: int, timeout: float) -> StreamPage:
        deadline = time.monotonic() + timeout
        while True:
            known = self._tables.jobs.get(job)
            found = [] if known is None else [each for each, _ in known.stream if each.position > after]
            state = None if known is None else known.record().state
            if found or state is None or state in FINISHED or time.monotonic() >= deadline:
                return StreamPage(found[:AT_ONCE], state, len(found) >= AT_ONCE)
            await asyncio.sleep(0.005)


def _read(step: Step, now: float) -> Step:
    """A step as a store gives it out."""
    if step.sleep is None or step.at is None:
        return step
    return msgspec.structs.replace(step, sleep=None, left=step.at + step.sleep - now)


def _no_transaction() -> Any:
    raise ConfigurationError(
        "the oracle has no transaction for a handler to work in: use an SQLite file or PostgreSQL"
    )
