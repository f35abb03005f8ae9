"""Queues and the cluster on PostgreSQL: settings, cool-downs, who coordinates, and the slots of workers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from windlass.store.postgres.database import Database
from windlass.store.postgres.reading import Reader, queue_record
from windlass.store.queues import check
from windlass.store.records import QueueRecord, Steering

_COLUMNS: Final = {"window": "lane_window"}


class Cluster:
    """What operators and the coordinator say to the store, and what hosts hear from it."""

    _db: Database
    _reader: Reader

    async def queues(self) -> list[QueueRecord]:
        """See Store.queues."""
        return await self._reader.queues()

    async def set_queue(self, name: str, changes: Mapping[str, Any]) -> QueueRecord:
        """See Store.set_queue."""
        check(name, changes)
        columns = {_COLUMNS.get(key, key): value for key, value in changes.items()}
        (row,) = await self._db.query("set_queue", name, json.dumps(columns))
        return queue_record(row)

    async def throttle(self, queue: str, hint: float | None = None) -> float:
        """See Store.throttle."""
        return float(await self._db.value("throttle", queue, hint))

    async def warm(self, queue: str, *, force: bool = False) -> bool:
        """See Store.warm."""
        return bool(await self._db.value("warm", queue, force))

    async def steering(self, workers: Sequence[int]) -> Steering:
        """See Store.steering."""
        return await self._reader.steering(workers)

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
