"""The PostgreSQL store: its life, its workers, claims, outcomes and wake-ups, in terms of the SQL functions
that do the work. The other operations of the protocol are in its base classes, one file for each."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any, Final

import asyncpg

from windlass.core.retry import DeathPolicy
from windlass.core.states import FINISHED
from windlass.errors import JobNotFound, ResultTimeout, StoreForbidden, StoreUnavailable
from windlass.store.flow import Needs
from windlass.store.postgres import claims, flushes, schema, statements
from windlass.store.postgres.cluster import Cluster
from windlass.store.postgres.database import DEADLINE, Database
from windlass.store.postgres.diagnosis import Diagnosis
from windlass.store.postgres.enqueue import Enqueueing
from windlass.store.postgres.faults import translated
from windlass.store.postgres.flow import Flow
from windlass.store.postgres.intake import Intake
from windlass.store.postgres.listen import DONE, Listener
from windlass.store.postgres.measures import Measures
from windlass.store.postgres.reading import Reader
from windlass.store.postgres.rotation import Rotator
from windlass.store.postgres.steering import Steering
from windlass.store.postgres.transaction import saving, transaction
from windlass.store.protocol import NOTHING
from windlass.store.records import (
    Beat,
    Checkpoint,
    Claim,
    ClaimedJob,
    Depth,
    Fence,
    Finding,
    Finished,
    JobFilter,
    JobRecord,
    Matches,
    Migration,
    Outcome,
    Page,
    Rescued,
    WorkerInfo,
    WorkerRecord,
)
from windlass.store.settings import StoreSettings

FIRST_PENDING_POLL: Final = 0.001
PENDING_POLL: Final = 0.05
FULL_POLL: Final = 0.5
"""Seconds after which a queue at its limit is asked again: another worker that makes room does not call."""

RESCUE_STEP: Final = 100


class PostgresStore(Enqueueing, Steering, Cluster, Flow, Measures):
    """Jobs in PostgreSQL 15 to 18. One store belongs to the event loop that opened it.

    `deadline` is how many seconds a worker's call may take before it counts as unanswered; it should be no
    longer than the lease [fault 9]."""

    def __init__(
        self,
        dsn: str,
        schema: str = "windlass",
        settings: StoreSettings | None = None,
        *,
        pool_size: int = 10,
        head_cache: float = 1.0,
        dump_grace: float = 60.0,
        deadline: float = DEADLINE,
    ) -> None:
        self.settings = settings or StoreSettings()
        self._db = Database(dsn, schema, pool_size, deadline)
        self._intake = Intake(self._send)
        self._listener = Listener(self._db)
        self._claimer = claims.Claimer(self._db, self.settings, head_cache, self._listener.heard_of)
        self._reader = Reader(self._db)
        self._rotator = Rotator(self._db, dump_grace)
        self._declared: set[tuple[str, int]] = set()
        self._checkpointed: dict[int, set[int]] = {}
        self._pending_pause = FIRST_PENDING_POLL
        self._looked: dict[str, int] = {}

    @property
    def schema(self) -> str:
        """The name of the schema that holds the logs."""
        return self._db.schema

    # -- life of the store ------------------------------------------------------------------------------

    @property
    def read_only(self) -> str | None:
        """See Store.read_only."""
        return self._db.read_only

    async def open(self) -> None:
        """See Store.open. A restored or switched-over copy is adopted before anything else [rule 15]."""
        await self._db.open()
        await self._db.adopt()

    async def close(self) -> None:
        """See Store.close."""
        await self._listener.close()
        await self._db.close()

    async def migrate(self) -> Migration:
        """See Store.migrate."""
        connection = await self._db.connect()
        try:
            with translated():
                migration = await schema.migrate(connection, self.schema, self.settings)
                await connection.close(timeout=self._db.deadline)
                return migration
        except StoreForbidden as error:
            told = str(error).partition(". ")[0]
            raise StoreForbidden(
                f"{told}; migrate as a role that owns the schema or, where there is none yet, may CREATE in "
                "the database"
            ) from error
        finally:
            connection.terminate()

    # -- the life of a worker ---------------------------------------------------------------------------

    async def register(self, worker: WorkerInfo) -> None:
        """See Store.register."""
        try:
            await self._db.value(
                "register",
                worker.id,
                worker.label,
                worker.host,
                worker.pid,
                list(worker.queues),
                worker.lease,
            )
        except asyncpg.UniqueViolationError:
            raise ValueError(f"worker id {worker.id} was used before; draw a new one") from None

    async def retire(self, worker: int) -> int:
        """See Store.retire."""
        self._checkpointed.pop(worker, None)
        return int(await self._db.value("retire", worker))

    async def beat(self, worker: int) -> Beat:
        """See Store.beat."""
        return Beat(frozenset(await self._db.value("beat", worker)))

    async def workers(self) -> list[WorkerRecord]:
        """See Store.workers."""
        return await self._reader.workers()

    async def rescue(self, worker: int, beat: int, policy: DeathPolicy) -> Rescued | None:
        """See Store.rescue. Burying and taking back are separate transactions, so either may be the last."""
        if not await self._db.value("bury", worker, beat):
            return None
        total = Rescued()
        freed: set[str] = set()
        more = True
        while more:
            row = await self._db.call("rescue_step", worker, policy.delays(), RESCUE_STEP)
            total = Rescued(
                total.offered + row["offered"],
                total.deferred + row["deferred"],
                total.dead + row["dead"],
                total.cancelled + row["cancelled"],
            )
            more = row["left_over"]
            freed.update(row["freed"])
        if freed:
            async with self._db.connection(self._db.deadline) as connection:
                await self._admit(connection, freed)
        return total

    # -- claim and finish -------------------------------------------------------------------------------

    async def claim(
        self,
        worker: int,
        queues: Sequence[str] | Mapping[str, int],
        limit: int,
        needs: Needs = NOTHING,
    ) -> list[Claim]:
        """See Store.claim."""
        self._looked.update((queue, self._listener.heard_of(queue)) for queue in queues)
        claims = await self._claimer.claim(worker, queues, limit, needs)
        if claims:
            self._pending_pause = FIRST_PENDING_POLL
        return claims

    async def held(self, worker: int) -> list[Claim]:
        """See Store.held."""
        return await self._reader.held(worker)

    async def fences(self, worker: int, since: int = 0) -> set[Fence]:
        """See Store.fences."""
        return await self._reader.fences(worker, since)

    async def finish(self, worker: int, flush: int, outcomes: Sequence[Outcome]) -> Finished:
        """See Store.finish."""
        if not outcomes:
            return Finished()
        checkpointed = self._checkpointed.setdefault(worker, set())
        async with self._db.connection(self._db.deadline) as connection:
            finished, freed = await flushes.finish(
                connection, self.schema, worker, flush, outcomes, checkpointed, self._db.fit
            )
            await self._advance(connection, flushes.parents_of(outcomes))
            await self._admit(connection, freed)
        if checkpointed:
            checkpointed.difference_update(outcome.job.id for outcome in outcomes)
        self._make_room(outcomes)
        return finished

    def _make_room(self, outcomes: Sequence[Outcome]) -> None:
        """Who waits here for a queue at its limit may look again: one of its jobs has ended [F3]."""
        for queue in self._claimer.full({outcome.job.queue for outcome in outcomes}):
            self._listener.hear(queue)

    @asynccontextmanager
    async def transaction(
        self, worker: int, flush: int, outcome: Callable[[], Outcome]
    ) -> AsyncIterator[Any]:
        """See Store.transaction."""
        told: list[Outcome] = []

        def tell() -> Outcome:
            told.append(outcome())
            return told[0]

        checkpointed = self._checkpointed.setdefault(worker, set())
        freed: list[str] = []
        async with transaction(self._db, worker, flush, tell, checkpointed, freed) as connection:
            yield connection
        self._make_room(told)
        parents = flushes.parents_of(told)
        if parents or freed:
            with suppress(StoreUnavailable):  # the job has ended: what is left to do, promote does
                async with self._db.connection(self._db.deadline) as own:
                    await self._advance(own, parents)
                    await self._admit(own, freed)

    async def checkpoint(
        self, worker: int, job: ClaimedJob, checkpoint: Checkpoint, *, connection: Any = None
    ) -> None:
        """See Store.checkpoint. A blocking connection is used in this thread, without awaiting anything."""
        self._checkpointed.setdefault(worker, set()).add(job.id)
        call = statements.checkpoint_call(self.schema, worker, job, checkpoint, self._db.fit)
        if connection is not None:
            from windlass.contrib.adapters import run_one

            (kept,) = await run_one(connection, call)
        else:
            async with self._db.connection(self._db.deadline) as own:
                kept = await own.fetchval(call.sql, *call.args)
        statements.check_saved(job, kept)

    def saving(
        self, worker: int, job: ClaimedJob, checkpoint: Callable[[], Checkpoint]
    ) -> AbstractAsyncContextManager[Any]:
        """See Store.saving."""
        return saving(self._db, worker, job, checkpoint, self._checkpointed.setdefault(worker, set()))

    async def checkpoints(self, jobs: Sequence[int]) -> dict[int, Checkpoint]:
        """See Store.checkpoints."""
        return await self._reader.checkpoints(jobs)

    # -- looking and steering ---------------------------------------------------------------------------

    async def job(self, job: int) -> JobRecord | None:
        """See Store.job."""
        return await self._reader.job(job) if 0 < job < 2**63 else None

    async def jobs(
        self, where: JobFilter, limit: int = 50, cursor: str | None = None, within: float = 0.0
    ) -> Page:
        """See Store.jobs."""
        return await self._reader.jobs(where, limit, cursor, within)

    async def matches(
        self, where: JobFilter, most: int, cursor: str | None = None, within: float | None = None
    ) -> Matches:
        """See Store.matches."""
        return await self._reader.matches(where, most, cursor, within)

    async def wait_finished(self, job: int, timeout: float) -> JobRecord:
        """See Store.wait_finished. Finishing notifies while somebody waits; polling stands behind it."""
        deadline = time.monotonic() + timeout
        pause = 0.02
        while True:
            if not self._db.read_only:
                await self._db.value("await_jobs")
            found = await self.job(job)
            if found is None:
                raise JobNotFound(f"there is no job {job}; it was deleted or its retention has passed")
            if found.state in FINISHED:
                return found
            left = deadline - time.monotonic()
            if left <= 0:
                raise ResultTimeout(
                    f"job {job} is {found.state.value} after {timeout:g} s; wait longer or look again"
                )
            await self._listener.wait([DONE], min(left, pause))
            pause = min(pause * 2, 0.5)

    async def depth(self, queues: Sequence[str] | None = None) -> dict[str, Depth]:
        """See Store.depth."""
        return await self._reader.depth(queues)

    async def diagnose(self) -> list[Finding]:
        """See Store.diagnose."""
        return await Diagnosis(self._db, self._listener).findings()

    # -- wake-up ----------------------------------------------------------------------------------------

    async def wait(self, queues: Sequence[str], timeout: float) -> bool:
        """See Store.wait."""
        if self._claimer.pending(queues):
            # Its transaction drew a number before the lane was marked idle, so it will not call; mostly it
            # commits within a millisecond.
            await asyncio.sleep(min(timeout, self._pending_pause))
            self._pending_pause = min(self._pending_pause * 2, PENDING_POLL)
            return True
        self._pending_pause = FIRST_PENDING_POLL
        since = [self._looked.get(queue, -1) for queue in queues]
        patience = max(self._claimer.patience(queues), PENDING_POLL)
        if self._claimer.full(queues):
            patience = min(patience, FULL_POLL)
        heard = await self._listener.wait(queues, min(timeout, patience), since)
        if heard:
            # The caller looks now: what was heard up to here is not told twice.
            self._looked.update((queue, self._listener.heard_of(queue)) for queue in queues)
        return heard or patience < timeout
