"""Fair keys: held jobs of one lane take turns by their key [C3].

A lane takes no more jobs of fair keys than its queue's window, so that a key that comes late waits for that
many jobs at most. It is filled wherever that may matter: at the end of an operation in which somebody joined
the ring, in a claim that leaves the lane half empty, and with promotion for the rest.
"""

from __future__ import annotations

from functools import partial
from itertools import groupby, islice, takewhile, zip_longest
from operator import ge, itemgetter
from typing import Any

from windlass.store.sqlite import transitions
from windlass.store.sqlite.operation.lanes import Lane
from windlass.store.sqlite.operation.transaction import Transaction
from windlass.store.sqlite.rows import encode
from windlass.store.sqlite.schema import Statements

_SQL = Statements("fair_keys")
_Turn = tuple[Any, ...]
"""A key, whether something is bound to its job, and that job: where it stands, its id and its options."""


def admit_new(tx: Transaction) -> None:
    """Fill the lanes whose ring somebody has joined in this operation."""
    for lane in tx.lanes.joined():
        if lane.ready < _window(tx, lane):
            admit(tx, lane)


def refill(tx: Transaction, lane: Lane) -> bool:
    """Fill a lane of which a claim has left less than half a window; whether anybody came."""
    waits = lane.held > 0 and not lane.no_turns
    return waits and lane.ready * 2 < _window(tx, lane) and admit(tx, lane) > 0


def admit_everywhere(tx: Transaction, limit: int) -> int:
    """Fill all lanes, with at most so many jobs; answers with how many they were."""
    tx.save()  # so that the statement sees what was held just now
    admitted = 0
    for (number,) in tx.all(_SQL["held_lanes"]):
        lane = tx.lanes.numbered(number)
        admitted += admit(tx, lane, limit - admitted)
        lane.joined = False  # what is left is for the next step
    return admitted


def admit(tx: Transaction, lane: Lane, limit: int | None = None) -> int:
    """Walk the ring of fair keys from the one served last, one job of each key and turn.

    Each key is a probe of an index, however many jobs it holds, and so is each job. The order is that of
    `turns` of the oracle (`tests/model`), with which a test compares it."""
    if lane.no_turns:
        return 0
    tx.inserts.write()
    room = min(_window(tx, lane) - lane.ready, lane.held)
    room = room if limit is None else min(room, limit)
    admitted = 0
    while admitted < room and (found := _next_turns(tx, lane, room - admitted)):
        for key, bound, pos, job, options in found:
            transitions.admit(tx, lane, pos, job, options, bound=bool(bound))
            lane.served = key
        admitted += len(found)
    lane.no_turns = admitted < room
    return admitted


def _window(tx: Transaction, lane: Lane) -> int:
    if lane.window is None:
        found = tx.one(_SQL["window"], (lane.queue,))
        assert found is not None, "a lane of a queue that was never declared"
        lane.window = int(found[0])
    return lane.window


def _next_turns(tx: Transaction, lane: Lane, room: int) -> list[_Turn]:
    """The next jobs, in the order of their turns, for as many turns of all keys as there may be room for;
    none: all that are held wait at gates."""
    keys = _ring(tx, lane, room)
    if not keys:
        return []
    tx.gates.write()  # a pass that was just given makes a job bound
    found = tx.all(_SQL["first_of_keys"], (encode(keys).decode(), lane.id, -(-room // len(keys))))
    turns = [sorted(mine, key=itemgetter(2)) for _, mine in groupby(found, key=itemgetter(0))]
    in_turn = (turn for turns_at_once in zip_longest(*turns) for turn in turns_at_once if turn is not None)
    return list(islice(in_turn, room))


def _ring(tx: Transaction, lane: Lane, limit: int) -> list[str]:
    """The keys whose turn is next, each once."""
    if tx.one(_SQL["any"], (lane.id,)) is None:
        return []
    if lane.served is None:
        return [key for (key,) in tx.all(_SQL["ring_first"], (lane.id, limit))]
    keys = [key for (key,) in tx.all(_SQL["ring_next"], (lane.id, limit, lane.served))]
    if len(keys) < limit:
        over_again = (key for (key,) in tx.all(_SQL["ring_first"], (lane.id, limit - len(keys))))
        keys += takewhile(partial(ge, lane.served), over_again)
    return keys
