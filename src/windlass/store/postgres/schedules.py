"""Schedules on PostgreSQL [K4]: when one is due next is for its caller to say; to fire is one function, see
`sql/schedules.sql`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from windlass.store.postgres.connections.database import Database
from windlass.store.postgres.rows import encode_options, record_of
from windlass.store.records import Due, NewSchedule, Receipt, ScheduleRecord

_AS_TEXT: Final = frozenset({"payload", "options"})
"""Kept as they were written."""

_encode = msgspec.json.Encoder().encode


class Schedules:
    """Schedules, which run by the clock."""

    def __init__(self, database: Database) -> None:
        self._db = database

    async def schedules(self) -> list[ScheduleRecord]:
        """See Store.schedules."""
        return [record_of(ScheduleRecord, row) for row in await self._db.query("schedules")]

    async def seed_schedule(
        self, schedule: NewSchedule, next_at: float | None, error: str | None = None
    ) -> ScheduleRecord:
        """See Store.seed_schedule. The lane is declared with it, so that its jobs are ready at once."""
        row = await self._db.call("define_schedule", *_definition(schedule), next_at, error, "code")
        await self._db.value("try_lane", schedule.queue, int(schedule.priority))
        return record_of(ScheduleRecord, row)

    async def put_schedule(
        self, schedule: NewSchedule, next_at: float | None, *, new: bool
    ) -> ScheduleRecord | None:
        """See Store.put_schedule."""
        how = "new" if new else "change"
        row = await self._db.call("define_schedule", *_definition(schedule), next_at, None, how)
        if row is None:
            return None
        await self._db.value("try_lane", schedule.queue, int(schedule.priority))
        return record_of(ScheduleRecord, row)

    async def set_schedule(
        self, name: str, *, paused: bool | None = None, next_at: float | None = None
    ) -> ScheduleRecord | None:
        """See Store.set_schedule."""
        row = await self._db.call("set_schedule", name, paused, next_at)
        return None if row is None else record_of(ScheduleRecord, row)

    async def drop_schedule(self, name: str) -> bool:
        """See Store.drop_schedule."""
        return bool(await self._db.value("drop_schedule", name))

    async def due(self, limit: int = 100) -> Due:
        """See Store.due."""
        rows = await self._db.query("due_schedules", limit)
        found = [record_of(ScheduleRecord, row) for row in rows if row["name"] is not None]
        return Due(rows[0]["now"], found, rows[0]["next"])

    async def fire(
        self,
        term: int | None,
        name: str,
        expected: float | None,
        times: Sequence[float],
        *,
        next_at: float | None,
        skipped: int = 0,
        error: str | None = None,
    ) -> list[Receipt] | None:
        """See Store.fire."""
        row = await self._db.call("fire_schedule", term, name, expected, list(times), next_at, skipped, error)
        if not row["fired"]:
            return None
        return [Receipt(job, status) for job, status in zip(row["jobs"], row["statuses"], strict=True)]


def _definition(schedule: NewSchedule) -> tuple[str, str, str | None, str]:
    """Its columns, payload and options, and all of it as the code's word is kept."""
    values = msgspec.structs.asdict(schedule)
    columns = {name: value for name, value in values.items() if name not in _AS_TEXT}
    whole = _encode(schedule).decode()
    return _encode(columns).decode(), schedule.payload, encode_options(schedule.options), whole
