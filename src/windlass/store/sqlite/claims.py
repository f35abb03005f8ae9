"""Claims: the lease of jobs to one worker [C1], what a worker still holds, its checkpoints [C5], and whether
there is anything to claim."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any, Final

import apsw

from windlass.core.abilities import NONE
from windlass.core.ids import MAX_SEQ, SEQ_BITS
from windlass.core.order import LaneHead, claim_order
from windlass.core.read_errors import READ_ERRORS
from windlass.errors import ClaimLost, StoreCorrupt, WorkerLost
from windlass.store.protocol import NOTHING
from windlass.store.records import DEFAULT_OPTIONS, Checkpoint, Claim, ClaimedJob, Fence, Needs, Options
from windlass.store.sqlite import parts, transitions
from windlass.store.sqlite.durable import expiry
from windlass.store.sqlite.flow import claim_limits, fair_keys
from windlass.store.sqlite.operation.budget_rows import bounds, governors_bucket
from windlass.store.sqlite.operation.lanes import Lane
from windlass.store.sqlite.operation.transaction import Transaction
from windlass.store.sqlite.rows import (
    DEAD,
    OFFERED,
    Row,
    decode_options,
    encode,
    fetch,
    readable_options,
    ready_at,
)
from windlass.store.sqlite.schema import Statements

_SQL = Statements("claims")

_Found = tuple[Any, ...]
_DEATHS, _OPTIONS = 5, 6
Span = tuple[int, int]
LOOKS: Final = 5
"""How many looks for work are timed, to say what they cost."""

MANY: Final = 32
"""Who serves more queues is told of every lane that has something, instead of asking for each queue."""

MAX_SENT_AWAY: Final = 500
"""After so many jobs that lack their tokens a claim leaves their lane; the next one sends more away."""


@dataclass(slots=True)
class Heads:
    """The lanes that have something to give."""

    lanes: list[LaneHead] = field(default_factory=list)
    bounded: set[str] = field(default_factory=set)
    """Their queues of which only so many jobs may run, or start, at a time [F2] [F3]."""
    limited: bool = False
    """True if any task has a limit in the store [F3]."""
    reserved: bool = False
    """True if tokens of any budget are reserved for somebody [F1]."""
    expires: bool = False
    """True if any job may have waited too long [E8]."""


def claim(
    tx: Transaction,
    worker: int,
    queues: Sequence[str] | Mapping[str, int],
    limit: int,
    needs: Needs = NOTHING,
    abilities: Set[str] = NONE,
    takes: Callable[[ClaimedJob], bool] | None = None,
    follow: Callable[[Lane, list[ClaimedJob]], list[ClaimedJob]] | None = None,
) -> list[Claim]:
    """Lease ready jobs, lane by lane in the order of their heads [C2]. With `takes`, only those before the
    first that the caller does not take; with `follow`, those that it brings into their lane for them, too."""
    left = dict(queues) if isinstance(queues, Mapping) else dict.fromkeys(queues, limit)
    wanted = [name for name, bound in left.items() if bound > 0]
    heads = _heads(tx, wanted, abilities) if limit > 0 else Heads()
    if not heads.lanes:
        return []
    must_live(tx, worker)
    claims: list[Claim] = []
    governors = claim_limits.bound(tx, heads.bounded, left)
    for head in claim_order(heads.lanes, tx.settings.ageing_step):
        lane = tx.lanes.numbered(head.lane)
        away = 0
        while away < MAX_SENT_AWAY and (room := min(limit, left[lane.queue])) > 0:
            if not lane.ready and not fair_keys.refill(tx, lane):
                break
            batch = _next_batch(tx, lane, room)
            try:
                jobs = _jobs(tx, lane, batch)
            except READ_ERRORS:
                _end_unreadable(tx, batch)
                continue
            if heads.expires and (kept := expiry.unexpired(tx, jobs)) is not jobs:
                away += len(batch) - len(kept)
                batch, jobs = batch[: len(kept)], kept
                if not jobs:
                    continue
            if takes is not None:
                jobs = list(takewhile(takes, jobs))
                limit = len(jobs) if len(jobs) < len(batch) else limit
                if not jobs:
                    break
            if needs or heads.limited or heads.reserved:
                jobs = claim_limits.enforce(tx, jobs, needs, limited=heads.limited, reserved=heads.reserved)
                away += len(batch) - len(jobs)
            if jobs:
                claims.append(_lease(tx, lane, worker, jobs if follow is None else follow(lane, jobs)))
                limit = 0 if jobs[0].deaths else limit - len(jobs)
                left[lane.queue] -= len(jobs)
        fair_keys.refill(tx, lane)  # so that the next claim finds something
    claim_limits.take_started(tx, governors, claims)
    return claims


def must_live(tx: Transaction, worker: int) -> None:
    """The fence of every write of a worker. Raises WorkerLost [C5]."""
    if tx.one(_SQL["alive"], (worker,)) is None:
        raise WorkerLost(f"worker {worker} is not alive: it was retired or rescued, or never registered")


def _heads(tx: Transaction, queues: list[str], abilities: Set[str]) -> Heads:
    able = encode(list(abilities)).decode()
    if len(queues) > MANY:
        wanted = frozenset(queues)
        found = [head for head in tx.all(_SQL["all_heads"], (tx.now, able)) if head[1] in wanted]
    else:
        found = tx.all(_SQL["heads"], (tx.now, able, encode(queues).decode()))
    heads = Heads()
    for lane, queue, priority, since, bounded, limited, reserved, expires in found:
        if since is None:
            raise StoreCorrupt(
                f"lane {lane} ({queue}) has a count of ready jobs, but no job [I4]; nothing was claimed"
            )
        heads.lanes.append(LaneHead(lane, queue, priority, tx.now - since))
        heads.limited, heads.reserved, heads.expires = bool(limited), bool(reserved), bool(expires)
        if bounded:
            heads.bounded.add(queue)
    return heads


def _next_batch(tx: Transaction, lane: Lane, limit: int) -> list[_Found]:
    """The next jobs of a lane; one that has seen a worker die stands alone [C8]."""
    found = tx.all(_SQL["take"], (lane.cursor, lane.end, limit))
    alone = next((n for n, row in enumerate(found) if row[_DEATHS]), len(found))
    return found[: alone or 1]


def _end_unreadable(tx: Transaction, batch: list[_Found]) -> None:
    """End jobs whose options nobody can read, so that one broken row does not stop its lane [fault 17]."""
    for found in batch:
        try:
            decode_options(found[_OPTIONS] or "{}")
        except READ_ERRORS as error:
            row = transitions.at(tx, found[0])
            assert row is not None
            transitions.end(tx, row, DEAD, reason=f"unreadable options: {error}")
            tx.endings[-1] = parts.recognise(tx, tx.endings[-1])


def _jobs(tx: Transaction, lane: Lane, batch: list[_Found]) -> list[ClaimedJob]:
    """The next jobs of a lane as a claim would give them out. Raises MsgspecError."""
    claim = tx.connection.execute(_SQL["next"]).get
    return _claimed(claim, lane.id, lane.queue, lane.priority, batch, decode_options)


def _lease(tx: Transaction, lane: Lane, worker: int, jobs: list[ClaimedJob]) -> Claim:
    """Write the claim and move the cursor over its jobs. No job row is written: the cursor says who runs."""
    claim, lo, hi = jobs[0].claim, jobs[0].seq, jobs[-1].seq
    tx.run(_SQL["lease"], (claim, lane.id, lo, hi, worker, len(jobs), tx.now))
    lane.hi = hi
    lane.ready -= len(jobs)
    lane.running += len(jobs)
    return Claim(claim, lane.id, lane.queue, lane.priority, jobs)


def _claimed(
    claim: int, lane: int, queue: str, priority: int, found: list[_Found], decode: Callable[[str], Options]
) -> list[ClaimedJob]:
    """The jobs of a claim, as their worker sees them."""
    return [
        ClaimedJob(
            pos if own_id is None else own_id,
            lane,
            claim,
            pos & MAX_SEQ,
            task,
            payload,
            queue,
            priority,
            attempt,
            deaths,
            DEFAULT_OPTIONS if options is None else decode(options),
            enqueued_at,
            touched_at if own_id is None else ready_at(enqueued_at, touched_at),
        )
        for pos, own_id, task, payload, attempt, deaths, options, enqueued_at, touched_at in found
    ]


def unfinished(connection: apsw.Connection, worker: int) -> list[Claim]:
    """The unfinished claims of a worker, each with its unfinished jobs. Reads only."""
    claims: list[Claim] = []
    for claim, lane, first, last, queue, priority in fetch(connection, _SQL["open"], (worker,)):
        found = fetch(connection, _SQL["unfinished"], (first, last))
        jobs = _claimed(claim, lane, queue, priority, found, readable_options)
        claims.append(Claim(claim, lane, queue, priority, jobs))
    return claims


def fences(connection: apsw.Connection, worker: int, since: int = 0) -> set[Fence]:
    """Return the fences of a worker's unfinished jobs [S4]. Reads only."""
    return {
        (lane, claim, pos & MAX_SEQ)
        for claim, lane, first, last, _, _ in fetch(connection, _SQL["open"], (worker,))
        if claim >= since
        for (pos,) in fetch(connection, _SQL["unfinished_places"], (first, last))
    }


def checkpoint(tx: Transaction, worker: int, job: ClaimedJob, given: Checkpoint) -> None:
    """Make progress durable, if the worker runs the job under this very claim [C5]."""
    must_live(tx, worker)
    row = must_run(tx, worker, job)
    tx.run(_SQL["checkpoint"], (row.id, given.data, given.done, given.total, tx.now))
    tx.run(_SQL["bind"], (row.pos,))


def checkpoint_again(
    connection: apsw.Connection, worker: int, job: ClaimedJob, given: Checkpoint, now: float
) -> bool:
    """Make progress durable in one statement, for a job whose end has more to do anyway [C5]. False: it has
    not, or it is not the worker's; nothing was written."""
    pos = job.lane << SEQ_BITS | job.seq
    connection.execute(
        _SQL["checkpoint_again"],
        (job.id, given.data, given.done, given.total, now, worker, job.claim, pos, job.lane, job.seq),
    )
    return connection.changes() == 1


def spans(tx: Transaction, worker: int, claims: Collection[int]) -> dict[int, Span]:
    """The first and last position of those of these claims that are this worker's."""
    return {
        claim: (first, last)
        for claim, first, last in tx.all(_SQL["spans"], (encode(list(claims)).decode(), worker))
    }


def running(tx: Transaction, claim: Span | None, job: ClaimedJob) -> Row | None:
    """The job, if it runs under this very claim [C5]."""
    pos = job.lane << SEQ_BITS | job.seq
    if claim is None or not claim[0] <= pos <= claim[1]:
        return None
    row = transitions.at(tx, pos)
    return row if row is not None and row.state in OFFERED and row.id == job.id else None


def must_run(tx: Transaction, worker: int, job: ClaimedJob) -> Row:
    """Return the job if it runs under this very claim. Raises ClaimLost [C5]."""
    row = running(tx, spans(tx, worker, [job.claim]).get(job.claim), job)
    if row is None:
        raise ClaimLost(f"job {job.id} is no longer held by claim {job.claim}; nothing was written")
    return row


# -- whether there is work -----------------------------------------------------------------------------------


def has_work(
    connection: apsw.Connection, queues: Sequence[str], now: float, abilities: Set[str] = NONE
) -> bool | None:
    """True if a worker with these abilities may claim from one of these queues, None if not."""
    return True if work_in(connection, queues, now, abilities) == 0 else None


def work_in(
    connection: apsw.Connection, queues: Sequence[str], now: float, abilities: Set[str] = NONE
) -> float:
    """In how many seconds it may claim from one of these queues, if nobody does anything: that is when its
    governor lets another job start [F2]; 0: now, inf: there is nothing to be had."""
    able = encode(list(abilities)).decode()
    if len(queues) > MANY:
        wanted = frozenset(queues)
        found = {
            queue: bounded
            for queue, bounded in fetch(connection, _SQL["all_claimable"], (now, able))
            if queue in wanted
        }
    else:
        found = dict(fetch(connection, _SQL["claimable"], (now, able, encode(list(queues)).decode())))
    bounded = [queue for queue, is_bounded in found.items() if is_bounded]
    if len(bounded) < len(found):
        return 0.0
    soonest = math.inf
    for _, concurrency, running, *governor in bounds(connection, bounded):
        if concurrency is None or running < concurrency:
            bucket = governors_bucket(governor, now)
            ready = bucket is None or bucket.available(now) >= 1
            soonest = min(soonest, 0.0 if bucket is None or ready else bucket.wait(1, now))
    return soonest
