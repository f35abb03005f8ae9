"""The turns of fair keys: who of those in the ring goes to the lane next [C3].

A lane takes no more than its queue's window, so that a key that comes late waits for that many jobs at most.
There is an admission wherever one may matter: at the end of an operation in which somebody joined the ring,
in a claim that leaves the lane half empty, and with promotion for the rest.
"""

from __future__ import annotations

from windlass.store.sqlite import moves
from windlass.store.sqlite.lanes import Lane
from windlass.store.sqlite.rows import Row
from windlass.store.sqlite.statements import Statements
from windlass.store.sqlite.transaction import Transaction

_SQL = Statements("turns")


def admit_new(tx: Transaction) -> None:
    """Fill the lanes whose ring somebody has joined in this operation."""
    for lane in tx.lanes.joined():
        if lane.ready < _window(tx, lane):
            admit(tx, lane)


def refill(tx: Transaction, lane: Lane) -> bool:
    """Fill a lane of which a claim has left less than half a window; whether anybody came."""
    return lane.held > 0 and lane.ready * 2 < _window(tx, lane) and admit(tx, lane) > 0


def promote(tx: Transaction, limit: int) -> int:
    """Fill all lanes, with at most so many jobs; answers with how many they were."""
    tx.save()  # so that the statement sees what was held just now
    admitted = 0
    for (number,) in tx.all(_SQL["lanes"]):
        lane = tx.lanes.numbered(number)
        admitted += admit(tx, lane, limit - admitted)
        lane.joined = False  # what is left is for the next step
    return admitted


def admit(tx: Transaction, lane: Lane, limit: int | None = None) -> int:
    """Walk the ring of fair keys from the one served last, one job of each key and turn.

    Each step is two probes of an index, however many jobs one key holds. The order is that of
    `windlass.core.fair.turns`, which the model follows and a test compares with."""
    tx.births.write()
    room = min(_window(tx, lane) - lane.ready, lane.held)
    room = room if limit is None else min(room, limit)
    admitted = 0
    while admitted < room and (row := _next_turn(tx, lane)) is not None:
        moves.admit(tx, row)
        admitted += 1
    return admitted


def _window(tx: Transaction, lane: Lane) -> int:
    found = tx.one(_SQL["window"], (lane.queue,))
    assert found is not None, "a lane of a queue that was never declared"
    return int(found[0])


def _next_turn(tx: Transaction, lane: Lane) -> Row | None:
    """The first job of the next key, which becomes the one served last; None: all that are held stand in
    lines."""
    found = tx.one(_SQL["next"], (lane.id, lane.served)) if lane.served is not None else None
    found = found or tx.one(_SQL["first"], (lane.id,))
    if found is None:
        return None
    lane.served, *columns = found
    return Row(*columns)
