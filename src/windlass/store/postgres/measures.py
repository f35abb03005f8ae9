"""Measures on PostgreSQL: reports of processes, the rollup that folds them into rows of charts, reading them
[M1] [M2], and how the store itself is doing [M3].

What is counted how is decided in `windlass.core.rollup`. Here only one step of it is made safe: what was
taken is added and forgotten in one transaction, under a lock that one rollup holds at a time.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeVar

import msgspec

from windlass.core.read_errors import READ_ERRORS
from windlass.core.rollup import (
    EVER,
    KEPT,
    Place,
    Sample,
    roll,
)
from windlass.errors import StoreForbidden
from windlass.store import records
from windlass.store.measures import (
    EVENTS_KEPT,
    MAX_EVENTS,
    REPORTERS_KEPT,
    REPORTS_COUNTED,
    STEP,
    kept,
    pack,
    read_report,
    unpack,
)
from windlass.store.postgres import schema as schemas
from windlass.store.postgres.connections.database import Database
from windlass.store.postgres.diagnosis import HELD
from windlass.store.postgres.rows import record_of

T = TypeVar("T")
LATEST: Final = 2**63 - 1
LARGE: Final = 64 * 1024
"""Characters of reports whose folding is left to a thread: it would hold up the loop for milliseconds."""

GRACE: Final = 10.0
"""Seconds that a report may take to commit."""

ANEW: Final = 300.0
"""Seconds between two looks that begin at the first id."""

logger: Final = logging.getLogger("windlass.store")
_encode = msgspec.json.Encoder().encode
_SIZES: Final = ("bytes", "rows", "dead")


class Measures:
    """Takes in what processes report, folds it, and shows it."""

    def __init__(self, database: Database) -> None:
        self._db = database
        self.unread: Final = Unread()

    async def report(self, source: int, number: int, report: records.Report) -> float:
        """See Store.report."""
        fit = self._db.fit
        events = [fit.event(kept(event)) for event in report.events]
        return float(
            await self._db.value(
                "report",
                source,
                number,
                _encode(report.samples).decode() if report.samples else None,
                _encode(events).decode() if events else None,
                None if report.vitals is None else fit(_encode(report.vitals).decode()),
            )
        )

    async def rollup(self, limit: int = 1000) -> records.Rolled:
        """See Store.rollup. Another one at the same time finds nothing to do."""
        step = min(limit, STEP)
        async with (
            self._db.connection(self._db.deadline) as connection,
            connection.transaction(isolation="read_committed"),
        ):
            taken = await self._call(connection, "rollup_take", step, self.unread.after())
            if taken["busy"]:
                return records.Rolled()
            ids = taken["ids"]
            written = await self._fold(connection, ids, taken["samples"]) if ids else 0
            old = await self._call(
                connection, "rollup_expire", limit, list(KEPT), list(KEPT.values()), EVENTS_KEPT, MAX_EVENTS,
                REPORTERS_KEPT,
            )  # fmt: skip
        self.unread.none_below((ids[-1] if ids else taken["given"]) + 1)
        return records.Rolled(len(ids), written, old["removed"], more=len(ids) >= step or old["more"])

    async def _fold(self, connection: Any, reports: Sequence[int], texts: Sequence[str | None]) -> int:
        """Add reports to the rows they belong to, and remove them: how many rows that were."""
        large = sum(len(text or "") for text in texts) > LARGE
        rows = await _thought(large, lambda: roll(sample for text in texts for sample in read_report(text)))
        places = [[place[i] for place in rows] for i in range(4)]
        there = await connection.fetch(schemas.call("rollup_rows", 4, self._db.schema), *places)
        packed = await _thought(large, lambda: _added(rows, there))
        await self._call(connection, "rollup_put", *places, packed, reports)
        return len(rows)

    async def _call(self, connection: Any, function: str, *args: Any) -> Any:
        return await connection.fetchrow(schemas.call(function, len(args), self._db.schema), *args)

    async def measured(
        self, span: int, since: float, until: float, *, queue: str = "", task: str = ""
    ) -> list[Sample]:
        """See Store.measured."""
        within = (math.ceil(since), math.ceil(until))  # rows begin at whole seconds
        return [_sample(row) for row in await self._db.query("measured", span, queue, task, *within)]

    async def totals(self) -> list[Sample]:
        """See Store.totals."""
        return [_sample(row) for row in await self._db.query("totals", EVER)]

    async def events(
        self, *, job: int | None = None, queue: str | None = None, limit: int = 100, before: int | None = None
    ) -> list[records.EventRecord]:
        """See Store.events."""
        page = (LATEST if before is None else min(before, LATEST), limit)
        if job is not None:
            rows = await self._db.query("events_of_job", *page, job, queue)
        elif queue is not None:
            rows = await self._db.query("events_of_queue", *page, queue)
        else:
            rows = await self._db.query("events", *page)
        return [records.EventRecord(**row) for row in rows]  # whose kind a newer version may have made

    async def task_depths(self, most: int = 100_000) -> list[records.TaskDepth]:
        """See Store.task_depths."""
        return [record_of(records.TaskDepth, row) for row in await self._db.rows("task_depths", most)]

    async def causes(
        self,
        *,
        queue: str | None = None,
        task: str | None = None,
        since: float | None = None,
        limit: int = 10_000,
    ) -> records.Causes:
        """See Store.causes."""
        (row,) = await self._db.rows("list_causes", queue, task, limit, since)
        return record_of(records.Causes, row)

    async def health(self) -> records.Health:
        """See Store.health."""
        (row,) = await self._db.query("health", REPORTS_COUNTED, self.unread.after())
        self.unread.none_below(row["lowest"])
        parts = await self._db.query("tables")
        held = await self._db.query("hold_ups", HELD)
        pool, idle = self._db.pool()
        return record_of(
            records.Health,
            row,
            store=f"PostgreSQL {row['version'].split()[0]}",
            bytes=sum(part["bytes"] or 0 for part in parts),
            tables=_tables(parts),
            segments=_segments(await self._db.query("segments"), parts),
            wal=await self._wal(),
            pool=pool,
            pool_idle=idle,
            locks_held=held[0]["seconds"] if held else 0.0,
        )

    async def _wal(self) -> int | None:
        """Bytes of write-ahead log; None where whoever runs the server took the right to ask for it away."""
        try:
            (row,) = await self._db.query("wal")
        except StoreForbidden:
            return None
        return None if row["bytes"] is None else int(row["bytes"])


class Unread:
    """From which id on this process looks for reports.

    Below it only what was folded and forgotten has been. Somebody's old snapshot keeps the server from
    removing those rows, and a look that began at the first id would go through a day of them. What one look
    found is used only a while later: a call that had drawn its id by then and had not committed has ended
    since. Should one have taken longer, it is found by the look that begins anew now and then.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._after = 0
        self._seen: deque[tuple[float, int]] = deque()
        self._anew_at = clock() + ANEW

    def after(self) -> int:
        """Look for ids higher than this."""
        now = self._clock()
        if now >= self._anew_at:
            self._after, self._anew_at = 0, now + ANEW
            self._seen.clear()
        while self._seen and now - self._seen[0][0] >= GRACE:
            self._after = max(self._after, self._seen.popleft()[1])
        return self._after

    def none_below(self, id: int) -> None:
        """A look found none with an id below this, or those that it found are forgotten."""
        now = self._clock()
        if not self._seen or now - self._seen[-1][0] >= 1.0:
            self._seen.append((now, id - 1))


async def _thought(large: bool, think: Callable[[], T]) -> T:
    return await asyncio.to_thread(think) if large else think()


def _added(rows: dict[Place, Sample], there: Iterable[Any]) -> list[bytes]:
    """The rows together with what they have counted so far, as they are kept."""
    for found in there:
        place = Place(found["span"], found["at"], found["queue"], found["task"])
        try:
            rows[place].add(_sample(found))
        except READ_ERRORS as error:
            logger.warning("the measures of %s cannot be read and start again from zero: %s", place, error)
    return [pack(row) for row in rows.values()]


def _sample(row: Any) -> Sample:
    return unpack(row["sample"], row["at"], row["queue"], row["task"])


def _tables(parts: list[Any]) -> tuple[records.Table, ...]:
    """A table, or a log over all of its segments; a size is None where the table went just then."""
    return tuple(
        records.Table(name=name, **{column: _sum(parts, column, "name", name) for column in _SIZES})
        for name in dict.fromkeys(part["name"] for part in parts)
    )


def _segments(rows: list[Any], parts: list[Any]) -> tuple[records.Segment, ...]:
    return tuple(
        record_of(records.Segment, row, bytes=_sum(parts, "bytes", "segment", row["no"])) for row in rows
    )


def _sum(parts: list[Any], column: str, by: str, value: object) -> int:
    return sum(part[column] or 0 for part in parts if part[by] == value)
