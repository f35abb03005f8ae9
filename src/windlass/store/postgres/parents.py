"""Parents and parts on PostgreSQL [P4] [P9]. The decisions are in SQL: see `sql/parents.sql`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, Final

import asyncpg
import msgspec

from windlass.core.flow.gates import gates_of
from windlass.core.states import State
from windlass.errors import ClaimLost, StoreBusy, StoreUnavailable, WindlassError
from windlass.store.postgres import schema as schemas
from windlass.store.postgres.connections.database import Database
from windlass.store.postgres.connections.errors import translated
from windlass.store.postgres.flow.limits import Limits, is_carried
from windlass.store.postgres.rows import record_of
from windlass.store.records import ClaimedJob, ParentRecord, PartRecord, Parts, Plan, states_of_parts

LARGEST: Final = 2**31 - 1

PARENT_WAIT: Final = 100
"""Milliseconds to wait for a parent that somebody else is working on, before it is left to promote."""

OFFER_PAUSE: Final = 1.0
"""Seconds until a parent is asked again to offer parts after a claim, where that failed. A worker that is
full, or finds nothing, claims no more: the parent would offer nothing until one of its parts ends."""

logger: Final = logging.getLogger("windlass.store")


class Parents:
    """Splits jobs into parts, and brings parents up to date with them."""

    def __init__(self, database: Database, limits: Limits) -> None:
        self._db = database
        self._limits = limits
        self._claimed: dict[int, dict[int, ClaimedJob]] = {}
        """Jobs of parts that were claimed here, by parent, until their parent knows."""
        self._offering: asyncio.Task[None] | None = None

    async def split(self, worker: int, flush: int, job: ClaimedJob, plan: Plan) -> None:
        """See Store.split."""
        if job.options.part is not None:
            raise ValueError(
                f"job {job.id} is a part of job {job.options.part.parent}: a part cannot be split"
            )
        answer = await self._db.value(
            "split",
            worker,
            flush,
            job.id,
            job.lane,
            job.claim,
            job.seq,
            [part.span for part in plan.parts],
            [part.size for part in plan.parts],
            None if plan.parallel is None else min(plan.parallel, LARGEST),
            min(plan.tolerated, LARGEST),
            plan.finalizer,
        )
        if answer == "refused":
            raise ClaimLost(f"job {job.id} is no longer held by claim {job.claim}; it was not split")
        await self._admit([job])

    async def parent(self, id: int) -> ParentRecord | None:
        """See Store.parent."""
        rows = await self._db.query("parent", id) if 0 < id < 2**63 else []
        return record_of(ParentRecord, rows[0]) if rows else None

    async def parents(self, *, active: bool = False, limit: int = 50) -> list[ParentRecord]:
        """See Store.parents."""
        return [record_of(ParentRecord, row) for row in await self._db.query("parents", active, limit)]

    async def parts(self, parent: int, *, start: int = 0, limit: int = 1000) -> list[PartRecord]:
        """See Store.parts."""
        if not 0 < parent < 2**63:
            return []
        rows = await self._db.query("parts", parent, min(start, LARGEST), limit)
        return [record_of(PartRecord, row) for row in rows]

    async def part_states(self, parent: int) -> list[State]:
        """See Store.part_states."""
        rows = await self._db.query("part_states", parent) if 0 < parent < 2**63 else []
        runs = [(row["first"], row["n"], State(row["state"])) for row in rows if row["first"] is not None]
        return states_of_parts(rows[0]["total"] if rows else 0, runs)

    async def set_parent(self, id: int, *, parallel: int | None) -> ParentRecord | None:
        """See Store.set_parent."""
        if parallel is not None and parallel < 1:
            raise ValueError(f"parallel of parent {id} cannot be {parallel}: write 1 or more")
        most = None if parallel is None else min(parallel, LARGEST)
        if not 0 < id < 2**63 or not await self._db.value("set_parent", id, most):
            return None
        return await self.parent(id)

    async def redrive(self, id: int) -> int:
        """See Store.redrive."""
        return int(await self._db.value("redrive", id)) if 0 < id < 2**63 else 0

    async def advance(
        self,
        connection: Any,
        parents: Iterable[int],
        *,
        cancel: bool = False,
        wait: int = PARENT_WAIT,
    ) -> None:
        """Bring parents up to date, or cancel them, each in a transaction of its own. What fails is logged
        and does not hold up the others: promote tries again in a second. Once one was waited for in vain, the
        others are only tried [S2]."""
        for parent in parents:
            try:
                with translated():
                    if not await self._advance_one(connection, parent, cancel, wait):
                        wait = 0
            except (WindlassError, asyncpg.PostgresError) as error:
                logger.warning(
                    "parent %d was not brought up to date; the next promote will do it: %s", parent, error
                )
                if connection.is_closed():
                    return

    async def claimed(self, parts: Parts, wanted: int = 1) -> None:
        """Parts of these parents were claimed: each offers others, until so many wait [P8]. Where
        that fails it is tried each second, whether or not anything else is claimed here."""
        for parent, jobs in parts.items():
            self._claimed.setdefault(parent, {}).update((job.id, job) for job in jobs)
        await self._offer_next(list(parts), wanted, PARENT_WAIT)
        if self._claimed and (self._offering is None or self._offering.done()):
            self._offering = asyncio.create_task(self._offer_later())

    async def close(self) -> None:
        """Stop trying."""
        if self._offering is not None:
            self._offering.cancel()
            await asyncio.wait([self._offering])

    async def _offer_later(self) -> None:
        while self._claimed:
            await asyncio.sleep(OFFER_PAUSE)
            await self._offer_next(list(self._claimed), 1, 0)

    async def _offer_next(self, parents: Sequence[int], wanted: int, wait: int) -> None:
        """Nothing that fails here is the claim's failure: its jobs are to be run. Once one was waited for in
        vain, the others are only tried [S2]."""
        for parent in parents:
            known = self._claimed.get(parent, {})
            jobs = list(known.values())
            try:
                answer = await self._db.value("advance", parent, wait, wanted, list(known))
                if answer == "busy":
                    wait = 0
                    continue
                for job in jobs:  # more may have been claimed meanwhile
                    known.pop(job.id, None)
                if not self._claimed.get(parent, True):
                    del self._claimed[parent]
                with suppress(StoreUnavailable):  # then promote does it
                    await self._admit(jobs[:1])
            except (WindlassError, asyncpg.PostgresError) as error:
                logger.warning(
                    "parent %d has not recorded yet that its parts were claimed: %s", parent, error
                )
                if isinstance(error, StoreUnavailable) and not isinstance(error, StoreBusy):
                    return

    async def _admit(self, jobs: Sequence[ClaimedJob]) -> None:
        """Take parts that were just offered through the gates that their jobs have to pass."""
        carried = [job for job in jobs if is_carried(job.id, job.lane, job.seq)]
        if carried:
            gates = [
                gate.name
                for job in carried
                for gate in gates_of(
                    job.queue, job.task, msgspec.structs.replace(job.options, ordering_key=None)
                )
            ]
            rings = {
                (job.queue, job.priority, job.options.needs or "")
                for job in carried
                if job.options.fair_key is not None
            }
            async with self._db.connection(self._db.deadline) as connection:
                tasks = [f"task:{job.task}" for job in carried]
                await self._limits.admit(connection, [*gates, *tasks], rings)

    async def _advance_one(self, connection: Any, parent: int, cancel: bool, wait: int) -> bool:
        """False: somebody else has it."""
        if not cancel:
            sql = schemas.call("advance", 2, self._db.schema)
            return bool(await connection.fetchval(sql, parent, wait) != "busy")
        try:
            async with connection.transaction(isolation="read_committed"):
                await connection.execute(f"SET LOCAL lock_timeout = {max(wait, 1)}")
                await connection.fetchval(schemas.call("cancel", 1, self._db.schema), parent)
        except asyncpg.LockNotAvailableError:
            return False
        return True
