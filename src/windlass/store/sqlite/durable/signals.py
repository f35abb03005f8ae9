"""Signals and waits on SQLite [W2]. One writes at a time, so a signal wakes its job in the transaction that
sends it, and whoever suspends a job sees every signal that was sent."""

from __future__ import annotations

from collections.abc import Callable

from windlass.store import signal_rules
from windlass.store.records import SIGNAL, TIMEOUT, Awaited, ClaimedJob, Once, Step, Wait
from windlass.store.sqlite import rows, transitions
from windlass.store.sqlite.claims import must_live, must_run
from windlass.store.sqlite.durable import steps
from windlass.store.sqlite.operation.transaction import Transaction
from windlass.store.sqlite.schema import Statements

_SQL = Statements("signals")


def send(
    tx: Transaction,
    job: int,
    name: str,
    value: str,
    once: Once | None = None,
    fits: Callable[[str], None] | None = None,
) -> str:
    """Send a signal to a job. Where it waits for it, that ends its wait and wakes it. An idempotency key that
    is known sends nothing, also where the job has ended since. `fits` raises for a shape that the value has
    not."""
    signal_rules.check(name, value)
    if once is not None and once.lasts is None and tx.one(_SQL["is_used"], (once.token, tx.now)) is not None:
        return "repeated"
    row = transitions.find(tx, job)
    state = None if row is None else rows.STATES.get(row.state)
    signal_rules.check_state(job, None if row is None else "running" if state is None else state.value)
    assert row is not None
    ((kept,),) = tx.all(_SQL["kept"], (job,))
    signal_rules.check_kept(job, kept)
    if once is not None:
        lasts = tx.settings.idempotency_retention if once.lasts is None else once.lasts
        if tx.run(_SQL["use"], (once.token, tx.now + lasts, tx.now)) != 1:
            raise signal_rules.used()
    waits = tx.one(_SQL["waits_for"], (job, name)) if row.state == rows.SCHEDULED else None
    if waits is not None and waits[1] is not None and fits is not None:
        fits(waits[1])
    if waits is None or tx.one(_SQL["kept_of"], (job, name)) is not None:
        tx.run(_SQL["send"], (job, name, tx.now, value))
        return "kept"
    _end(tx, job, Wait(name=waits[0], signal=name, attempt=row.attempt), SIGNAL, value)
    tx.run(_SQL["suspend"], (0, job))
    transitions.come_due(tx, row)
    return "delivered"


def wait_for(tx: Transaction, worker: int, job: ClaimedJob, wait: Wait) -> Awaited:
    """Return the end of a wait: the value of the oldest signal, a timeout, or the seconds that are left."""
    must_live(tx, worker)
    row = must_run(tx, worker, job)
    done = steps.find(tx, row.id, wait.name)
    if done is not None:
        return Awaited(done)
    found = tx.one(_SQL["oldest"], (row.id, wait.signal))
    if found is not None:
        return Awaited(_end(tx, row.id, wait, SIGNAL, found[0]))
    asked = tx.one(_SQL["ask"], (job.claim, row.id, wait.name))
    if asked is not None:
        until = asked[0]
    else:
        until = None if wait.timeout is None else tx.now + wait.timeout
        values = (row.id, wait.name, wait.signal, job.claim, tx.now, until, wait.shape)
        tx.run(_SQL["begin"], values)
    if until is not None and until <= tx.now:
        return Awaited(_end(tx, row.id, wait, TIMEOUT, "null"))
    return Awaited(left=None if until is None else until - tx.now)


def _end(tx: Transaction, job: int, wait: Wait, code: str, value: str) -> Step:
    tx.run(_SQL["end"], (job, wait.name))
    return steps.add(tx, job, Step(name=wait.name, result=value, code=code, attempt=wait.attempt))


def suspend(tx: Transaction, job: int, claim: int, delay: float) -> float:
    """A job is put off: whether it waits for signals, by what was asked under this claim. Answers for how
    long: never beyond its first timeout, and not at all where a signal is there."""
    if tx.run(_SQL["suspend"], (claim, job)) == 0:
        return delay
    found = tx.one(_SQL["suspension"], (job,))
    if found is None:
        return delay
    until, there = found
    delay = 0.0 if there else delay if until is None else min(delay, until - tx.now)
    if delay <= 0:
        tx.run(_SQL["suspend"], (0, job))
    return max(delay, 0.0)


def stay(tx: Transaction, job: int) -> None:
    """A job is put off for another reason than a signal."""
    tx.run(_SQL["suspend"], (0, job))


def expire(tx: Transaction, limit: int) -> int:
    """Remove the waits and signals of jobs that are gone: look at so many jobs, and go on there the next
    time."""
    found = tx.one(_SQL["looked"])
    job, gone = int(found[0]) if found is not None else 0, 0
    for _ in range(limit):
        following = tx.one(_SQL["next"], (job,))
        if following is None:
            job = 0
            break
        job, there = following
        if not there:
            steps.forget(tx, job)
            gone += 1
    tx.run(_SQL["look"], (job,))
    return gone


def forget_used(tx: Transaction, limit: int) -> int:
    """Forget what was sent once, when it would be of no use any more."""
    return tx.run(_SQL["forget_used"], (tx.now, limit))
