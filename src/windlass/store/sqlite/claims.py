"""Claims: the lease of jobs to one worker [C1], what a worker still holds, and its checkpoints [C5]."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import apsw
import msgspec

from windlass.core.ids import MAX_SEQ, SEQ_BITS
from windlass.core.priority import LaneHead, claim_order
from windlass.errors import ClaimLost, StoreCorrupt, WorkerLost
from windlass.store.records import DEFAULT_OPTIONS, Checkpoint, Claim, ClaimedJob, Options
from windlass.store.sqlite import moves, parts
from windlass.store.sqlite.lanes import Lane
from windlass.store.sqlite.rows import DEAD, OFFERED, Row, decode_options, encode, fetch, readable_options
from windlass.store.sqlite.statements import Statements
from windlass.store.sqlite.transaction import Transaction

_SQL = Statements("claims")
_Found = tuple[Any, ...]
_DEATHS, _OPTIONS = 5, 6
Span = tuple[int, int]


def claim(tx: Transaction, worker: int, queues: Sequence[str] | Mapping[str, int], limit: int) -> list[Claim]:
    """Lease ready jobs, lane by lane in the order of their heads [C2]."""
    left = dict(queues) if isinstance(queues, Mapping) else dict.fromkeys(queues, limit)
    heads = _heads(tx, [name for name, bound in left.items() if bound > 0]) if limit > 0 else []
    if not heads:
        return []
    must_live(tx, worker)
    claims: list[Claim] = []
    for head in claim_order(heads, tx.settings.ageing_step):
        lane = tx.lanes.numbered(head.lane)
        while lane.ready and (room := min(limit, left[lane.queue])) > 0:
            batch = _next_batch(tx, lane, room)
            try:
                claims.append(_lease(tx, lane, worker, batch))
            except msgspec.MsgspecError:
                _bury_unreadable(tx, batch)
                continue
            limit -= len(batch)
            left[lane.queue] -= len(batch)
            if batch[0][_DEATHS]:
                return claims
    return claims


def must_live(tx: Transaction, worker: int) -> None:
    """The fence of every write of a worker. Raises WorkerLost [C5]."""
    if tx.one(_SQL["alive"], (worker,)) is None:
        raise WorkerLost(f"worker {worker} is not alive: it was retired or rescued, or never registered")


def _heads(tx: Transaction, queues: list[str]) -> list[LaneHead]:
    names = encode(queues).decode()
    heads: list[LaneHead] = []
    for lane, queue, priority, since in tx.all(_SQL["heads"], (names, tx.now)):
        if since is None:
            raise StoreCorrupt(
                f"lane {lane} ({queue}) counts ready jobs and holds none [I4]; nothing was claimed"
            )
        heads.append(LaneHead(lane, queue, priority, tx.now - since))
    return heads


def _next_batch(tx: Transaction, lane: Lane, limit: int) -> list[_Found]:
    """The next jobs of a lane; one that has seen a worker die stands alone [C8]."""
    found = tx.all(_SQL["take"], (lane.cursor, lane.end, limit))
    alone = next((n for n, row in enumerate(found) if row[_DEATHS]), len(found))
    return found[: alone or 1]


def _bury_unreadable(tx: Transaction, batch: list[_Found]) -> None:
    """End jobs whose options nobody can read, so that one broken row does not stop its lane [fault 17]."""
    for found in batch:
        try:
            decode_options(found[_OPTIONS] or "{}")
        except msgspec.MsgspecError as error:
            row = moves.at(tx, found[0])
            assert row is not None
            moves.end(tx, row, DEAD, reason=f"unreadable options: {error}")
            tx.endings[-1] = parts.recognise(tx, tx.endings[-1])


def _lease(tx: Transaction, lane: Lane, worker: int, batch: list[_Found]) -> Claim:
    """Write the claim and move the cursor over its jobs. No job row is written: the cursor says who runs."""
    lo, hi = batch[0][0] & MAX_SEQ, batch[-1][0] & MAX_SEQ
    claim = tx.connection.execute(_SQL["next"]).get
    leased = _claim(claim, lane.id, lane.queue, lane.priority, batch, decode_options)
    tx.run(_SQL["lease"], (claim, lane.id, lo, hi, worker, len(batch), tx.now))
    lane.hi = hi
    lane.ready -= len(batch)
    lane.running += len(batch)
    return leased


def _claim(
    claim: int, lane: int, queue: str, priority: int, found: list[_Found], decode: Callable[[str], Options]
) -> Claim:
    """A claim with its jobs, as their worker sees them."""
    jobs = [
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
        )
        for pos, own_id, task, payload, attempt, deaths, options, enqueued_at in found
    ]
    return Claim(claim, lane, queue, priority, jobs)


def held(connection: apsw.Connection, worker: int) -> list[Claim]:
    """The unfinished claims of a worker, each with its unfinished jobs. Reads only."""
    claims: list[Claim] = []
    for claim, lane, first, last, queue, priority in fetch(connection, _SQL["open"], (worker,)):
        found = fetch(connection, _SQL["unfinished"], (first, last))
        claims.append(_claim(claim, lane, queue, priority, found, readable_options))
    return claims


def checkpoint(tx: Transaction, worker: int, job: ClaimedJob, given: Checkpoint) -> None:
    """Make progress durable, if the worker runs the job under this very claim [C5]."""
    must_live(tx, worker)
    row = own(tx, worker, job)
    tx.run(_SQL["checkpoint"], (row.id, given.data, given.done, given.total, tx.now))
    tx.run(_SQL["bind"], (row.pos,))


def checkpoint_again(
    connection: apsw.Connection, worker: int, job: ClaimedJob, given: Checkpoint, now: float
) -> bool:
    """The same in one statement, for a job whose end has more to do anyway [C5]. False: it has not, or it is
    not the worker's; nothing was written."""
    pos = job.lane << SEQ_BITS | job.seq
    connection.execute(
        _SQL["checkpoint_again"],
        (job.id, given.data, given.done, given.total, now, worker, job.claim, pos, job.lane, job.seq),
    )
    return connection.changes() == 1


def span(tx: Transaction, worker: int, claim: int) -> Span | None:
    """The first and last position of a claim, if it is this worker's."""
    found = tx.one(_SQL["span"], (claim, worker))
    return (found[0], found[1]) if found else None


def running(tx: Transaction, claim: Span | None, job: ClaimedJob) -> Row | None:
    """The job, if it runs under this very claim [C5]."""
    pos = job.lane << SEQ_BITS | job.seq
    if claim is None or not claim[0] <= pos <= claim[1]:
        return None
    row = moves.at(tx, pos)
    return row if row is not None and row.state in OFFERED and row.id == job.id else None


def own(tx: Transaction, worker: int, job: ClaimedJob) -> Row:
    """The same, for those who cannot go on without it. Raises ClaimLost [C5]."""
    row = running(tx, span(tx, worker, job.claim), job)
    if row is None:
        raise ClaimLost(f"job {job.id} is not, or no longer, running under claim {job.claim}")
    return row
