"""Counts of ended jobs on PostgreSQL [M7]: the fold of claims and outcomes, in bounded steps. Its
functions are in `sql/logs.sql`. Counts of jobs aside are kept here, too; see `sql/listing_depths.sql`.

    counted claims ──▶ ended_count          open and later claims ──▶ counted when somebody asks

A claim is counted once, when nothing of it is unfinished. Rotation drops no claim before.
"""

from __future__ import annotations

import time
from collections import defaultdict
from typing import Final

from windlass.core.rollup import Sample
from windlass.store.postgres.connections.database import Database
from windlass.store.records import Counted, Miscount

KEEP_EVERY: Final = 10.0
KEEP_SHARE: Final = 0.01
"""The part of the time that goes into counting jobs aside: the longer it takes, the less often it is done."""


class Counts:
    """Counts what has ended. What is counted is in the database; here is only where the next step begins."""

    def __init__(self, database: Database) -> None:
        self._db = database
        self._after = 0
        self._again = False
        self._keep_at = 0.0

    async def ended(self) -> list[Sample]:
        """See Store.ended."""
        counts: defaultdict[tuple[str, str], dict[str, int]] = defaultdict(dict)
        for row in await self._db.rows("ended"):
            counts[row["queue"], row["task"]][row["kind"]] = row["n"]
        return [Sample(at=0, queue=queue, task=task, counts=each) for (queue, task), each in counts.items()]

    async def count_ends(self, limit: int = 1000) -> Counted:
        """See Store.count_ends. Another one at the same time finds nothing to do. Who has this duty also
        counts jobs aside, where they are many, so that nobody who asks for depths need do so [M1]."""
        if self._after == 0 and time.monotonic() >= self._keep_at:
            began = time.monotonic()
            self._keep_at = began + KEEP_EVERY
            await self._db.value("keep_depths")
            self._keep_at = max(self._keep_at, began + (time.monotonic() - began) / KEEP_SHARE)
        row = await self._db.call("count_ends", self._after, limit)
        if row["busy"]:
            return Counted()
        self._after = row["lane"] or 0
        self._again |= row["more"]
        more = self._after > 0 or self._again
        if self._after == 0:
            self._again = False
        return Counted(row["claims"], more)

    async def recount(self) -> list[Miscount]:
        """See Store.recount."""
        return [Miscount(**row) for row in await self._db.rows("recount")]
