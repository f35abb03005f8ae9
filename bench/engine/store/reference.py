"""What one would write by hand, measured in the same run: the yardsticks of the PostgreSQL store.

The raw insert is the limit for bulk enqueue. The SKIP LOCKED loop is the usual queue, written with care:
prepared statements, one statement per claim and per completion, an index on what is ready, a fresh and
analysed table for each measurement, and autovacuum as the server has it. The statements are in `sql/`.
"""

from __future__ import annotations

import secrets
import time
from pathlib import Path
from typing import Any, Final

from bench.engine.figures import Taken
from bench.engine.jobs import TASK
from bench.engine.plan import Plan
from bench.engine.store.scenarios import payloads

SQL: Final = Path(__file__).parent / "sql"


def statement(name: str) -> str:
    """A statement of `sql/`."""
    return (SQL / f"{name}.sql").read_text("utf-8")


class Reference:
    """The yardsticks, on one connection and tables of their own in the database of the run."""

    def __init__(self, connection: Any, plan: Plan) -> None:
        self._connection = connection
        self._plan = plan
        self._payloads = payloads(plan)
        self._worker = secrets.randbelow(2**62) + 1
        self._seq = 0
        self._prepared: dict[str, Any] = {}

    async def create(self) -> None:
        """Create the tables, prepare the statements, and run each once."""
        await self._connection.execute(statement("reference"))
        for name in ("raw_insert", "classic_load", "classic_claim", "classic_finish"):
            self._prepared[name] = await self._connection.prepare(statement(name))
        for batch in (self._plan.reference_batch, self._plan.claim_batch):
            await self._load(batch)
            await self._claim_and_finish(batch)
        await self._insert(len(self._payloads))

    async def raw_insert(self) -> Taken:
        """INSERT … SELECT … unnest, in batches of the size that bulk enqueue has."""
        done, plan = 0, self._plan
        began = time.perf_counter()
        while done < plan.jobs and time.perf_counter() - began < plan.seconds:
            done += await self._insert(min(plan.jobs - done, plan.enqueue_batch))
        return Taken(done, time.perf_counter() - began)

    async def skip_locked(self, batch: int) -> Taken:
        """Claim with FOR UPDATE SKIP LOCKED, complete with one UPDATE, until nothing is left."""
        done = 0
        began = time.perf_counter()
        while time.perf_counter() - began < self._plan.seconds and (n := await self._claim_and_finish(batch)):
            done += n
        return Taken(done, time.perf_counter() - began)

    async def refill(self) -> None:
        """A fresh classic table with the planned number of jobs in it."""
        await self._connection.execute("TRUNCATE bench_classic")
        for start in range(0, self._plan.jobs, self._plan.enqueue_batch):
            await self._load(min(self._plan.jobs - start, self._plan.enqueue_batch))
        await self._connection.execute("ANALYZE bench_classic")

    async def _insert(self, n: int) -> int:
        seqs = list(range(self._seq + 1, self._seq + n + 1))
        self._seq += n
        await self._prepared["raw_insert"].fetch(TASK, seqs, self._payloads[:n])
        return n

    async def _load(self, n: int) -> None:
        await self._prepared["classic_load"].fetch(TASK, self._payloads[:n])

    async def _claim_and_finish(self, batch: int) -> int:
        rows = await self._prepared["classic_claim"].fetch(self._worker, batch)
        if rows:
            await self._prepared["classic_finish"].fetch([row["id"] for row in rows], self._worker)
        return len(rows)
