"""The cluster: who coordinates, how many slots each worker has, and who serves what [K1] [K3]."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from windlass.core.clock import MOST_TERM
from windlass.store.memory.base import Base, atomic
from windlass.store.memory.tables import Term
from windlass.store.records import Steering


class Cluster(Base):
    """The coordinator's side of the store, and what hosts hear from it."""

    @atomic
    async def steering(self, workers: Sequence[int]) -> Steering:
        now, tables = self._clock(), self._tables
        alive = [worker.info for worker in tables.workers.values() if worker.alive]
        return Steering(
            queues={name: tables.queue(name, now) for name in tables.queues},
            slots={worker: dict(tables.slots[worker]) for worker in workers if worker in tables.slots},
            serving=dict(Counter(queue for worker in alive for queue in set(worker.queues))),
        )

    @atomic
    async def lead(self, candidate: int, length: float) -> int | None:
        now, term = self._clock(), self._tables.term
        runs = term.runs(now)
        if runs and term.holder != candidate:
            return None
        number = term.number if runs else term.number + 1
        self._tables.term = Term(number, candidate, now + min(length, MOST_TERM))
        return number

    @atomic
    async def resign(self, candidate: int) -> None:
        term = self._tables.term
        if term.holder == candidate:
            self._tables.term = Term(term.number)

    @atomic
    async def assign(self, term: int, slots: Mapping[int, Mapping[str, int]]) -> None:
        self._tables.hold_term(term, self._clock())
        self._tables.slots = {worker: dict(mine) for worker, mine in slots.items() if mine}
