"""Schedules on PostgreSQL [K4]: when one is due next is for its caller to say; to fire is one function, see
fire_schedule.sql."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from windlass.store.flow import Due, NewSchedule, ScheduleRecord
from windlass.store.postgres.claims import decode_options
from windlass.store.postgres.database import Database
from windlass.store.postgres.statements import encode_options
from windlass.store.records import Receipt

_AS_TEXT: Final = frozenset({"payload", "options"})
"""Kept as they were written."""

_encode = msgspec.json.Encoder().encode


class Schedules:
    """What runs by the clock."""

    _db: Database

    async def schedules(self) -> list[ScheduleRecord]:
        """See Flow.schedules."""
        return [_record(row) for row in await self._db.query("schedules")]

    async def seed_schedule(
        self, schedule: NewSchedule, next_at: float | None, error: str | None = None
    ) -> ScheduleRecord:
        """See Flow.seed_schedule. The lane is declared with it, so that its jobs are ready at once."""
        definition = msgspec.structs.asdict(schedule)
        columns = {name: value for name, value in definition.items() if name not in _AS_TEXT}
        row = await self._db.call(
            "seed_schedule", _encode(columns).decode(), schedule.payload, encode_options(schedule.options),
            next_at, error,
        )  # fmt: skip
        await self._db.value("lane_try", schedule.queue, int(schedule.priority))
        return _record(row)

    async def set_schedule(
        self, name: str, *, paused: bool | None = None, next_at: float | None = None
    ) -> ScheduleRecord | None:
        """See Flow.set_schedule."""
        row = await self._db.call("set_schedule", name, paused, next_at)
        return None if row is None else _record(row)

    async def drop_schedule(self, name: str) -> bool:
        """See Flow.drop_schedule."""
        return bool(await self._db.value("drop_schedule", name))

    async def due(self, limit: int = 100) -> Due:
        """See Flow.due."""
        rows = await self._db.query("due_schedules", limit)
        return Due(rows[0]["now"], [_record(row) for row in rows if row["name"] is not None])

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
        """See Flow.fire."""
        row = await self._db.call("fire_schedule", term, name, expected, list(times), next_at, skipped, error)
        if not row["fired"]:
            return None
        return [Receipt(job, status) for job, status in zip(row["jobs"], row["statuses"], strict=True)]


def _record(row: Any) -> ScheduleRecord:
    return ScheduleRecord(
        name=row["name"],
        cron=row["cron"],
        task=row["task"],
        tz=row["tz"],
        payload=row["payload"],
        queue=row["queue"],
        priority=row["priority"],
        options=decode_options(row["options"]),
        missed=row["missed"],
        overlap=row["overlap"],
        grace=row["grace"],
        jitter=row["jitter"],
        paused=row["paused"],
        next_at=row["next_at"],
        last_at=row["last_at"],
        last_job=row["last_job"],
        skipped=row["skipped"],
        error=row["error"],
    )
