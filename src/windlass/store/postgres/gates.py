"""Gates on PostgreSQL: who waits at them, how far ordering keys have come, and letting the next ones in. The
decisions are in SQL: see admit_gates.sql."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable, Sequence
from typing import Any, Final

import asyncpg

from windlass.core.gates import gates_of
from windlass.core.ids import SEQ_BITS
from windlass.errors import StoreForbidden, WindlassError
from windlass.store.flow import GateRecord, Watermark
from windlass.store.postgres import schema as schemas
from windlass.store.postgres.database import Database
from windlass.store.postgres.faults import translated
from windlass.store.postgres.listen import Listener
from windlass.store.records import NewJob, Receipt

GATE_WAIT: Final = 100
"""Milliseconds to wait for a gate that somebody else lets jobs through, before it is left to promote."""

ADMIT_STEP: Final = 1000

CALL_PAUSE: Final = 0.02
"""Seconds between two promotions at least that are called for: under a flood of keyed jobs each call would
be one."""

ASIDE: Final = "+"
"""The word by which the coordinator is called to jobs that wait aside; see stir_gates.sql."""

logger = logging.getLogger("windlass.store")


def lines_of(jobs: Sequence[NewJob], receipts: Sequence[Receipt]) -> set[str]:
    """The gates at whose lines these new jobs stand. One that waits aside and says nothing of a gate itself
    has a limit by its task's settings, or a fair key, for which no gate is."""
    lines: set[str] = set()
    for job, receipt in zip(jobs, receipts, strict=True):
        if receipt.status in ("held", "replaced"):
            gates = gates_of(job.queue, job.task, job.options)
            if gates or job.options.fair_key is None:
                lines.add(gates[0].name if gates else f"task:{job.task}")
    return lines


def is_carried(id: int, lane: int, seq: int) -> bool:
    """Whether a job brought its id to its place in a lane: only such a one can have passed a gate."""
    return id != lane << SEQ_BITS | seq


def rings_of(jobs: Sequence[NewJob], receipts: Sequence[Receipt]) -> set[tuple[str, int]]:
    """The queues and priorities in whose rings these new jobs wait for the turn of their fair keys."""
    return {
        (job.queue, int(job.priority))
        for job, receipt in zip(jobs, receipts, strict=True)
        if receipt.status in ("held", "replaced") and job.options.fair_key is not None
    }


class Gates:
    """What the store says of gates, and how it lets jobs through them at once."""

    _db: Database
    _listener: Listener
    _promoted: int = 0
    _promoted_at: float = 0.0

    async def wait_aside(self, timeout: float) -> None:
        """See Store.wait_aside. Whoever sets jobs aside calls; what was called before the last promote began
        has been looked at. Calls that come at a fast pace are answered together."""
        if await self._listener.wait([ASIDE], timeout, [self._promoted]):
            await asyncio.sleep(max(self._promoted_at + CALL_PAUSE - time.monotonic(), 0.0))

    async def gates(self, limit: int = 100) -> list[GateRecord]:
        """See Store.gates."""
        rows = await self._db.rows("list_gates", limit)
        return [
            GateRecord(name=r["name"], passes=r["passes"], waiting=r["waiting"], oldest=max(r["oldest"], 0.0))
            for r in rows
        ]

    async def watermarks(self, queue: str, *, key: str | None = None, limit: int = 100) -> list[Watermark]:
        """See Store.watermarks."""
        rows = await self._db.rows("list_watermarks", queue, key, limit)
        return [
            Watermark(
                queue=queue,
                key=r["key"],
                position=r["position"],
                at=r["at"].timestamp(),
                waiting=r["waiting"],
                age=max(r["age"] or 0.0, 0.0),
            )
            for r in rows
        ]

    async def _admit(
        self, connection: Any, gates: Iterable[str], rings: Iterable[tuple[str, int]] = ()
    ) -> None:
        """Let jobs through gates, or into lanes, where room was made or a job has come, in transactions of
        their own. What fails here is logged: it was noted as well, and promote looks there. Who may only
        produce leaves it to the coordinator, which was called."""
        names = sorted(set(gates))
        try:
            with translated():
                if names:
                    await connection.fetchval(
                        schemas.call("admit_gates", 3, self._db.schema), names, ADMIT_STEP, GATE_WAIT
                    )
                for queue, priority in rings:
                    await connection.fetchval(
                        schemas.call("admit_ring", 3, self._db.schema), queue, priority, ADMIT_STEP
                    )
        except StoreForbidden:
            return
        except (WindlassError, asyncpg.PostgresError) as error:
            logger.warning("jobs that wait aside were not let in, which the next promote will do: %s", error)
