"""Steps of jobs on SQLite: each is one row, written by the worker that runs the job [W1] [C5]."""

from __future__ import annotations

from typing import Any, Final

import apsw

from windlass.errors import ClaimLost
from windlass.store.records import ClaimedJob, Step
from windlass.store.sqlite.claims import must_live, must_run
from windlass.store.sqlite.operation.transaction import Transaction
from windlass.store.sqlite.rows import fetch
from windlass.store.sqlite.schema import Statements

_SQL = Statements("steps")
ROWS_PER_STEP: Final = 20
"""How many steps are looked at for each that may be removed."""


def save(tx: Transaction, worker: int, job: ClaimedJob, step: Step) -> Step:
    """Write a step, if the worker runs the job under this very claim; what stands there from now on."""
    return _save(tx, worker, job, step)[0]


def save_once(tx: Transaction, worker: int, job: ClaimedJob, step: Step) -> None:
    """Write a step that must be the first of its name: what else was written belongs to it."""
    _, added = _save(tx, worker, job, step)
    if not added:
        raise ClaimLost(f"job {job.id} has done this step before; its transaction was rolled back")


def _save(tx: Transaction, worker: int, job: ClaimedJob, step: Step) -> tuple[Step, bool]:
    must_live(tx, worker)
    row = must_run(tx, worker, job)
    until = None if step.sleep is None else tx.now + step.sleep
    values = (row.id, step.name, tx.now, until, step.attempt, step.code, step.result)
    added = tx.run(_SQL["save"], values) == 1
    found = tx.one(_SQL["step"], (row.id, step.name))
    assert found is not None
    return _step(found, tx.now), added


def find(tx: Transaction, job: int, name: str) -> Step | None:
    """A step of a job, if it is done."""
    found = tx.one(_SQL["step"], (job, name))
    return None if found is None else _step(found, tx.now)


def add(tx: Transaction, job: int, step: Step) -> Step:
    """Write a step of a job that the caller knows to run; it is the first of its name."""
    tx.run(_SQL["save"], (job, step.name, tx.now, None, step.attempt, step.code, step.result))
    found = find(tx, job, step.name)
    assert found is not None
    return found


def steps(connection: apsw.Connection, job: int, now: float) -> list[Step]:
    """The steps of a job, in the order in which they were written. Reads only."""
    return [_step(row, now) for row in fetch(connection, _SQL["steps"], (job,))]


def forget(tx: Transaction, job: int) -> int:
    """Remove the steps of a job that is gone, and what it waits for; how many steps."""
    tx.run(_SQL["forget_waits"], (job,))
    tx.run(_SQL["forget_signals"], (job,))
    return tx.run(_SQL["forget"], (job,))


def expire(tx: Transaction, limit: int) -> int:
    """Remove the steps of jobs that are gone; how many. Looks at some rows, and goes on there the next time.
    Rows are in the order of their times: with the first that is younger than the retention it begins anew."""
    found = tx.one(_SQL["looked"])
    last = tx.one(_SQL["last"])
    if found is None or last is None or last[0] is None:
        return 0
    old = tx.now - tx.settings.retention
    start = found[0] if found[0] < last[0] else 0
    end = start + ROWS_PER_STEP * limit
    young = tx.one(_SQL["first_young"], (start, end, old, tx.now))
    tx.run(_SQL["look"], (end if young is None else 0,))
    gone = tx.all(_SQL["gone"], (start, end if young is None else young[0] - 1, old))
    return sum(forget(tx, job) for (job,) in gone)


def _step(row: tuple[Any, ...], now: float) -> Step:
    name, result, code, attempt, until, at = row
    left = None if until is None else until - now
    return Step(name=name, result=result, code=code, attempt=attempt, left=left, at=at)
