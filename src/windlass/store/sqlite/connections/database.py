"""An SQLite file as a store uses it: migrated, written through one thread and read through another. The path
`:memory:` means a database in memory, without threads; see `memory`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Set
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar

import apsw

from windlass.errors import StoreError
from windlass.store.records import Migration
from windlass.store.sqlite.connections.connection import (
    MEMORY,
    LockWaits,
    OpenedFile,
    check_version,
    connect,
)
from windlass.store.sqlite.connections.errors import translate
from windlass.store.sqlite.connections.memory import MemoryDatabase, MemoryReader, MemoryWriter
from windlass.store.sqlite.connections.threads import Reader, Shortcut
from windlass.store.sqlite.connections.user_transactions import UserTransactions
from windlass.store.sqlite.connections.wake import Bell, until, until_more, watch
from windlass.store.sqlite.connections.writer import Run, Writer

T = TypeVar("T")


class Database:
    """A file, open or closed."""

    def __init__(
        self,
        path: str,
        busy_timeout: float,
        idle_poll: float,
        migrate: Callable[[apsw.Connection], Migration],
        run: Run,
    ) -> None:
        """`run` runs a write operation; `migrate` brings the schema up to date."""
        self.path = path
        self.longest: float = idle_poll / 2  # a look costs microseconds, so the setting is kept with ease
        self._busy_timeout = busy_timeout
        self._migrate = migrate
        self._run = run
        self._bell = Bell(None if path == MEMORY else path)
        self._file = OpenedFile(path)
        self.lock_waits: Final = LockWaits()
        self._threads: tuple[Writer, Reader] | None = None
        self._memory: tuple[MemoryWriter, MemoryReader] | None = None
        if path == MEMORY:
            memory = MemoryDatabase(migrate)
            self._memory = MemoryWriter(memory, run, self._bell.ring), MemoryReader(memory)
        self._user_transactions = UserTransactions(self._file, busy_timeout, run, self._bell.ring)

    async def open(self) -> None:
        """Start both threads, and migrate. Idempotent."""
        if self._memory is not None:
            return
        if self._threads is None:
            check_version(apsw.sqlite_lib_version())
            writer = Writer(self._file, self._migrated, self._run, self._bell.ring, self._busy_timeout)
            reader = Reader(self._file, lambda: connect(self.path, self._busy_timeout, reading=True))
            self._threads = writer, reader
        try:
            await self.write(_nothing)
            await self.read(_nothing)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """End both threads. Idempotent."""
        threads, self._threads = self._threads, None
        for thread in threads or ():
            await asyncio.to_thread(thread.stop)
        self._bell.close()
        self._file.closed()

    async def migrate(self) -> Migration:
        """Bring the schema to this code's version, whether the file is open or not."""
        if self._memory is not None:  # it was made so
            return await self.read(self._migrate)

        def work() -> Migration:
            try:
                connection = connect(self.path, self._busy_timeout)
                try:
                    return self._migrate(connection)
                finally:
                    connection.close()
            except apsw.Error as error:
                raise translate(error, self.path) from error

        return await asyncio.to_thread(work)

    async def write(self, work: Callable[[Any], T], shortcut: Shortcut | None = None) -> T:
        """Run an operation under the write lock. Answered once it is durable."""
        writer, _ = self._opened()
        self._user_transactions.refuse_inside()
        return await writer.submit(work, shortcut)

    async def read(self, work: Callable[[apsw.Connection], T]) -> T:
        """Look something up in a snapshot."""
        return await self._opened()[1].submit(work)

    def join(self, connection: Any, work: Callable[[Any], T]) -> T:
        """Run an operation in a caller's own transaction, on the caller's thread."""
        self._opened()
        return self._user_transactions.join(connection, work)

    @asynccontextmanager
    async def begin(self) -> AsyncIterator[apsw.Connection]:
        """A connection inside a write transaction, for a handler to work in. Who has asked for a write before
        goes first: else handlers that hand the lock to each other would leave claims and heartbeats of their
        own process waiting until the busy time-out."""
        await self.write(_nothing)
        async with self._user_transactions.begin() as connection:
            yield connection

    def commit(self, connection: apsw.Connection, job: int, write: Callable[[Any], object]) -> None:
        """Write the outcome or the checkpoint of a job in the transaction that it has begun, and commit."""
        self._user_transactions.commit(connection, job, write)

    @property
    def receives_others(self) -> bool:
        """Return whether a commit of another process wakes who waits here, and polling only stands behind
        it."""
        return self._bell.receives_others

    async def wait(
        self, look: Callable[[apsw.Connection], T | None], timeout: float, *, by_time: bool = False
    ) -> T | None:
        """Look now and after every change, until there is something to see or the time is over."""
        return await until(
            self._opened()[1].submit, self._bell, look, timeout, longest=self.longest, by_time=by_time
        )

    async def wait_for_more(
        self, look: Callable[[apsw.Connection], Set[str]], known: Set[str], timeout: float
    ) -> None:
        """Wait until a commit that others are told of shows something new, or the time is over."""
        await until_more(self._opened()[1].submit, self._bell, look, known, timeout)

    async def watch(self, look: Callable[[apsw.Connection], T], tell: Callable[[T], None]) -> None:
        """Tell what there is to see, and each change of it by a commit that others are told of."""
        await watch(self._opened()[1].submit, self._bell, look, tell)

    def _migrated(self) -> apsw.Connection:
        connection = connect(self.path, self._busy_timeout, waits=self.lock_waits)
        try:
            self._migrate(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _opened(self) -> tuple[Writer, Reader] | tuple[MemoryWriter, MemoryReader]:
        opened = self._threads or self._memory
        if opened is None:
            raise StoreError(f"the store at {self.path} is not open: await store.open() first")
        self._user_transactions.check()
        return opened


def _nothing(_: object) -> None:
    """Shows that a thread serves requests."""
