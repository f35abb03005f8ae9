"""What it takes to enqueue, or to save a checkpoint, on a PostgreSQL connection, as data: SQL with its
arguments, no I/O.

The store runs these calls on its own connection, an adapter on the caller's, inside the caller's transaction.
However many jobs a call adds, and of whatever kinds, it is one statement, and answers with exactly one row.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from windlass.core import ids
from windlass.core.admission import SOFT
from windlass.errors import ClaimLost
from windlass.store.postgres.connections.encoding import AS_IT_IS, Fit
from windlass.store.postgres.rows import encode_options
from windlass.store.records import DEFAULT_OPTIONS, Checkpoint, ClaimedJob, NewJob, Receipt


class Call(msgspec.Struct, frozen=True):
    """One statement with $n placeholders."""

    sql: str
    args: tuple[Any, ...]


class Pressure(msgspec.Struct, frozen=True):
    """How full a queue is, and its pressure as it was noted last and as it is; see windlass.pressure_of."""

    fill: float
    was: str
    now: str = msgspec.field(name="is")


_pressures = msgspec.json.Decoder(dict[str, Pressure]).decode
_BY_QUEUE: Final = (
    "CASE WHEN e.pressure IS NOT NULL THEN json_build_object({}::text, e.pressure::json)::text END"
)


def is_plain(job: NewJob) -> bool:
    """Whether a job takes the short way: no delay, no key that must be looked up, after nobody."""
    options = job.options
    return (
        job.delay is None
        and job.run_at is None
        and job.idempotency_key is None
        and (options is DEFAULT_OPTIONS or (options.unique_key is None and not options.after))
    )


def enqueue_call(schema: str, jobs: Sequence[NewJob]) -> Call:
    """The one statement that adds these jobs. It answers with one row: by queue the pressure from before it,
    where there is any; the ids; what became of each, or nothing where all went into their lane."""
    first = jobs[0]
    if all(is_plain(job) and job.queue == first.queue and job.priority == first.priority for job in jobs):
        return _many(schema, first.queue, first.priority, jobs)
    return _one(schema, first) if len(jobs) == 1 else _mixed(schema, jobs)


def receipts_of(jobs: Sequence[NewJob], row: Sequence[Any]) -> list[Receipt]:
    """Receipts in the order of the jobs, from the row that the call answered with."""
    pressures = pressures_of(row)
    return [
        Receipt(id, status, _hint(pressures.get(job.queue)))
        for job, id, status in zip(jobs, row[1], row[2] or ["enqueued"] * len(jobs), strict=True)
    ]


def pressures_of(row: Sequence[Any]) -> dict[str, Pressure]:
    """By queue, where there is pressure on it, or was: from before the call [F4]."""
    return {} if row[0] is None else _pressures(row[0])


def _hint(pressure: Pressure | None) -> float | None:
    return pressure.fill if pressure is not None and pressure.fill >= SOFT else None


def _many(schema: str, queue: str, priority: int, jobs: Sequence[NewJob]) -> Call:
    first = jobs[0].task
    tasks = [first] if all(job.task == first for job in jobs) else [job.task for job in jobs]
    options: list[str | None] | None = [encode_options(job.options) for job in jobs]
    if options is not None and not any(options):
        options = None
    return Call(
        # OFFSET 0 is a fence: the function is called once, and after the look at the pressure. Only a job
        # that goes into its lane has its place for an id. The schema's name was checked to need no quoting.
        f"SELECT {_BY_QUEUE.format('$1')}, e.ids, "  # noqa: S608
        f"CASE WHEN {ids.MAX_SEQ} >= ANY (e.ids) THEN {schema}.statuses_of(e.ids) END "
        f"FROM (SELECT {schema}.pressure_of($1::text) AS pressure, {schema}.enqueue_many("
        "$1::text, $2::smallint, $3::text[], $4::text[], $5::text[]) AS ids OFFSET 0) AS e",
        (queue, int(priority), tasks, [job.payload for job in jobs], options),
    )


def _one(schema: str, job: NewJob) -> Call:
    return Call(
        # OFFSET 0: as above.
        f"SELECT {_BY_QUEUE.format('$3')}, ARRAY[(e.added).job], ARRAY[(e.added).status] "  # noqa: S608
        f"FROM (SELECT {schema}.pressure_of($3::text) AS pressure, "
        f"{schema}.enqueue_one($1::text, $2::text, $3::text, $4::smallint, $5::float8, $6::timestamptz, "
        "$7::text, $8::text, $9::text, $10::boolean) AS added OFFSET 0) AS e",
        _fields(job),
    )


def _mixed(schema: str, jobs: Sequence[NewJob]) -> Call:
    return Call(
        f"SELECT * FROM {schema}.enqueue_mixed($1::text[], $2::text[], $3::text[], $4::smallint[], "  # noqa: S608
        "$5::float8[], $6::timestamptz[], $7::text[], $8::text[], $9::text[], $10::boolean[])",
        tuple(map(list, zip(*map(_fields, jobs), strict=True))),
    )


def _fields(job: NewJob) -> tuple[Any, ...]:
    return (
        job.task,
        job.payload,
        job.queue,
        int(job.priority),
        job.delay,
        None if job.run_at is None else datetime.fromtimestamp(job.run_at, UTC),
        encode_options(job.options),
        job.on_conflict,
        job.idempotency_key,
        job.automatic,
    )


def checkpoint_call(
    schema: str, worker: int, job: ClaimedJob, checkpoint: Checkpoint, fit: Fit = AS_IT_IS
) -> Call:
    """The call that makes a job's progress durable, fenced by worker and claim; false where it is refused."""
    return Call(
        f"SELECT {schema}.checkpoint($1::bigint, $2::bigint, $3::int, $4::bigint, $5::bigint, $6::text, "
        "$7::bigint, $8::bigint)",
        (
            worker, job.id, job.lane, job.claim, job.seq,
            fit(checkpoint.data), checkpoint.done, checkpoint.total,
        ),
    )  # fmt: skip


def check_saved(job: ClaimedJob, saved: bool) -> None:
    """Raise where a checkpoint was refused [C5]."""
    if not saved:
        raise ClaimLost(f"job {job.id} is not held by claim {job.claim} any more; its checkpoint was refused")
