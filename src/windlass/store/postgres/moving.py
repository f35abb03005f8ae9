"""Jobs that come from another store, with their past: see `store/moving`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import msgspec

from windlass.store.postgres.connections.database import Database

Item: TypeAlias = dict[str, Any]
Imported: TypeAlias = list[tuple[str, int, str]]
"""Key, id here, and what became of it."""


class Moving:
    """Takes in what another store gives away."""

    def __init__(self, database: Database) -> None:
        self._db = database

    async def import_jobs(self, source: str, jobs: Sequence[Item]) -> Imported:
        """Add jobs, all or none; those that were added before are not added again."""
        return _imported(await self._db.rows("import_jobs", source, _json(jobs)))

    async def import_parent(
        self, source: str, parent: Item, parts: Sequence[Item], jobs: Sequence[Item]
    ) -> Imported:
        """Add a parent with its parts and their jobs."""
        return _imported(
            await self._db.rows("import_parent", source, _json(parent), _json(parts), _json(jobs))
        )

    async def import_keys(self, source: str, keys: Sequence[Item], deaths: Sequence[Item]) -> None:
        """Remember idempotency keys and the deaths of unique keys."""
        await self._db.call("import_keys", source, _json(keys), _json(deaths))

    async def import_schedule(
        self, source: str, name: str, last_at: float | None, last: str | None, skipped: int
    ) -> None:
        """Say what a schedule has done so far."""
        await self._db.call("import_schedule", source, name, last_at, last, skipped)


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _imported(rows: list[Any]) -> Imported:
    return [(row["key"], row["job"], row["status"]) for row in rows]
