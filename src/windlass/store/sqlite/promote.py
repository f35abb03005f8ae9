"""Promotion: deferred jobs that are due go to their lanes, those that come after others among them [P12], and
held ones are let in by fair keys [C3]. Parents need nothing here: they are never behind their parts [P9]."""

from __future__ import annotations

from windlass.store.records import Promoted
from windlass.store.sqlite import after, moves
from windlass.store.sqlite.lanes import Lane
from windlass.store.sqlite.rows import Row
from windlass.store.sqlite.settle import settle
from windlass.store.sqlite.statements import Statements
from windlass.store.sqlite.transaction import Transaction

_SQL = Statements("promote")


def promote(tx: Transaction, limit: int) -> Promoted:
    """One bounded step: first what is due, earliest first, then the admission of held jobs."""
    left = after.follow(tx, limit)
    while tx.endings:  # of those that will never run: others may come after them in turn
        settle(tx)
        left = after.follow(tx, left)
    due = [Row(*found) for found in tx.all(_SQL["due"], (tx.now, limit))]
    for row in due:
        if row.options.fair_key is not None:
            moves.hold(tx, row)
        else:
            moves.offer(tx, row)
    tx.save()  # so that the next statement sees what was held just now
    admitted = 0
    for lane, window in tx.all(_SQL["lanes"]):
        admitted += _admit(tx, tx.lanes.numbered(lane), window, limit - admitted)
    return Promoted(len(due), admitted)


def _admit(tx: Transaction, lane: Lane, window: int, limit: int) -> int:
    """Walk the ring of fair keys from the one served last, one job of each key and turn.

    Each step is two probes of an index, however many jobs one key holds. The order is that of
    `windlass.core.fair.turns`, which the model follows and a test compares with."""
    room = min(limit, window - lane.ready, lane.held)
    admitted = 0
    while admitted < room:
        row = _next_turn(tx, lane)
        moves.admit(tx, row)
        admitted += 1
    return max(admitted, 0)


def _next_turn(tx: Transaction, lane: Lane) -> Row:
    """The first job of the next key, which becomes the one served last."""
    found = tx.one(_SQL["next"], (lane.id, lane.served)) if lane.served is not None else None
    found = found or tx.one(_SQL["first"], (lane.id,))
    assert found is not None, "a lane counts held jobs that are not there"
    lane.served, *columns = found
    return Row(*columns)
