"""Steering: cancel, delete and retry by an operator [O5] [O6]."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.errors import AlreadyEnqueued, Finalizing
from windlass.store.records import CancelAnswer, DeleteAnswer, RetryAnswer
from windlass.store.sqlite import after, cascade, moves, parents
from windlass.store.sqlite.rows import CANCELLED, DEAD, DEFERRED, ENDED, OFFERED, RETRYING, WAITING, Row
from windlass.store.sqlite.settle import settle
from windlass.store.sqlite.statements import Statements
from windlass.store.sqlite.transaction import Transaction

_SQL = Statements("steering")


def cancel(tx: Transaction, jobs: Sequence[int]) -> dict[int, CancelAnswer]:
    """Cancel jobs; a waiting one at once, a running one when its worker hears of it."""
    return {job: _cancel(tx, _found(tx, job)) for job in dict.fromkeys(jobs)}


def _found(tx: Transaction, job: int) -> Row | None:
    """The job, where it stands after all that was done to others in the same call."""
    settle(tx)
    return moves.find(tx, job)


def _cancel(tx: Transaction, row: Row | None) -> CancelAnswer:
    if row is None:
        return "not_found"
    if row.state in ENDED:
        return "finished"
    if row.state == WAITING:
        cascade.cancel(tx, row, lambda tx, job: _cancel(tx, moves.find(tx, job)))
        return "requested"
    lane = tx.lanes.numbered(row.lane)
    if row.state in OFFERED and lane.runs(row):
        tx.run(_SQL["request_cancel"], (lane.id, row.seq, row.pos))
        return "requested"
    moves.end(tx, row, CANCELLED)
    return "cancelled"


def delete(tx: Transaction, jobs: Sequence[int]) -> dict[int, DeleteAnswer]:
    """Remove jobs; a running one is only asked to stop."""
    return {job: _delete(tx, _found(tx, job)) for job in dict.fromkeys(jobs)}


def _delete(tx: Transaction, row: Row | None) -> DeleteAnswer:
    answer = _cancel(tx, row)
    if row is None or answer == "requested":
        return "not_found" if row is None else "requested"
    if not cascade.delete(tx, row.id):
        moves.remove(tx, row)
    return "deleted"


def retry(tx: Transaction, jobs: Sequence[int]) -> dict[int, RetryAnswer]:
    """Offer dead and deferred jobs again, now. A dead parent runs its failed parts again [P9]."""
    return {job: _retry(tx, _found(tx, job)) for job in dict.fromkeys(jobs)}


def _retry(tx: Transaction, row: Row | None) -> RetryAnswer:
    if row is None:
        return "not_found"
    if row.state == DEAD:
        try:
            if parents.load(tx, row.id) is not None:
                return "retried" if cascade.redrive(tx, row.id) else "unchanged"
            if row.options.part is not None:
                cascade.bring_back(tx, row.id, row.options.part)
        except (AlreadyEnqueued, Finalizing):
            return "unchanged"
        key = row.options.unique_key
        if key is not None and not tx.run(_SQL["take_key"], (key, row.id)):
            return "unchanged"
        row.attempt, row.deaths = 1, 0
        moves.remember_unknown(row, None)
    elif row.state == RETRYING:
        row.attempt = 1
    elif row.state not in DEFERRED:
        return "unchanged"
    elif row.options.after:
        after.forget(tx, row.id)
    moves.offer(tx, row)
    return "retried"
