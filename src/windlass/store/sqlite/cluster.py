"""The cluster: how many slots each worker has, and who serves what [K1]. Who coordinates is in `terms`."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

import apsw

from windlass.store.records import Steering
from windlass.store.sqlite.queues import queues
from windlass.store.sqlite.rows import decode_names, encode, fetch
from windlass.store.sqlite.statements import Statements
from windlass.store.sqlite.terms import must_lead
from windlass.store.sqlite.transaction import Transaction

_SQL = Statements("cluster")


def steering(connection: apsw.Connection, workers: Sequence[int], now: float) -> Steering:
    """Queues, slots and who serves what, in one snapshot."""
    slots: defaultdict[int, dict[str, int]] = defaultdict(dict)
    for worker, queue, number in fetch(connection, _SQL["slots_of"], (encode(list(workers)).decode(),)):
        slots[worker][queue] = number
    return Steering(
        queues={queue.name: queue for queue in queues(connection, now)},
        slots=dict(slots),
        serving=serving(fetch(connection, _SQL["serving"])),
    )


def serving(workers: list[tuple[str]]) -> dict[str, int]:
    """How many of these workers serve each queue, by what they told when they registered."""
    return dict(Counter(queue for (names,) in workers for queue in set(decode_names(names))))


def assign(tx: Transaction, term: int, slots: Mapping[int, Mapping[str, int]]) -> None:
    """Replace the assignment, row by row and only where it differs: mostly nothing has changed."""
    must_lead(tx, term)
    old = {(worker, queue): count for worker, queue, count in tx.all(_SQL["slots"])}
    new = {(worker, queue): count for worker, mine in slots.items() for queue, count in mine.items()}
    tx.many(_SQL["take_slots"], old.keys() - new.keys())
    tx.many(_SQL["give_slots"], ((*key, count) for key, count in new.items() if old.get(key) != count))
