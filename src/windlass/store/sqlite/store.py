"""The SQLite store as a whole; see `windlass.store.protocol` for what each operation promises.

Nothing is decided here: an operation is a function of a transaction (see the package) that is handed to the
writer, or a function of a connection that is handed to the reader.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import apsw

from windlass.core.retry import DeathPolicy
from windlass.errors import ResultTimeout, StoreError
from windlass.store.records import (
    Beat,
    CancelAnswer,
    Checkpoint,
    Claim,
    ClaimedJob,
    DeleteAnswer,
    Depth,
    Expired,
    Finding,
    Finished,
    JobFilter,
    JobRecord,
    Migration,
    NewJob,
    Outcome,
    Page,
    Promoted,
    QueueRecord,
    Receipt,
    Rescued,
    RetryAnswer,
    Rotation,
    Steering,
    WorkerInfo,
    WorkerRecord,
)
from windlass.store.settings import StoreSettings
from windlass.store.sqlite import (
    claims,
    cluster,
    listing,
    lookup,
    machine,
    promote,
    queues,
    retention,
    schema,
    steering,
    workers,
)
from windlass.store.sqlite.connection import check_version, connect
from windlass.store.sqlite.diagnose import diagnose
from windlass.store.sqlite.enqueue import enqueue
from windlass.store.sqlite.finish import finish
from windlass.store.sqlite.joint import Joint
from windlass.store.sqlite.reader import Reader
from windlass.store.sqlite.rotation import rotate
from windlass.store.sqlite.transaction import Transaction
from windlass.store.sqlite.trouble import translate
from windlass.store.sqlite.wake import Bell, until
from windlass.store.sqlite.writer import Writer

T = TypeVar("T")
DEFAULTS = StoreSettings()


class SQLiteStore:
    """A store in one file, for the processes of one machine."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        settings: StoreSettings = DEFAULTS,
        clock: Callable[[], float] = time.time,
        *,
        busy_timeout: float = 10.0,
    ) -> None:
        """`busy_timeout` is how many seconds a write waits for another process before StoreUnavailable."""
        self.path = os.fspath(path)
        self._settings = settings
        self._clock = clock
        self._busy_timeout = busy_timeout
        self._bell = Bell()
        self._joint = Joint(self.path, busy_timeout)
        self._lines: tuple[Writer, Reader] | None = None

    # -- life of the store ------------------------------------------------------------------------------

    async def open(self) -> None:
        if self._lines is None:
            check_version(apsw.sqlite_lib_version())
            writer = Writer(self.path, self._migrated, self._transaction, self._bell.ring, self._busy_timeout)
            self._lines = writer, Reader(self.path, self._connect_reader)
        try:
            await self._write(lambda _: None)
            await self._read(lambda _: None)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        lines, self._lines = self._lines, None
        for line in lines or ():
            await asyncio.to_thread(line.stop)

    async def migrate(self) -> Migration:
        def work() -> Migration:
            try:
                connection = connect(self.path, self._busy_timeout)
                try:
                    return schema.migrate(connection)
                finally:
                    connection.close()
            except apsw.Error as error:
                raise translate(error, self.path) from error

        return await asyncio.to_thread(work)

    def _migrated(self) -> apsw.Connection:
        connection = connect(self.path, self._busy_timeout)
        try:
            schema.migrate(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _connect_reader(self) -> apsw.Connection:
        return connect(self.path, self._busy_timeout, reading=True)

    def _transaction(self, connection: apsw.Connection) -> Transaction:
        return Transaction(connection, self._clock(), self._settings)

    async def _write(self, work: Callable[[Transaction], T]) -> T:
        return await self._opened()[0].submit(work)  # type: ignore[no-any-return]

    async def _read(self, work: Callable[[apsw.Connection], T]) -> T:
        return await self._opened()[1].submit(work)  # type: ignore[no-any-return]

    def _opened(self) -> tuple[Writer, Reader]:
        if self._lines is None:
            raise StoreError(f"the store at {self.path} is not open: await store.open() first")
        self._joint.check()
        return self._lines

    # -- enqueue ----------------------------------------------------------------------------------------

    async def enqueue(self, jobs: Sequence[NewJob], *, connection: Any = None) -> list[Receipt]:
        if connection is not None:
            self._opened()
            return self._joint.enqueue(self._transaction(self._joint.theirs(connection)), jobs)
        return await self._write(lambda tx: enqueue(tx, jobs))

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

    async def claim(self, worker: int, queues: Sequence[str] | Mapping[str, int], limit: int) -> list[Claim]:
        return await self._write(lambda tx: claims.claim(tx, worker, queues, limit))

    async def held(self, worker: int) -> list[Claim]:
        return await self._read(lambda connection: claims.held(connection, worker))

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
            self._joint.commit(self._transaction(connection), worker, flush, outcome())
        self._bell.ring()

    async def checkpoint(self, worker: int, job: ClaimedJob, checkpoint: Checkpoint) -> None:
        await self._write(lambda tx: claims.checkpoint(tx, worker, job, checkpoint))

    async def checkpoints(self, jobs: Sequence[int]) -> dict[int, Checkpoint]:
        return await self._read(lambda connection: lookup.checkpoints(connection, jobs))

    # -- moving jobs into lanes -------------------------------------------------------------------------

    async def promote(self, limit: int = 1000) -> Promoted:
        return await self._write(lambda tx: promote.promote(tx, limit))

    # -- looking and steering ---------------------------------------------------------------------------

    async def job(self, job: int) -> JobRecord | None:
        return await self._read(lambda connection: lookup.job(connection, job))

    async def jobs(self, where: JobFilter, limit: int = 50, cursor: str | None = None) -> Page:
        return await self._read(lambda connection: listing.jobs(connection, where, limit, cursor))

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
        return await self._write(lambda tx: cluster.lead(tx, candidate, length))

    async def resign(self, candidate: int) -> None:
        await self._write(lambda tx: cluster.resign(tx, candidate))

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
        look = lambda connection: lookup.has_work(connection, queues, self._clock())  # noqa: E731
        return await until(reader, self._bell, look, timeout) is True
