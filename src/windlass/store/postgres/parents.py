"""Parents and parts on PostgreSQL, and the settings of tasks. The decisions are in SQL: see advance.sql."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping
from typing import Any, Final

import asyncpg
import msgspec

from windlass.core.gates import gates_of
from windlass.core.states import State
from windlass.errors import ClaimLost, WindlassError
from windlass.store.postgres import schema as schemas
from windlass.store.postgres.database import Database
from windlass.store.postgres.faults import translated
from windlass.store.postgres.gates import Gates, is_carried
from windlass.store.postgres.reading import seconds
from windlass.store.records import ClaimedJob, ParentRecord, PartRecord, Plan, TaskRecord
from windlass.store.tasks import changed

LARGEST: Final = 2**31 - 1

PARENT_WAIT: Final = 100
"""Milliseconds to wait for a parent that somebody else is working on, before it is left to promote."""

logger = logging.getLogger("windlass.store")


class Parents(Gates):
    """What is done with parents and tasks."""

    _db: Database

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
            min(plan.parallel, LARGEST),
            min(plan.tolerated, LARGEST),
            plan.finalizer,
        )
        if answer == "refused":
            raise ClaimLost(f"job {job.id} is not held by claim {job.claim} any more; it was not split")
        if is_carried(job.id, job.lane, job.seq):  # it has passed gates, and so must its parts
            options = msgspec.structs.replace(job.options, ordering_key=None)
            gates = [gate.name for gate in gates_of(job.queue, job.task, options)]
            async with self._db.connection(self._db.deadline) as connection:
                await self._admit(connection, [*gates, f"task:{job.task}"])

    async def parent(self, id: int) -> ParentRecord | None:
        """See Store.parent."""
        rows = await self._db.query("parent", id) if 0 < id < 2**63 else []
        return _parent(rows[0]) if rows else None

    async def parents(self, *, active: bool = False, limit: int = 50) -> list[ParentRecord]:
        """See Store.parents."""
        return [_parent(row) for row in await self._db.query("parents", active, limit)]

    async def parts(self, parent: int, *, start: int = 0, limit: int = 1000) -> list[PartRecord]:
        """See Store.parts."""
        if not 0 < parent < 2**63:
            return []
        rows = await self._db.query("parts", parent, min(start, LARGEST), limit)
        return [_part(row) for row in rows]

    async def set_parent(self, id: int, *, parallel: int) -> ParentRecord | None:
        """See Store.set_parent."""
        if parallel < 1:
            raise ValueError(f"parallel of parent {id} cannot be {parallel}: write 1 or more")
        if not 0 < id < 2**63 or not await self._db.value("set_parent", id, min(parallel, LARGEST)):
            return None
        return await self.parent(id)

    async def redrive(self, id: int) -> int:
        """See Store.redrive."""
        return int(await self._db.value("redrive", id)) if 0 < id < 2**63 else 0

    async def _advance(
        self, connection: Any, parents: Iterable[int], *, cancel: bool = False, wait: int = PARENT_WAIT
    ) -> None:
        """Bring parents up to date, or cancel them, each in a transaction of its own. What fails here is
        logged, and keeps nobody else from being brought up to date: promote tries again in a second. Once one
        was waited for in vain, the others are only tried [S2]."""
        for parent in parents:
            try:
                with translated():
                    if not await self._advance_one(connection, parent, cancel, wait):
                        wait = 0
            except (WindlassError, asyncpg.PostgresError) as error:
                logger.warning(
                    "parent %d was not brought up to date, which the next promote will do: %s", parent, error
                )
                if connection.is_closed():
                    return

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

    # -- settings of tasks, and turns -------------------------------------------------------------------

    async def tasks(self) -> list[TaskRecord]:
        """See Store.tasks."""
        return [_task(row) for row in await self._db.query("tasks")]

    async def set_task(self, name: str, changes: Mapping[str, Any]) -> TaskRecord:
        """See Store.set_task."""
        changed(TaskRecord(name=name), changes)
        return _task(await self._db.call("set_task", name, json.dumps(dict(changes))))

    async def turn(self, name: str, every: float) -> bool:
        """See Store.turn."""
        return bool(await self._db.value("turn", name, float(every)))


def _parent(row: Any) -> ParentRecord:
    return ParentRecord(
        id=row["id"],
        task=row["task"],
        queue=row["queue"],
        state=State(row["state"]),
        total=row["total"],
        succeeded=row["succeeded"],
        dead=row["dead"],
        cancelled=row["cancelled"],
        out=row["out"],
        parallel=row["parallel"],
        tolerated=row["tolerated"],
        size=row["size"],
        done=row["done"],
        records=row["records"],
        final=row["final"],
        cancel_requested=row["cancel_requested"],
        reason=row["reason"],
        created_at=row["created_at"].timestamp(),
        finished_at=seconds(row["finished_at"]),
    )


def _part(row: Any) -> PartRecord:
    return PartRecord(
        parent=row["parent"],
        index=row["index"],
        total=row["total"],
        span=row["span"],
        size=row["size"],
        state=State(row["state"]),
        job=row["job"],
        attempt=row["attempt"],
        done=row["done"],
        records=row["records"],
        error=row["error"],
        created_at=row["created_at"].timestamp(),
    )


def _task(row: Any) -> TaskRecord:
    return TaskRecord(
        name=row["name"],
        batch=row["batch"],
        batch_timeout=row["batch_timeout"],
        parallel=row["parallel"],
        concurrency=row["concurrency"],
        key_concurrency=row["key_concurrency"],
    )
