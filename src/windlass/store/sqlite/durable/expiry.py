"""Jobs that have waited too long [E8]. A job's deadline is `expires_at` in its options, until somebody has
begun it: a claim judges it there. So that a job ends visibly where nobody claims, too, a table says when to
look at it."""

from __future__ import annotations

from typing import Final

from windlass.core.expiry import expired_reason
from windlass.core.ids import SEQ_BITS
from windlass.store.records import ClaimedJob
from windlass.store.sqlite import rows, transitions
from windlass.store.sqlite.operation.transaction import Transaction
from windlass.store.sqlite.rows import Row
from windlass.store.sqlite.schema import Statements

LOOK_AGAIN: Final = 300.0
"""Seconds after which a job that has been claimed is looked at again: it may come back without having
begun."""

_SQL = Statements("expiry")


def unexpired(tx: Transaction, jobs: list[ClaimedJob]) -> list[ClaimedJob]:
    """Return these jobs, or those left of the next jobs of a lane where others have waited too long:
    these are ended. Then the ones behind the first of them are for the next look."""
    late = [job for job in jobs if _is_past(job.options.expires_at, tx.now)]
    if not late:
        return jobs
    for job in late:
        row = transitions.at(tx, job.lane << SEQ_BITS | job.seq)
        assert row is not None, "a job that was about to be claimed is gone"
        _end(tx, row)
    tx.inserts.write()  # what may begin with their ends stands in the lane, and the next look must see it
    return [job for job in jobs if not _is_past(job.options.expires_at, tx.now)]


def end_expired(tx: Transaction, limit: int) -> int:
    """One bounded step: end jobs that have waited too long, wherever they wait; how many it looked at, most
    of which have mostly begun in time."""
    late = tx.all(_SQL["next_expired"], (tx.now, limit))
    for (job,) in late:
        row = transitions.find(tx, job)
        if row is not None and row.state not in rows.ENDED and _is_past(row.options.expires_at, tx.now):
            if row.state in rows.OFFERED and tx.lanes.numbered(row.lane).runs(row):
                tx.run(_SQL["look_later"], (tx.now + LOOK_AGAIN, job))
                continue
            if row.state != rows.WAITING:
                _end(tx, row)
        tx.run(_SQL["forget_deadline"], (job,))
    return len(late)


def _is_past(deadline: float | None, now: float) -> bool:
    return deadline is not None and deadline <= now


def _end(tx: Transaction, row: Row) -> None:
    expires = row.options.expires
    reason = expired_reason(expires) if expires is not None else None
    transitions.end(tx, row, rows.CANCELLED, reason=reason, expired=True)
