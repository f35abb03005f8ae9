"""Changing a waiting job in place [E8]: its queue, priority, time, arguments and options. Its id stays, and
so do its keys. It goes behind those that wait where it belongs now, unless it waits at a gate that it has
still."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from windlass.core.expiry import deadline
from windlass.core.flow.gates import is_own
from windlass.store.records import ChangeAnswer, JobChange
from windlass.store.sqlite import rows, transitions
from windlass.store.sqlite.deferred import settle
from windlass.store.sqlite.durable import signals
from windlass.store.sqlite.operation.lanes import Lane
from windlass.store.sqlite.operation.transaction import Transaction
from windlass.store.sqlite.rows import Row, options_json
from windlass.store.sqlite.schema import Statements

_SQL = Statements("change")


@dataclass(frozen=True, slots=True)
class Wanted:
    """A job as it is to be."""

    lane: Lane
    payload: str
    options: str | None
    fair_key: str | None
    at: float | None
    """When it may run, if that is changed."""
    regated: bool
    """True if its ordering or concurrency key leads to another gate."""
    moved: bool
    """True if it waits for the turn of another fair key, or in another lane."""


def change(tx: Transaction, job: int, change: JobChange) -> ChangeAnswer:
    """Change a job that waits; the others stay as they are."""
    settle(tx)
    row = transitions.find(tx, job)
    if row is None:
        return "not_found"
    if row.options.part is not None:
        return "part"
    if row.state in rows.ENDED:
        return "ended"
    if row.state == rows.WAITING or (row.state in rows.OFFERED and tx.lanes.numbered(row.lane).runs(row)):
        return "running"
    wanted = _wanted(tx, row, change)
    later = wanted.at is not None and wanted.at > tx.now
    if row.state in rows.DEFERRED:
        _change_deferred(tx, row, wanted, later=later)
    elif not later and _keeps_its_place(row, wanted):
        transitions.rewrite(tx, row, wanted.lane, wanted.payload, wanted.fair_key, wanted.options)
    else:
        since = row.touched_at
        _take_out(tx, row, wanted)
        if later and wanted.at is not None:
            signals.stay(tx, row.id)
            transitions.set_aside(tx, row, rows.SCHEDULED, wanted.at)
        else:
            transitions.enter_anew(tx, row, since)
    return "changed"


def _wanted(tx: Transaction, row: Row, change: JobChange) -> Wanted:
    old, before = tx.lanes.numbered(row.lane), row.options
    kept = {**msgspec.structs.asdict(before), **change.options}
    options = type(before)(**{name: value for name, value in kept.items() if value is not None})
    at = tx.now + change.delay if change.delay is not None else change.run_at
    if at is not None and options.expires_at is not None and options.expires is not None:
        options = msgspec.structs.replace(options, expires_at=deadline(tx.now, at, options.expires))
        tx.run(_SQL["look_at"], (options.expires_at, row.id))
    priority = old.priority if change.priority is None else change.priority
    lane = tx.lanes.named(change.queue or old.queue, priority, options.needs or "")
    payload = tx.one(_SQL["payload"], (row.pos,))
    assert payload is not None, "a job that was found is gone"
    text = options_json(options)
    ways = tx.gates.way(old.queue, row.task, row.options_json), tx.gates.way(lane.queue, row.task, text)
    own = [[gate.name for gate in way if is_own(gate.name)] for way in ways]
    return Wanted(
        lane,
        payload[0] if change.payload is None else change.payload,
        text,
        options.fair_key,
        at,
        regated=own[0] != own[1],
        moved=lane is not old or options.fair_key != before.fair_key,
    )


def _keeps_its_place(row: Row, wanted: Wanted) -> bool:
    if row.state != rows.HELD or wanted.regated:
        return False
    if row.gate is None:
        return not wanted.moved
    return row.gate.startswith(("order:", "key:", "task:"))


def _take_out(tx: Transaction, row: Row, wanted: Wanted) -> None:
    """It waits nowhere any more, and is as it is to be."""
    gate, bound = row.gate, row.state != rows.PLAIN
    transitions.take_out(tx, row)
    if bound and wanted.regated:
        tx.gates.drop(row.id, ended=True)
    elif bound:
        tx.gates.write()
        tx.gates.spend_reservations(row.id)  # its arguments may have chosen the bucket
    if gate is not None:
        tx.gates.free(gate)
    transitions.rewrite(tx, row, wanted.lane, wanted.payload, wanted.fair_key, wanted.options, counted=False)


def _change_deferred(tx: Transaction, row: Row, wanted: Wanted, *, later: bool) -> None:
    others = row.options.after or row.options.group_end
    comes_after = others and tx.one(_SQL["comes_after"], (row.id,)) is not None
    (run_at,) = tx.one(_SQL["run_at"], (row.pos,)) or (None,)
    _take_out(tx, row, wanted)
    if comes_after:
        if wanted.at is not None:
            tx.run(_SQL["wait_until"], (wanted.at, row.id))
        transitions.set_aside(tx, row, row.state, None)
    elif later or wanted.at is None:
        if wanted.at is not None:
            tx.run(_SQL["put_off_waits"], (wanted.at, row.id))
        transitions.set_aside(tx, row, row.state, run_at if wanted.at is None else wanted.at)
    else:
        transitions.enter_anew(tx, row, tx.now)
