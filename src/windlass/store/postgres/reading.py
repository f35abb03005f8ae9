"""Looking jobs up on PostgreSQL. Nothing here writes."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from windlass.core.states import State
from windlass.store.measures import Vitals
from windlass.store.postgres import schema as schemas
from windlass.store.postgres.claims import decode_options
from windlass.store.postgres.database import Database
from windlass.store.postgres.listing import MOST_ROWS, Walk
from windlass.store.records import (
    Checkpoint,
    Claim,
    ClaimedJob,
    Depth,
    Failure,
    Fence,
    JobFilter,
    JobRecord,
    Matches,
    Page,
    QueueRecord,
    Steering,
    WorkerRecord,
)

_vitals = msgspec.json.Decoder(Vitals).decode
_failures = msgspec.json.Decoder(list[Failure]).decode
_queues = msgspec.json.Decoder(dict[str, QueueRecord]).decode
_slots = msgspec.json.Decoder(dict[int, dict[str, int]]).decode
_serving = msgspec.json.Decoder(dict[str, int]).decode


def seconds(moment: datetime | None) -> float | None:
    """A timestamp as seconds since the epoch."""
    return None if moment is None else moment.timestamp()


def record(row: Any) -> JobRecord:
    """A row of the job view as a record, without what hangs on the job."""
    return JobRecord(
        id=row["id"],
        task=row["task"],
        queue=row["queue"],
        priority=row["priority"],
        state=State(row["state"]),
        payload=row["payload"],
        attempt=row["attempt"],
        deaths=row["deaths"],
        options=decode_options(row["options"]),
        enqueued_at=row["enqueued_at"].timestamp(),
        run_at=seconds(row["run_at"]),
        claimed_at=seconds(row["claimed_at"]),
        finished_at=seconds(row["finished_at"]),
        worker=row["worker"],
        claim=row["claim"],
        reason=row["reason"],
    )


def _with_extras(found: JobRecord, extra: Any) -> JobRecord:
    checkpoint = None
    if extra["data"] is not None:
        checkpoint = Checkpoint(extra["data"], extra["done"], extra["total"], extra["at"].timestamp())
    return msgspec.structs.replace(
        found,
        result=extra["result"],
        errors=tuple(_failures(extra["errors"] or "[]")),
        cancel_requested=extra["cancel"],
        checkpoint=checkpoint,
    )


def _vitals_of(text: str | None) -> Vitals | None:
    """What a worker told of itself. Rescues ask for workers, too: they must not fail for what only pages
    show."""
    try:
        return None if text is None else _vitals(text)
    except msgspec.MsgspecError:
        return None


class Reader:
    """Reads jobs, queues and workers."""

    def __init__(self, database: Database) -> None:
        self._db = database
        self._schema = database.schema

    async def job(self, job: int) -> JobRecord | None:
        """See Store.job."""
        async with self._db.connection() as connection:
            find = schemas.query("find_job", self._schema)
            # TRUNCATE heeds no snapshot: one taken just before a reclaim sees a carried job neither in its
            # old place nor in its new one [rule 7]. So what was not found is looked for once more.
            row = await connection.fetchrow(find, job) or await connection.fetchrow(find, job)
            return None if row is None else (await self._complete(connection, [row]))[0]

    async def _complete(self, connection: Any, rows: Sequence[Any]) -> list[JobRecord]:
        """Rows of the job view with what hangs on the jobs: result, failures, cancel request, checkpoint."""
        extras = await connection.fetch(
            schemas.query("job_extras", self._schema),
            [row["id"] for row in rows],
            [row["state"] for row in rows],
        )
        return [_with_extras(record(row), extra) for row, extra in zip(rows, extras, strict=True)]

    async def jobs(self, where: JobFilter, limit: int, cursor: str | None, within: float) -> Page:
        """See Store.jobs."""
        async with self._db.moment() as connection:
            rows, more, looked, back_to = await self._walked(connection, where, limit, cursor, within)
            return Page(await self._complete(connection, rows), more, looked, back_to)

    async def matches(self, where: JobFilter, most: int, cursor: str | None, within: float | None) -> Matches:
        """See Store.matches."""
        async with self._db.moment() as connection:
            rows, more, *_ = await self._walked(connection, where, most, cursor, within)
        return Matches([row["id"] for row in rows], more)

    async def _walked(
        self, connection: Any, where: JobFilter, most: int, cursor: str | None, within: float | None
    ) -> tuple[list[Any], str | None, int, float | None]:
        """Walk on, for so many seconds, until there are enough: the rows, and what a page tells of them."""
        rows: list[Any] = []
        looked, back_to = 0, None
        until = math.inf if within is None else time.monotonic() + within
        while True:
            walk = Walk(self._schema, where, min(most - len(rows), MOST_ROWS), cursor)
            rows += await walk.run(connection)
            looked += walk.looked
            back_to = back_to if walk.back_to is None else walk.back_to
            cursor = walk.cursor
            if cursor is None or len(rows) >= most or time.monotonic() >= until:
                return rows, cursor, looked, back_to

    async def held(self, worker: int) -> list[Claim]:
        """See Store.held. A claim whose answer was lost may still be under way: it is waited for."""
        async with (
            self._db.connection(self._db.deadline) as connection,
            connection.transaction(isolation="read_committed"),
        ):
            await connection.execute(schemas.call("worker_alone", 1, self._db.schema), worker)
            rows = await connection.fetch(schemas.query("held_jobs", self._db.schema), worker)
        claims: dict[int, Claim] = {}
        for r in rows:
            claim = claims.setdefault(r["claim"], Claim(r["claim"], r["lane"], r["queue"], r["priority"], []))
            options = decode_options(r["options"])
            claim.jobs.append(
                ClaimedJob(
                    r["id"], r["lane"], r["claim"], r["seq"], r["task"], r["payload"], r["queue"],
                    r["priority"], r["attempt"], r["deaths"], options, r["enqueued"], r["offered"],
                )
            )  # fmt: skip
        return list(claims.values())

    async def fences(self, worker: int, since: int) -> set[Fence]:
        """See Store.fences."""
        spans = await self._db.rows("held_spans", worker, since)
        return {(r["lane"], r["claim"], seq) for r in spans for seq in range(r["first"], r["beyond"])}

    async def checkpoints(self, jobs: Sequence[int]) -> dict[int, Checkpoint]:
        """See Store.checkpoints."""
        rows = await self._db.query("checkpoints", list(jobs))
        return {r["job"]: Checkpoint(r["data"], r["done"], r["total"], r["at"].timestamp()) for r in rows}

    async def depth(self, queues: Sequence[str] | None) -> dict[str, Depth]:
        """See Store.depth."""
        rows = await self._db.query("depths")
        depths = {
            r["queue"]: Depth(
                r["ready"],
                r["running"],
                r["scheduled"],
                r["retrying"],
                r["dead"],
                None if r["waited"] is None else max(r["waited"], 0.0),
                r["offered"],
            )
            for r in rows
        }
        return depths if queues is None else {name: depths.get(name, Depth()) for name in queues}

    async def workers(self) -> list[WorkerRecord]:
        """See Store.workers."""
        rows = await self._db.query("workers")
        return [
            WorkerRecord(
                id=r["id"],
                label=r["label"],
                host=r["host"],
                pid=r["pid"],
                queues=tuple(r["queues"]),
                alive=r["alive"],
                beat=r["beat"],
                started_at=r["started_at"].timestamp(),
                beat_at=r["at"].timestamp(),
                lease=r["lease"],
                vitals=_vitals_of(r["vitals"]),
                vitals_at=seconds(r["vitals_at"]),
            )
            for r in rows
        ]

    async def queues(self) -> list[QueueRecord]:
        """See Store.queues."""
        return [queue_record(row) for row in await self._db.query("queues")]

    async def steering(self, workers: Sequence[int]) -> Steering:
        """See Store.steering."""
        (row,) = await self._db.query("steering", list(workers))
        return Steering(
            _queues(row["queues"] or "{}"), _slots(row["slots"] or "{}"), _serving(row["serving"] or "{}")
        )


def queue_record(row: Any) -> QueueRecord:
    """A row of the queue table, with its `cooling` and `flow`, as a record."""
    return QueueRecord(
        name=row["name"],
        paused=row["paused"],
        max_workers=row["max_workers"],
        retention=row["retention"],
        dead_retention=row["dead_retention"],
        window=row["lane_window"],
        safety_bound=row["safety_bound"],
        backoff=row["backoff"],
        backoff_base=row["backoff_base"],
        backoff_cap=row["backoff_cap"],
        cool_base=row["cool_base"],
        cool_cap=row["cool_cap"],
        concurrency=row["concurrency"],
        governor=row["governor"],
        rate_min=row["rate_min"],
        rate_max=row["rate_max"],
        max_depth=row["max_depth"],
        shed_depth=row["shed_depth"],
        shed_wait=row["shed_wait"],
        shed_latency=row["shed_latency"],
        throttles=row["throttles"],
        cooling=row["cooling"],
        refused=row["refused"],
        shed=row["shed"],
        **json.loads(row["flow"]),
    )
