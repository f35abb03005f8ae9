"""Split: a claimed attempt ends by becoming a parent [P4]. The parts, the parent's new state, the release of
its first parts and the flush that says so are one step."""

from __future__ import annotations

from windlass.core.ids import SEQ_BITS
from windlass.store.records import ClaimedJob, Plan
from windlass.store.sqlite import moves, parents
from windlass.store.sqlite.claims import must_live, own
from windlass.store.sqlite.finish import Ended, was_ended
from windlass.store.sqlite.rows import CANCELLED
from windlass.store.sqlite.transaction import Transaction


def split(tx: Transaction, worker: int, flush: int, job: ClaimedJob, plan: Plan) -> None:
    """Make a parent of a running job, unless this was done before, or somebody wished the job cancelled.
    Raises WorkerLost or ClaimLost [C5]."""
    must_live(tx, worker)
    if plan.parallel < 1:
        raise ValueError(f"job {job.id} cannot run {plan.parallel} of its parts at a time: plan 1 or more")
    if job.options.part is not None:
        raise ValueError(f"job {job.id} is a part of job {job.options.part.parent}: a part cannot be split")
    if _sent_before(tx, worker, job):
        return
    row = own(tx, worker, job)
    if row.cancel is not None:
        moves.end(tx, row, CANCELLED)
    else:
        parents.begin(tx, row, plan, worker, job.claim)
    ended = Ended(tx, worker, flush)
    ended.add(job.claim, [job.seq])
    ended.save()


def _sent_before(tx: Transaction, worker: int, job: ClaimedJob) -> bool:
    """Whether this claim's attempt became a parent already, or was cancelled instead."""
    parent = parents.load(tx, job.id)
    if parent is not None:
        return (parent.worker, parent.claim) == (worker, job.claim)
    row = moves.at(tx, job.lane << SEQ_BITS | job.seq)
    cancelled = row is not None and row.id == job.id and row.state == CANCELLED
    return cancelled and was_ended(tx, worker, job.claim, job.seq)
