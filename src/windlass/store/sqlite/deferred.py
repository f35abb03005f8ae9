"""Deferred jobs: those that come after others [P12], those that are due, and what else follows from the end
of a job.

Each job that one still waits for is an edge. The end of an awaited job is noted, and takes its edges away in
the same transaction [W4]: a job without any left goes on at once. Where there are very many, `promote` does
the rest. An awaited job is never plain (state 2), so its end is never one of those that `outcomes` writes in
bulk: jobs that nobody waits for cost nothing here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

from windlass.errors import JobNotFound
from windlass.store.records import NewJob, Promoted, Receipt
from windlass.store.sqlite import parents, rows, transitions
from windlass.store.sqlite.durable import expiry
from windlass.store.sqlite.flow import fair_keys, waiting_lists
from windlass.store.sqlite.operation.transaction import Transaction
from windlass.store.sqlite.rows import Ending, Row, encode
from windlass.store.sqlite.schema import Statements

EDGES_AT_ONCE: Final = 500
"""Edges that the transaction which ends a job takes away at most."""
_RUNS: Final = frozenset({"run", "run_only"})
"""The policies of jobs that run where one they come after has failed."""
_Free: TypeAlias = dict[int, tuple[float | None, bool]]
"""Jobs that wait for nobody any more: the own time of each, and whether that is because one has failed."""

_SQL = Statements("deferred")


def require_awaited(tx: Transaction, new: NewJob) -> None:
    """Raise where a job is to come after one that is not there."""
    for other in new.options.after:
        if transitions.find(tx, other) is None:
            raise JobNotFound(
                f"{new.task} cannot come after job {other}: it never existed, was deleted, or its retention "
                "has passed"
            )


def add_after(tx: Transaction, new: NewJob) -> Receipt:
    """Create a job that comes after others. Where these have ended already, it does not wait. One that ends a
    group waits for itself while that is open."""
    receipt = tx.inserts.add(new)
    run_at = tx.now + new.delay if new.delay is not None else new.run_at
    if new.options.group_end:
        tx.run(_SQL["add"], (receipt.id, receipt.id, None))
        return receipt
    waits, failed = await_jobs(tx, receipt.id, new.options.after, run_at)
    policy = new.options.otherwise
    if failed is not None and policy != "run":
        forget_edges(tx, receipt.id)
        waits = False
    if failed is not None and policy not in _RUNS:
        _give_up(tx, transitions.must_find(tx, receipt.id), *failed)
    elif not waits:
        _go_on(tx, {receipt.id: (run_at, failed is not None)})
    return receipt


def await_jobs(
    tx: Transaction, job: int, others: Iterable[int], run_at: float | None = None
) -> tuple[bool, tuple[int, int | None] | None]:
    """Let a job wait for those of others that have not ended. Answers whether there are any, and with the
    first that has not succeeded, and how it ended; None: it is gone."""
    awaited: list[Row] = []
    failed: tuple[int, int | None] | None = None
    for other in dict.fromkeys(others):
        row = transitions.find(tx, other)
        if row is not None and row.state not in rows.ENDED:
            awaited.append(row)
        elif row is None or row.state != rows.SUCCEEDED:
            failed = failed or (other, row.state if row is not None else None)
            if row is not None:
                tx.run(_SQL["failed"], (other, encode([job]).decode()))
    tx.many(_SQL["add"], ((row.id, job, run_at) for row in awaited))
    tx.many(_SQL["bind"], ((row.pos,) for row in awaited))
    return bool(awaited), failed


def rejoin_groups(tx: Transaction, job: int) -> None:
    """Let groups that have seen this job fail, and wait still, wait for it again: it was brought back."""
    for (group,) in tx.all(_SQL["rejoin"], (job,)):
        await_jobs(tx, group, [job])


def close_group(tx: Transaction, group: int) -> bool:
    """Let a group take no more jobs; where none of them is left, its end goes on. False: it was not open."""
    if not tx.run(_SQL["close"], (group, group)):
        return False
    if tx.one(_SQL["waits"], (encode([group]).decode(),)) is None:
        _make_due(tx, transitions.must_find(tx, group), None)
    return True


def _note_ends(tx: Transaction, endings: Sequence[Ending]) -> bool:
    """Note the ends of jobs that others wait for, and forget what these jobs waited for themselves. Answers
    whether anybody waits for others at all."""
    for ending in endings:
        if ending.rerun is not None:
            add_after(tx, ending.rerun)
    if not endings or tx.one(_SQL["any"]) is None:
        return False
    for ending in endings:
        if ending.options.after or ending.options.group_end:
            forget_edges(tx, ending.id)
        tx.run(_SQL["ended"], (ending.id, ending.state))
    return True


def _serve_endings(tx: Transaction, endings: Sequence[Ending], limit: int) -> int:
    """Serve those who come after jobs that have just ended. Answers with what is left of the limit."""
    free: _Free = {}
    for ending in endings:
        if limit > 0:
            limit -= _serve_edges(tx, ending.id, ending.state, limit, free)
    _go_on(tx, free)
    return limit


def _follow_edges(tx: Transaction, limit: int) -> int:
    """One bounded step behind ends that had more edges than could be served at once. Answers with what is
    left of the limit."""
    free: _Free = {}
    while limit > 0 and (found := tx.one(_SQL["next_ended"])) is not None:
        other, state = found
        limit -= max(_serve_edges(tx, other, state, limit, free), 1)
    _go_on(tx, free)
    return limit


def _serve_edges(tx: Transaction, other: int, state: int, limit: int, free: _Free) -> int:
    """Take away edges of a job that has ended, up to a limit; how many there were. Jobs that wait for nothing
    more are added to `free`."""
    waiting = tx.all(_SQL["waiting_for"], (other, limit))
    jobs = encode([job for job, _ in waiting]).decode()
    tx.run(_SQL["arrived"], (other, jobs))
    given_up = set[int]()
    if state != rows.SUCCEEDED:
        tx.run(_SQL["failed"], (other, jobs))
        given_up = _give_up_waiting(tx, waiting, other, state)
    still = {job for (job,) in tx.all(_SQL["waits"], (jobs,))}
    failed = state != rows.SUCCEEDED
    free.update((job, (at, failed)) for job, at in waiting if job not in still and job not in given_up)
    if len(waiting) < limit:
        tx.run(_SQL["seen_to"], (other,))
    return len(waiting)


def _give_up_waiting(
    tx: Transaction, waiting: Sequence[tuple[int, float | None]], other: int, state: int
) -> set[int]:
    """End those that run only if the job they come after has succeeded; which they are. One that runs only if
    it has not waits for no other."""
    found = [transitions.must_find(tx, job) for job, _ in waiting]
    for row in found:
        if row.options.otherwise != "run":
            forget_edges(tx, row.id)
    hopeless = [row for row in found if row.options.otherwise not in _RUNS]
    for row in hopeless:
        _give_up(tx, row, other, state)
    return {row.id for row in hopeless}


def _go_on(tx: Transaction, free: _Free) -> None:
    """Jobs that wait for nobody any more go on, the oldest first; those end that run only if one has
    failed."""
    found = transitions.find_many(tx, sorted(free))
    needed = []
    for row in found:
        if row.options.otherwise == "run_only" and not free[row.id][1]:
            transitions.end(tx, row, rows.CANCELLED, reason="all jobs that it comes after have succeeded")
        else:
            needed.append(row)
    for row in needed:
        _make_due(tx, row, free[row.id][0])


def _make_due(tx: Transaction, row: Row, run_at: float | None) -> None:
    """Nothing is left to wait for: the job goes on now, or at its own time."""
    if run_at is None or run_at <= tx.now:
        transitions.come_due(tx, row)
    else:
        transitions.defer(tx, row, rows.SCHEDULED, run_at)


def _give_up(tx: Transaction, row: Row, other: int, state: int | None) -> None:
    """A job will never run as it was meant to."""
    message = "gone" if state is None else rows.STATES[state]
    end = rows.CANCELLED if row.options.otherwise == "cancel" else rows.DEAD
    transitions.end(tx, row, end, reason=f"job {other}, which it comes after, is {message}")


def forget_edges(tx: Transaction, job: int) -> None:
    """The job waits for nobody any longer."""
    tx.run(_SQL["forget"], (job,))


# -- what follows from the end of jobs -----------------------------------------------------------------------


def settle(tx: Transaction) -> None:
    """See to all endings, and to those that follow from them; who comes after them is served at last."""
    while tx.endings or tx.gates.freed:
        endings, tx.endings = tx.endings, []
        parents.fold(tx, endings)
        if _note_ends(tx, endings):
            tx.awaited_ends += endings
        waiting_lists.serve_freed_gates(tx)


def complete(tx: Transaction) -> None:
    """The last step of every operation: settle, serve those who come after others [W4], let those in for whom
    their lanes have room [C3], and write what was changed in memory."""
    settle(tx)
    left = EDGES_AT_ONCE
    while tx.awaited_ends:
        ended, tx.awaited_ends = tx.awaited_ends, []
        left = _serve_endings(tx, ended, left)
        settle(tx)
    fair_keys.admit_new(tx)
    tx.save()


# -- promotion -----------------------------------------------------------------------------------------------


def promote(tx: Transaction, limit: int = 1000) -> Promoted:
    """One bounded step: first what is due, earliest first, then the admission of held jobs."""
    tx.limits.watch(tx.lanes)
    late = expiry.end_expired(tx, limit)
    if late:
        settle(tx)
    left = _follow_edges(tx, limit)
    while tx.endings:  # of those that will never run: others may come after them in turn
        settle(tx)
        left = _follow_edges(tx, left)
    due = [Row(*found) for found in tx.all(_SQL["due"], (tx.now, limit))]
    for row in due:
        transitions.come_due(tx, row)
    admitted, next_in = waiting_lists.walk(tx, limit)
    admitted += fair_keys.admit_everywhere(tx, limit - admitted)
    return Promoted(len(due), admitted, next_in if left > 0 and late < limit else 0.0)
