"""The cluster on PostgreSQL [K3]: who coordinates, the slots of workers, turns, and the clock they go by."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import msgspec

from windlass.store.postgres.connections.database import Database
from windlass.store.postgres.known_queues import KnownRows
from windlass.store.records import ClusterView, QueueRecord

_queues = msgspec.json.Decoder(dict[str, QueueRecord]).decode
_slots = msgspec.json.Decoder(dict[int, dict[str, int]]).decode
_serving = msgspec.json.Decoder(dict[str, int]).decode


class Cluster:
    """Calls of the coordinator to the store, and what hosts hear from it."""

    def __init__(self, database: Database) -> None:
        self._db = database
        self._queues: KnownRows[QueueRecord] = KnownRows()
        self._serving: KnownRows[int] = KnownRows()

    async def now(self) -> float:
        """See Store.now."""
        return float(await self._db.value("unix_time"))

    async def cluster_view(self, workers: Sequence[int]) -> ClusterView:
        """See Store.cluster_view."""
        queues, serving = self._queues, self._serving
        (row,) = await self._db.query("cluster_view", list(workers), queues.stamp, serving.stamp)
        self._queues = queues = queues.updated(row["stamp"], _queues(row["queues"] or "{}"))
        self._serving = serving = serving.updated(row["workers"], _serving(row["serving"] or "{}"))
        slots = _slots(row["slots"] or "{}")
        return ClusterView(dict(queues.rows), slots, dict(serving.rows), row["cancels"])

    async def lead(self, candidate: int, length: float) -> int | None:
        """See Store.lead."""
        term = await self._db.value("lead", candidate, length)
        return None if term is None else int(term)

    async def resign(self, candidate: int) -> None:
        """See Store.resign."""
        await self._db.value("resign", candidate)

    async def assign(self, term: int, slots: Mapping[int, Mapping[str, int]]) -> None:
        """See Store.assign."""
        rows = [
            {"worker": worker, "queue": queue, "slots": n}
            for worker, mine in slots.items()
            for queue, n in mine.items()
        ]
        await self._db.value("assign", term, json.dumps(rows))

    async def begin_chore(self, name: str, every: float) -> bool:
        """See Store.begin_chore."""
        return bool(await self._db.value("begin_chore", name, float(every)))
