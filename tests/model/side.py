"""One of the two stores under comparison, spoken to in labels.

Ids, claims and seqs differ from store to store. So every job carries its label in its payload, and a side
translates: labels in, store operations, labels out. What comes out of the two sides must be equal.
"""

import json
import math
import re
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from tests.conformance.kit import Clock
from tests.model.wishes import SET_ASIDE, STEP
from windlass.core.abilities import NONE
from windlass.core.retry import DeathPolicy
from windlass.core.states import FINISHED, Kind, State
from windlass.errors import AlreadyEnqueued, WindlassError
from windlass.store.protocol import NOTHING, Store
from windlass.store.records import (
    BudgetRecord,
    Checkpoint,
    ClaimedJob,
    Depth,
    Emits,
    Failure,
    Fence,
    JobChange,
    JobFilter,
    JobRecord,
    Needs,
    NewJob,
    Outcome,
    PartPlan,
    Plan,
    QueueRecord,
    Step,
    Wait,
    WorkerInfo,
)

Answer = Any
GOES = frozenset({State.SUCCEEDED, State.CANCELLED})
"""States in which a job may be forgotten by a forced rotation."""


BEGUN = frozenset({State.RUNNING, State.SPLITTING, State.WAITING})
GPU = frozenset({"gpu"})
SERVED = ((), ("a", *SET_ASIDE), ("a", "b", *SET_ASIDE))
"""What workers say they serve, in turn: any queue, some, and all."""

STANDS_FOR = frozenset({"skipped", "rerun", "repeated"})
"""What a receipt says when its id is another job's."""


def bare(queue: QueueRecord) -> QueueRecord:
    """A queue, with its cool-down in steps of the clock: the two sides are moments apart."""
    return msgspec.structs.replace(queue, cooling=float(math.ceil(queue.cooling / STEP)))


def whole(budget: BudgetRecord) -> BudgetRecord:
    """A budget with its whole tokens: of the rest each side has as much as its clock says."""
    return msgspec.structs.replace(budget, tokens=math.floor(budget.tokens))


def shown(step: Step) -> Answer:
    """A step, with its time in steps of the clock: the two sides are moments apart."""
    left = None if step.left is None else math.floor(step.left / STEP)
    return step.name, step.result, step.code, step.attempt, left


def abilities_of(worker: int) -> frozenset[str]:
    """What a worker has: every other one has all that jobs need [K14]."""
    return NONE if worker % 2 else GPU


def name_of(job: JobRecord | ClaimedJob | NewJob) -> str:
    """What the machine calls a job, or the parent of a part."""
    return str(msgspec.json.decode(job.payload)["job"])


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
    emitted: dict[tuple[int, Fence], tuple[int | None, int | None]] = field(default_factory=dict)
    """Behind which positions each run has emitted last, and will next."""
    set_back: bool = False
    """Whether the clock was set back. Failures may be out of order then: PostgreSQL has their times alone."""
    terms: list[int] = field(default_factory=list)
    parents: set[str] = field(default_factory=set)
    """Labels of all that were ever split."""
    parts: dict[tuple[str, int], list[int]] = field(default_factory=dict)
    """The jobs of each part, one more with each redrive."""

    def do(self, name: str, *args: Any, **kwargs: Any) -> Answer:
        """Call the operation of this name below; an error on purpose is an answer, too."""
        try:
            return self.run(getattr(self, name)(*args, **kwargs))
        except (WindlassError, ValueError) as error:
            twin = self.labels.get(error.job or 0) if isinstance(error, AlreadyEnqueued) else None
            return "ValueError" if isinstance(error, ValueError) else type(error).__name__, twin

    async def look(self) -> dict[str, JobRecord]:
        """Every job there is, by label; also how ids become known."""
        self.seen = {}
        cursor: str | None = None
        while True:
            page = await self.store.jobs(JobFilter(), 200, cursor)
            for record in page.jobs:
                label = self.label_of(record)
                assert label not in self.seen, f"{label} is listed twice"
                self._know(record.id, label)
                self.seen[label] = record
            cursor = page.cursor
            if cursor is None:
                return self.seen

    def label_of(self, job: JobRecord | ClaimedJob) -> str:
        """The label of a job. That of a part says whose it is, and which of its jobs."""
        part, name = job.options.part, name_of(job)
        if part is None:
            return name
        assert self.labels[part.parent] == name
        runs = self.parts.setdefault((name, part.index), [])
        if job.id not in runs:
            runs.append(job.id)
        return f"{name}/{part.index}.{runs.index(job.id)}"

    def _know(self, id: int, label: str) -> None:
        assert self.ids.setdefault(label, id) == id, f"{label} changed its id"
        assert self.labels.setdefault(id, label) == label, f"{label} has the id of another job"

    # -- producers --------------------------------------------------------------------------------------

    async def enqueue(self, jobs: Sequence[NewJob], after: Sequence[str] = ()) -> Answer:
        """Add jobs, all of them to come after those of these labels."""
        ids = tuple(self.ids[label] for label in after)
        receipts = await self.store.enqueue(
            [
                msgspec.structs.replace(job, options=msgspec.structs.replace(job.options, after=ids))
                for job in jobs
            ]
        )
        for job, receipt in zip(jobs, receipts, strict=True):
            if receipt.status not in STANDS_FOR:
                self._know(receipt.id, name_of(job))
        return [(receipt.status, self.labels[receipt.id]) for receipt in receipts]

    # -- workers ----------------------------------------------------------------------------------------

    async def register(self, worker: int) -> None:
        about = WorkerInfo(id=worker, queues=SERVED[worker % 3], abilities=abilities_of(worker))
        await self.store.register(about)

    async def heartbeat(self, worker: int) -> Answer:
        return sorted(self.labels[job] for job in (await self.store.heartbeat(worker)).cancel)

    async def retire(self, worker: int) -> int:
        return await self.store.retire(worker)

    async def rescue(self, worker: int, policy: DeathPolicy) -> Answer:
        heartbeats = {record.id: record.heartbeat for record in await self.store.workers()}
        rescued = await self.store.rescue(worker, heartbeats.get(worker, 0), policy)
        assert await self.store.unfinished(worker) == [] or rescued is None
        return rescued

    async def workers(self) -> Answer:
        return sorted((record.id, record.alive, record.heartbeat) for record in await self.store.workers())

    async def claim(
        self, worker: int, queues: Sequence[str] | Mapping[str, int], limit: int, needs: Needs = NOTHING
    ) -> Answer:
        claims = await self.store.claim(worker, queues, limit, needs, abilities=abilities_of(worker))
        for number, claim in enumerate(claims):
            crashed_jobs = [job for job in claim.jobs if job.deaths]
            assert not crashed_jobs or (len(claim.jobs) == 1 and number == len(claims) - 1), (
                "not claimed alone"
            )
            assert {job.lane for job in claim.jobs} == {claim.lane}
        jobs = [job for claim in claims for job in claim.jobs]
        for job in jobs:
            self._know(job.id, self.label_of(job))
            self.claimed[worker, self.label_of(job)] = msgspec.structs.replace(job, known_steps=None)
            if known := job.known_steps:
                assert list(known.steps) == await self.store.steps(job.id), "a claim says other steps"
        return [
            (
                self.label_of(job),
                job.queue,
                job.priority,
                job.options.needs,
                job.attempt,
                job.deaths,
                job.payload,
            )
            for job in jobs
        ]

    async def in_lanes(self, queue: str) -> bool:
        """Whether anybody of this queue could be claimed."""
        seen = (await self.look()).values()
        return any(job.queue == queue and job.state is State.READY and job.reason is None for job in seen)

    async def held(self, worker: int) -> Answer:
        jobs = [job for claim in await self.store.unfinished(worker) for job in claim.jobs]
        assert await self.store.fences(worker) == {job.fence for job in jobs}
        for job in jobs:
            assert self.claimed[worker, self.label_of(job)] == job, "held tells another story than claim"
        return sorted(map(self.label_of, jobs))

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

    async def emit(self, worker: int, label: str, n: int, again: bool) -> Answer:
        """As the run's first write, or behind its last one; and the whole stream after it."""
        run = self.claimed[worker, label]
        first, last = self.emitted.get((worker, run.fence), (None, None))
        after = first if again else last
        emits = Emits(job=run, after=after, n=n, events=json.dumps([n] * n))
        (position,) = await self.store.emit(worker, [emits])
        if position is not None:
            self.emitted[worker, run.fence] = after, position
        page = await self.store.wait_stream(run.id, 0, 0.0)
        state = None if page.state is None else page.state.value
        return position, state, [(b.position, b.n, b.run, b.attempt, b.events) for b in page.batches]

    async def ask(self, worker: int, label: str, signal: str, no: int, timeout: float | None) -> Answer:
        wait = Wait(name=f"wait:{signal}#{no}", signal=signal, timeout=timeout)
        step = (await self.store.wait_for_signal(worker, self.claimed[worker, label], wait)).step
        return "waits" if step is None else (step.code, step.result)

    async def do_step(
        self, worker: int, label: str, name: str, value: str, sleep: float | None, attempt: int
    ) -> Answer:
        step = Step(name=name, result=value, code="c", attempt=attempt, sleep=sleep)
        return shown(await self.store.save_step(worker, self.claimed[worker, label], step))

    async def steps(self, label: str) -> Answer:
        return [shown(step) for step in await self.store.steps(self.ids[label])]

    async def signal(self, label: str, name: str, value: str) -> Answer:
        return await self.store.signal(self.ids[label], name, value)

    async def waits(self) -> Answer:
        return [(self.labels[each.job], each.signal, each.name) for each in await self.store.waits(1000)]

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

    # -- managing ---------------------------------------------------------------------------------------

    async def manage(self, verb: str, labels: Sequence[str]) -> Answer:
        """Cancel, delete or retry."""
        answers = await getattr(self.store, verb)([self.ids[label] for label in labels])
        return {label: answers[self.ids[label]] for label in labels}

    async def change(self, label: str, change: JobChange) -> Answer:
        return await self.store.change(self.ids[label], change)

    async def count_ends(self, limit: int) -> None:
        await self.store.count_ends(limit)

    async def promote(self, limit: int) -> Answer:
        promoted = await self.store.promote(limit)
        return promoted.due, promoted.admitted, promoted.next_in and math.ceil(promoted.next_in / STEP)

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
        """Which of its terms that is: a new epoch leaves numbers out."""
        term = await self.store.lead(candidate, length)
        if term is not None and term not in self.terms:
            assert not self.terms or term > self.terms[-1]
            self.terms.append(term)
        return None if term is None else self.terms.index(term)

    async def resign(self, candidate: int) -> None:
        await self.store.resign(candidate)

    async def assign(self, term: int, slots: dict[int, dict[str, int]]) -> None:
        await self.store.assign(self.terms[term] if self.terms else 0, slots)

    async def cluster_view(self, workers: Sequence[int]) -> Answer:
        seen = await self.store.cluster_view(workers)
        return {name: bare(queue) for name, queue in seen.queues.items()}, seen.slots, seen.serving

    # -- parents ----------------------------------------------------------------------------------------

    async def split(
        self, worker: int, flush: int, label: str, parts: int, parallel: int, tolerated: int, finalizer: bool
    ) -> None:
        plans = [PartPlan(f"[{index}]", size=10) for index in range(parts)]
        plan = Plan(parts=plans, parallel=parallel, tolerated=tolerated, finalizer=finalizer)
        self.parents.add(label)
        await self.store.split(worker, flush, self.claimed[worker, label], plan)

    async def redrive(self, label: str) -> int:
        return await self.store.redrive(self.ids[label])

    async def set_parent(self, label: str, parallel: int) -> bool:
        return await self.store.set_parent(self.ids[label], parallel=parallel) is not None

    async def families(self) -> Answer:
        """Every parent with its parts, but for times."""
        await self.look()
        found = {}
        for parent in await self.store.parents():
            seen = msgspec.structs.asdict(parent)
            seen |= {"id": 0, "created_at": 0.0, "finished_at": parent.finished_at is not None}
            seen["final"] = self.labels[parent.final] if parent.final is not None else None
            parts = [
                (part.index, part.span, part.state, part.attempt, part.done, part.records, part.error)
                for part in await self.store.parts(parent.id)
            ]
            found[self.labels[parent.id]] = seen, parts
        return found

    # -- limits -----------------------------------------------------------------------------------------

    async def set_budget(self, name: str, changes: dict[str, Any]) -> Answer:
        return whole(await self.store.set_budget(name, changes))

    async def budgets(self) -> Answer:
        return [whole(budget) for budget in await self.store.budgets()]

    async def take(self, budget: str, n: int) -> Answer:
        taken = await self.store.take(budget, n)
        return taken.granted, taken.wait if math.isinf(taken.wait) else math.ceil(taken.wait / STEP)

    async def lease(self, budget: str, needs: list[int]) -> Answer:
        return (await self.store.lease(budget, needs)).served

    async def give_back(self, budget: str, n: int) -> None:
        await self.store.give_back(budget, n)

    async def settle(self, budget: str, more: int) -> None:
        await self.store.settle(budget, more)

    async def spent(self, worker: int, label: str, tokens: int) -> None:
        await self.store.spent(worker, self.claimed[worker, label], "x", "", before=1, tokens=tokens)

    async def set_task(self, task: str, changes: dict[str, Any]) -> Answer:
        return await self.store.set_task(task, changes)

    async def gates(self) -> Answer:
        """Who waits where. Those who need more than a budget holds count as if they stood in its line."""
        found: dict[str, tuple[int, int]] = {}
        for gate in await self.store.gates():
            name = re.sub("^over:", "budget:", gate.name)
            passes, waiting = found.get(name, (0, 0))
            found[name] = passes + gate.passes, waiting + gate.waiting
        return found

    async def watermarks(self, queue: str) -> Answer:
        return [(mark.key, mark.position, mark.waiting) for mark in await self.store.watermarks(queue)]

    async def advance(self, seconds: float) -> None:
        self.set_back |= seconds < 0
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
                record.worker if record.state in BEGUN else None,
                record.cancel_requested if record.state in BEGUN else False,
                record.checkpoint.data if record.checkpoint else None,
                record.progress.done if record.progress else None,
                self._reason(record),
                (sorted if self.set_back else list)(
                    (error.message, error.attempt) for error in record.errors
                ),
                (record.finished_at is None) == (record.state not in FINISHED),
            )
            for label, record in self.seen.items()
            if record.state not in GOES
        }

    def _options(self, record: JobRecord) -> Answer:
        """Whether nobody knows its task, and not since when: each side has a clock of its own. Of a job that
        has ended nobody asks any more. Those it comes after are named by their labels."""
        unknown = record.options.unknown_since is not None and record.state not in FINISHED
        options = msgspec.structs.replace(
            record.options,
            unknown_since=1.0 if unknown else None,
            expires_at=None if record.options.expires_at is None else 1.0,
            after=(),
            part=None,
        )
        return options, [self.labels[id] for id in record.options.after]

    def _reason(self, record: JobRecord) -> str | None:
        """Why it stands there. Which of several jobs it names is for ids to decide, and these differ; of one
        that was taken back each store knows something else: gone, cancelled, deleted or replaced."""
        if record.reason and record.reason.startswith("needs more tokens than budget "):
            # PostgreSQL sets such a one aside when it comes to the head of its line, and not before.
            return "waits for tokens of budget " + record.reason.split()[5]
        if record.reason and record.reason.startswith("waits for signal "):
            return re.sub(r" (since|until) [\d: -]+ UTC,?", "", record.reason)
        found = re.search(r"\bjob (\d+)(, which it comes after, is .*)?", record.reason or "")
        if record.reason is None or found is None or int(found[1]) not in record.options.after:
            return record.reason
        named = found[0] if found[2] and len(record.options.after) > 1 else f"job {found[1]}"
        label = "one of them" if len(record.options.after) > 1 else self.labels[int(found[1])]
        return re.sub("is (cancelled|deleted|replaced)$", "is gone", record.reason.replace(named, label, 1))

    def finished(self) -> dict[str, Answer]:
        """What has ended well or was cancelled, for as long as it is remembered."""
        return {
            label: (
                str(record.state),
                record.result,
                len(record.errors),
                record.progress.done if record.progress else None,
            )
            for label, record in self.seen.items()
            if record.state in GOES
        }
