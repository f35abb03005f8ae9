"""How runs end on PostgreSQL: outcomes and checkpoints become rows, by themselves or in a transaction of the
handler's own. Data and outcome, or data and checkpoint, exist together then, or not at all [C5]."""

from __future__ import annotations

import asyncio
import functools
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, cast

import asyncpg
import msgspec

from windlass.core.seqset import compress, contains, literal, parse
from windlass.core.states import TERMINAL, WORKERS_OWN, Kind
from windlass.errors import ClaimLost, StoreUnavailable
from windlass.store.postgres.claims import Claims, claims_of
from windlass.store.postgres.connections.database import Database
from windlass.store.postgres.connections.encoding import AS_IT_IS, Fit
from windlass.store.postgres.connections.errors import translated
from windlass.store.postgres.enqueue import Call
from windlass.store.postgres.flow.limits import ADMIT_STEP, Limits, is_carried
from windlass.store.postgres.parents import Parents
from windlass.store.postgres.rows import UNREADABLE
from windlass.store.records import DEFAULT_OPTIONS, Checkpoint, ClaimedJob, Finished, Outcome, Room

_MAY_END: Final = TERMINAL | {Kind.RETRY}
_encode = msgspec.json.Encoder().encode


class Outcomes:
    """Writes how runs end, and what they have done so far."""

    def __init__(self, database: Database, claims: Claims, limits: Limits, parents: Parents) -> None:
        self._db = database
        self._claims = claims
        self._limits = limits
        self._parents = parents
        self._checkpointed: defaultdict[int, set[int]] = defaultdict(set)
        """By worker, its jobs with a checkpoint."""

    def forget(self, worker: int) -> None:
        """A worker has left."""
        self._checkpointed.pop(worker, None)

    async def finish(
        self, worker: int, flush: int, outcomes: Sequence[Outcome], room: Room | None = None
    ) -> Finished:
        """See Store.finish."""
        if not outcomes:
            return Finished()
        checkpointed = self._checkpointed[worker]
        async with self._db.connection(self._db.deadline) as connection:
            finished, freed = await write(
                connection,
                self._db.schema,
                worker,
                flush,
                outcomes,
                checkpointed,
                self._db.fit,
                ADMIT_STEP,
                room,
            )
            if parents := _parents_of(outcomes):
                await self._parents.advance(connection, parents)
            if freed:
                await self._limits.admit(connection, freed)
        if checkpointed:
            checkpointed.difference_update(outcome.job.id for outcome in outcomes)
        self._claims.made_room({outcome.job.queue for outcome in outcomes})
        self._claims.flush_claimed(finished.claims)
        return finished

    @asynccontextmanager
    async def transaction(
        self, worker: int, flush: int, outcome: Callable[[], Outcome]
    ) -> AsyncIterator[Any]:
        """See Store.transaction.

        A connection that is lost during the commit leaves open whether it happened: Store.unfinished
        shows it, since the job is in it or has ended."""
        outcomes: list[Outcome] = []
        freed: list[str] = []
        checkpointed = self._checkpointed[worker]

        async def end(connection: Any) -> None:
            outcomes.append(outcome())
            finished, gates = await write(
                connection, self._db.schema, worker, flush, outcomes, checkpointed, self._db.fit
            )
            freed.extend(gates)
            # One that had been applied before must not bring the block's data a second time.
            if finished.applied != 1:
                job = outcomes[0].job
                raise ClaimLost(
                    f"job {job.id} is no longer held by claim {job.claim}; its transaction was rolled back"
                )

        async with ending(self._db, end) as connection:
            yield connection
        checkpointed.discard(outcomes[0].job.id)
        self._claims.made_room({outcomes[0].job.queue})
        parents = _parents_of(outcomes)
        if parents or freed:
            with suppress(StoreUnavailable):  # the job has ended: what is left to do, promote does
                async with self._db.connection(self._db.deadline) as own:
                    await self._parents.advance(own, parents)
                    await self._limits.admit(own, freed)

    async def checkpoint(
        self, worker: int, job: ClaimedJob, checkpoint: Checkpoint, *, connection: Any = None
    ) -> None:
        """See Store.checkpoint. A blocking connection is used in this thread, without awaiting anything."""
        self._checkpointed[worker].add(job.id)
        call = _checkpoint_call(self._db.schema, worker, job, checkpoint, self._db.fit)
        if connection is not None:
            from windlass.store.postgres.adapters import run_one

            (kept,) = await run_one(connection, call)
        else:
            async with self._db.connection(self._db.deadline) as own:
                kept = await own.fetchval(call.sql, *call.args)
        _check_saved(job, kept)

    @asynccontextmanager
    async def saving(
        self, worker: int, job: ClaimedJob, checkpoint: Callable[[], Checkpoint]
    ) -> AsyncIterator[Any]:
        """See Store.saving."""
        self._checkpointed[worker].add(job.id)

        async def end(connection: Any) -> None:
            call = _checkpoint_call(self._db.schema, worker, job, checkpoint(), self._db.fit)
            _check_saved(job, await connection.fetchval(call.sql, *call.args))

        async with ending(self._db, end) as connection:
            yield connection

    async def checkpoints(self, jobs: Sequence[int]) -> dict[int, Checkpoint]:
        """See Store.checkpoints."""
        rows = await self._db.query("checkpoints", list(jobs))
        return {r["job"]: Checkpoint(r["data"], r["done"], r["total"], r["at"].timestamp()) for r in rows}


async def write(  # noqa: PLR0913 - what is flushed, and what is asked for with it
    connection: Any,
    schema: str,
    worker: int,
    flush: int,
    outcomes: Sequence[Outcome],
    checkpointed: set[int],
    fit: Fit = AS_IT_IS,
    admit: int | None = None,
    room: Room | None = None,
) -> tuple[Finished, list[str]]:
    """Write outcomes; the connection may be the handler's, `checkpointed` are jobs with a checkpoint. Lets up
    to `admit` jobs through the gates where room was made, and claims what there is `room` for. Answers
    with the gates, too, at which somebody still waits for the room that was made."""
    plain: dict[int, list[Outcome]] = {}
    ended: list[Outcome] = []
    others: list[dict[str, Any]] = []
    claim, group = 0, list[Outcome]()
    for outcome in outcomes:
        if outcome.kind is Kind.SUCCEEDED:
            job = outcome.job
            if job.claim != claim:
                claim, group = job.claim, plain.setdefault(job.claim, [])
            group.append(outcome)
            if outcome.result is not None or outcome.forget or _has_satellites(job, checkpointed):
                ended.append(outcome)
        elif outcome.kind in WORKERS_OWN:
            others.append(_other(outcome, fit))
        else:
            raise ValueError(f"a worker cannot end an attempt as {outcome.kind.value} (job {outcome.job.id})")
    groups = list(plain.values())
    handing = () if room is None else _asked(room)
    row = await connection.fetchrow(
        _finish_sql(schema, handing=bool(handing)),
        worker,
        flush,
        [group[0].job.lane for group in groups] or None,
        list(plain) or None,
        [literal(compress([outcome.job.seq for outcome in group])) for group in groups] or None,
        [len(group) for group in groups] or None,
        [outcome.job.id for outcome in ended] or None,
        [outcome.job.claim for outcome in ended] or None,
        [outcome.job.lane for outcome in ended] or None,
        [outcome.job.seq for outcome in ended] or None,
        [outcome.result and fit(outcome.result) for outcome in ended] or None,
        _encode(others).decode() if others else None,
        [outcome.forget for outcome in ended] if any(outcome.forget for outcome in ended) else None,
        admit,
        *handing,
    )
    refused = list(row["refused_jobs"] or ())
    for claim, seqs in zip(row["refused_claims"] or (), row["refused_seqs"] or (), strict=True):
        ranges = parse(seqs)
        refused.extend(outcome.job.id for outcome in plain[claim] if contains(ranges, outcome.job.seq))
    claims = claims_of(row) if handing and row["seqs"] else ()
    return Finished(row["applied"], row["repeated"], tuple(refused), tuple(claims)), row["freed"]


def _asked(room: Room) -> tuple[list[Any], ...]:
    """Return a worker's room as arguments of finish_and_claim."""
    runs = [room.runs.get(queue, 0) for queue in room.queues]
    return list(room.queues), list(room.queues.values()), list(room.tokens), runs


@functools.cache
def _finish_sql(schema: str, *, handing: bool) -> str:
    """A flush, or one that asks for jobs as well: a procedure, which commits before it answers [rule 2]."""
    places = ", ".join(f"${i}" for i in range(1, 19 if handing else 15))
    if handing:
        return f"CALL {schema}.finish_and_claim({places})"
    return (
        "SELECT applied, repeated, refused_claims, refused_seqs, refused_jobs, freed "  # noqa: S608
        f"FROM {schema}.finish({places})"
    )


def _has_satellites(job: ClaimedJob, checkpointed: set[int]) -> bool:
    """Return whether anything besides the logs may know this job: a unique key, a parent, a checkpoint, a
    gate, an earlier attempt."""
    options = job.options
    return (
        (options is not DEFAULT_OPTIONS and (options.unique_key is not None or options.part is not None))
        or options is UNREADABLE
        or job.attempt > 1
        or job.deaths > 0
        or job.id in checkpointed
        or is_carried(job.id, job.lane, job.seq)
    )


def _parents_of(outcomes: Sequence[Outcome]) -> set[int]:
    """The parents whose parts may have ended with these outcomes [P9]."""
    return {
        outcome.job.options.part.parent
        for outcome in outcomes
        if outcome.job.options is not DEFAULT_OPTIONS
        and outcome.job.options.part is not None
        and outcome.kind in _MAY_END
    }


def _other(outcome: Outcome, fit: Fit) -> dict[str, Any]:
    job, error = outcome.job, outcome.error
    row: dict[str, Any] = {
        "id": job.id,
        "lane": job.lane,
        "claim": job.claim,
        "seq": job.seq,
        "kind": outcome.kind,
        "delay": outcome.delay,
    }
    if error is not None:
        row.update(type=fit(error.type), message=fit(error.message), traceback=fit(error.traceback))
    if outcome.reason is not None:
        row["reason"] = fit(outcome.reason)
    if outcome.began:
        row["began"] = True
    if outcome.needs is not None:
        row["needs"] = outcome.needs
    return row


def _checkpoint_call(schema: str, worker: int, job: ClaimedJob, checkpoint: Checkpoint, fit: Fit) -> Call:
    """The call that makes a job's progress durable, fenced by worker and claim; false where it is refused."""
    return Call(
        f"SELECT {schema}.checkpoint($1::bigint, $2::bigint, $3::int, $4::bigint, $5::bigint, $6::text, "
        "$7::bigint, $8::bigint)",
        (
            worker, job.id, job.lane, job.claim, job.seq,
            fit(checkpoint.data), checkpoint.done, checkpoint.total,
        ),
    )  # fmt: skip


def _check_saved(job: ClaimedJob, saved: bool) -> None:
    """Raise where a checkpoint was refused [C5]."""
    if not saved:
        raise ClaimLost(f"job {job.id} is no longer held by claim {job.claim}; its checkpoint was refused")


# -- a transaction of the handler's own ----------------------------------------------------------------


@asynccontextmanager
async def ending(database: Database, end: Callable[[Any], Awaitable[None]]) -> AsyncIterator[Any]:
    """A transaction around a block that is not ours, with something of ours at its end. Only errors of our
    own statements are translated: the block's pass unchanged."""
    async with database.lent() as connection:
        own = connection.transaction(isolation="read_committed")
        with translated():
            await own.start()
        try:
            yield connection
            with translated():
                await end(connection)
        except BaseException:
            # A connection that is lost or broken has rolled back by itself.
            with suppress(OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
                async with asyncio.timeout(database.deadline):
                    await own.rollback()
            raise
        with translated():
            await _to_the_end(own.commit())


async def _to_the_end(commit: Coroutine[Any, Any, None]) -> None:
    """A commit that was sent is awaited whatever happens: only its answer says whether the job has ended.
    Who was cancelled meanwhile is cancelled again right after."""
    task = asyncio.current_task()
    under_way = asyncio.ensure_future(commit)
    cancels = 0
    while not under_way.done():
        try:
            await asyncio.shield(under_way)
        except asyncio.CancelledError:
            if under_way.cancelled() or task is None:
                raise
            task.uncancel()
            cancels += 1
    under_way.result()
    for _ in range(cancels):
        asyncio.get_running_loop().call_soon(cast("asyncio.Task[Any]", task).cancel)
