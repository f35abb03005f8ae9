"""Limits on PostgreSQL [F3] [F6] [C3]: who waits at which gate, how far ordering keys have come, and letting
the next ones in. The decisions are in SQL: see `sql/flow/limits_admit.sql`."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final

import asyncpg

from windlass.core.flow.gates import gates_of
from windlass.core.ids import SEQ_BITS
from windlass.errors import StoreForbidden, WindlassError
from windlass.store.postgres import schema as schemas
from windlass.store.postgres.connections.database import Database
from windlass.store.postgres.connections.errors import translated
from windlass.store.postgres.connections.listener import Listener
from windlass.store.postgres.rows import record_of
from windlass.store.records import GateRecord, NewJob, Receipt, Watermark

GATE_WAIT: Final = 100
"""Milliseconds to wait for a gate that somebody else lets jobs through, before it is left to promote."""

ADMIT_STEP: Final = 1000
"""Jobs that one transaction lets through at most."""

GATES_STEP: Final = 500
"""Gates that one transaction locks at most: the server has a few thousand locks for everybody."""

BACK_STEP: Final = 1000
"""Jobs that an enqueue which replaced one moves on, at most."""

CALL_PAUSE: Final = 0.02
"""Least seconds between two promotions that wake-ups ask for: in a flood of keyed jobs each would ask for
one."""

ASIDE: Final = "+"
"""The topic of wake-ups for jobs that wait aside, which the coordinator listens to; see
windlass.mark_gates_changed."""

logger: Final = logging.getLogger("windlass.store")


class Limits:
    """Gates: their listing, and letting jobs through them at once."""

    def __init__(self, database: Database, listener: Listener) -> None:
        self._db = database
        self._listener = listener
        self._promoted = 0
        self._promoted_at = 0.0

    async def gates(self, limit: int = 100) -> list[GateRecord]:
        """See Store.gates."""
        rows = await self._db.rows("list_gates", limit)
        return [record_of(GateRecord, row, oldest=max(row["oldest"], 0.0)) for row in rows]

    async def watermarks(self, queue: str, *, key: str | None = None, limit: int = 100) -> list[Watermark]:
        """See Store.watermarks."""
        rows = await self._db.rows("list_watermarks", queue, key, limit)
        return [record_of(Watermark, row, queue=queue, age=max(row["age"] or 0.0, 0.0)) for row in rows]

    async def wait_aside(self, timeout: float) -> None:
        """See Store.wait_aside. Whoever sets jobs aside sends a wake-up; the last promote has seen to those
        sent before it began. Wake-ups in quick succession are answered together."""
        if await self._listener.wait([ASIDE], timeout, [self._promoted]):
            await asyncio.sleep(max(self._promoted_at + CALL_PAUSE - time.monotonic(), 0.0))

    def promoting(self) -> None:
        """A promote begins: it looks at every job that was set aside until now."""
        self._promoted, self._promoted_at = self._listener.wakeups_of(ASIDE), time.monotonic()

    async def admit(
        self, connection: Any, gates: Iterable[str], rings: Iterable[tuple[str, int, str]] = ()
    ) -> None:
        """Let jobs through gates, or into lanes, where room was made or a job has come, in transactions of
        their own."""
        names = sorted(set(gates))
        with _left_to_promote("admit waiting jobs"):
            sql = schemas.call("admit_gates", 3, self._db.schema)
            for start in range(0, len(names), GATES_STEP):
                await connection.fetchval(sql, names[start : start + GATES_STEP], ADMIT_STEP, GATE_WAIT)
            for queue, priority, needs in rings:
                sql = schemas.call("admit_ring", 5, self._db.schema)
                await connection.fetchval(sql, queue, priority, ADMIT_STEP, 0, needs)

    async def admit_new(self, connection: Any, jobs: Sequence[NewJob], receipts: Sequence[Receipt]) -> None:
        """Let new jobs in at once that replace others or wait aside, where there is room for them. Where
        another session holds the lane of one that is to be replaced, or this role may only enqueue, the next
        promote does it."""
        if any(receipt.status == "replaced" for receipt in receipts):
            with _left_to_promote("replace a waiting job"):
                await connection.execute(schemas.query("replace_at_once", self._db.schema), BACK_STEP)
                await connection.execute(schemas.call("promote", 1, self._db.schema), BACK_STEP)
        await self.admit(connection, waiting_lists_of(jobs, receipts), rings_of(jobs, receipts))

    async def note(self, function: str, *args: Any) -> None:
        """Record what an enqueue saw of its queue, in a transaction of its own. The enqueue must not fail for
        it: the next promote sees what could not be recorded."""
        with suppress(WindlassError, asyncpg.PostgresError):
            await self._db.value(function, *args)


@contextmanager
def _left_to_promote(what: str) -> Iterator[None]:
    """Log failures and leave the work to the next promote, as is all of it where this role may only
    enqueue."""
    try:
        with translated():
            yield
    except StoreForbidden:
        return
    except (WindlassError, asyncpg.PostgresError) as error:
        logger.warning("could not %s; the next promote will do it: %s", what, error)


def waiting_lists_of(jobs: Sequence[NewJob], receipts: Sequence[Receipt]) -> set[str]:
    """The gates at which these new jobs wait. One that waits aside and names no gate itself has a limit by
    its task's settings, or a fair key, for which there is no gate."""
    found: set[str] = set()
    for job, receipt in zip(jobs, receipts, strict=True):
        if receipt.status in ("held", "replaced"):
            gates = gates_of(job.queue, job.task, job.options)
            if gates or job.options.fair_key is None:
                found.add(gates[0].name if gates else f"task:{job.task}")
    return found


def rings_of(jobs: Sequence[NewJob], receipts: Sequence[Receipt]) -> set[tuple[str, int, str]]:
    """In whose rings these new jobs wait for the turn of their fair keys: queue, priority, abilities."""
    return {
        (job.queue, int(job.priority), job.options.needs or "")
        for job, receipt in zip(jobs, receipts, strict=True)
        if receipt.status in ("held", "replaced") and job.options.fair_key is not None
    }


def is_carried(id: int, lane: int, seq: int) -> bool:
    """Return whether a job brought its id to its place in a lane: it has been elsewhere before, as behind a
    gate."""
    return id != lane << SEQ_BITS | seq
