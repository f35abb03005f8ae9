"""Actions of an operator: cancel, delete and retry [O5] [O6], which reach from a parent to its parts and
back [P9], and the settings of queues [K1] [O3] and tasks [P6] [F3]."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import apsw

from windlass.core.clock import left
from windlass.core.flow.admission import pressure
from windlass.core.retry import CALM, cool_delay
from windlass.errors import AlreadyEnqueued, Finalizing
from windlass.store.changes import changed_queue, changed_task
from windlass.store.fields import TaskRecord, fields_of
from windlass.store.records import CancelAnswer, DeleteAnswer, PartOf, QueueRecord, RetryAnswer
from windlass.store.sqlite import deferred, parents, parts, rows, transitions
from windlass.store.sqlite.deferred import settle
from windlass.store.sqlite.durable import steps
from windlass.store.sqlite.flow import waiting_lists
from windlass.store.sqlite.operation.budget_rows import known
from windlass.store.sqlite.operation.lanes import declare_queue
from windlass.store.sqlite.operation.transaction import Transaction
from windlass.store.sqlite.parents import Parent
from windlass.store.sqlite.rows import Row, named, record_of
from windlass.store.sqlite.schema import Statements

_SQL = Statements("management")
_QUEUE: Final = fields_of(QueueRecord)
_TASK: Final = fields_of(TaskRecord)


def cancel(tx: Transaction, jobs: Sequence[int]) -> dict[int, CancelAnswer]:
    """Cancel jobs; a waiting one at once, a running one when its worker hears of it."""
    return {job: _cancel(tx, _found(tx, job)) for job in dict.fromkeys(jobs)}


def _found(tx: Transaction, job: int) -> Row | None:
    """The job, where it stands after all that was done to others in the same call."""
    settle(tx)
    return transitions.find(tx, job)


def _cancel(tx: Transaction, row: Row | None, *, counted: bool = True) -> CancelAnswer:
    if row is None:
        return "not_found"
    if row.state in rows.ENDED:
        return "finished"
    if row.state == rows.WAITING:
        _cancel_parent(tx, row)
        return "requested"
    lane = tx.lanes.numbered(row.lane)
    if row.state in rows.OFFERED and lane.runs(row):
        tx.run(_SQL["request_cancel"], (lane.id, row.seq, row.pos))
        tx.calls = True
        return "requested"
    transitions.end(tx, row, rows.CANCELLED, counted=counted)
    return "cancelled"


def delete(tx: Transaction, jobs: Sequence[int]) -> dict[int, DeleteAnswer]:
    """Remove jobs; a running one is only asked to stop."""
    return {job: _delete(tx, _found(tx, job)) for job in dict.fromkeys(jobs)}


def _delete(tx: Transaction, row: Row | None) -> DeleteAnswer:
    answer = _cancel(tx, row, counted=False)
    if row is None or answer == "requested":
        return "not_found" if row is None else "requested"
    parent = parents.load(tx, row.id)
    if parent is None:
        transitions.remove(tx, row)
    else:
        parents.remove(tx, parent)  # it has ended, and its parts go with it
    steps.forget(tx, row.id)
    return "deleted"


def retry(tx: Transaction, jobs: Sequence[int]) -> dict[int, RetryAnswer]:
    """Offer dead and deferred jobs again, now. A dead parent runs its failed parts again [P9]."""
    return {job: _retry(tx, _found(tx, job)) for job in dict.fromkeys(jobs)}


def _retry(tx: Transaction, row: Row | None) -> RetryAnswer:
    if row is None:
        return "not_found"
    was_dead = row.state == rows.DEAD
    if was_dead:
        try:
            if parents.load(tx, row.id) is not None:
                return "retried" if redrive(tx, row.id) else "unchanged"
            if row.options.part is not None:
                _bring_back(tx, row.id, row.options.part)
        except (AlreadyEnqueued, Finalizing):
            return "unchanged"
        key = row.options.unique_key
        if key is not None and not tx.run(_SQL["take_key"], (key, row.id)):
            return "unchanged"
        row.attempt, row.deaths = 1, 0
        transitions.remember_unknown(row, None)
        transitions.forget_deadline(row)
    elif row.state == rows.RETRYING:
        row.attempt = 1
    elif row.state not in rows.DEFERRED:
        return "unchanged"
    elif row.options.after or row.options.group_end:
        deferred.forget_edges(tx, row.id)
    transitions.offer(tx, row)
    if was_dead:
        deferred.rejoin_groups(tx, row.id)
    return "retried"


# -- parents and their parts ---------------------------------------------------------------------------------


def _cancel_parent(tx: Transaction, row: Row) -> None:
    """Offer no more parts of a parent and cancel what is out; it ends with the last of these."""
    parent = parents.load(tx, row.id)
    assert parent is not None, "a waiting job is no parent"
    parent.cancelling = 1
    parents.save(tx, parent)
    parents.show_cancel(tx, parent)
    out = parts.out(tx, parent.id)
    if parent.final is not None and parent.final_state is None:
        out.append(parent.final)
    for job in out:
        _cancel(tx, transitions.find(tx, job))
    settle(tx)
    now = parents.load(tx, row.id)
    if now is not None and not now.ended:  # where nothing was out, nothing has ended
        parents.advance(tx, now)
        settle(tx)


def set_parallel(tx: Transaction, id: int, parallel: int | None) -> bool:
    """Change how many parts of a parent may be out at a time; whether there is such a parent."""
    if parallel is not None and parallel < 1:
        raise ValueError(f"parallel of parent {id} cannot be {parallel}: write 1 or more")
    parent = parents.load(tx, id)
    if parent is None:
        return False
    parent.parallel = parallel
    parents.advance(tx, parent)
    return True


def redrive(tx: Transaction, id: int) -> int:
    """Run the failed parts of a parent again, and offer those that a cancel kept from their turn. Answers
    with how many that are."""
    parent = parents.load(tx, id)
    if parent is None:
        return 0
    count = parent.dead + parent.cancelled + (parent.pending if parent.cancelling else 0)
    count += parent.final_state in (rows.DEAD, rows.CANCELLED)
    if not count:
        return 0
    _reopen(tx, parent)
    for state, job in parts.redrive(tx, id):
        if state == rows.DEAD:
            _remove_dead(tx, job)
    parent.dead = parent.cancelled = 0
    parents.advance(tx, parent)
    return count


def _bring_back(tx: Transaction, job: int, part: PartOf) -> None:
    """A dead part is about to be offered once more, from its last checkpoint; its parent waits for it. Raises
    AlreadyEnqueued where another holds the parent's unique key by now."""
    parent = parents.load(tx, part.parent)
    if parent is None:
        return  # it was deleted, and this part outlived it
    cancelling = parent.cancelling
    if part.index < 0 and parent.final == job:
        _reopen(tx, parent, but=job)
        parent.final_state = parent.result = None
    elif part.index >= 0 and parts.ended_with(tx, job, part):
        _reopen(tx, parent)  # which may raise, before anything is changed
        parent.note(parts.bring_back(tx, job, part))
    if cancelling:  # one part comes back; the others stay where the cancel left them
        parent.cancelling = cancelling
        parents.show_cancel(tx, parent)
    parents.save(tx, parent)


def _reopen(tx: Transaction, parent: Parent, but: int | None = None) -> None:
    """The parent waits again, with its key, and nobody wishes it cancelled any longer. A finalizer that did
    not succeed will run anew; while one waits or runs, nothing comes back, for it never runs beside parts."""
    if parent.final is not None and parent.final_state is None:
        raise Finalizing.of(parent.id, parent.final)
    parents.reopen(tx, parent)
    deferred.rejoin_groups(tx, parent.id)
    if parent.final != but and parent.final_state in (rows.DEAD, rows.CANCELLED):
        assert parent.final is not None
        _remove_dead(tx, parent.final)
        parent.final = parent.final_state = parent.result = None


def _remove_dead(tx: Transaction, job: int) -> None:
    """A dead job that another goes on for leaves the dead letters."""
    row = transitions.find(tx, job)
    if row is not None and row.state == rows.DEAD:
        transitions.remove(tx, row)


# -- queues --------------------------------------------------------------------------------------------------


def queues(connection: apsw.Connection, now: float) -> list[QueueRecord]:
    """Every declared queue, by name."""
    return [_queue_record(row, now) for row in named(connection, _SQL["queues"])]


def set_queue(tx: Transaction, name: str, changes: Mapping[str, Any]) -> QueueRecord:
    """Declare a queue, or change its settings."""
    old = _declared(tx, name)
    new = changed_queue(old, changes, tx.settings.retention)
    bounded = new.max_depth is not None
    tx.run(_SQL["change_queue"], (*(getattr(new, setting) for setting in _QUEUE), bounded, name))
    tx.calls |= new != old  # it may just have been resumed
    return _declared(tx, name)


def throttle(tx: Transaction, queue: str, hint: float | None = None) -> float:
    """Cool a queue, unless it cools already; the answer is how long."""
    known = _declared(tx, queue)
    if known.cooling > 0:
        return known.cooling
    delay = cool_delay(
        known.throttles, base=known.cool_base, cap=known.cool_cap, backoff=known.backoff, hint=hint
    )
    tx.run(_SQL["cool_queue"], (tx.now + delay, queue))
    return delay


def warm(tx: Transaction, queue: str, *, force: bool = False) -> bool:
    """The queue goes well again, or an operator says so."""
    warmed = tx.run(_SQL["warm_queue"], (queue, force, tx.now - CALM)) > 0
    tx.calls |= warmed
    return warmed


def _declared(tx: Transaction, name: str) -> QueueRecord:
    """The queue as it stands; asking declares it."""
    declare_queue(tx.connection, name)
    (row,) = named(tx.connection, _SQL["queue"], (name,))
    return _queue_record(row, tx.now)


def _queue_record(row: dict[str, Any], now: float) -> QueueRecord:
    decided = row["decided"]
    governor = known(decided, row["rate_min"], row["rate_max"]) if row["governor"] else None
    return record_of(
        QueueRecord,
        row,
        cooling=left(row["cool_until"], row["cool_cap"], now),
        pressure=pressure(int(row["depth"]), row["max_depth"], row["pressure"]),
        rate=governor.rate if governor is not None else None,
        why=governor.why if governor is not None and decided is not None else None,
    )


# -- tasks ---------------------------------------------------------------------------------------------------


def tasks(connection: apsw.Connection) -> list[TaskRecord]:
    """Every task that has settings here, by name."""
    return [record_of(TaskRecord, row) for row in named(connection, _SQL["tasks"])]


def set_task(tx: Transaction, name: str, changes: Mapping[str, Any]) -> TaskRecord:
    """Change settings of a task; one without any is not kept."""
    found = named(tx.connection, _SQL["task"], (name,))
    old = record_of(TaskRecord, found[0]) if found else TaskRecord(name=name)
    new = changed_task(old, changes)
    if new == TaskRecord(name=name):
        tx.run(_SQL["remove_task"], (name,))
    else:
        tx.run(_SQL["keep_task"], (new.name, *(getattr(new, setting) for setting in _TASK)))
    if new.concurrency is not None:
        _count_running(tx, name)
    tx.gates.free(f"task:{name}")
    if new.key_concurrency != old.key_concurrency:
        waiting_lists.free_keys(tx)
    return new


def _count_running(tx: Transaction, name: str) -> None:
    """Jobs of a task that run take a slot of the limit that it may just have got [F3]."""
    gate = f"task:{name}"
    for pos, job in tx.all(_SQL["running_of_task"], (name, gate)):
        tx.gates.let_through(gate)
        tx.gates.give(job, [gate])
        tx.gates.bind(pos)
