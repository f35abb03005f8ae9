"""What it takes to enqueue, or to save a checkpoint, on a PostgreSQL connection, as data: SQL with its
arguments, no I/O.

The store runs these calls on its own connection, an adapter on the caller's, inside the caller's transaction.
Each call answers with exactly one row.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from windlass.errors import ClaimLost
from windlass.store.records import DEFAULT_OPTIONS, Checkpoint, ClaimedJob, NewJob, Options, Receipt

_encode = msgspec.json.Encoder().encode


class Call(msgspec.Struct, frozen=True):
    """One statement with $n placeholders; `places` says which of the jobs it adds."""

    sql: str
    args: tuple[Any, ...]
    places: tuple[int, ...] = ()
    many: bool = False


def encode_options(options: Options) -> str | None:
    """Options as stored: nothing at all where all is default."""
    return None if options is DEFAULT_OPTIONS or options == DEFAULT_OPTIONS else _encode(options).decode()


def is_plain(job: NewJob) -> bool:
    """Whether a job takes the short way: no delay, no keys, after nobody."""
    options = job.options
    return (
        job.delay is None
        and job.run_at is None
        and job.idempotency_key is None
        and (
            options is DEFAULT_OPTIONS
            or (options.unique_key is None and options.fair_key is None and not options.after)
        )
    )


def enqueue_calls(schema: str, jobs: Sequence[NewJob]) -> list[Call]:
    """The calls that add these jobs: one per queue and priority for plain ones, one for each of the others.

    A job that is not plain ends the groups before it, so that within a lane the order stays that of the jobs.
    """
    calls: list[Call] = []
    groups: dict[tuple[str, int], list[int]] = {}

    def flush() -> None:
        for (queue, priority), places in groups.items():
            calls.append(_many(schema, queue, priority, [jobs[place] for place in places], tuple(places)))
        groups.clear()

    for place, job in enumerate(jobs):
        if is_plain(job):
            groups.setdefault((job.queue, job.priority), []).append(place)
        else:
            flush()
            calls.append(_one(schema, job, place))
    flush()
    return calls


def combine(jobs: Sequence[NewJob], calls: Sequence[Call], rows: Sequence[Sequence[Any]]) -> list[Receipt]:
    """Receipts in the order of the jobs, from the one row that each call answered with."""
    receipts: list[Receipt | None] = [None] * len(jobs)
    for call, row in zip(calls, rows, strict=True):
        if call.many:
            for place, job in zip(call.places, row[0], strict=True):
                receipts[place] = Receipt(job)
        else:
            receipts[call.places[0]] = Receipt(row[0], row[1])
    return [receipt for receipt in receipts if receipt is not None]


def _many(schema: str, queue: str, priority: int, jobs: list[NewJob], places: tuple[int, ...]) -> Call:
    first = jobs[0].task
    tasks = [first] if all(job.task == first for job in jobs) else [job.task for job in jobs]
    options: list[str | None] | None = [encode_options(job.options) for job in jobs]
    if options is not None and not any(options):
        options = None
    return Call(
        f"SELECT {schema}.enqueue_many($1::text, $2::smallint, $3::text[], $4::text[], $5::text[])",
        (queue, int(priority), tasks, [job.payload for job in jobs], options),
        places,
        True,
    )


def _one(schema: str, job: NewJob, place: int) -> Call:
    run_at = None if job.run_at is None else datetime.fromtimestamp(job.run_at, UTC)
    return Call(
        # The schema's name was checked to need no quoting.
        f"SELECT job, status FROM {schema}.enqueue_one($1::text, $2::text, $3::text, $4::smallint, "  # noqa: S608
        "$5::float8, $6::timestamptz, $7::text, $8::text, $9::text, $10::boolean)",
        (
            job.task,
            job.payload,
            job.queue,
            int(job.priority),
            job.delay,
            run_at,
            encode_options(job.options),
            job.on_conflict,
            job.idempotency_key,
            job.automatic,
        ),
        (place,),
        False,
    )


def checkpoint_call(schema: str, worker: int, job: ClaimedJob, checkpoint: Checkpoint) -> Call:
    """The call that makes a job's progress durable, fenced by worker and claim; false where it is refused."""
    return Call(
        f"SELECT {schema}.checkpoint($1::bigint, $2::bigint, $3::int, $4::bigint, $5::bigint, $6::text, "
        "$7::bigint, $8::bigint)",
        (
            worker, job.id, job.lane, job.claim, job.seq, checkpoint.data, checkpoint.done, checkpoint.total,
        ),
    )  # fmt: skip


def check_saved(job: ClaimedJob, saved: bool) -> None:
    """Raise where a checkpoint was refused [C5]."""
    if not saved:
        raise ClaimLost(f"job {job.id} is not held by claim {job.claim} any more; its checkpoint was refused")
