"""Measures on PostgreSQL: what processes tell, the rollup that folds it into the rows of charts, and reading
them [M1] [M2]. How the store itself is doing is in `health`.

What is counted how is decided in `windlass.core.rollup`. Here only one step of it is made safe: what was
taken is added and forgotten in one transaction, under a lock that one rollup holds at a time.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeVar

import msgspec

from windlass.core.rollup import EVER, KEPT, Place, Sample, roll
from windlass.store.measures import Cause, Causes, EventRecord, Health, News, Rolled, TaskDepth
from windlass.store.postgres import schema as schemas
from windlass.store.postgres.database import Database
from windlass.store.postgres.health import health
from windlass.store.telling import EVENTS_KEPT, MOST_EVENTS, STEP, TELLERS_KEPT, kept, pack, read_news, unpack

T = TypeVar("T")
LATEST: Final = 2**63 - 1
LARGE: Final = 64 * 1024
"""Characters of news whose folding is left to a thread: it would hold up the loop for milliseconds."""

logger = logging.getLogger("windlass.store")
_encode = msgspec.json.Encoder().encode
_causes = msgspec.json.Decoder(list[Cause]).decode


class Measures:
    """What `windlass.store.measures` promises."""

    _db: Database

    async def tell(self, source: int, number: int, news: News) -> float:
        """See Measures.tell."""
        fit = self._db.fit
        events = [fit.event(kept(event)) for event in news.events]
        return float(
            await self._db.value(
                "tell",
                source,
                number,
                _encode(news.samples).decode() if news.samples else None,
                _encode(events).decode() if events else None,
                None if news.vitals is None else fit(_encode(news.vitals).decode()),
            )
        )

    async def rollup(self, limit: int = 1000) -> Rolled:
        """See Measures.rollup. Another one at the same time finds nothing to do."""
        step = min(limit, STEP)
        async with (
            self._db.connection(self._db.deadline) as connection,
            connection.transaction(isolation="read_committed"),
        ):
            taken = await self._call(connection, "rollup_take", step, self._db.unread.after())
            if taken["busy"]:
                return Rolled()
            ids, written = taken["ids"], 0
            if ids:
                written = await self._fold(connection, ids, taken["samples"])
            old = await self._call(
                connection, "rollup_expire", limit, list(KEPT), list(KEPT.values()), EVENTS_KEPT, MOST_EVENTS,
                TELLERS_KEPT,
            )  # fmt: skip
        self._db.unread.none_below((ids[-1] if ids else taken["given"]) + 1)
        return Rolled(len(ids), written, old["removed"], more=len(ids) >= step or old["more"])

    async def _fold(self, connection: Any, news: Sequence[int], texts: Sequence[str]) -> int:
        """Add what was told to the rows it belongs to, and forget it: how many rows that were."""
        large = sum(map(len, texts)) > LARGE
        rows = await _thought(large, lambda: roll(sample for text in texts for sample in read_news(text)))
        places = [[place[i] for place in rows] for i in range(4)]
        there = await connection.fetch(schemas.call("rollup_rows", 4, self._db.schema), *places)
        packed = await _thought(large, lambda: _added(rows, there))
        await self._call(connection, "rollup_put", *places, packed, news)
        return len(rows)

    async def _call(self, connection: Any, function: str, *args: Any) -> Any:
        return await connection.fetchrow(schemas.call(function, len(args), self._db.schema), *args)

    async def measured(
        self, span: int, since: float, until: float, *, queue: str = "", task: str = ""
    ) -> list[Sample]:
        """See Measures.measured."""
        within = (math.ceil(since), math.ceil(until))  # rows begin at whole seconds
        return [_sample(row) for row in await self._db.query("measured", span, queue, task, *within)]

    async def totals(self) -> list[Sample]:
        """See Measures.totals."""
        return [_sample(row) for row in await self._db.query("totals", EVER)]

    async def events(
        self, *, job: int | None = None, queue: str | None = None, limit: int = 100, before: int | None = None
    ) -> list[EventRecord]:
        """See Measures.events."""
        page = (LATEST if before is None else min(before, LATEST), limit)
        if job is not None:
            rows = await self._db.query("events_of_job", *page, job, queue)
        elif queue is not None:
            rows = await self._db.query("events_of_queue", *page, queue)
        else:
            rows = await self._db.query("events", *page)
        return [EventRecord(**dict(row)) for row in rows]

    async def task_depths(self, most: int = 100_000) -> list[TaskDepth]:
        """See Measures.task_depths."""
        return [TaskDepth(**dict(row)) for row in await self._db.rows("task_depths", most)]

    async def causes(
        self, *, queue: str | None = None, task: str | None = None, limit: int = 10_000
    ) -> Causes:
        """See Measures.causes."""
        (row,) = await self._db.rows("list_causes", queue, task, limit)
        return Causes(_causes(row["groups"]), row["looked"], row["more"])

    async def health(self) -> Health:
        """See Measures.health."""
        return await health(self._db)


async def _thought(large: bool, think: Callable[[], T]) -> T:
    return await asyncio.to_thread(think) if large else think()


def _added(rows: dict[Place, Sample], there: Iterable[Any]) -> list[bytes]:
    """The rows together with what they have counted so far, as they are kept."""
    for found in there:
        place = Place(found["span"], found["at"], found["queue"], found["task"])
        try:
            rows[place].add(_sample(found))
        except msgspec.MsgspecError as error:
            logger.warning("the measures of %s cannot be read and begin anew: %s", place, error)
    return [pack(row) for row in rows.values()]


def _sample(row: Any) -> Sample:
    return unpack(row["sample"], row["at"], row["queue"], row["task"])
