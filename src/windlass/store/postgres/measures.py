"""Measures on PostgreSQL: what processes tell, the rollup that folds it into the rows of charts, and reading
them [M1] [M2]. How the store itself is doing is in `health`.

What is counted how is decided in `windlass.core.rollup`. Here only one step of it is made safe: what was
taken is added and forgotten in one transaction, under a lock that one rollup holds at a time.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from windlass.core.rollup import EVER, KEPT, Place, Sample, roll
from windlass.store.measures import EventRecord, Health, News, Rolled, TaskDepth
from windlass.store.postgres import schema as schemas
from windlass.store.postgres.database import Database
from windlass.store.postgres.health import health
from windlass.store.telling import EVENTS_KEPT, MOST_EVENTS, TELLERS_KEPT, kept

LATEST: Final = 2**63 - 1

logger = logging.getLogger("windlass.store")
_encode = msgspec.json.Encoder().encode
_samples = msgspec.json.Decoder(list[Sample]).decode
_counts = msgspec.json.Decoder(dict[str, int]).decode
_buckets = msgspec.json.Decoder(dict[int, int]).decode


class Measures:
    """What `windlass.store.measures` promises."""

    _db: Database

    async def tell(self, source: int, number: int, news: News) -> float:
        """See Measures.tell."""
        events = [kept(event) for event in news.events]
        return float(
            await self._db.value(
                "tell",
                source,
                number,
                _encode(news.samples).decode() if news.samples else None,
                _encode(events).decode() if events else None,
                None if news.vitals is None else _encode(news.vitals).decode(),
            )
        )

    async def rollup(self, limit: int = 1000) -> Rolled:
        """See Measures.rollup. Another one at the same time finds nothing to do."""
        async with (
            self._db.connection(self._db.deadline) as connection,
            connection.transaction(isolation="read_committed"),
        ):
            taken = await self._call(connection, "rollup_take", limit)
            if taken["busy"]:
                return Rolled()
            written = 0
            if taken["ids"]:
                written = await self._fold(connection, taken["ids"], taken["samples"])
            old = await self._call(
                connection, "rollup_expire", limit, list(KEPT), list(KEPT.values()), EVENTS_KEPT, MOST_EVENTS,
                TELLERS_KEPT,
            )  # fmt: skip
        more = len(taken["ids"]) >= limit or old["more"]
        return Rolled(len(taken["ids"]), written, old["removed"], more)

    async def _fold(self, connection: Any, news: Sequence[int], texts: Iterable[str]) -> int:
        """Add what was told to the rows it belongs to, and forget it: how many rows that were."""
        rows = roll(sample for text in texts for sample in _read(text))
        spans, ats, queues, tasks = ([place[i] for place in rows] for i in range(4))
        there = schemas.call("rollup_rows", 4, self._db.schema)
        for found in await connection.fetch(there, spans, ats, queues, tasks):
            rows[Place(found["span"], found["at"], found["queue"], found["task"])].add(_sample(found))
        await self._call(connection, "rollup_put", _encode(_written(rows)).decode(), news)
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

    async def health(self) -> Health:
        """See Measures.health."""
        return await health(self._db)


def _read(text: str) -> list[Sample]:
    """The samples of one batch of news. What cannot be read or kept is dropped: the rollup would never come
    past it."""
    try:
        samples = _samples(text)
        if all(0 <= sample.at < LATEST and "\0" not in sample.queue + sample.task for sample in samples):
            return samples
        error = "a sample is of no time or name that can be kept"
    except msgspec.MsgspecError as problem:
        error = str(problem)
    logger.warning("what a process told cannot be read, so it is not counted: %s", error)
    return []


def _sample(row: Any) -> Sample:
    return Sample(
        at=row["at"],
        queue=row["queue"],
        task=row["task"],
        counts=_counts(row["counts"]),
        waits=_buckets(row["waits"]),
        runs=_buckets(row["runs"]),
    )


def _written(rows: dict[Place, Sample]) -> list[dict[str, Any]]:
    return [
        {**place._asdict(), "counts": row.counts, "waits": row.waits, "runs": row.runs}
        for place, row in rows.items()
    ]
