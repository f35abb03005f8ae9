"""Enqueueing on PostgreSQL: jobs of many callers or of one, or any in a transaction of the caller's own [E1].
How single jobs come together is the business of `intake`.

asyncpg is imported when the store's own connections are at hand: adapters of other drivers use the calls
without it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import msgspec

from windlass.core import ids
from windlass.core.flow.admission import SOFT
from windlass.errors import ConfigurationError, Refused, Shed, StoreForbidden, StoreUnavailable
from windlass.store.postgres import schema as schemas
from windlass.store.postgres.connections.errors import refused_jobs, translated
from windlass.store.postgres.rows import encode_options
from windlass.store.records import DEFAULT_OPTIONS, NewJob, Receipt

if TYPE_CHECKING:
    from windlass.store.postgres.connections.database import Database
    from windlass.store.postgres.flow.limits import Limits

TRIES: Final = 3


class Enqueue:
    """How jobs come in, and what is noted of their queues on the way."""

    def __init__(self, database: Database, limits: Limits) -> None:
        self._db = database
        self._limits = limits
        self._declared: set[tuple[str, int, str]] = set()

    async def send(self, jobs: Sequence[NewJob]) -> list[Receipt]:
        """Enqueue a batch of the intake. One that is refused for one of its queues or priorities is sent
        again for each of them, and counted only then: nothing is counted twice."""
        several = len({(job.queue, job.priority) for job in jobs}) > 1
        return await (self._enqueue(jobs, None) if several else self.send_own(jobs))

    async def send_own(self, jobs: Sequence[NewJob], connection: Any = None) -> list[Receipt]:
        """Enqueue, and count what is refused: in a transaction of its own, since the refused one rolls
        back."""
        try:
            return await self._enqueue(jobs, connection)
        except Refused as error:
            await self._limits.note("note_refused", error.queue, refused_jobs(error), isinstance(error, Shed))
            raise

    async def _enqueue(self, jobs: Sequence[NewJob], connection: Any) -> list[Receipt]:
        call = enqueue_call(self._db.schema, jobs, own=connection is None)
        if connection is not None:
            import asyncpg

            if not isinstance(connection, asyncpg.Connection | asyncpg.pool.PoolConnectionProxy):
                raise ConfigurationError(
                    "the store takes asyncpg connections; use task.using(connection=…) for others"
                )
            with translated():
                row = await connection.fetchrow(call.sql, *call.args)
            await self._note_pressure(row)
            return receipts_of(jobs, row)
        await self._declare({(job.queue, int(job.priority), job.options.needs or "") for job in jobs})
        async with self._db.connection() as own:
            row = await _committed(own, call)
            receipts = receipts_of(jobs, row)
            # It is committed: what comes now may fail without it.
            if row[2]:  # not all of them went into their lane
                await self._limits.admit_new(own, jobs, receipts)
        await self._note_pressure(row)
        return receipts

    async def _note_pressure(self, row: Sequence[Any]) -> None:
        for queue, pressure in pressures_of(row).items():
            if pressure.was != pressure.now:
                await self._limits.note("change_pressure", queue, pressure.was, pressure.now)

    async def _declare(self, lanes: set[tuple[str, int, str]]) -> None:
        for lane in lanes - self._declared:
            # A role that may only enqueue leaves that to others: the job waits in deferred until the lane is
            # there. So it does where an open transaction is about to declare it: nobody waits for that [S2].
            # And where the store is not adopted yet: the enqueue itself is not refused [S3].
            try:
                if await self._db.value("try_lane", *lane) is None:
                    continue
            except StoreForbidden:
                pass
            except StoreUnavailable:
                if not self._db.must_adopt:
                    raise
                return
            self._declared.add(lane)


async def _committed(connection: Any, call: Call) -> Any:
    """Run an enqueue in a transaction of its own. After a deadlock, such as with a transaction that takes its
    keys one by one, nothing was written: it is run again. So it is where the default isolation level keeps it
    from seeing who holds a key."""
    import asyncpg

    for left in reversed(range(TRIES)):
        try:
            if left == TRIES - 1:
                return await connection.fetchrow(call.sql, *call.args)
            async with connection.transaction(isolation="read_committed"):
                return await connection.fetchrow(call.sql, *call.args)
        except (asyncpg.DeadlockDetectedError, asyncpg.SerializationError):
            if not left:
                raise
    raise AssertionError("the last try returns or raises")


# -- the calls, and what they answer -------------------------------------------------------------------------


class Call(msgspec.Struct, frozen=True):
    """One statement with $n placeholders, as data: the store runs it on its own connection, an adapter on the
    caller's, inside the caller's transaction."""

    sql: str
    args: tuple[Any, ...]


class Pressure(msgspec.Struct, frozen=True):
    """How full a queue is, and its pressure as it was noted last and as it is; see windlass.pressure_of."""

    fill: float
    was: str
    now: str = msgspec.field(name="is")


_pressures = msgspec.json.Decoder(dict[str, Pressure]).decode
_OWN: Final = ", p_own => true"
_BY_QUEUE: Final = (
    "CASE WHEN e.pressure IS NOT NULL THEN json_build_object({}::text, e.pressure::json)::text END"
)


def is_plain(job: NewJob) -> bool:
    """Return whether a job takes the short way: no delay, no key that must be looked up, after nobody."""
    options = job.options
    return (
        job.delay is None
        and job.run_at is None
        and job.idempotency_key is None
        and (
            options is DEFAULT_OPTIONS
            or (options.unique_key is None and not options.after and not options.group_end)
        )
    )


def enqueue_call(schema: str, jobs: Sequence[NewJob], *, own: bool = False) -> Call:
    """The one statement that adds these jobs, however many and of whatever kinds. It answers with one row: by
    queue the pressure from before it, where there is any; the ids; what became of each, or nothing where all
    went into their lane. `own`: it is run in a transaction of its own."""
    first = jobs[0]
    needs = first.options.needs
    if all(
        is_plain(job)
        and job.queue == first.queue
        and job.priority == first.priority
        and job.options.needs == needs
        for job in jobs
    ):
        return _many(schema, first.queue, first.priority, jobs, own=own)
    return _one(schema, first) if len(jobs) == 1 else _mixed(schema, jobs)


def published_call(schema: str, task: str) -> Call:
    """The statement that asks which queue live workers publish for a task [E5]."""
    return Call(schemas.call("published_queue", 1, schema), (task,))


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


def _many(schema: str, queue: str, priority: int, jobs: Sequence[NewJob], *, own: bool) -> Call:
    first = jobs[0].task
    tasks = [first] if all(job.task == first for job in jobs) else [job.task for job in jobs]
    shared = jobs[0].options
    if all(job.options is shared for job in jobs):  # as in a call of one task
        options = [encode_options(shared)] * len(jobs)
    else:
        options = [encode_options(job.options) for job in jobs]
    return Call(
        # OFFSET 0 is a fence: the function is called once, and after the look at the pressure. Only a job
        # that goes into its lane has its place for an id. The schema's name was checked to need no quoting.
        f"SELECT {_BY_QUEUE.format('$1')}, e.ids, "  # noqa: S608
        f"CASE WHEN {ids.MAX_SEQ} >= ANY (e.ids) THEN {schema}.statuses_of(e.ids) END "
        f"FROM (SELECT {schema}.pressure_of($1::text) AS pressure, {schema}.enqueue_many("
        f"$1::text, $2::smallint, $3::text[], $4::text[], $5::text[]{_OWN if own else ''}) AS ids "
        "OFFSET 0) AS e",
        (queue, int(priority), tasks, [job.payload for job in jobs], options if any(options) else None),
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
