"""Jobs that come after others [P12]. Each one that a job still waits for is an edge. The end of an awaited
job is noted; `promote` takes its edges away in bounded steps, and a job without any left is due.

An awaited job is never plain (state 2), so its end is never one of those that `finish` writes in bulk: jobs
that nobody waits for cost nothing here.
"""

from __future__ import annotations

from collections.abc import Sequence

import apsw

from windlass.errors import JobNotFound
from windlass.store.records import NewJob, Receipt
from windlass.store.sqlite import moves
from windlass.store.sqlite.rows import (
    CANCELLED,
    DEAD,
    ENDED,
    SCHEDULED,
    STATES,
    SUCCEEDED,
    Ending,
    Row,
    fetch,
)
from windlass.store.sqlite.statements import Statements
from windlass.store.sqlite.transaction import Transaction

_SQL = Statements("after")


def refuse_strangers(tx: Transaction, new: NewJob) -> None:
    """Raise where a job is to come after one that is not there."""
    for other in new.options.after:
        if moves.find(tx, other) is None:
            raise JobNotFound(
                f"{new.task} cannot come after job {other}: it never existed, was deleted, or its retention "
                "has passed"
            )


def add(tx: Transaction, new: NewJob) -> Receipt:
    """Create a job that comes after others. Where these have ended already, it does not wait."""
    receipt = tx.births.add(new)
    run_at = tx.now + new.delay if new.delay is not None else new.run_at
    awaited: list[Row] = []
    failed: tuple[int, int | None] | None = None
    for other in dict.fromkeys(new.options.after):
        row = moves.find(tx, other)
        if row is not None and row.state not in ENDED:
            awaited.append(row)
        elif row is None or row.state != SUCCEEDED:
            failed = failed or (other, row.state if row is not None else None)
    if failed is not None and new.options.otherwise != "run":
        _give_up(tx, receipt.id, *failed)
    elif awaited:
        tx.many(_SQL["add"], ((row.id, receipt.id, run_at) for row in awaited))
        tx.many(_SQL["bind"], ((row.pos,) for row in awaited))
    else:
        _arrive(tx, receipt.id, run_at)
    return receipt


def note(tx: Transaction, endings: Sequence[Ending]) -> None:
    """Note the ends of jobs that others wait for, and forget what these jobs waited for themselves."""
    for ending in endings:
        if ending.rerun is not None:
            add(tx, ending.rerun)
    if tx.one(_SQL["any"]) is None:
        return
    for ending in endings:
        if ending.options.after:
            forget(tx, ending.id)
        tx.run(_SQL["ended"], (ending.id, ending.state))


def follow(tx: Transaction, limit: int) -> int:
    """One bounded step: bring jobs up to date with those they come after that have ended. Answers with what
    is left of the limit."""
    while limit > 0 and (found := tx.one(_SQL["next"])) is not None:
        other, state = found
        waiting = tx.all(_SQL["after"], (other, limit))
        for job, run_at in waiting:
            tx.run(_SQL["arrived"], (other, job))
            _step(tx, job, run_at, other, state)
        if len(waiting) < limit:
            tx.run(_SQL["seen_to"], (other,))
        limit -= max(len(waiting), 1)
    return limit


def _step(tx: Transaction, job: int, run_at: float | None, other: int, state: int) -> None:
    """One of those that a job waits for has ended."""
    row = moves.find(tx, job)
    assert row is not None, "an edge has lost the job that waits"
    if state != SUCCEEDED and row.options.otherwise != "run":
        forget(tx, job)
        _give_up(tx, job, other, state)
    elif tx.one(_SQL["waits"], (job,)) is None:
        _arrive(tx, job, run_at)


def _arrive(tx: Transaction, job: int, run_at: float | None) -> None:
    """Nothing is left to wait for: the job is due, now or at its own time."""
    row = moves.find(tx, job)
    assert row is not None
    moves.defer(tx, row, SCHEDULED, tx.now if run_at is None else max(run_at, tx.now))


def _give_up(tx: Transaction, job: int, other: int, state: int | None) -> None:
    """A job will never run as it was meant to."""
    row = moves.find(tx, job)
    assert row is not None
    told = "gone" if state is None else STATES[state]
    end = CANCELLED if row.options.otherwise == "cancel" else DEAD
    moves.end(tx, row, end, reason=f"job {other}, which it comes after, is {told}")


def forget(tx: Transaction, job: int) -> None:
    """The job waits for nobody any longer."""
    tx.run(_SQL["forget"], (job,))


def reason(connection: apsw.Connection, job: int) -> str | None:
    """What a scheduled job without a run_at waits for."""
    ((first, count),) = fetch(connection, _SQL["awaited_by"], (job,))
    if not count:
        return None
    others = "" if count == 1 else f" and {count - 1} other{'s' if count > 2 else ''}"
    return f"waits for job {first}{others}"
