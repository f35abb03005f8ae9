"""Parents: jobs that wait for their parts [P9], and the split that makes them [P4]. A parent is brought up to
date in the very transaction that ends a part, so it is never behind. What it does next is decided by
`core.parents`; who asks for it here is `deferred`, where jobs have ended, and `management`, where an operator
acts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Final

from windlass.core.abilities import NONE, can_run
from windlass.core.counts import plural
from windlass.core.ids import SEQ_BITS
from windlass.core.parents import Standing, Step, next_step, parts_to_offer, why_dead
from windlass.core.slots import MAX_PARTS, fair_share
from windlass.core.states import State
from windlass.errors import AlreadyEnqueued, StoreCorrupt
from windlass.store.protocol import NOTHING
from windlass.store.records import Claim, ClaimedJob, Needs, NewJob, PartOf, Parts, Plan, parts_of
from windlass.store.sqlite import parts, rows, transitions
from windlass.store.sqlite.claims import MANY, must_live, must_run
from windlass.store.sqlite.claims import claim as lease
from windlass.store.sqlite.operation.transaction import Transaction
from windlass.store.sqlite.outcomes import Ended, was_ended
from windlass.store.sqlite.rows import Ending, Row, readable_options
from windlass.store.sqlite.schema import Statements

_SQL = Statements("parents")

_COUNTERS: Final = {
    parts.OUT: "out",
    rows.SUCCEEDED: "succeeded",
    rows.DEAD: "dead",
    rows.CANCELLED: "cancelled",
}


@dataclass(slots=True)
class Parent:
    """A row of the parents, changed in memory and written back with `save`."""

    number: int
    id: int
    lane: int
    state: int
    worker: int
    claim: int
    total: int
    succeeded: int
    dead: int
    cancelled: int
    out: int
    parallel: int | None
    tolerated: int
    finalizer: int
    final: int | None
    final_state: int | None
    result: str | None
    cancelling: int
    size: int
    done: int
    records: int
    created_at: float
    finished_at: float | None

    @property
    def pending(self) -> int:
        """How many of its parts were not offered yet."""
        return self.total - self.succeeded - self.dead - self.cancelled - self.out

    @property
    def ended(self) -> bool:
        return self.state != rows.WAITING

    def standing(self, waiting: int = 0, wanted: int = 1) -> Standing:
        """How its parts stand, as the core sees it; `waiting` of those that are out were not claimed yet."""
        final = None if self.final is None else State.READY
        if self.final_state is not None:
            final = rows.STATES[self.final_state]
        return Standing(
            pending=self.pending,
            out=self.out,
            waiting=waiting,
            wanted=wanted,
            dead=self.dead,
            cancelled=self.cancelled,
            parallel=self.parallel,
            tolerated=self.tolerated,
            cancelling=bool(self.cancelling),
            finalizer=bool(self.finalizer),
            final=final,
        )

    def note(self, change: parts.Change) -> None:
        """Count a part where it stands now [I6]."""
        for state, by in ((change.before, -1), (change.after, 1)):
            name = _COUNTERS[state]
            setattr(self, name, getattr(self, name) + by)
        self.done += change.done
        self.records += change.records


def load(tx: Transaction, id: int) -> Parent | None:
    """The parent with this id."""
    found = tx.one(_SQL["load"], (id,))
    return Parent(*found) if found else None


def save(tx: Transaction, parent: Parent) -> None:
    """Write what may change in a parent."""
    tx.run(
        _SQL["save"],
        (
            parent.state, parent.succeeded, parent.dead, parent.cancelled, parent.out, parent.parallel,
            parent.final, parent.final_state, parent.result, parent.cancelling, parent.done, parent.records,
            parent.finished_at, parent.number,
        ),
    )  # fmt: skip


def begin(tx: Transaction, row: Row, plan: Plan, worker: int, claim: int) -> None:
    """Make a running job a parent, and offer the first of its parts [P4]."""
    transitions.remember_unknown(row, None)
    transitions.wait(tx, row)
    size = sum(part.size for part in plan.parts)
    about = (row.id, row.lane, worker, claim, len(plan.parts), plan.parallel, plan.tolerated, plan.finalizer)
    tx.run(_SQL["add"], (*about, size, tx.now))
    parts.add(tx, row.id, plan.parts)
    parent = load(tx, row.id)
    assert parent is not None
    advance(tx, parent)
    tx.notify = True


def fold(tx: Transaction, endings: Sequence[Ending]) -> None:
    """Bring parents up to date with those of their parts that have just ended [P9]."""
    by_parent: defaultdict[int, list[Ending]] = defaultdict(list)
    for ending in endings:
        if ending.options.part is not None:
            by_parent[ending.options.part.parent].append(ending)
    for id, ended in by_parent.items():
        parent = load(tx, id)
        if parent is not None:  # else it was deleted, and this part outlived it
            for ending in ended:
                _fold(tx, parent, ending)
            advance(tx, parent)


def _fold(tx: Transaction, parent: Parent, ending: Ending) -> None:
    part = ending.options.part
    assert part is not None
    if part.index >= 0:
        change = parts.end(tx, ending, part)
        if change is not None:
            parent.note(change)
    elif parent.final == ending.id:
        parent.final_state, parent.result = ending.state, ending.result


def advance(tx: Transaction, parent: Parent, wanted: int = 1) -> None:
    """Do what is to be done next, until the parent waits or has ended, and write it back. So many of its
    parts are to wait for a claim."""
    while not parent.ended:
        standing = parent.standing(parts.waiting(tx, parent.id), wanted)
        match next_step(standing):
            case Step.WAIT:
                break
            case Step.OFFER:
                _offer_parts(tx, parent, parts_to_offer(standing))
            case Step.FINALIZE:
                parent.final = tx.inserts.add(_origin(tx, parent).job()).id
            case Step.SUCCEED:
                _end(tx, parent, rows.SUCCEEDED)
            case Step.DIE:
                _end(tx, parent, rows.DEAD, why_dead(standing, _cause(tx, parent)))
            case Step.CANCEL:
                _end(tx, parent, rows.CANCELLED)
    save(tx, parent)


def _offer_parts(tx: Transaction, parent: Parent, wanted: int) -> None:
    offered = parts.offer(tx, _origin(tx, parent), wanted)
    if offered < wanted:
        raise StoreCorrupt(
            f"parent {parent.id} counts {plural(parent.pending, 'part')} to be offered, and only {offered} "
            f"of {wanted} are there [I6]"
        )
    parent.out += offered


def _origin(tx: Transaction, parent: Parent) -> parts.Origin:
    found = tx.one(_SQL["origin"], (parent.id,))
    assert found is not None, "a parent has lost its job"
    task, payload, lane_id, options = found
    lane = tx.lanes.numbered(lane_id)
    return parts.Origin(
        NewJob(
            task=task,
            payload=payload,
            queue=lane.queue,
            priority=lane.priority,
            options=readable_options(options),
        ),
        PartOf(parent=parent.id, index=-1, total=parent.total, created_at=parent.created_at),
    )


def _end(tx: Transaction, parent: Parent, state: int, reason: str | None = None) -> None:
    """End the parent's job, which frees its key, and with it the parent."""
    result = parent.result if state == rows.SUCCEEDED else None
    transitions.end(tx, transitions.must_find(tx, parent.id), state, reason=reason, result=result)
    parent.state, parent.finished_at = state, tx.now


def _cause(tx: Transaction, parent: Parent) -> str | None:
    """Return the cause of the finalizer's death."""
    final = None if parent.final is None else transitions.find(tx, parent.final)
    return None if final is None else parts.cause(final.errors_json, None)


def reopen(tx: Transaction, parent: Parent) -> None:
    """A parent goes on: it waits for its parts, also where it had ended, and no wish to cancel it is left.
    Raises AlreadyEnqueued where another holds its key by now."""
    row = transitions.must_find(tx, parent.id)
    key = row.options.unique_key
    if parent.ended and key is not None and not tx.run(_SQL["take_key"], (key, parent.id)):
        holder = tx.one(_SQL["holder"], (key,))
        raise AlreadyEnqueued(
            f"unique key {key!r} of parent {parent.id} is held by another job now: cancel that one, or wait "
            "for its end",
            holder[0] if holder else None,
        )
    transitions.wait(tx, row)
    parent.state, parent.finished_at, parent.cancelling = rows.WAITING, None, 0
    tx.notify = True


def show_cancel(tx: Transaction, parent: Parent) -> None:
    """From now on the parent's job shows that its cancel was requested."""
    tx.run(_SQL["show_cancel"], (parent.id,))


def remove(tx: Transaction, parent: Parent) -> None:
    """Forget a parent that has ended, with its parts and its job."""
    tx.run(_SQL["remove_parts"], (parent.id,))
    tx.run(_SQL["remove"], (parent.id,))
    transitions.remove(tx, transitions.must_find(tx, parent.id))


# -- claims of parts -----------------------------------------------------------------------------------------


def claim(
    tx: Transaction,
    worker: int,
    queues: Sequence[str] | Mapping[str, int],
    limit: int,
    needs: Needs = NOTHING,
    peers: Mapping[str, int] = NOTHING,
    abilities: Set[str] = NONE,
) -> list[Claim]:
    """Lease ready jobs. A parent has one part waiting at a time, so that parents take turns [P8]. Parts that
    were claimed make way for others: for as many as there is room for here, and then for one of each parent.
    Parts are not held ahead of slots, whatever room a queue of short jobs has."""
    room = dict(queues) if isinstance(queues, Mapping) else dict.fromkeys(queues, limit)
    for queue in peers if len(peers) <= MANY else _with_jobs(tx, peers):
        if room.get(queue, 0) > 1:
            room[queue] = min(room[queue], fair_share(_waiting_in(tx, queue, abilities), peers[queue]))
    claims = lease(tx, worker, room, limit, needs, abilities)
    left = limit - sum(len(claim.jobs) for claim in claims)
    if claims and claims[-1].jobs[0].deaths:
        left = 0
    more: list[Claim] = []
    for queue, mine in parts_of(claims).items():
        taken = sum(len(each.jobs) for each in claims if each.queue == queue)
        bound = min(left, room[queue] - taken, MAX_PARTS)
        _make_way(tx, mine, max(1, -(-bound // len(mine))))
        if bound > 0:
            tx.save()
            found = lease(tx, worker, {queue: bound}, bound, needs, abilities)
            left -= sum(len(claim.jobs) for claim in found)
            more += found
    for mine in parts_of(more).values():
        _make_way(tx, mine, 1)
    return claims + more


def _make_way(tx: Transaction, claimed: Parts, wanted: int) -> None:
    """Parts of these parents were claimed: others are offered until so many wait."""
    for id, jobs in claimed.items():
        parts.claimed(tx, id, [job.id for job in jobs])
        parent = load(tx, id)
        if parent is not None:
            advance(tx, parent, wanted)


def _with_jobs(tx: Transaction, queues: Collection[str]) -> set[str]:
    """Return the queues in which jobs are ready: the others have nothing to share."""
    return {queue for (queue,) in tx.all(_SQL["with_jobs"]) if queue in queues}


def _waiting_in(tx: Transaction, queue: str, abilities: Set[str]) -> int:
    """How many jobs of a queue wait for a worker with these abilities, with parts that are not offered
    yet."""
    found = tx.all(_SQL["waiting_in"], (queue,))
    return sum(int(waiting) for needs, waiting in found if can_run(needs, abilities))


# -- split ---------------------------------------------------------------------------------------------------


def split(tx: Transaction, worker: int, flush: int, job: ClaimedJob, plan: Plan) -> None:
    """Make a parent of a running job, unless this was done before, or somebody wished the job cancelled.
    Raises WorkerLost or ClaimLost [C5]."""
    must_live(tx, worker)
    if plan.parallel is not None and plan.parallel < 1:
        raise ValueError(f"job {job.id} cannot run {plan.parallel} of its parts at a time: plan 1 or more")
    if job.options.part is not None:
        raise ValueError(f"job {job.id} is a part of job {job.options.part.parent}: a part cannot be split")
    if _sent_before(tx, worker, job):
        return
    row = must_run(tx, worker, job)
    if row.cancel is not None:
        transitions.end(tx, row, rows.CANCELLED)
    else:
        begin(tx, row, plan, worker, job.claim)
    ended = Ended(tx, worker, flush)
    ended.add(job.claim, [job.seq])
    ended.save()


def _sent_before(tx: Transaction, worker: int, job: ClaimedJob) -> bool:
    """Return whether this claim's attempt became a parent already, or was cancelled instead."""
    parent = load(tx, job.id)
    if parent is not None:
        return (parent.worker, parent.claim) == (worker, job.claim)
    row = transitions.at(tx, job.lane << SEQ_BITS | job.seq)
    cancelled = row is not None and row.id == job.id and row.state == rows.CANCELLED
    return cancelled and was_ended(tx, worker, job.claim, job.seq)
