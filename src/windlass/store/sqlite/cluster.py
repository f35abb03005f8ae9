"""The cluster: who coordinates, and that nobody else writes as coordinator [K3]; how many slots each worker
has, and who serves what [K1]; and turns, for what everybody would do and one should."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

import apsw

from windlass.core.clock import MAX_TERM, left
from windlass.errors import TermLost
from windlass.store.records import FOR_HOSTS, ClusterView
from windlass.store.sqlite.management import queues
from windlass.store.sqlite.operation.transaction import Transaction
from windlass.store.sqlite.rows import decode_names, encode, fetch
from windlass.store.sqlite.schema import Statements

_SQL = Statements("cluster")


def lead(tx: Transaction, candidate: int, length: float) -> int | None:
    """Begin a term, or go on with one's own; None where another's has not run out."""
    number, holder, until = _term(tx)
    runs = left(until, MAX_TERM, tx.now) > 0
    if runs and holder != candidate:
        return None
    number = number if runs else number + 1
    tx.run(_SQL["lead"], (number, candidate, tx.now + min(length, MAX_TERM)))
    return number


def resign(tx: Transaction, candidate: int) -> None:
    """Give the term up, if it is the candidate's."""
    tx.run(_SQL["resign"], (candidate,))


def must_lead(tx: Transaction, term: int) -> None:
    """The fence of a coordinator's writes. Raises TermLost [K3]."""
    number, _, until = _term(tx)
    if number != term or not left(until, MAX_TERM, tx.now):
        raise TermLost(f"term {term} is over, and another host may coordinate now: call lead() again")


def _term(tx: Transaction) -> tuple[int, int | None, float]:
    found = tx.one(_SQL["term"])
    assert found is not None, "the migration wrote the one row of this table"
    number, holder, until = found
    return number, holder, until


# -- slots, and who serves what ------------------------------------------------------------------------------


def cluster_view(connection: apsw.Connection, now: float, workers: Sequence[int]) -> ClusterView:
    """Queues, slots and who serves what, in one snapshot."""
    slots: defaultdict[int, dict[str, int]] = defaultdict(dict)
    for worker, queue, number in fetch(connection, _SQL["slots_of"], (encode(list(workers)).decode(),)):
        slots[worker][queue] = number
    return ClusterView(
        queues={queue.name: queue for queue in queues(connection, now)},
        slots=dict(slots),
        serving=serving(fetch(connection, _SQL["serving"])),
        cancels=str(_times(connection)),
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
    tx.calls |= old != new


def host_calls(connection: apsw.Connection) -> tuple[int, list[str]]:
    """How often hosts were called so far, and the topics of what they should ask for."""
    topics = [f"{FOR_HOSTS}{worker}" for (worker,) in fetch(connection, _SQL["to_cancel"])]
    return _times(connection), [FOR_HOSTS, *topics]


def _times(connection: apsw.Connection) -> int:
    return int(fetch(connection, _SQL["host_calls"])[0][0])


# -- chores --------------------------------------------------------------------------------------------------


def begin_chore(tx: Transaction, name: str, every: float) -> bool:
    """Begin a chore, unless somebody has begun it within the last `every` seconds."""
    return tx.run(_SQL["begin_chore"], (name, tx.now, every)) > 0
