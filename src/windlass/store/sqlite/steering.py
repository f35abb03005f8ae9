"""Steering: cancel, delete and retry by an operator [O5] [O6], and the settings of queues."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import apsw
import msgspec

from windlass.store.records import CancelAnswer, DeleteAnswer, QueueRecord, RetryAnswer
from windlass.store.sqlite import moves
from windlass.store.sqlite.lanes import declare_queue
from windlass.store.sqlite.rows import CANCELLED, DEAD, DEFERRED, ENDED, OFFERED, RETRYING, Row, fetch
from windlass.store.sqlite.statements import Statements
from windlass.store.sqlite.transaction import Transaction

_SQL = Statements("steering")


def cancel(tx: Transaction, jobs: Sequence[int]) -> dict[int, CancelAnswer]:
    """Cancel jobs; a waiting one at once, a running one when its worker hears of it."""
    return {job: _cancel(tx, moves.find(tx, job)) for job in dict.fromkeys(jobs)}


def _cancel(tx: Transaction, row: Row | None) -> CancelAnswer:
    if row is None:
        return "not_found"
    if row.state in ENDED:
        return "finished"
    lane = tx.lanes.numbered(row.lane)
    if row.state in OFFERED and lane.runs(row):
        tx.run(_SQL["request_cancel"], (lane.id, row.seq, row.pos))
        return "requested"
    moves.end(tx, row, CANCELLED)
    return "cancelled"


def delete(tx: Transaction, jobs: Sequence[int]) -> dict[int, DeleteAnswer]:
    """Remove jobs; a running one is only asked to stop."""
    return {job: _delete(tx, moves.find(tx, job)) for job in dict.fromkeys(jobs)}


def _delete(tx: Transaction, row: Row | None) -> DeleteAnswer:
    answer = _cancel(tx, row)
    if row is None or answer == "requested":
        return "not_found" if row is None else "requested"
    moves.remove(tx, row)
    return "deleted"


def retry(tx: Transaction, jobs: Sequence[int]) -> dict[int, RetryAnswer]:
    """Offer dead and deferred jobs again, now."""
    return {job: _retry(tx, moves.find(tx, job)) for job in dict.fromkeys(jobs)}


def _retry(tx: Transaction, row: Row | None) -> RetryAnswer:
    if row is None:
        return "not_found"
    if row.state == DEAD:
        key = row.options.unique_key
        if key is not None and not tx.run(_SQL["take_key"], (key, row.id)):
            return "unchanged"
        row.attempt, row.deaths = 1, 0
    elif row.state == RETRYING:
        row.attempt = 1
    elif row.state not in DEFERRED:
        return "unchanged"
    moves.offer(tx, row)
    return "retried"


def queues(connection: apsw.Connection) -> list[QueueRecord]:
    """Every declared queue, by name."""
    return [_queue(*found) for found in fetch(connection, _SQL["queues"])]


def set_queue(tx: Transaction, name: str, changes: Mapping[str, Any]) -> QueueRecord:
    """Declare a queue, or change its settings."""
    unknown = set(changes) - (set(QueueRecord.__struct_fields__) - {"name"})
    if unknown:
        raise ValueError(f"a queue has no setting called {', '.join(sorted(unknown))}")
    found = tx.one(_SQL["queue"], (name,))
    old = _queue(*found) if found else QueueRecord(name=name)
    try:
        new = msgspec.convert({**msgspec.structs.asdict(old), **changes}, QueueRecord)
    except msgspec.ValidationError as error:
        raise ValueError(f"a setting of queue {name!r} is wrong: {error}") from error
    tx.run(_SQL["drop_queue"], (name,))
    declare_queue(tx.connection, new)
    tx.news = True  # it may just have been resumed
    return new


def _queue(name: str, paused: int, *settings: Any) -> QueueRecord:
    max_workers, retention, dead_retention, window = settings
    return QueueRecord(
        name=name,
        paused=bool(paused),
        max_workers=max_workers,
        retention=retention,
        dead_retention=dead_retention,
        window=window,
    )
