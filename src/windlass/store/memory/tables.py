"""What the memory store holds, and the moves a job can make. No locks, no waiting, no answers.

Every unfinished job stands in exactly one place, and a place is a plain list: a lane's waiting jobs, the jobs
held for their fair key, the deferred ones, or those a worker is running. A job that has ended stands in none,
and neither does a parent, which waits for nothing but its parts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import count

import msgspec

from windlass.core.ids import RESERVED_LANE, pack
from windlass.core.parking import FORGET_AFTER
from windlass.core.states import Kind, State
from windlass.errors import WorkerLost
from windlass.store import unknown
from windlass.store.memory.family import Parent, advance
from windlass.store.memory.job import Job
from windlass.store.records import EnqueueStatus, NewJob, QueueRecord, TaskRecord, WorkerInfo


@dataclass(eq=False)
class Lane:
    """One queue × priority: its waiting jobs in order, and the fair key it served last."""

    id: int
    queue: str
    priority: int
    waiting: list[Job] = field(default_factory=list)
    held: list[Job] = field(default_factory=list)
    served: str | None = None
    seqs: Iterator[int] = field(default_factory=lambda: count(1))


@dataclass(eq=False)
class Worker:
    """A worker, the jobs it runs, and in which flush it ended which attempt."""

    info: WorkerInfo
    started_at: float
    beat_at: float
    alive: bool = True
    beat: int = 0
    running: list[Job] = field(default_factory=list)
    ended: dict[tuple[int, int, int], int] = field(default_factory=dict)
    split: set[tuple[int, int, int]] = field(default_factory=set)


@dataclass
class Term:
    """Who coordinates, under which number, until when [K3]."""

    number: int = 0
    holder: int | None = None
    until: float = 0.0


class Tables:
    """Everything the store knows."""

    def __init__(self) -> None:
        self.jobs: dict[int, Job] = {}
        self.queues: dict[str, QueueRecord] = {}
        self.cooled: dict[str, float] = {}  # when the last cool-down of a queue ends, or ended
        self.term = Term()
        self.slots: dict[int, dict[str, int]] = {}
        self.lanes: dict[tuple[str, int], Lane] = {}
        self.deferred: list[Job] = []
        self.workers: dict[int, Worker] = {}
        self.unique: dict[str, Job] = {}
        self.reruns: dict[str, NewJob] = {}
        self.idempotency: dict[str, tuple[int, float]] = {}
        self.parents: dict[int, Parent] = {}  # in the order in which they were split
        self.deaths: dict[
            str, tuple[int, float]
        ] = {}  # unique key → dead runs in a row, and when the last died
        self.tasks: dict[str, TaskRecord] = {}
        self.turns: dict[str, float] = {}
        self.claims = count(1)
        self._numbers = count(1)
        self._reserved = count(1)
        self._lane_ids = count(1)

    def lane(self, queue: str, priority: int) -> Lane:
        """The lane of this queue and priority; the first use declares both."""
        self.queues.setdefault(queue, QueueRecord(name=queue))
        if (queue, priority) not in self.lanes:
            self.lanes[queue, priority] = Lane(next(self._lane_ids), queue, priority)
        return self.lanes[queue, priority]

    def queue(self, name: str, now: float) -> QueueRecord:
        """A queue as it stands; one that nobody has declared has the defaults."""
        known = self.queues.get(name, QueueRecord(name=name))
        return msgspec.structs.replace(known, cooling=max(0.0, self.cooled.get(name, 0.0) - now))

    def open_lanes(self, queues: Collection[str], now: float) -> list[Lane]:
        """The lanes of these queues that have something to give."""
        closed = {name for name in queues if self.queue(name, now).paused or self.queue(name, now).cooling}
        return [
            lane
            for lane in self.lanes.values()
            if lane.queue in queues and lane.queue not in closed and lane.waiting
        ]

    def add(self, new: NewJob, now: float) -> tuple[Job, EnqueueStatus]:
        """Create a job where it belongs; it takes its unique key, which must be free."""
        lane = self.lane(new.queue, new.priority)
        run_at = now + new.delay if new.delay is not None else new.run_at
        later = bool(new.options.after) or (run_at is not None and run_at > now)
        aside = later or new.options.fair_key is not None
        number = next(self._numbers)
        seq = next(self._reserved) if aside else next(lane.seqs)
        job = Job(
            id=pack(RESERVED_LANE if aside else lane.id, seq),
            number=number,
            task=new.task,
            payload=new.payload,
            queue=new.queue,
            priority=new.priority,
            options=unknown.since(new.options, None),  # for the store to say, not for a producer
            enqueued_at=now,
            since=now,
            lane=lane.id,
            seq=seq,
        )
        self.jobs[job.id] = job
        if new.options.unique_key is not None:
            self.unique[new.options.unique_key] = job
        if later:
            job.after = new.options.after
            self.defer(job, State.SCHEDULED, run_at)
            return job, "scheduled"
        if aside:
            job.stand(lane.held)
            return job, "held"
        job.stand(lane.waiting)
        return job, "enqueued"

    def offer(self, job: Job, now: float) -> None:
        """Put a job at the back of its lane, with a new seq and its old id."""
        lane = self.lane(job.queue, job.priority)
        job.seq = next(lane.seqs)
        job.since, job.after = now, ()
        self._settle(job, State.READY, None)
        job.stand(lane.waiting)

    def defer(self, job: Job, state: State, run_at: float | None) -> None:
        """Set a job aside until its time, or until those that it comes after have ended [P12]."""
        self._settle(job, state, run_at)
        job.reason = job.waits_for() or unknown.reason(job.options)
        job.stand(self.deferred)

    def admit(self, job: Job) -> None:
        """Let a held job into its lane. It has been ready all the while, so `since` stays."""
        lane = self.lane(job.queue, job.priority)
        job.seq = next(lane.seqs)
        job.stand(lane.waiting)

    def hold(self, job: Job, now: float) -> None:
        """Set a job that is due aside for its fair key; it is ready from now on."""
        job.since, job.after = now, ()
        self._settle(job, State.READY, None)
        job.stand(self.lane(job.queue, job.priority).held)

    def put_back(self, job: Job, now: float, delay: float = 0.0, kind: Kind = Kind.RELEASED) -> None:
        """A run is over and the job is not: offer it again, unless somebody wished it cancelled [O5]."""
        if job.cancel_requested:
            self.end(job, State.CANCELLED, now)
            return
        job.options = unknown.since(job.options, now if kind is Kind.UNKNOWN else None)
        if delay > 0:
            state = State.RETRYING if kind in (Kind.RETRY, Kind.LOST) else State.SCHEDULED
            self.defer(job, state, now + delay)
        else:
            self.offer(job, now)

    def wait_for_parts(self, job: Job) -> None:
        """The job is a parent from now on, or again: nobody runs it, and it has not ended."""
        self._settle(job, State.WAITING, None)
        job.finished_at = job.result = None
        job.stand(None)

    def alive(self, worker: int) -> Worker:
        """The worker, if it may still write [C5]."""
        known = self.workers.get(worker)
        if known is None or not known.alive:
            raise WorkerLost(f"worker {worker} is not alive: it was retired or rescued, or never registered")
        return known

    def lease(self, job: Job, worker: Worker, claim: int, now: float) -> None:
        """Give a waiting job to a worker."""
        job.state = State.RUNNING
        job.worker, job.claim, job.claimed_at = worker.info.id, claim, now
        job.stand(worker.running)

    def end(self, job: Job, state: State, now: float, *, reason: str | None = None) -> None:
        """End a job for good: its key is free again, and its rerun, if one is remembered, begins [E6]."""
        job.stand(None)
        job.state, job.finished_at, job.reason = state, now, reason
        saved, job.run_at, job.checkpoint, job.after = job.checkpoint, None, None, ()
        key = job.options.unique_key
        if key is not None:
            self._count_death(key, state, now)
        if key is not None and self.unique.get(key) is job:
            del self.unique[key]
            if key in self.reruns:
                self.add(self.reruns.pop(key), now)
        parent = self.parent_of(job)
        if parent is not None:
            parent.keep(job, saved)
            advance(self, parent, now)

    def forget(self, jobs: Iterable[Job]) -> None:
        """Remove jobs that have ended. Those that succeeded are waited for no more: what is gone otherwise
        has failed, for whoever comes after it [P12]."""
        gone = {job.id: job.state for job in jobs}
        for job in self.deferred:
            job.after = tuple(id for id in job.after if gone.get(id) is not State.SUCCEEDED)
        for id in gone:
            del self.jobs[id]

    def parent_of(self, job: Job) -> Parent | None:
        """The parent of a part, while there is one."""
        return self.parents.get(job.options.part.parent) if job.options.part is not None else None

    def _count_death(self, key: str, state: State, now: float) -> None:
        """Count the dead runs of a unique key in a row; a success forgets them, and so do 7 days [O7]."""
        if state is State.SUCCEEDED:
            self.deaths.pop(key, None)
        elif state is State.DEAD:
            count, last = self.deaths.get(key, (0, now))
            self.deaths[key] = (count + 1 if now < last + FORGET_AFTER else 1, now)

    def revive(self, job: Job, now: float) -> None:
        """Offer a dead job again, as if it had never been tried; its failures stay [O6]."""
        if job.options.unique_key is not None:
            self.unique[job.options.unique_key] = job
        job.attempt, job.deaths = 1, 0
        job.finished_at = job.result = None
        job.options = unknown.since(job.options, None)
        self.offer(job, now)

    def _settle(self, job: Job, state: State, run_at: float | None) -> None:
        """The job waits: nobody runs it, and no wish to cancel an earlier run is left over."""
        job.state, job.run_at = state, run_at
        job.worker = job.claim = job.claimed_at = None
        job.cancel_requested, job.reason = False, None
