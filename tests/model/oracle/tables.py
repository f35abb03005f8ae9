"""What the memory store holds, and the moves a job can make. No locks, no waiting, no answers.

Every unfinished job stands in exactly one place, and a place is a plain list: a lane's waiting jobs, the jobs
held for their fair key, the line of a gate, the deferred ones, or those a worker is running. A job that has
ended stands in none, and neither does a parent, which waits for nothing but its parts.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Set
from dataclasses import dataclass, field
from itertools import count

import msgspec

from tests.model.oracle.family import Parent, advance
from tests.model.oracle.gates import Gateway, Mark, depart, enter, gates, leave, waits_again
from tests.model.oracle.job import Job
from tests.model.oracle.measured import Measured
from tests.model.oracle.pace import Pace
from tests.model.oracle.tokens import Budget, spend
from windlass.core.abilities import can_run
from windlass.core.clock import MAX_TERM, left
from windlass.core.expiry import NOT_BEGUN, deadline, expired_reason
from windlass.core.flow.gates import FAIR, reason
from windlass.core.ids import RESERVED_LANE, pack
from windlass.core.retry import FORGET_AFTER
from windlass.core.states import Kind, State
from windlass.errors import TermLost, WorkerLost
from windlass.store import unknown_tasks
from windlass.store.records import (
    EnqueueStatus,
    NewJob,
    Options,
    QueueRecord,
    ScheduleRecord,
    TaskRecord,
    WorkerInfo,
)


@dataclass(eq=False)
class Lane:
    """One queue × priority × what its jobs need: its waiting jobs in order, and the fair key served last."""

    id: int
    queue: str
    priority: int
    needs: str = ""
    waiting: list[Job] = field(default_factory=list)
    held: list[Job] = field(default_factory=list)
    served: str | None = None
    joined: bool = False
    """Whether somebody has been held for it since it was last looked at (see `turns`)."""
    drawn: int = 0
    """The last place given out, and so how often a job was put into this lane [M1]."""

    def draw(self) -> int:
        """Give out the next place."""
        self.drawn += 1
        return self.drawn


@dataclass(eq=False)
class Worker:
    """A worker, the jobs it runs, and in which flush it ended which attempt."""

    info: WorkerInfo
    started_at: float
    heartbeat_at: float
    alive: bool = True
    heartbeat: int = 0
    running: list[Job] = field(default_factory=list)
    ended: dict[tuple[int, int, int], int] = field(default_factory=dict)
    split: set[tuple[int, int, int]] = field(default_factory=set)


@dataclass
class Term:
    """Who coordinates, under which number, until when [K3]."""

    number: int = 0
    holder: int | None = None
    until: float = 0.0

    def runs(self, now: float) -> bool:
        """Whether it has not run out."""
        return left(self.until, MAX_TERM, now) > 0


class Tables:
    """Everything the store knows."""

    def __init__(self) -> None:
        self.jobs: dict[int, Job] = {}
        self.queues: dict[str, QueueRecord] = {}
        self.cooled: dict[str, float] = {}  # when the last cool-down of a queue ends, or ended
        self.term = Term()
        self.slots: dict[int, dict[str, int]] = {}
        self.lanes: dict[tuple[str, int, str], Lane] = {}
        self.deferred: list[Job] = []
        self.workers: dict[int, Worker] = {}
        self.unique: dict[str, Job] = {}
        self.reruns: dict[str, NewJob] = {}
        self.idempotency: dict[str, tuple[int, float]] = {}
        self.sent_once: dict[str, float] = {}
        """What has sent its one signal, and until when that is known."""
        self.parents: dict[int, Parent] = {}  # in the order in which they were split
        self.deaths: dict[str, tuple[int, float]] = {}  # of a unique key in a row, and when the last was
        self.tasks: dict[str, TaskRecord] = {}
        self.turns: dict[str, float] = {}
        self.gateways: dict[str, Gateway] = {}
        self.marks: dict[tuple[str, str], Mark] = {}  # by queue and ordering key
        self.budgets: dict[str, Budget] = {}
        self.spent: dict[tuple[int, int, int, str], int] = {}
        """What attempts have said last that they used, by fence and budget."""
        self.paces: dict[str, Pace] = {}
        self.schedules: dict[str, ScheduleRecord] = {}
        self.measured = Measured()
        self.ended: Counter[tuple[str, str, str]] = Counter()  # by queue and task [M7]
        self.latency = (0.0, 0.0)  # of the store, and when somebody said so
        self.claims = count(1)
        self.tickets = count(1)
        self.runs = count(1)
        self._numbers = count(1)
        self._reserved = count(1)
        self._lane_ids = count(1)

    def lane(self, queue: str, priority: int, needs: str = "") -> Lane:
        """The lane of this queue and priority for jobs that need this; the first use declares both."""
        self.queues.setdefault(queue, QueueRecord(name=queue))
        if (queue, priority, needs) not in self.lanes:
            self.lanes[queue, priority, needs] = Lane(next(self._lane_ids), queue, priority, needs)
        return self.lanes[queue, priority, needs]

    def queue(self, name: str, now: float) -> QueueRecord:
        """A queue as it stands; one that nobody has declared has the defaults."""
        known, pace = self.queues.get(name, QueueRecord(name=name)), self.pace(name, now)
        return msgspec.structs.replace(
            known,
            cooling=left(self.cooled.get(name, 0.0), known.cool_cap, now),
            rate=pace.bucket.rate if pace is not None else None,
            why=pace.why if pace is not None else None,
        )

    def pace(self, queue: str, now: float) -> Pace | None:
        """The pace of a queue that has a governor [F2]."""
        known = self.queues.get(queue)
        if known is None or not known.governor:
            return None
        if queue not in self.paces:
            self.paces[queue] = Pace.first(known, now)
        self.paces[queue].bucket = self.paces[queue].bucket.resumed(now)
        return self.paces[queue]

    def free(self, queue: str, now: float) -> float:
        """How many jobs of a queue may be claimed now: its concurrency, by what runs, and its governor's
        rate [F2] [F3]."""
        known, pace = self.queue(queue, now), self.pace(queue, now)
        if known.paused or known.cooling:
            return 0
        free = math.inf
        if known.concurrency is not None:
            running = (job for worker in self.workers.values() for job in worker.running)
            free = known.concurrency - sum(job.queue == queue for job in running)
        return min(free, math.floor(pace.bucket.available(now))) if pace is not None else free

    def is_shut(self, queue: str, needs: str | None) -> bool:
        """Whether nobody runs such jobs of a queue: it is paused, or none of those who work serves it and is
        able to. A worker that names no queue may serve any; where nobody works at all, nobody is kept from
        anything [F3]."""
        alive = [worker.info for worker in self.workers.values() if worker.alive]
        paused = queue in self.queues and self.queues[queue].paused
        able = [info for info in alive if can_run(needs, info.abilities)]
        return paused or (bool(alive) and all(info.queues and queue not in info.queues for info in able))

    def open_lanes(self, queues: Collection[str], now: float, abilities: Set[str]) -> list[Lane]:
        """The lanes of these queues that have something to give to a worker with these abilities."""
        opened = {name for name in queues if self.free(name, now) > 0}
        return [
            lane
            for lane in self.lanes.values()
            if lane.queue in opened and lane.waiting and can_run(lane.needs, abilities)
        ]

    def waiting_in(self, queue: str, abilities: Set[str]) -> int:
        """How many jobs of a queue wait for a worker with these abilities, with parts that are not offered
        yet and that `parallel` does not hold back."""
        lanes = sum(
            len(lane.waiting)
            for lane in self.lanes.values()
            if lane.queue == queue and can_run(lane.needs, abilities)
        )
        mine = [
            parent.standing()
            for parent in self.parents.values()
            if parent.job.queue == queue and not parent.ended and not parent.job.cancel_requested
            if can_run(parent.job.options.needs, abilities)
        ]
        return lanes + sum(
            one.pending if one.parallel is None else max(0, min(one.pending, one.parallel - one.out))
            for one in mine
        )

    def gate(self, name: str) -> Gateway:
        """A gate, made where nobody is at it."""
        return self.gateways.setdefault(name, Gateway())

    def sweep(self, name: str) -> None:
        """Forget a gate that nobody is at."""
        known = self.gateways.get(name)
        if known is not None and not known.line and not known.passes:
            del self.gateways[name]

    def add(self, new: NewJob, now: float) -> tuple[Job, EnqueueStatus]:
        """Create a job where it belongs; it takes its unique key, which must be free."""
        lane = self.lane(new.queue, new.priority, new.options.needs or "")
        run_at = now + new.delay if new.delay is not None else new.run_at
        later = bool(new.options.after) or new.options.group_end or (run_at is not None and run_at > now)
        aside = later or new.options.fair_key is not None or bool(gates(self, new))
        number = next(self._numbers)
        seq = next(self._reserved) if aside else lane.draw()
        job = Job(
            id=pack(RESERVED_LANE if aside else lane.id, seq),
            number=number,
            task=new.task,
            payload=new.payload,
            queue=new.queue,
            priority=new.priority,
            options=_dated(new.options, now, run_at),
            enqueued_at=now,
            since=now,
            lane=lane.id,
            seq=seq,
        )
        self.jobs[job.id] = job
        if new.options.unique_key is not None:
            self.unique[new.options.unique_key] = job
        if later:
            job.after = (job.id,) if new.options.group_end else new.options.after
            self.defer(job, State.SCHEDULED, run_at, now)
            return job, "scheduled"
        if aside:
            enter(self, job, now)
        else:
            job.stand(lane.waiting)
        return job, "enqueued" if job.place is lane.waiting else "held"

    def offer(self, job: Job, now: float, *, turn: bool = False) -> None:
        """The job is ready from now on: it goes to the gates it has no pass of, and to the back of its lane,
        with a new seq and its old id; with `turn` it waits for a turn of its fair key before."""
        job.since, job.after = now, ()
        self._settle(job, State.READY, None)
        job.stand(None)
        enter(self, job, now, turn=turn)

    def defer(self, job: Job, state: State, run_at: float | None, now: float) -> None:
        """Set a job aside until its time, or until those that it comes after have ended [P12]."""
        self._settle(job, state, run_at)
        job.reason = job.waits_for() or unknown_tasks.reason(job.options)
        if state is State.SCHEDULED:
            job.reason = job.reason or job.suspended_for()
        job.stand(self.deferred)
        leave(self, job, now, ended=False)

    def admit(self, job: Job) -> None:
        """Let a job into its lane. It may have been ready for long, so `since` stays."""
        lane = self.lane(job.queue, job.priority, job.options.needs or "")
        job.seq, job.reason = lane.draw(), None
        job.stand(lane.waiting)

    def hold(self, job: Job) -> None:
        """Set a job that is ready aside for its fair key."""
        lane = self.lane(job.queue, job.priority, job.options.needs or "")
        job.stand(lane.held)
        job.reason, lane.joined = reason(FAIR), True

    def expire(self, job: Job, now: float) -> bool:
        """End a job that waits, if it has waited too long [E8]; whether it did."""
        at, after = job.options.expires_at, job.options.expires
        if at is None or after is None or at > now:
            return False
        self.end(job, State.CANCELLED, now, reason=expired_reason(after), expired=True)
        return True

    def put_back(
        self, job: Job, now: float, delay: float = 0.0, kind: Kind = Kind.RELEASED, *, began: bool = False
    ) -> None:
        """A run is over and the job is not: offer it again, unless somebody wished it cancelled [O5]. One
        that somebody has begun expires no more [E8]."""
        if job.cancel_requested:
            self.end(job, State.CANCELLED, now)
            return
        if began or kind not in NOT_BEGUN:
            job.options = msgspec.structs.replace(job.options, expires_at=None)
        job.options = unknown_tasks.since(job.options, now if kind is Kind.UNKNOWN else None)
        self._settle(job, State.READY, None)
        if waits_again(self, job, now, at_once=delay <= 0):
            return
        if delay > 0:
            state = State.RETRYING if kind in (Kind.RETRY, Kind.LOST) else State.SCHEDULED
            self.defer(job, state, now + delay, now)
        else:
            self.offer(job, now)

    def wait_for_parts(self, job: Job, now: float) -> None:
        """The job is a parent from now on, or again: nobody runs it, and it has not ended. Its slots are for
        its parts, its place in an order stays its own [F6]."""
        self._settle(job, State.WAITING, None)
        job.finished_at = job.result = None
        job.stand(None)
        self.rejoin_groups(job)
        leave(self, job, now, ended=False)

    def alive(self, worker: int) -> Worker:
        """The worker, if it may still write [C5]."""
        known = self.workers.get(worker)
        if known is None or not known.alive:
            raise WorkerLost(f"worker {worker} is not alive: it was retired or rescued, or never registered")
        return known

    def hold_term(self, term: int, now: float) -> None:
        """Raise unless this term is the present one and has not run out [K3]."""
        if self.term.number != term or not self.term.runs(now):
            raise TermLost(f"term {term} is over, and another host may coordinate now: call lead() again")

    def lease(self, job: Job, worker: Worker, claim: int, now: float) -> None:
        """Give a waiting job to a worker."""
        job.state, job.run = State.RUNNING, 0
        job.worker, job.claim, job.claimed_at = worker.info.id, claim, now
        job.stand(worker.running)
        spend(self, job)

    def end(
        self,
        job: Job,
        state: State,
        now: float,
        *,
        reason: str | None = None,
        counted: bool = True,
        expired: bool = False,
    ) -> None:
        """End a job for good: its key is free again, and its rerun, if one is remembered, begins [E6]. One
        that is taken back without a trail is not counted [M7]."""
        if counted:
            self.ended[job.queue, job.task, "expired" if expired else state.value] += 1
        job.state, job.finished_at, job.reason = state, now, reason
        depart(self, job, now)
        saved, job.run_at, job.checkpoint, job.after = job.checkpoint, None, None, ()
        job.last = saved
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
        job.options = msgspec.structs.replace(unknown_tasks.since(job.options, None), expires_at=None)
        self.offer(job, now)
        self.rejoin_groups(job)

    def rejoin_groups(self, job: Job) -> None:
        """Groups that have seen the job fail, and wait still, wait for it again [W4]."""
        for end in self.deferred:
            if end.after and job.id in end.members and job.id in end.failed:
                end.failed.discard(job.id)
                end.after += (job.id,)
                end.reason = end.waits_for()

    def _settle(self, job: Job, state: State, run_at: float | None) -> None:
        """The job waits: nobody runs it, and no wish to cancel an earlier run is left over."""
        job.state, job.run_at = state, run_at
        job.worker = job.claim = job.claimed_at = None
        job.cancel_requested, job.reason = False, None


def _dated(options: Options, now: float, run_at: float | None) -> Options:
    """The options of a new job. What is for the store to say, a producer does not."""
    at = None if options.expires is None else deadline(now, run_at, options.expires)
    return msgspec.structs.replace(unknown_tasks.since(options, None), expires_at=at)
