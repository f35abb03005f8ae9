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

from windlass.core import ids
from windlass.core.admission import SOFT
from windlass.errors import ClaimLost
from windlass.store.postgres.encoding import AS_IT_IS, Fit
from windlass.store.records import DEFAULT_OPTIONS, Checkpoint, ClaimedJob, NewJob, Options, Receipt

_encode = msgspec.json.Encoder().encode


class Call(msgspec.Struct, frozen=True):
    """One statement with $n placeholders; `places` says which of the jobs it adds."""

    sql: str
    args: tuple[Any, ...]
    places: tuple[int, ...] = ()
    many: bool = False


class Pressure(msgspec.Struct, frozen=True):
    """How full a queue is, and its pressure as it was noted last and as it is; see pressure_of.sql."""

    fill: float
    was: str
    now: str = msgspec.field(name="is")


_pressure = msgspec.json.Decoder(Pressure).decode


def encode_options(options: Options) -> str | None:
    """Options as stored: nothing at all where all is default."""
    return None if options is DEFAULT_OPTIONS or options == DEFAULT_OPTIONS else _encode(options).decode()


def is_plain(job: NewJob) -> bool:
    """Whether a job takes the short way: no delay, no key that must be looked up, after nobody."""
    options = job.options
    return (
        job.delay is None
        and job.run_at is None
        and job.idempotency_key is None
        and (options is DEFAULT_OPTIONS or (options.unique_key is None and not options.after))
    )


def is_aside(job: NewJob) -> bool:
    """Whether a job says itself that it must wait aside, at a gate or for the turn of its fair key."""
    options = job.options
    return options is not DEFAULT_OPTIONS and (
        options.ordering_key is not None
        or options.concurrency_key is not None
        or options.task_limit is not None
        or options.fair_key is not None
    )


def enqueue_calls(schema: str, jobs: Sequence[NewJob]) -> list[Call]:
    """The calls that add these jobs: one per queue and priority for plain ones, one for each of the others.

    A job that is not plain ends the groups before it, so that within a lane the order stays that of the jobs.
    Where there are several, one before them judges whether the queues take them all [F4] [F5]; where several
    jobs have keys, the next one takes these in an order that all calls keep.
    """
    alone = len(jobs) < 2 or all(
        is_plain(job) and job.queue == jobs[0].queue and job.priority == jobs[0].priority for job in jobs
    )
    if alone and len(jobs) > 1:
        first = jobs[0]
        return [_many(schema, first.queue, first.priority, jobs, tuple(range(len(jobs))), alone)]
    calls: list[Call] = [] if alone else [_judge(schema, jobs)]
    if not alone and sum(map(_has_key, jobs)) > 1:
        calls.append(_line_up(schema, jobs))
    groups: dict[tuple[str, int], list[int]] = {}

    def flush() -> None:
        for (queue, priority), places in groups.items():
            calls.append(
                _many(schema, queue, priority, [jobs[place] for place in places], tuple(places), alone)
            )
        groups.clear()

    for place, job in enumerate(jobs):
        if is_plain(job):
            # A gate may stand before several queues and priorities: its order, too, is that of the jobs.
            if groups.keys() - {(job.queue, job.priority)} and is_aside(job):
                flush()
            groups.setdefault((job.queue, job.priority), []).append(place)
        else:
            flush()
            calls.append(_one(schema, job, place, alone))
    flush()
    return calls


def combine(jobs: Sequence[NewJob], calls: Sequence[Call], rows: Sequence[Sequence[Any]]) -> list[Receipt]:
    """Receipts in the order of the jobs, from the one row that each call answered with."""
    receipts: list[Receipt | None] = [None] * len(jobs)
    for call, row in zip(calls, rows, strict=True):
        if call.many:
            hint = _hint(row[0])
            for place, job in zip(call.places, row[1], strict=True):
                # Only a job that goes into its lane has its place for an id.
                receipts[place] = Receipt(job, "enqueued" if job >> ids.SEQ_BITS else "held", hint)
        elif call.places:
            receipts[call.places[0]] = Receipt(row[1], row[2], _hint(row[0]))
    return [receipt for receipt in receipts if receipt is not None]


def changed_pressures(
    jobs: Sequence[NewJob], calls: Sequence[Call], rows: Sequence[Sequence[Any]]
) -> dict[str, Pressure]:
    """By queue, where these calls saw another pressure than was noted last [F4]."""
    seen: dict[str, Pressure] = {}
    for call, row in zip(calls, rows, strict=True):
        if call.places and row[0] is not None:
            pressure = _pressure(row[0])
            if pressure.was != pressure.now:
                seen.setdefault(jobs[call.places[0]].queue, pressure)
    return seen


def _hint(pressure: str | None) -> float | None:
    if pressure is None:
        return None
    fill = _pressure(pressure).fill
    return fill if fill >= SOFT else None


def _judge(schema: str, jobs: Sequence[NewJob]) -> Call:
    return Call(
        f"SELECT {schema}.judge_call($1::text[], $2::smallint[], $3::text[])",
        (
            [job.queue for job in jobs],
            [int(job.priority) for job in jobs],
            [job.idempotency_key for job in jobs],
        ),
    )


def _has_key(job: NewJob) -> bool:
    return job.idempotency_key is not None or job.options.unique_key is not None


def _line_up(schema: str, jobs: Sequence[NewJob]) -> Call:
    idempotency = [job.idempotency_key for job in jobs if job.idempotency_key is not None]
    unique = [job.options.unique_key for job in jobs if job.options.unique_key is not None]
    return Call(f"SELECT {schema}.line_up($1::text[], $2::text[])", (idempotency, unique))


def _many(
    schema: str, queue: str, priority: int, jobs: Sequence[NewJob], places: tuple[int, ...], judge: bool
) -> Call:
    first = jobs[0].task
    tasks = [first] if all(job.task == first for job in jobs) else [job.task for job in jobs]
    options: list[str | None] | None = [encode_options(job.options) for job in jobs]
    if options is not None and not any(options):
        options = None
    return Call(
        # The pressure first: it is that from before the call.
        f"SELECT {schema}.pressure_of($1::text), "
        f"{schema}.enqueue_many($1::text, $2::smallint, $3::text[], $4::text[], $5::text[], $6::boolean)",
        (queue, int(priority), tasks, [job.payload for job in jobs], options, judge),
        places,
        True,
    )


def _one(schema: str, job: NewJob, place: int, judge: bool) -> Call:
    run_at = None if job.run_at is None else datetime.fromtimestamp(job.run_at, UTC)
    return Call(
        # OFFSET 0 is a fence: the function is called once, and after the look at the pressure. The schema's
        # name was checked to need no quoting.
        f"SELECT e.pressure, (e.added).job, (e.added).status FROM (SELECT {schema}.pressure_of($3::text) AS "  # noqa: S608
        f"pressure, {schema}.enqueue_one($1::text, $2::text, $3::text, $4::smallint, $5::float8, "
        "$6::timestamptz, $7::text, $8::text, $9::text, $10::boolean, p_judge => $11::boolean) AS added "
        "OFFSET 0) AS e",
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
            judge,
        ),
        (place,),
        False,
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
