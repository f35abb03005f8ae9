"""The SQLite store as a whole; see `windlass.store.protocol` for what each operation promises.

Nothing is decided here: an operation is a function of a transaction (see the package) that is handed to the
writer, or a function of a connection that is handed to the reader. How these are reached, `base` says.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import apsw

from windlass.core.retry import DeathPolicy
from windlass.errors import Refused, ResultTimeout
from windlass.store.flow import Needs
from windlass.store.protocol import NOTHING
from windlass.store.records import (
    Beat,
    CancelAnswer,
    Checkpoint,
    Claim,
    ClaimedJob,
    DeleteAnswer,
    Depth,
    Expired,
    Fence,
    Finding,
    Finished,
    JobFilter,
    JobRecord,
    Matches,
    NewJob,
    Outcome,
    Page,
    ParentRecord,
    PartRecord,
    Plan,
    Promoted,
    QueueRecord,
    Receipt,
    Rescued,
    RetryAnswer,
    Rotation,
    Steering,
    TaskRecord,
    WorkerInfo,
    WorkerRecord,
)
from windlass.store.sqlite import (
    cascade,
    claims,
    cluster,
    listing,
    lookup,
    machine,
    progress,
    promote,
    queues,
    retention,
    steering,
    tasks,
    terms,
    work,
    workers,
)
from windlass.store.sqlite.diagnose import diagnose
from windlass.store.sqlite.enqueue import enqueue
from windlass.store.sqlite.finish import finish
from windlass.store.sqlite.flowing import Flowing
from windlass.store.sqlite.joint import end
from windlass.store.sqlite.measuring import Measuring
from windlass.store.sqlite.rotation import rotate
from windlass.store.sqlite.splitting import split
from windlass.store.sqlite.wake import until


class SQLiteStore(Flowing, Measuring):
    """A store in one file, for the processes of one machine."""

    # -- enqueue ----------------------------------------------------------------------------------------

    async def enqueue(self, jobs: Sequence[NewJob], *, connection: Any = None) -> list[Receipt]:
        if connection is not None:
            self._opened()
            theirs = self._transaction(self._joint.theirs(connection))
            answer = self._joint.within(theirs, lambda tx: enqueue(tx, jobs))
        else:
            answer = await self._write(lambda tx: enqueue(tx, jobs))
        if isinstance(answer, Refused):
            raise answer  # only now: that it was refused is written, and nothing else
        return answer

    # -- the life of a worker ---------------------------------------------------------------------------

    async def register(self, worker: WorkerInfo) -> None:
        here = machine.this_machine()
        await self._write(lambda tx: workers.register(tx, worker, here))

    async def retire(self, worker: int) -> int:
        return await self._write(lambda tx: workers.retire(tx, worker))

    async def beat(self, worker: int) -> Beat:
        """See Store.beat."""
        return await self._write(lambda tx: workers.beat(tx, worker))

    async def workers(self) -> list[WorkerRecord]:
        return await self._read(workers.workers)

    async def rescue(self, worker: int, beat: int, policy: DeathPolicy) -> Rescued | None:
        return await self._write(lambda tx: workers.rescue(tx, worker, beat, policy))

    # -- claim and finish -------------------------------------------------------------------------------

    async def claim(
        self,
        worker: int,
        queues: Sequence[str] | Mapping[str, int],
        limit: int,
        needs: Needs = NOTHING,
    ) -> list[Claim]:
        return await self._write(lambda tx: claims.claim(tx, worker, queues, limit, needs))

    async def held(self, worker: int) -> list[Claim]:
        return await self._read(lambda connection: claims.held(connection, worker))

    async def fences(self, worker: int, since: int = 0) -> set[Fence]:
        return await self._read(lambda connection: claims.fences(connection, worker, since))

    async def finish(self, worker: int, flush: int, outcomes: Sequence[Outcome]) -> Finished:
        return await self._write(lambda tx: finish(tx, worker, flush, outcomes))

    @asynccontextmanager
    async def transaction(
        self, worker: int, flush: int, outcome: Callable[[], Outcome]
    ) -> AsyncIterator[apsw.Connection]:
        """See Store.transaction, and `joint`: keep the block short, since it holds the file's write lock."""
        # What was asked of the store before goes first. Without this, handlers that hand the lock to each
        # other would leave claims and heartbeats of their own process waiting until the busy time-out.
        await self._write(lambda _: None)
        async with self._joint.begin() as connection:
            yield connection
            told = outcome()
            self._joint.commit(
                self._transaction(connection), told.job, lambda tx: end(tx, worker, flush, told)
            )
        self._bell.ring()

    async def checkpoint(
        self, worker: int, job: ClaimedJob, checkpoint: Checkpoint, *, connection: Any = None
    ) -> None:
        write = lambda tx: claims.checkpoint(tx, worker, job, checkpoint)  # noqa: E731
        if connection is not None:
            self._opened()
            self._joint.within(self._transaction(self._joint.theirs(connection)), write)
        else:
            now = self._clock()
            await self._write(write, lambda own: claims.checkpoint_again(own, worker, job, checkpoint, now))

    @asynccontextmanager
    async def saving(
        self, worker: int, job: ClaimedJob, checkpoint: Callable[[], Checkpoint]
    ) -> AsyncIterator[apsw.Connection]:
        """See Store.saving, and `transaction` for what else is true of the block."""
        await self._write(lambda _: None)
        async with self._joint.begin() as connection:
            yield connection
            saved = checkpoint()
            self._joint.commit(
                self._transaction(connection), job, lambda tx: claims.checkpoint(tx, worker, job, saved)
            )

    async def checkpoints(self, jobs: Sequence[int]) -> dict[int, Checkpoint]:
        return await self._read(lambda connection: lookup.checkpoints(connection, jobs))

    # -- parents and parts ------------------------------------------------------------------------------

    async def split(self, worker: int, flush: int, job: ClaimedJob, plan: Plan) -> None:
        await self._write(lambda tx: split(tx, worker, flush, job, plan))

    async def parent(self, id: int) -> ParentRecord | None:
        return await self._read(lambda connection: progress.parent(connection, id))

    async def parents(self, *, active: bool = False, limit: int = 50) -> list[ParentRecord]:
        return await self._read(lambda connection: progress.parents(connection, active=active, limit=limit))

    async def parts(self, parent: int, *, start: int = 0, limit: int = 1000) -> list[PartRecord]:
        return await self._read(lambda connection: progress.parts(connection, parent, start, limit))

    async def set_parent(self, id: int, *, parallel: int) -> ParentRecord | None:
        known = await self._write(lambda tx: cascade.set_parallel(tx, id, parallel))
        return await self.parent(id) if known else None

    async def redrive(self, id: int) -> int:
        return await self._write(lambda tx: cascade.redrive(tx, id))

    # -- settings of tasks, and turns -------------------------------------------------------------------

    async def tasks(self) -> list[TaskRecord]:
        return await self._read(tasks.tasks)

    async def set_task(self, name: str, changes: Mapping[str, Any]) -> TaskRecord:
        return await self._write(lambda tx: tasks.set_task(tx, name, changes))

    async def turn(self, name: str, every: float) -> bool:
        return await self._write(lambda tx: tasks.turn(tx, name, every))

    # -- moving jobs into lanes -------------------------------------------------------------------------

    async def promote(self, limit: int = 1000) -> Promoted:
        return await self._write(lambda tx: promote.promote(tx, limit))

    # -- looking and steering ---------------------------------------------------------------------------

    async def job(self, job: int) -> JobRecord | None:
        return await self._read(lambda connection: lookup.job(connection, job))

    async def jobs(
        self, where: JobFilter, limit: int = 50, cursor: str | None = None, within: float = 0.0
    ) -> Page:
        return await self._read(lambda connection: listing.jobs(connection, where, limit, cursor, within))

    async def matches(
        self, where: JobFilter, most: int, cursor: str | None = None, within: float | None = None
    ) -> Matches:
        return await self._read(lambda connection: listing.matches(connection, where, most, cursor, within))

    async def wait_finished(self, job: int, timeout: float) -> JobRecord:
        _, reader = self._opened()
        look = lambda connection: lookup.finished_job(connection, job)  # noqa: E731
        found = await until(reader, self._bell, look, timeout)
        if found is None:
            raise ResultTimeout(f"job {job} did not finish within {timeout:g} s")
        return found

    async def cancel(self, jobs: Sequence[int]) -> dict[int, CancelAnswer]:
        return await self._write(lambda tx: steering.cancel(tx, jobs))

    async def delete(self, jobs: Sequence[int]) -> dict[int, DeleteAnswer]:
        return await self._write(lambda tx: steering.delete(tx, jobs))

    async def retry(self, jobs: Sequence[int]) -> dict[int, RetryAnswer]:
        return await self._write(lambda tx: steering.retry(tx, jobs))

    async def depth(self, queues: Sequence[str] | None = None) -> dict[str, Depth]:
        now = self._clock()
        return await self._read(lambda connection: lookup.depth(connection, queues, now))

    async def queues(self) -> list[QueueRecord]:
        now = self._clock()
        return await self._read(lambda connection: queues.queues(connection, now))

    async def set_queue(self, name: str, changes: Mapping[str, Any]) -> QueueRecord:
        return await self._write(lambda tx: queues.set_queue(tx, name, changes))

    async def throttle(self, queue: str, hint: float | None = None) -> float:
        return await self._write(lambda tx: queues.throttle(tx, queue, hint))

    async def warm(self, queue: str, *, force: bool = False) -> bool:
        return await self._write(lambda tx: queues.warm(tx, queue, force=force))

    # -- the cluster ------------------------------------------------------------------------------------

    async def steering(self, workers: Sequence[int]) -> Steering:
        now = self._clock()
        return await self._read(lambda connection: cluster.steering(connection, workers, now))

    async def lead(self, candidate: int, length: float) -> int | None:
        return await self._write(lambda tx: terms.lead(tx, candidate, length))

    async def resign(self, candidate: int) -> None:
        await self._write(lambda tx: terms.resign(tx, candidate))

    async def assign(self, term: int, slots: Mapping[int, Mapping[str, int]]) -> None:
        await self._write(lambda tx: cluster.assign(tx, term, slots))

    async def diagnose(self) -> list[Finding]:
        now, here, version = self._clock(), machine.this_machine(), apsw.sqlite_lib_version()
        return await self._read(lambda connection: diagnose(connection, now, here, version))

    # -- room -------------------------------------------------------------------------------------------

    async def rotate(self, *, force: bool = False) -> Rotation:
        return await rotate(self._write, self._read, self._settings, force=force)

    async def expire(self, limit: int = 1000) -> Expired:
        return await self._write(lambda tx: retention.expire(tx, limit))

    # -- wake-up ----------------------------------------------------------------------------------------

    async def wait(self, queues: Sequence[str], timeout: float) -> bool:
        _, reader = self._opened()
        look = lambda connection: work.has_work(connection, queues, self._clock())  # noqa: E731
        soon = await self._read(lambda connection: work.work_in(connection, queues, self._clock()))
        return await until(reader, self._bell, look, min(timeout, soon), by_time=True) is True
