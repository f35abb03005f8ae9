"""Looking jobs up on PostgreSQL. Nothing here writes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from windlass.core.states import State
from windlass.store.postgres.claims import decode_options
from windlass.store.postgres.database import Database
from windlass.store.records import (
    Checkpoint,
    Claim,
    ClaimedJob,
    Depth,
    Failure,
    JobFilter,
    JobRecord,
    Page,
    QueueRecord,
    WorkerRecord,
)

_failures = msgspec.json.Decoder(list[Failure]).decode

_JOB: Final = """
SELECT p.*, l.queue, l.priority FROM (
    SELECT windlass.job_of(x.ready) AS id, (x.ready).lane AS lane, (x.ready).task AS task,
           CASE WHEN x.kind IS NOT NULL THEN x.kind WHEN x.claim IS NOT NULL THEN 'running' ELSE 'ready' END AS state,
           (x.ready).attempt AS attempt, (x.ready).deaths AS deaths, (x.ready).payload AS payload,
           (x.ready).options AS options, windlass.enqueued_of(x.ready) AS enqueued_at, NULL::timestamptz AS run_at,
           x.claimed_at, x.finished_at, nullif(x.worker, 0) AS worker, x.claim, NULL::text AS reason
      FROM windlass.locate($1) AS x) AS p
  JOIN windlass.lane l ON l.id = p.lane
  JOIN windlass.queue q ON q.name = l.queue
 WHERE q.retention IS NULL OR p.finished_at IS NULL
    OR p.finished_at > windlass.now() - make_interval(secs => q.retention)
"""


_EXTRAS: Final = """
SELECT r.result, CASE WHEN j.state = 'dead' THEN d.errors ELSE windlass.failures_of(j.id) END AS errors,
       q.job IS NOT NULL AS cancel, k.data, k.done, k.total, k.at
  FROM unnest($1::bigint[], $2::text[]) WITH ORDINALITY AS j (id, state, i)
  LEFT JOIN LATERAL (SELECT x.result FROM windlass.result x
                      WHERE x.job = j.id AND j.state = 'succeeded' ORDER BY x.at DESC LIMIT 1) AS r ON true
  LEFT JOIN windlass.dead d ON d.id = j.id
  LEFT JOIN windlass.cancel_request q ON q.job = j.id AND j.state = 'running'
  LEFT JOIN windlass.checkpoint k ON k.job = j.id
 ORDER BY j.i
"""


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


class Reader:
    """Reads jobs, queues and workers."""

    def __init__(self, database: Database) -> None:
        self._db = database
        self._schema = database.schema

    async def job(self, job: int) -> JobRecord | None:
        """See Store.job."""
        async with self._db.connection() as connection:
            row = await self._find(connection, job)
            return None if row is None else (await self._complete(connection, [row]))[0]

    async def _complete(self, connection: Any, rows: Sequence[Any]) -> list[JobRecord]:
        """Rows of the job view with what hangs on the jobs: result, failures, cancel request, checkpoint."""
        extras = await connection.fetch(
            _EXTRAS.replace("windlass.", f"{self._schema}."),
            [row["id"] for row in rows],
            [row["state"] for row in rows],
        )
        return [_with_extras(record(row), extra) for row, extra in zip(rows, extras, strict=True)]

    async def _find(self, connection: Any, job: int) -> Any:
        """The job's row, wherever it is. A job on its way from one place to the next is in one of them in any
        snapshot, so the places are looked at in one statement."""
        sql = _JOB.replace("windlass.", f"{self._schema}.")
        return await connection.fetchrow(
            f"SELECT id, task, queue, priority, state, attempt, deaths, payload, options, enqueued_at, run_at, "
            f"claimed_at, finished_at, worker, claim, reason FROM ({sql}) AS a UNION ALL "
            "SELECT id, task, queue, priority, CASE WHEN retrying THEN 'retrying' ELSE 'scheduled' END, attempt, "
            "deaths, payload, options, enqueued_at, run_at, NULL, NULL, NULL, NULL, NULL "
            f"FROM {self._schema}.deferred WHERE id = $1 UNION ALL "
            "SELECT id, task, queue, priority, 'ready', attempt, 0, payload, options, enqueued_at, NULL, NULL, NULL, "
            f"NULL, NULL, NULL FROM {self._schema}.held WHERE id = $1 UNION ALL "
            "SELECT id, task, queue, priority, 'dead', attempt, deaths, payload, options, enqueued_at, NULL, NULL, "
            f"died_at, NULL, NULL, reason FROM {self._schema}.dead WHERE id = $1",
            job,
        )

    async def jobs(self, where: JobFilter, limit: int, cursor: str | None) -> Page:
        """See Store.jobs."""
        before = json.loads(cursor) if cursor else [None, None]
        async with self._db.connection() as connection:
            rows = await connection.fetch(
                f"SELECT * FROM {self._schema}.job WHERE ($1::text IS NULL OR queue = $1) "
                "AND ($2::text IS NULL OR task = $2) AND ($3::text IS NULL OR state = $3) "
                "AND ($4::text IS NULL OR (options -> 'tags')::jsonb ? $4) "
                "AND ($5::timestamptz IS NULL OR (enqueued_at, id) < ($5, $6::bigint)) "
                "ORDER BY enqueued_at DESC, id DESC LIMIT $7",
                where.queue,
                where.task,
                where.state,
                where.tag,
                None if before[0] is None else datetime.fromisoformat(before[0]),
                before[1],
                limit + 1,
            )
            page = rows[:limit]
            following = None
            if len(rows) > limit:
                following = json.dumps([page[-1]["enqueued_at"].isoformat(), page[-1]["id"]])
            return Page(await self._complete(connection, page), following)

    async def held(self, worker: int) -> list[Claim]:
        """See Store.held."""
        rows = await self._db.fetch(
            f"SELECT h.claim, l.id AS lane, l.queue, l.priority, (h.ready).seq AS seq, "
            f"{self._schema}.job_of(h.ready) AS id, (h.ready).task AS task, (h.ready).payload AS payload, "
            "(h.ready).options AS options, (h.ready).attempt AS attempt, (h.ready).deaths AS deaths, "
            f"date_part('epoch', {self._schema}.enqueued_of(h.ready)) AS enqueued "
            f"FROM {self._schema}.holdings($1) AS h JOIN {self._schema}.lane l ON l.id = (h.ready).lane "
            "ORDER BY h.claim, seq",
            worker,
        )
        claims: dict[int, Claim] = {}
        for r in rows:
            claim = claims.setdefault(r["claim"], Claim(r["claim"], r["lane"], r["queue"], r["priority"], []))
            options = decode_options(r["options"])
            claim.jobs.append(
                ClaimedJob(
                    r["id"], r["lane"], r["claim"], r["seq"], r["task"], r["payload"], r["queue"], r["priority"],
                    r["attempt"], r["deaths"], options, r["enqueued"],
                )
            )  # fmt: skip
        return list(claims.values())

    async def checkpoints(self, jobs: Sequence[int]) -> dict[int, Checkpoint]:
        """See Store.checkpoints."""
        rows = await self._db.fetch(f"SELECT * FROM {self._schema}.checkpoint WHERE job = ANY ($1)", list(jobs))
        return {r["job"]: Checkpoint(r["data"], r["done"], r["total"], r["at"].timestamp()) for r in rows}

    async def depth(self, queues: Sequence[str] | None) -> dict[str, Depth]:
        """See Store.depth."""
        rows = await self._db.fetch(f"SELECT *, {self._schema}.now() AS now FROM {self._schema}.depth()")
        depths = {
            r["queue"]: Depth(
                r["ready"],
                r["running"],
                r["scheduled"],
                r["retrying"],
                r["dead"],
                None if r["oldest"] is None else max((r["now"] - r["oldest"]).total_seconds(), 0.0),
            )
            for r in rows
        }
        return depths if queues is None else {name: depths.get(name, Depth()) for name in queues}

    async def workers(self) -> list[WorkerRecord]:
        """See Store.workers."""
        rows = await self._db.fetch(
            f"SELECT w.*, l.alive, b.beat, b.at FROM {self._schema}.worker w JOIN {self._schema}.worker_life l USING (id) "
            f"JOIN {self._schema}.worker_beat b USING (id) WHERE l.alive OR NOT l.settled ORDER BY w.started_at, w.id"
        )
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
            )
            for r in rows
        ]

    async def queues(self) -> list[QueueRecord]:
        """See Store.queues."""
        return [queue_record(r) for r in await self._db.fetch(f"SELECT * FROM {self._schema}.queue ORDER BY name")]


def queue_record(row: Any) -> QueueRecord:
    """A row of the queue table as a record."""
    return QueueRecord(
        name=row["name"],
        paused=row["paused"],
        max_workers=row["max_workers"],
        retention=row["retention"],
        dead_retention=row["dead_retention"],
        window=row["lane_window"],
    )

