"""The cluster: who coordinates, how many slots each worker has, who serves what [K1] [K3], and the pace of
governed queues [F2]."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from tests.model.oracle.base import Base, atomic
from tests.model.oracle.depth import offered_depth
from tests.model.oracle.tables import Term
from windlass.core.clock import MAX_TERM
from windlass.core.flow.governor import Governor, Window
from windlass.store.records import ClusterView, Governed, Runs


class Cluster(Base):
    """The coordinator's side of the store, and what hosts hear from it."""

    @atomic
    async def cluster_view(self, workers: Sequence[int]) -> ClusterView:
        now, tables = self._clock(), self._tables
        alive = [worker.info for worker in tables.workers.values() if worker.alive]
        return ClusterView(
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
        self._tables.term = Term(number, candidate, now + min(length, MAX_TERM))
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


class Governors(Base):
    """The coordinator's governor, and the workers that tell it how runs went."""

    @atomic
    async def count_runs(self, runs: Mapping[str, Runs]) -> None:
        now = self._clock()
        for queue, counted in runs.items():
            pace = self._tables.pace(queue, now)
            if pace is not None:
                pace.add(counted)

    @atomic
    async def governed(self, term: int) -> list[Governed]:
        now = self._clock()
        self._tables.hold_term(term, now)
        return [
            self._look(name, now) for name, queue in sorted(self._tables.queues.items()) if queue.governor
        ]

    def _look(self, queue: str, now: float) -> Governed:
        pace, settings = self._tables.pace(queue, now), self._tables.queues[queue]
        assert pace is not None, "only governed queues are looked at"
        runs, pace.runs = pace.runs, Runs()
        window = Window(
            succeeded=runs.succeeded,
            failed=runs.failed,
            throttled=runs.throttled,
            waiting=offered_depth(self._tables, queue, now).ready,
            times=runs.times,
        )
        return Governed(queue, window, settings.rate_min, settings.rate_max, pace.governor)

    @atomic
    async def govern(self, term: int, queue: str, governor: Governor) -> None:
        now = self._clock()
        self._tables.hold_term(term, now)
        pace = self._tables.pace(queue, now)
        if pace is not None:
            pace.follow(governor, now)

    @atomic
    async def observe(self, latency: float) -> None:
        self._tables.latency = (latency, self._clock())
